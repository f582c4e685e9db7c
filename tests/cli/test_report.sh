# shellcheck shell=bash
# Reports of runs: what is written, what it says, and what of half-written runs.

# fake_run NAME K SHARING SEED PPL SECONDS: a folder as a pretraining leaves it
fake_run() {
    [ -n "$case_name" ] || return 0
    mkdir -p "runs/$1"
    cat >"runs/$1/config.yaml" <<YAML
run: there/$1
model: {n: 32, k: $2, sharing: $3, layers: 2, width: 16, heads: 2, ffn: 32}
train: {steps: 40, batch: 4, seed: $4}
YAML
    awk -v ppl="$5" -v seconds="$6" 'BEGIN {
        for (i = 1; i <= 40; i++) {
            printf "{\"step\":%d,\"epoch\":%g,\"tokens\":%d,\"loss\":%g,\"elapsed_s\":%g", i, i / 40, i * 128, 6 - i / 20, i * seconds / 40
            if (i % 10 == 0) printf ",\"valid_loss\":%g,\"valid_ppl\":%g,\"unigram_entropy\":4.5", log(ppl) + (40 - i) / 20, ppl * exp((40 - i) / 20)
            print "}"
        }
    }' >"runs/$1/metrics.jsonl"
}

# 2 k x 2 sharings x 2 seeds, and a failed run
fake_runs() {
    fake_run k=8,sharing=kv,seed=1 8 kv 1 30 10
    fake_run k=8,sharing=kv,seed=2 8 kv 2 32 12
    fake_run k=16,sharing=kv,seed=1 16 kv 1 26 14
    fake_run k=16,sharing=kv,seed=2 16 kv 2 27 14
    fake_run k=8,sharing=none,seed=1 8 none 1 29 18
    fake_run k=8,sharing=none,seed=2 8 none 2 29.5 18
    fake_run k=16,sharing=none,seed=1 16 none 1 25 20
    fake_run k=16,sharing=none,seed=2 16 none 2 90 20
    [ -z "$case_name" ] || echo '{"state":"failed","exit_code":3}' >runs/k=16,sharing=none,seed=2/sweep.json
}

has_gnuplot() { command -v gnuplot >/dev/null; }
has_line() { grep -qxF -e "$2" "$1"; } # FILE LINE
column() { awk -F, -v n="$2" '{ print $n }' "$1"; } # FILE NUMBER, where no cell has a comma

# A page that needs nothing: no other file, no network, no script; every element is closed.
is_alone() {
    if grep -E '<script|<link|<img|@import' "$1" || grep -oE "https?://[^ \"'<>]*" "$1" | grep -v '^http://www.w3.org/'; then return 1; fi
    command -v python3 >/dev/null || return 0
    python3 - "$1" <<'PY'
import re, sys
from html.parser import HTMLParser
page = open(sys.argv[1], encoding="utf-8").read()
addresses = set(re.findall(r"https?://[^\s\"'<>]*", page))
assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}, addresses
assert not re.search(r"<script|<link|<img|@import|url\((?!#|'#)|\son\w+=", page), "something outside of the page"
targets = re.findall(r"href=[\"']([^\"']*)", page)
assert all(t.startswith("#") for t in targets), targets
class Balance(HTMLParser):
    open = []
    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br"): self.open.append(tag)
    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:], self.getpos())
        self.open.pop()
b = Balance()
b.feed(page)
assert not b.open, b.open
PY
}

begin files && {
    fake_runs
    run report runs
    expect_status 0
    expect_out "Pretraining: 8 runs, 7 done, 4 configurations"
    expect_out "runs/report/report.html"
    cat >golden <<'CSV'
section,model.k,model.sharing,runs,done,scored,quality,quality_mean,quality_std
pretraining,8,none,2,2,2,perplexity,29.25,0.3535533906
pretraining,8,kv,2,2,2,perplexity,31,1.414213562
pretraining,16,none,2,1,1,perplexity,25,
pretraining,16,kv,2,2,2,perplexity,26.5,0.7071067812
CSV
    cut -d, -f1-9 runs/report/groups.csv >means
    expect "groups.csv: $(diff golden means)" cmp -s golden means
    column runs/report/groups.csv 24 >front
    expect "the front is $(paste -sd' ' front)" [ "$(paste -sd' ' front)" = "front 0 1 1 1" ]
    expect "not a line for each point" [ "$(wc -l <runs/report/curves.csv)" = 321 ]
    expect "runs.csv has no line of a failed run" has_line runs/report/runs.csv \
        '"k=16,sharing=none,seed=2",pretraining,failed,2,,16,none,40,5120,20,256,4,4.49981,90,90,,,,,4.5'
    for line in '## Pretraining' '### Perplexity against k' '### Perplexity against sharing' '### Means over seeds' \
        '| sharing=kv | 31.00 ± 1.41 (2) | 26.50 ± 0.71 (2) |' '| sharing=none | 29.25 ± 0.35 (2) | 25.00 (1 of 2) |' \
        '| k=16 | 25.00 (1 of 2) | 26.50 ± 0.71 (2) |' \
        'Guessing held-out tokens by their frequency has a loss of 4.500 nats, a perplexity of 90.0.'; do
        expect "report.md has no line: $line" has_line runs/report/report.md "$line"
    done
    if has_gnuplot; then
        for name in loss-steps loss-tokens loss-seconds model-k model-sharing time; do
            expect_file runs/report/pretraining-$name.svg
            expect "no picture $name in report.md" grep -q "(pretraining-$name.svg)" runs/report/report.md
        done
        expect "not six pictures" [ "$(grep -c '<figure>' runs/report/report.html)" = 6 ]
    fi
    expect "the page is not by itself" is_alone runs/report/report.html
    expect "no temporary files" [ -z "$(find runs -name '*.tmp*')" ]
    # the same again, from what is there
    cp runs/report/groups.csv before
    run report runs/ --json --quiet
    expect_status 0
    expect "a report of a report differs" cmp before runs/report/groups.csv
    expect_out '{"report":"runs/report","runs":8,"left_out":0,"pictures":'
    expect_out '{"values":{"model.k":"8","model.sharing":"kv"},"runs":2,"done":2,"perplexity":{"mean":31,"std":1.414213562,"count":2}'
    expect_out '"perplexity":{"mean":25,"std":null,"count":1}'
    run report runs/k=8* --out elsewhere/deep
    expect_status 0
    expect_file elsewhere/deep/report.html
    expect "not 4 runs" [ "$(wc -l <elsewhere/deep/runs.csv)" = 5 ]
    expect "runs of several folders are not named by them" grep -q '^"runs/k=8,sharing=kv,seed=1",' elsewhere/deep/runs.csv
}

begin without_gnuplot && {
    fake_runs
    [ -z "$case_name" ] || mkdir empty
    PATH=$PWD/empty run report runs
    expect_status 0
    expect_err "warning: no pictures: gnuplot is not installed (Debian: apt-get install gnuplot-nox)"
    expect "it warns more than once" [ "$(grep -c 'no pictures' err)" = 1 ]
    expect "a picture" [ -z "$(find runs/report -name '*.svg')" ]
    expect_file runs/report/groups.csv
    expect "the page does not say so" grep -q "There are no pictures, because gnuplot" runs/report/report.html
    expect "no table" grep -q "<td class=\"n\">26.50 ± 0.71 (2)</td>" runs/report/report.html
}

# A full disk stops gnuplot in the middle, and it says nothing of it.
begin half_a_picture && {
    fake_runs
    [ -z "$case_name" ] || mkdir bin
    printf '#!/bin/sh\nprintf "<svg><title>half" >"${1%%.gp}.svg"\n' >bin/gnuplot
    chmod +x bin/gnuplot
    PATH=$PWD/bin:$PATH run report runs
    expect_status 0
    expect_err "warning: no pictures: gnuplot runs/report/pretraining-model-k.gp: the picture it drew is not whole"
    expect "half a picture stays" [ -z "$(find runs/report -name '*.svg')" ]
    expect "the page has half a picture" [ "$(grep -c '<figure>' runs/report/report.html)" = 0 ]
}

# Long names are cut between characters: half of one is no UTF-8, and no SVG.
begin names_of_many_bytes && {
    fake_runs
    for begin in '' x; do
        name=$begin-$(printf 'ü%.0s' {1..90})
        fake_run "$name" 8 kv 1 30 10
        [ -z "$case_name" ] || echo "data: {train: '$name'}" >>"runs/$name/config.yaml"
    done
    run report runs
    expect_status 0
    for file in runs/report/*.gp runs/report/report.*; do
        expect "$file is no UTF-8" iconv -f utf-8 -t utf-16 -o /dev/null "$file"
    done
}

begin odd_folders && {
    fake_runs
    if [ -n "$case_name" ]; then
        head -c 300 runs/k=8,sharing=kv,seed=1/metrics.jsonl >half && mv half runs/k=8,sharing=kv,seed=1/metrics.jsonl
        sed -i 's/,"valid.*}/}/' runs/k=8,sharing=kv,seed=2/metrics.jsonl
        sed -i '3s/.*/{"step":3,"loss":null,"elapsed_s":1}/; 4s/.*/garbage/' runs/k=16,sharing=kv,seed=1/metrics.jsonl
        mkdir -p "runs/<b>&/deep" runs/new runs/k=16,sharing=kv,seed=1/unknown
        echo 'model: {k: [1' >"runs/<b>&/config.yaml"
        cp runs/k=8,sharing=none,seed=1/config.yaml runs/new
        head -c 5000 /dev/urandom >runs/noise.bin
        ln -s . runs/k=16,sharing=kv,seed=1/loop
    fi
    run report runs/k=8* runs/k=16,sharing=kv,seed=2 runs/new "runs/<b>&" --out out1
    expect_status 0
    expect_out "left out: runs/<b>&: runs/<b>&/config.yaml"
    expect "a name is not quoted" grep -q '&lt;b&gt;&amp;: ' out1/report.html
    expect "a name is not quoted in Markdown" grep -qF 'runs/\<b\>&: ' out1/report.md
    expect "the page is not by itself" is_alone out1/report.html
    expect "half a run counts as done" grep -q '^"runs/k=8,sharing=kv,seed=1",pretraining,interrupted,' out1/runs.csv
    expect "a run without evaluation has a score" grep -q '^"runs/k=8,sharing=kv,seed=2",pretraining,done,2,,8,kv,40,5120,12,[^,]*,4,,,,' out1/runs.csv
    expect "a run that has begun is missing" grep -q '^runs/new,pretraining,interrupted,1,,8,none,,,,,,,,,,,,,$' out1/runs.csv
    run report runs/k=16,sharing=kv,seed=1
    expect_status 0
    expect "a loop of links is followed" [ "$(wc -l <runs/k=16,sharing=kv,seed=1/report/runs.csv)" = 2 ]
    expect "damaged lines are not counted" grep -q '1 damaged lines' runs/k=16,sharing=kv,seed=1/report/report.md
    expect "a loss of null is a number" grep -q ',3,,,1,,,,$' runs/k=16,sharing=kv,seed=1/report/curves.csv
    run report "runs/<b>&"
    expect_status 1
    expect_err "runs/<b>&: no run can be read"
    run report runs/new
    expect_status 1
    expect_err "none has a line in metrics.jsonl yet: nothing to report"
    [ -z "$case_name" ] || mkdir nothing
    run report nothing
    expect_status 1
    expect_err "nothing: no run in it or below: wanted folders with config.yaml and metrics.jsonl"
    run report missing
    expect_status 1
    expect_err "missing: no such folder"
    run report
    expect_status 2
    expect_err "report needs more arguments"
    expect "a report of nothing was written" [ ! -e nothing/report ]
}

# What has no k does not speak for those that have one.
begin full_attention_beside && {
    fake_run a 16 kv 1 30 10
    fake_run b 8 kv 1 32 12
    [ -z "$case_name" ] || sed -i 's/k: 16, sharing: kv/attention: full/' runs/a/config.yaml
    run report runs
    expect_status 0
    expect "not all in common" grep -qE '^All with n=32, layers=2, ' runs/report/report.md
    expect "nor what only one has" has_line runs/report/report.md 'Where it has an effect, k=8, sharing=kv, projection=linear'
    [ -z "$case_name" ] || sed -i 's/4\.5}/4.75}/' runs/b/metrics.jsonl
    fake_run c 8 none 1 32 12
    run report runs
    expect "not both entropies" has_line runs/report/report.md \
        'Guessing held-out tokens by their frequency has a loss of 4.500 to 4.750 nats (perplexity 90.0 to 115.6), as tokenizers or texts differ.'
    expect "full attention has a sharing" grep -qF '| sharing=none | sharing=kv | nothing to share |' runs/report/report.md
    rm -rf runs/c
    run report runs
    expect "no k" has_line runs/report/report.md "| full | 30.00 | 1 | $(awk 'BEGIN { printf "%.3f", log(30) }') | 10.0 | 512 | ★ |"
}

# Real runs: a sweep with fine-tunings.
begin of_a_sweep && {
    awk 'BEGIN { for (i = 0; i < 80; i++) { print "the", i % 3 ? "cat" : "dog", i % 5 ? "sees" : "likes", "the", i % 7 ? "child" : "sailor"
        if (i % 10 == 9) print "" } }' >train.txt
    sed 's/the/a/' train.txt >valid.txt
    awk 'BEGIN { print "text\tlabel"
        for (i = 0; i < 40; i++) print "the " (i % 2 ? "cat sees" : "dog likes") " the child\t" i % 2 }' >rows.tsv
    cat >base.yaml <<'YAML'
model: {n: 24, k: 6, layers: 1, width: 16, heads: 2, ffn: 32}
tokenizer: {type: bpe, vocab_size: 300}
data: {train: train.txt, valid: valid.txt}
train: {steps: 8, batch: 4, threads: 1, eval_every: 4, log_every: 1}
checkpoint: {every: 0}
YAML
    cat >task.yaml <<'YAML'
data: {train: rows.tsv}
train: {epochs: 1, batch: 8, threads: 1, log_every: 1}
finetune: {task: custom, text: text, label: label, holdout: 0.2, seeds: 2, init: x}
YAML
    cat >s.yaml <<'YAML'
run: runs/s
sweep: {base: base.yaml, grid: {model.k: [3, 6]}, seeds: 2, finetune: task.yaml}
YAML
    run sweep s.yaml --jobs 2 --quiet
    expect_status 0
    run report runs
    expect_status 0
    expect_out "Pretraining: 4 runs, 4 done, 2 configurations"
    expect_out "Fine-tuning: rows: 8 runs, 8 done, 2 configurations"
    expect "k is not what differs" [ "$(head -n 1 runs/report/groups.csv | cut -d, -f1-3)" = section,model.k,runs ]
    expect "not two pretrainings of each" [ "$(grep -cE '^\| [36] \|.*\| 4 \(2 pretrainings\) \|' runs/report/report.md)" = 2 ]
    for seed in 1 2; do # each fine-tuned with two
        expect "pretraining seed $seed" [ "$(grep -cE "^\"s/k=3,seed=$seed/finetune-task/seed-[12]\",rows,done,[12],$seed,3," runs/report/runs.csv)" = 2 ]
    done
    expect "not 4 seeds of each" [ "$(grep -c '^rows,[36],4,4,4,accuracy,' runs/report/groups.csv)" = 2 ]
    accuracy=$(sed 's/.*"accuracy":\([^,]*\),.*/\1/' runs/s/k=3,seed=1/finetune-task/results.json | head -n 1)
    expect "no accuracy $accuracy" grep -q ",$(printf '%.10g' "${accuracy:-0}")," runs/report/runs.csv
    ppl=$(sed -n '8s/.*"valid_ppl":\([^,]*\),.*/\1/p' runs/s/k=6,seed=2/metrics.jsonl)
    expect "no perplexity $ppl" grep -q "^\"s/k=6,seed=2\",pretraining,done,2,,6,8,.*,$(printf '%.10g' "${ppl:-0}")," runs/report/runs.csv
    expect "the page is not by itself" is_alone runs/report/report.html
}
