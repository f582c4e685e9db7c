#!/bin/sh
# demo.sh LINFORMER: pretrains a tiny Linformer on generated text, evaluates it on held-out text, fills some masks.
# Every command is shown before it runs.
set -eu
linformer=$1
run=runs/demo

show() {
    printf '\n$'
    for word in "$@"; do
        case $word in *[!A-Za-z0-9_./=-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    printf '\n'
    "$@"
}

show sh scripts/make_demo_text.sh
rm -rf "$run" # the demo's own folder; a run of its own name would be continued with --resume
show "$linformer" pretrain configs/pretrain/tiny.yaml "run=$run"
show "$linformer" eval "$run/best.ckpt" data/demo/valid.txt
show "$linformer" fill-mask --top 3 "$run/best.ckpt" \
    'The dog <mask> at the stranger.' \
    'The sheep <mask> at the moon.' \
    'Snow is cold and <mask>.' \
    'The sky is <mask>.' \
    'The pigeon has two <mask>.' \
    'Sven thanked Oda and put the vase <mask> the table.'
printf '\nNext: %s help, configs/README.md, make test\n' "$linformer"
