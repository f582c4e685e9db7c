#!/bin/sh
# make_task_text.sh TASK FILE...: the texts of labelled rows, without the labels, as lower-case text to pretrain on.
# TASK is sst2, qnli, qqp or imdb; FILE a TSV, plain or .gz, or for imdb a folder with pos/ and neg/.  A row is a
# document, the texts of a pair its lines; the phrases of SST-2 stand forty in a document.
set -eu
usage() { echo "usage: make_task_text.sh sst2|qnli|qqp|imdb FILE... >text.txt" >&2; exit 2; }
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
        NR == 1 {
            wanted = split(columns, name, " ")
            for (c = 1; c <= NF; c++) at[$c] = c
            for (i = 1; i <= wanted; i++)
                if (!(name[i] in at)) {
                    print file ": the header has no column " name[i] > "/dev/stderr"
                    exit failed = 1
                }
            next
        }
        { for (i = 1; i <= wanted; i++) print tolower($at[name[i]]) }
        NR % every == 0 { print "" }
        END {
            if (failed) exit 1
            if (NR < 2) { print file ": no rows" > "/dev/stderr"; exit 1 }
            if (NR % every) print ""
        }'
}

for file; do
    if [ "$task" = imdb ] && [ -d "$file" ]; then
        # shellcheck disable=SC2016 # the fields are awk's
        find "$file/pos" "$file/neg" -name '*.txt' | LC_ALL=C sort | tr '\n' '\0' |
            xargs -0 awk 'FNR == 1 && NR > 1 { print "" } { print tolower($0) } END { print "" }'
    else
        case $file in *.gz) gzip -dc "$file" ;; *) cat "$file" ;; esac | rows "$file"
    fi
done
