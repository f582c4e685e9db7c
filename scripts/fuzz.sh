#!/bin/sh
# fuzz.sh FOLDER SECONDS: runs every fuzz target built there, on the files of tests/fuzz/seeds/<name>, tests/hostile and
# tests/golden.  Inputs that break a target are kept as build/crash-<name>.
set -u
out=$1 seconds=$2
found=0 failed=0
for target in "$out"/fuzz_*; do
    [ -x "$target" ] || continue
    found=$((found + 1))
    name=${target##*/fuzz_}
    set --
    for folder in "tests/fuzz/seeds/$name" tests/hostile tests/golden; do
        [ -d "$folder" ] && set -- "$@" "$folder"
    done
    if ! "$target" -t "$seconds" -o "build/crash-$name" "$@"; then
        echo "FAIL $name: the input is build/crash-$name; repeat with $target -1 build/crash-$name"
        failed=$((failed + 1))
    fi
done
echo "$((found - failed)) fuzz targets passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$found" -gt 0 ]
