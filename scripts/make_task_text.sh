#!/bin/sh
# make_task_text.sh TASK FILE...: the texts of labelled rows, without the labels, as text to pretrain on; ASCII letters in
# lower case.  TASK is sst2, qnli, qqp or imdb; FILE a TSV, plain or .gz, or for imdb a folder with pos/ and neg/.  A row
# is a document, the texts of a pair its lines; the phrases of SST-2 stand forty in a document.
set -eu
LC_ALL=C
export LC_ALL
usage() { echo "usage: make_task_text.sh sst2|qnli|qqp|imdb FILE... >text.txt" >&2; exit 2; }
fail() { echo "$1" >&2; exit 1; }
[ $# -ge 2 ] || usage
task=$1
shift
case $task in
    sst2) columns=sentence every=40 ;;
    qnli) columns='question sentence' every=1 ;;
    qqp) columns='question1 question2' every=1 ;;
    imdb) columns=text every=1 ;;
    *) usage ;;
esac

rows() { # of one file: the texts, a line each, and a blank line after every document
    awk -F '\t' -v columns="$columns" -v every="$every" -v file="$1" '
        function fail(text) {
            print file ": " text > "/dev/stderr"
            exit failed = 1
        }
        NR == 1 {
            wanted = split(columns, name, " ")
            for (c = 1; c <= NF; c++) at[$c] = c
            for (i = 1; i <= wanted; i++) if (!(name[i] in at)) fail("the header has no column " name[i])
            next
        }
        {
            for (i = 1; i <= wanted; i++) {
                if (at[name[i]] > NF) fail("line " NR ": no column " name[i])
                print tolower($at[name[i]])
            }
        }
        (NR - 1) % every == 0 { print "" }
        END {
            if (failed) exit 1
            if (NR < 2) fail("no rows")
            if ((NR - 1) % every) print ""
        }'
}

reviews() { # of a folder
    for part in pos neg; do [ -d "$1/$part" ] || fail "$1: no folder $part"; done
    names=$(find "$1/pos" "$1/neg" -name '*.txt' | sort)
    [ -n "$names" ] || fail "$1: no reviews"
    # shellcheck disable=SC2016 # the fields are awk's
    printf '%s\n' "$names" | tr '\n' '\0' |
        xargs -0 awk 'FNR == 1 && NR > 1 { print "" } { print tolower($0) } END { print "" }'
}

for file; do
    if [ "$task" = imdb ] && [ -d "$file" ]; then
        reviews "$file"
    else
        # shellcheck disable=SC2094 # rows only names the file
        case $file in
            *.gz)
                gzip -t "$file"
                gzip -dc "$file" | rows "$file"
                ;;
            *) rows "$file" <"$file" ;;
        esac
    fi
done
