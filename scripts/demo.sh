#!/bin/sh
# demo.sh LINFORMER: pretrains a tiny Linformer on generated text, evaluates it on held-out text, fills some masks, fine-tunes
# it for a small task and says what the pretraining was worth there.  Every command is shown before it runs.
set -eu
linformer=$1
run=runs/demo task=runs/demo-task fresh=runs/demo-task-fresh

show() {
    printf '\n$'
    for word in "$@"; do
        case $word in *[!A-Za-z0-9_./=-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    printf '\n'
    "$@"
}

show sh scripts/make_demo_text.sh
# from the start every time: a run that is there would be continued with --resume only.  These folders are the demo's own.
earlier=
for folder in "$run" "$task" "$fresh"; do
    if [ -e "$folder" ]; then earlier="$earlier $folder"; fi
done
if [ "$earlier" ]; then
    printf '\nThe demo begins again: removing%s of an earlier one; tokenizer and tokens in runs/prepared stay.\n' "$earlier"
    rm -rf "$run" "$task" "$fresh"
fi
show "$linformer" pretrain configs/pretrain/tiny.yaml "run=$run"
show "$linformer" eval "$run/best.ckpt" data/demo/valid.txt
show "$linformer" fill-mask --top 3 "$run/best.ckpt" \
    'The dog <mask> at the stranger.' \
    'The sheep <mask> at the moon.' \
    'Snow is cold and <mask>.' \
    'The sky is <mask>.' \
    'The pigeon has two <mask>.' \
    'Sven thanked Oda and put the vase <mask> the table.'

# What the pretraining was for: telling sentences from sentences with two words exchanged, with and without it.
show "$linformer" finetune configs/finetune/demo.yaml "finetune.init=$run/best.ckpt" "run=$task"
show "$linformer" finetune --quiet configs/finetune/demo.yaml finetune.init=none \
    tokenizer.model=runs/prepared/tiny-unigram-2000/tokenizer.model "run=$fresh"
show "$linformer" predict --quiet "$task/seed-1/best.ckpt" \
    'Rosa gave the guitar to Felix.' \
    'Rosa gave guitar the to Felix.' \
    'Then she put the vase the on table.'

# percent RUN MEMBER: the first number of that name in the results
percent() { sed "s/.*\"$2\":\([0-9.]*\).*/\1/" "$1/results.json" | awk '{ printf "%.1f %%", 100 * $1 }'; }
printf '\nRight answers on held-out sentences: %s after pretraining, %s without it, %s by always saying the same.\n' \
    "$(percent "$task" 'mean":{"accuracy')" "$(percent "$fresh" 'mean":{"accuracy')" "$(percent "$task" majority)"
printf '\nNext: %s help, configs/README.md, make test\n' "$linformer"
