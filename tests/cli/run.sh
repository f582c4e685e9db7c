#!/bin/bash
# run.sh LINFORMER [FILTER...]: the command-line tests.  Every tests/cli/test_*.sh is sourced in a process of its own and uses
# the functions below; a filter is a part of "script/case".  The last line is "N passed, N failed".
#
#   begin NAME             a new case, in an empty folder of its own that is removed afterwards; $root is the source tree
#   run ARGUMENT...        runs the program; its status is $status, its output is in the files out and err
#   expect_status N        and other expectations, which end nothing: a case fails once if any of them does
#   expect_out TEXT        stdout contains the text; expect_err likewise for stderr
#   expect_no_out          stdout is empty
#   expect_file PATH       a file is there and not empty
#   expect DESCRIPTION COMMAND...   the command succeeds
#   skip REASON            the case counts neither way
#   sst2_rows COUNT SEED   prints generated rows to learn from, in the columns of SST-2
# A word that is no command, as a misspelt expectation is, fails the case too; so does, the script, what is no bash or begins no case.
set -u

linformer=$(realpath "$1")
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
filters=("$@")
work=$(mktemp -d "${TMPDIR:-/tmp}/linformer-cli-XXXXXX")
results=$work/results
: >"$results"
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
script='' begun='' case_name='' case_failed='' case_skipped='' case_start='' status=''

finish_case() {
    if [ -s "$work/unknown" ]; then fail "no such command: $(paste -sd' ' "$work/unknown")"; fi
    rm -f "$work/unknown"
    if [ -n "$case_name" ]; then count_case; fi
    cd "$work" || exit 1
    [ -d case ] || return 0
    chmod -R u+w case
    rm -rf case
    case_name=''
}

count_case() {
    local verdict=ok
    [ -z "$case_skipped" ] || verdict=skip
    [ -z "$case_failed" ] || verdict=FAIL
    printf '%-4s %-56s %8s ms\n' "$verdict" "$case_name" $((($(date +%s%N) - case_start) / 1000000))
    echo "$verdict" >>"$results"
}

chosen() {
    [ ${#filters[@]} -gt 0 ] || return 0
    local filter
    for filter in "${filters[@]}"; do
        case $1 in *"$filter"*) return 0 ;; esac
    done
    return 1
}

# Returns 1 for a case that is filtered out: `begin name && { ...; }`, or without && where it costs nothing.
begin() {
    finish_case
    begun=1
    case_failed='' case_skipped='' case_start=$(date +%s%N)
    mkdir "$work/case" && cd "$work/case" || exit 1 # also where the case is filtered out and its commands run all the same
    chosen "$script/$1" || return 1
    case_name=$script/$1
}

fail() {
    [ -n "$case_name" ] || return 0
    echo "    $case_name: $*"
    if [ -s err ]; then sed 's/^/      stderr: /' err | head -n 5; fi
    case_failed=1
}

skip() {
    [ -n "$case_name" ] || return 0
    echo "    skipped: $*"
    case_skipped=1
}

run() {
    [ -n "$case_name" ] || return 0
    status=0
    "$linformer" "$@" >out 2>err </dev/null || status=$?
    if [ "$status" -gt 128 ]; then fail "ended by signal $((status - 128)): linformer $*"; fi
}

# bash calls it in a process of its own, so it can but leave a note
command_not_found_handle() {
    echo "$1" >>"$work/unknown"
    return 127
}

expect() {
    [ -n "$case_name" ] || return 0
    local what=$1
    shift
    "$@" || fail "$what"
}

expect_status() { expect "exit status $status, wanted $1" [ "$status" = "$1" ]; }
expect_out() { expect "stdout does not contain: $1" grep -qF -e "$1" out; }
expect_err() { expect "stderr does not contain: $1" grep -qF -e "$1" err; }
expect_err_without() { # TEXT: fails where stderr contains it
    if [ -n "$case_name" ] && grep -qF -e "$1" err; then fail "stderr contains: $1"; fi
}
expect_no_out() { expect "stdout is not empty" [ ! -s out ]; }
expect_file() { expect "$1 is missing or empty" [ -s "$1" ]; }

# the word good or bad decides
sst2_rows() {
    awk -v count="$1" -v seed="$2" 'BEGIN {
        srand(seed)
        n = split("the film was seen by a few old men and one dog", word, " ")
        print "sentence\tlabel"
        for (i = 0; i < count; i++) {
            label = int(2 * rand()); words = 1 + int(8 * rand()); at = 1 + int(words * rand()); text = ""
            for (w = 1; w <= words; w++)
                text = text (w > 1 ? " " : "") (w == at ? (label ? "good" : "bad") : word[1 + int(n * rand())])
            print text "\t" label
        }
    }'
}

for path in "$root"/tests/cli/test_*.sh; do
    [ -e "$path" ] || continue
    script=$(basename "$path" .sh)
    script=${script#test_}
    (
        bash -n "$path" || exit 1
        # shellcheck source=/dev/null
        . "$path"
        finish_case
        [ -n "$begun" ] || { echo "$path begins no case"; exit 1; }
    ) || {
        echo "FAIL $script: the script ended with status $?"
        echo FAIL >>"$results"
        rm -rf "$work/case"
    }
done

passed=$(grep -c '^ok' "$results")
failed=$(grep -c '^FAIL' "$results")
skipped=$(grep -c '^skip' "$results")
[ "$skipped" -eq 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
