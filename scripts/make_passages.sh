#!/bin/sh
# make_passages.sh TEXT.gz...: five passages of 280 words from each text, evenly spread, on stdout, a
# passage a line; the first plain word from the 140th on is <mask>, and goes to stderr.
set -eu
[ $# -ge 1 ] || { echo "usage: make_passages.sh TEXT.gz... >passages.txt 2>words.txt" >&2; exit 2; }
for text; do
    words=$(gzip -dc "$text" | wc -w)
    gzip -dc "$text" | tr -s '[:space:]' '\n' | awk -v step=$((words / 5)) '
        { at = (NR - 1) % step }
        at == 0 { passage = ""; word = "" }
        at >= 280 { next }
        word == "" && at >= 140 && /^[A-Za-z]+$/ { word = $0; $0 = "<mask>" }
        { passage = passage (at ? " " : "") $0 }
        at == 279 && n++ < 5 { print passage; print word > "/dev/stderr" }'
done
