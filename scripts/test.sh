#!/bin/sh
# test.sh LINFORMER TESTS [DOUBLE_TESTS FILTER...]
# Runs the tests, those of the double build that match the filters, and the command-line tests; the last line is the total,
# "N passed, N failed".  Fails if a test failed, a part ran no test, or a part ended without its own total.
set -u

linformer=$1 tests=$2
shift 2
passed=0 failed=0
output=$(mktemp) status_file=$(mktemp)
trap 'rm -f "$output" "$status_file"' EXIT

# part NAME COMMAND...: runs it and adds its last line to the total
part() {
    name=$1
    shift
    echo "== $name"
    { "$@"; echo $? >"$status_file"; } 2>&1 | tee "$output"
    status=$(cat "$status_file")
    if grep -qi 'openblas warning' "$output"; then
        echo "FAIL $name: the BLAS library warned, see above"
        failed=$((failed + 1))
    fi
    numbers=$(tail -n 1 "$output" | sed -n 's/^\([0-9][0-9]*\) passed, \([0-9][0-9]*\) failed$/\1 \2/p')
    if [ -z "$numbers" ]; then
        echo "FAIL $name ended without a total"
        failed=$((failed + 1))
        return
    fi
    part_passed=${numbers% *} part_failed=${numbers#* }
    passed=$((passed + part_passed)) failed=$((failed + part_failed))
    if [ "$part_passed" -eq 0 ] || { [ "$status" -ne 0 ] && [ "$part_failed" -eq 0 ]; }; then
        echo "FAIL $name: nothing passed, or it failed without naming a test"
        failed=$((failed + 1))
    fi
}

part "tests, float" "$tests"
if [ $# -gt 1 ]; then part "tests, double" "$@"; fi
part "command line" tests/cli/run.sh "$linformer"

echo "== total"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
