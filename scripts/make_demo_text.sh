#!/bin/sh
# Text and task of the demo: make_demo_text.sh [FOLDER [TRAINING_DOCUMENTS [HELD_OUT_DOCUMENTS]]]
# Writes train-00.txt, train-01.txt, valid.txt, task-train.tsv and task-valid.tsv into FOLDER (default: data/demo of this
# repository) unless they are there and made by this generator.
set -eu
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/../data/demo}
documents=${2:-16000}
held_out=${3:-400}

generator=$here/make_demo_text.awk
task_generator=$here/make_demo_task.awk
words=$here/demo_words.txt
stamp="$documents $held_out $(cat "$generator" "$task_generator" "$words" | cksum)"
complete=1
for file in train-00.txt train-01.txt valid.txt task-train.tsv task-valid.tsv; do
    [ -s "$folder/$file" ] || complete=
done
if [ "$complete" ] && [ "$(cat "$folder/.made_from" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi
mkdir -p "$folder"
rm -f "$folder/.made_from"
# written elsewhere first: an interrupted run must not leave half a text
work=$(mktemp -d "$folder/.new.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
awk -v out="$work" -v documents="$documents" -v held_out="$held_out" -f "$generator" \
    -f "$task_generator" "$words"
mv "$work"/*.txt "$work"/*.tsv "$folder/"
echo "$stamp" >"$folder/.made_from"
echo "$folder: $documents training and $held_out held-out documents, a task" >&2
