# shellcheck shell=bash
# Runs of `pretrain` that end in every way, and files that are no checkpoints.

# write_config: a corpus of 60 small sentences and a model that takes a millisecond a step
write_config() {
    [ -n "$case_name" ] || return 0
    awk 'BEGIN {
        n = split("cat dog sister farmer child sailor", who, " ")
        m = split("sees likes follows paints finds calls", does, " ")
        for (i = 0; i < 90; i++) {
            printf "the %s %s the %s\n", who[i * 7 % n + 1], does[i * 5 % m + 1], who[(i * 3 + int(i / 6)) % n + 1]
            if (i % 10 == 9) print ""
        }
    }' >text.txt
    head -n 66 text.txt >train.txt
    tail -n +67 text.txt >valid.txt
    cat >run.yaml <<'YAML'
model: {n: 24, k: 6, layers: 1, width: 16, heads: 2, ffn: 32}
tokenizer: {type: bpe, vocab_size: 330}
data: {train: train.txt, valid: valid.txt}
train: {steps: 200, batch: 4, threads: 1, eval_every: 50, eval_sequences: 10, log_every: 1}
optimizer: {lr: 3e-3}
checkpoint: {every: 20}
YAML
}

# interrupt SIGNAL LINES ARGUMENT...: runs the program and sends the signal once metrics.jsonl of runs/part has that many lines
interrupt() {
    [ -n "$case_name" ] || return 0
    local signal=$1 lines=$2 pid tries=0
    shift 2
    "$linformer" "$@" >out 2>err </dev/null &
    pid=$!
    while [ "$(cat runs/part/metrics.jsonl 2>/dev/null | wc -l)" -lt "$lines" ] && [ $tries -lt 3000 ]; do
        sleep 0.01
        tries=$((tries + 1))
    done
    kill "-$signal" $pid
    status=0
    wait $pid 2>/dev/null || status=$?
}

# the lines of a metrics file without what a clock says
timeless() { sed -E 's/,"(tokens_per_s|elapsed_s)":[^,}]*//g' "$1"; }

begin resume_after_kill_is_exact && {
    write_config
    run pretrain run.yaml run=runs/whole
    expect_status 0
    expect_no_out
    interrupt KILL 100 pretrain run.yaml run=runs/part
    expect_status 137
    run pretrain run.yaml run=runs/part --resume
    expect_status 0
    expect "last.ckpt differs" cmp runs/whole/last.ckpt runs/part/last.ckpt
    timeless runs/whole/metrics.jsonl >whole
    timeless runs/part/metrics.jsonl >part
    expect "metrics differ" cmp whole part
    expect "not every step has its line" [ "$(wc -l <part)" = 200 ]
    expect_file runs/part/config.yaml
    expect_file runs/part/log.txt
    expect_file runs/part/best.ckpt
    expect "the log does not say what the loss is in" grep -q 'loss: nats' runs/part/log.txt
    expect "the log does not say where the time went" \
        grep -q 'time of the updates: .*ff1 .*%' runs/part/log.txt
}

# A tokenizer follows the text at its default place; one that is named stays, and must be what the config says.
begin tokenizer_of_other_text && {
    write_config
    run pretrain run.yaml run=runs/a train.steps=1
    expect_status 0
    model=runs/prepared/run-bpe-330/tokenizer.model
    cp $model first.model
    run pretrain run.yaml run=runs/b train.steps=1 train.seed=2
    expect_status 0
    expect "another seed, another tokenizer" cmp -s $model first.model
    sed 'y/aeiou/uoaei/' train.txt >other.txt
    run pretrain run.yaml run=runs/c train.steps=1 data.train=other.txt
    expect_status 0
    expect_err "$model: was trained on other text or with other settings, and is trained again"
    expect "the tokenizer of the other text was used" [ "$(cmp -s $model first.model; echo $?)" = 1 ]
    run pretrain run.yaml run=runs/d train.steps=1 tokenizer.model=$model
    expect_status 0
    expect_err "is used as it is"
    run pretrain run.yaml run=runs/e train.steps=1 tokenizer.model=$model tokenizer.vocab_size=400
    expect_status 2
    expect_err "tokenizer.vocab_size = 400, but $model has 330 pieces"
    run plan run.yaml --gflops 1 tokenizer.model=$model tokenizer.type=unigram
    expect_status 2
    expect_err "tokenizer.type = unigram, but $model is a bpe model"
}

# Two runs of one config on different text take turns at the folder they share.
begin runs_take_turns && {
    write_config
    sed 'y/aeiou/uoaei/' train.txt >other.txt
    if [ -n "$case_name" ]; then
        "$linformer" pretrain run.yaml run=runs/a train.steps=2 >/dev/null 2>err &
        pid=$!
        run pretrain run.yaml run=runs/b train.steps=2 data.train=other.txt
        expect_status 0
        status=0
        wait $pid || status=$?
        expect_status 0
    fi
    run pretrain run.yaml run=runs/a train.steps=2 --resume
    expect_status 0
    run pretrain run.yaml run=runs/b train.steps=2 data.train=other.txt --resume
    expect_status 0
}

# What a mistyped folder and a mistyped tokenizer would do unnoticed is said as a warning.
begin nothing_to_resume && {
    write_config
    run pretrain run.yaml run=runs/mistyped train.steps=2 --resume
    expect_status 0
    expect_err "warning: --resume: runs/mistyped holds no checkpoint to continue from: starting at step 0"
    expect "not in the log" grep -q 'warning: --resume: runs/mistyped' runs/mistyped/log.txt
    run pretrain run.yaml run=runs/mistyped train.steps=2 --resume
    expect_status 0
    expect "warned where there is a checkpoint" [ "$(grep -c 'warning: --resume' err)" = 0 ]
}

begin named_tokenizer_is_missing && {
    write_config
    run pretrain run.yaml run=runs/a train.steps=1 tokenizer.model=own/spm.model
    expect_status 0
    expect_err "warning: tokenizer.model = own/spm.model: no such file: a new tokenizer of 330 pieces is trained there, on data.train"
    expect_file own/spm.model
    run pretrain run.yaml run=runs/b train.steps=1 tokenizer.model=own/spm.model
    expect_status 0
    expect "trained again" [ "$(grep -c 'no such file' err)" = 0 ]
}

begin no_validation && {
    write_config
    run pretrain run.yaml train.steps=60 'data.valid=[]'
    expect_status 0
    expect_err "held-out: none (data.valid is empty): no evaluation, no best.ckpt"
    expect "best.ckpt is there" [ ! -e runs/run/best.ckpt ]
    expect "evaluated" [ "$(grep -c valid_loss runs/run/metrics.jsonl)" = 0 ]
    run pretrain runs/run/config.yaml run=runs/again
    expect_status 0
    expect "config.yaml gives another run" cmp runs/run/last.ckpt runs/again/last.ckpt
    run eval runs/run/last.ckpt
    expect_status 2
    expect_err "names none in data.valid"
}

begin signal_saves && {
    write_config
    interrupt TERM 30 pretrain run.yaml run=runs/part train.steps=1000000
    expect_status 75
    expect_err "stopped by SIGTERM after step"
    expect_err "--resume"
    expect_file runs/part/last.ckpt
    run pretrain run.yaml run=runs/part train.steps=1000000
    expect_status 2
    expect_err "holds checkpoints of an earlier run; continue it with --resume"
    run pretrain run.yaml run=runs/part train.steps=100 --resume
    expect_status 2
    expect_err "train.steps was 1000000 when the run was started, now it is 100"
}

begin divergence_stops && {
    write_config
    run pretrain run.yaml optimizer.name=sgd optimizer.lr=100 optimizer.momentum=0.99 optimizer.clip=0 schedule.warmup=0.5 \
        train.steps=3000 train.log_every=100
    expect_status 3
    expect_err "first tensor that is not finite"
    expect_err "learning rate"
    expect_file runs/run/last.ckpt
    run inspect runs/run/last.ckpt
    expect_status 0
}

begin damaged_checkpoint_is_skipped && {
    write_config
    interrupt KILL 90 pretrain run.yaml run=runs/part
    # keep the newest step file apart from last.ckpt, with which it shares its bytes, and flip one in the latter
    cp runs/part/last.ckpt damaged
    printf '\377' | dd of=damaged bs=1 seek=9000 conv=notrunc 2>/dev/null
    mv damaged runs/part/last.ckpt
    run pretrain run.yaml run=runs/part --resume
    expect_status 0
    expect_err "skipped: runs/part/last.ckpt"
    expect_err "continuing from runs/part/step-"
}

# Every bad file: one line that begins with its name, status 1, within a second (ten on a busy machine).
begin bad_checkpoints && {
    for file in "$root"/tests/hostile/checkpoint/*.ckpt; do
        start=$(date +%s%N)
        run inspect "$file"
        took=$((($(date +%s%N) - start) / 1000000))
        expect "${file##*/}: exit status $status" [ "$status" = 1 ]
        expect "${file##*/}: wanted one line" [ "$(wc -l <err)" = 1 ]
        expect "${file##*/}: the message does not name the file" grep -q "${file##*/}: " err
        expect "${file##*/}: took $took ms" [ "$took" -lt 10000 ]
        expect_no_out
    done
}
