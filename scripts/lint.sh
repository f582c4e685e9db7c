#!/bin/sh
# Style and static checks: what needs no tool always, cppcheck and shellcheck where they are installed.
# WIDTH is the longest line allowed; a file or function past its limit needs a line in scripts/lint_allowed.txt.
# shellcheck disable=SC2046,SC2086 # lists of file names, none of which has blanks
set -u
cd "$(dirname "$0")/.." || exit 1
WIDTH=${WIDTH:-100} FILE_LINES=500 FUNCTION_LINES=80
faults=$(mktemp) # a file, because the checks run at the ends of pipes, where a variable would be lost
trap 'rm -f "$faults"' EXIT

# Sources, as git sees them; untracked ones too, so that a new file is checked before it is added.  Without git, all files.
files=$(git ls-files -co --exclude-standard 2>/dev/null) && [ -n "$files" ] || files=$(find src include tests scripts .ci -type f)
sources() { # PATTERN...: of sh, where a star also stands for slashes
    echo "$files" | while read -r f; do
        for pattern in "$@"; do
            # shellcheck disable=SC2254 # a pattern
            case $f in $pattern) [ -f "$f" ] && echo "$f" ;; esac
        done
    done
}

check() { # NAME, then its findings on stdin
    findings=$(cat)
    [ -n "$findings" ] || return 0
    echo "-- $1"
    echo "$findings"
    echo "$1" >>"$faults"
}

c_files=$(sources 'src/*.c' 'src/*.cc' 'src/*.h' 'include/*.h' 'tests/*.c' 'tests/*.h')
scripts=$(sources 'scripts/*.sh' 'tests/*.sh' '.ci/run')
tab=$(printf '\t')
if [ -z "$c_files" ] || [ -z "$scripts" ]; then
    echo "lint failed: no sources found"
    exit 1
fi

# the flags that delete checks for NaN and infinity; written so that this line does not find itself
grep -nE -e '-O''fast|-f''fast-math|-ff''inite-math-only|__attribute__.*optim''ize' Makefile $c_files $scripts |
    check "flags that change arithmetic"
grep -n "$tab" $c_files | check "tabs"
grep -nE '[[:space:]]+$' $c_files $scripts Makefile | check "trailing blanks"
grep -nE '^[^"]*[^":]//' $(echo "$c_files" | grep -v '\.cc$') | grep -vE '/\*.*//.*\*/|^[^:]*:[0-9]*: \*' | check "// comments (the tree uses /* */)"
grep -nE '\b(TO''DO|FIX''ME|X''XX)\b' $c_files $scripts Makefile | check "unfinished business"
awk -v width="$WIDTH" 'length($0) > width { print FILENAME ":" FNR ": " length($0) " columns" }' $c_files |
    check "lines longer than $WIDTH columns"
for f in $c_files $scripts Makefile; do
    [ -z "$(tail -c 1 "$f")" ] || echo "$f"
done | check "no line feed at the end"

# Lengths of files and functions; a function starts at a line that opens a brace in column 1's context and ends at "}".
{
    for f in $c_files; do
        lines=$(wc -l <"$f")
        [ "$lines" -le $FILE_LINES ] || echo "$f: $lines lines, at most $FILE_LINES"
    done
    awk -v most=$FUNCTION_LINES '
        FNR == 1 { start = 0 }
        /^[a-zA-Z].*\) \{$/ || (/^[ \t].*\) \{$/ && signature) { if (!start) { start = FNR; name = $0 } }
        { signature = /^[a-zA-Z][^;{}]*[,(]$/ || (signature && !/[;{}]/) }
        /^\}/ { if (start && FNR - start + 1 > most) print FILENAME ":" start ": " FNR - start + 1 " lines, at most " most ": " name; start = 0 }
    ' $(echo "$c_files" | grep -v '\.h$')
} | { if [ -f scripts/lint_allowed.txt ]; then grep -vFf scripts/lint_allowed.txt; else cat; fi; } |
    check "too long"

if command -v cppcheck >/dev/null; then
    cppcheck --quiet --enable=warning,portability --inline-suppr --std=c11 -Iinclude -D__linux__ -D_OPENMP=201511 \
        --suppress=missingIncludeSystem --suppress=nullPointerOutOfMemory --error-exitcode=0 \
        --template='{file}:{line}: {severity}: {message} [{id}]' $(sources 'src/*.c') 2>&1 | check cppcheck
else
    echo "cppcheck is not installed: skipped"
fi
if command -v shellcheck >/dev/null; then
    {
        shellcheck -S warning $(echo "$scripts" | grep -v '/cli/test_')
        # sourced by tests/cli/run.sh, which sets their variables
        shellcheck -S warning -s bash -e SC2154,SC2034 $(echo "$scripts" | grep '/cli/test_')
    } | check shellcheck
else
    echo "shellcheck is not installed: skipped"
fi

if [ -s "$faults" ]; then
    echo "lint failed: $(paste -sd, "$faults" | sed 's/,/, /g')"
    exit 1
fi
echo "lint passed"
