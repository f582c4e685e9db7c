# shellcheck shell=bash
# `finetune` from the command line: what it prints and writes, resume, refusals, and its benchmark.

write_task() {
    [ -n "$case_name" ] || return 0
    sst2_rows 600 1 >train.tsv
    sst2_rows 150 2 >dev.tsv
    cut -f1 train.tsv | tail -n +2 >text.txt
    cat >text.yaml <<'YAML'
model: {n: 16, k: 4, layers: 1, width: 32, heads: 2, ffn: 64, dropout: 0, attention_dropout: 0}
tokenizer: {model: spm.model, vocab_size: 285}
data: {train: text.txt, tokens: tokens}
train: {steps: 5, batch: 16, threads: 1}
YAML
    cat >sst2.yaml <<'YAML'
finetune: {task: sst2, init: runs/text/last.ckpt, seeds: 2}
data: {train: train.tsv, valid: dev.tsv}
train: {epochs: 5, batch: 16, threads: 1}
optimizer: {lr: 5e-3}
YAML
    "$linformer" pretrain text.yaml --quiet || fail "no pretraining"
}

# number NAME FILE: the first member of that name in a JSON text
number() { grep -o "\"$1\":[-+.0-9e]*" "$2" | head -n 1 | cut -d: -f2; }

near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a != "" && b != "" && d < 1e-9 && d > -1e-9) }'; }

begin results_and_their_checkpoint && {
    write_task
    run finetune sst2.yaml
    expect_status 0
    expect_out "accuracy"
    expect_out "mean"
    expect_out "std"
    expect_out "150 validation rows, 600 training rows"
    expect_out "runs/sst2/seed-"
    expect_err "encoder: runs/text/last.ckpt, step 5"
    for name in config.yaml log.txt results.json; do expect_file "runs/sst2/$name"; done
    for name in config.yaml log.txt metrics.jsonl best.ckpt result.json; do
        expect_file "runs/sst2/seed-1/$name"
        expect_file "runs/sst2/seed-2/$name"
    done
    # the best checkpoint, evaluated in a process of its own on the same rows
    run eval runs/sst2/seed-2/best.ckpt dev.tsv --json
    expect_status 0
    cp out eval.json
    tr -d '\n\t ' <runs/sst2/seed-2/result.json >result.json
    for name in accuracy f1 mcc; do
        expect "$name differs" near "$(number $name eval.json)" "$(number $name result.json)"
    done
    expect "loss differs" near "$(number loss eval.json)" "$(number valid_loss result.json)"
    expect "nothing learnt" awk -v a="$(number accuracy eval.json)" 'BEGIN { exit !(a > 0.9) }'
}

begin json && {
    write_task
    run finetune sst2.yaml --json --quiet train.epochs=1
    expect_status 0
    expect "one line of JSON" [ "$(wc -l <out)" = 1 ]
    expect "results.json holds the same" cmp -s out <(cat runs/sst2/results.json; echo)
    expect "nothing on stderr" [ ! -s err ]
}

begin resume && {
    write_task
    run finetune sst2.yaml train.epochs=1
    expect_status 0
    cp runs/sst2/seed-1/result.json first
    run finetune sst2.yaml train.epochs=1
    expect_status 2
    expect_err "--resume"
    run finetune sst2.yaml train.epochs=1 finetune.seeds=3 --resume
    expect_status 0
    expect_err "seed 1 is complete"
    expect "a complete seed was trained again" cmp first runs/sst2/seed-1/result.json
    expect_file runs/sst2/seed-3/result.json
    run finetune sst2.yaml train.epochs=2 --resume
    expect_status 2
    expect_err "train.epochs was 1 when the run was started"
}

begin nothing_to_resume && {
    write_task
    run finetune sst2.yaml train.epochs=1 finetune.seeds=1 run=runs/mistyped --resume
    expect_status 0
    expect_err "warning: --resume: runs/mistyped holds no seed of an earlier start"
    run finetune sst2.yaml train.epochs=1 finetune.seeds=1 run=runs/mistyped --resume
    expect_status 0
    expect "warned where there is a seed" [ "$(grep -c 'warning: --resume' err)" = 0 ]
}

begin config_gives_the_same_run && {
    write_task
    run finetune sst2.yaml train.epochs=1 finetune.seeds=1
    expect_status 0
    expect "names the tokenizer: $(grep 'model: .' runs/sst2/config.yaml)" \
        grep -q '^  model: runs/text/last.ckpt$' runs/sst2/config.yaml
    run finetune runs/sst2/config.yaml run=runs/again
    expect_status 0
    expect "warned of its own config" [ "$(grep -c 'warning: .* has no effect' err)" = 0 ]
    expect "another best.ckpt" cmp runs/sst2/seed-1/best.ckpt runs/again/seed-1/best.ckpt
}

# Without a file the rows are those that the training held out, if their files still hold them.
begin eval_on_held_out_rows && {
    write_task
    run finetune sst2.yaml 'data.valid=[]' finetune.holdout=0.2 finetune.seeds=1 train.epochs=2
    expect_status 0
    expect_out "120 validation rows, 480 training rows"
    run eval runs/sst2/seed-1/best.ckpt --json
    expect_status 0
    expect_err "120 rows, held out of data.train by finetune.holdout"
    cp out eval.json
    tr -d '\n\t ' <runs/sst2/seed-1/result.json >result.json
    for name in accuracy f1 mcc; do
        expect "$name differs" near "$(number $name eval.json)" "$(number $name result.json)"
    done
    expect "loss differs" [ "$(number loss eval.json)" = "$(number valid_loss result.json)" ]
    mkdir elsewhere && cd elsewhere || exit
    run eval ../runs/sst2/seed-1/best.ckpt --json --quiet
    cd .. && cp elsewhere/out elsewhere/err .
    expect_status 0
    expect "another folder, other scores" [ "$(number loss out)" = "$(number loss eval.json)" ]
    sed '2s/$/ more/; 2s/\(\t.\) more/ more\1/' train.tsv >changed.tsv
    cp train.tsv kept.tsv && cp changed.tsv train.tsv
    run eval runs/sst2/seed-1/best.ckpt
    expect_status 1
    expect_err "train.tsv: are not the rows that the checkpoint was trained on"
    rm train.tsv
    run eval runs/sst2/seed-1/best.ckpt
    expect_status 2
    expect_err "no file is given"
    expect_err "no file matches"
    run eval runs/sst2/seed-1/best.ckpt kept.tsv
    expect_status 0
}

begin interrupted && {
    write_task
    "$linformer" finetune sst2.yaml train.epochs=1000 >out 2>err </dev/null &
    pid=$! tries=0
    while [ ! -s runs/sst2/seed-1/metrics.jsonl ] && kill -0 $pid && [ $tries -lt 3000 ]; do
        sleep 0.01
        tries=$((tries + 1))
    done
    kill -TERM $pid
    status=0
    wait $pid 2>/dev/null || status=$?
    expect_status 75
    expect_err "stopped by SIGTERM"
    expect_no_out
}

begin other_commands_refuse_the_config && {
    write_task
    for command in pretrain prepare tokenizer plan "bench step"; do
        # shellcheck disable=SC2086
        run $command sst2.yaml
        expect_status 2
        expect_err "finetune.task = sst2: the config is of a fine-tuning; run it with \`linformer finetune\`"
    done
    for command in finetune "bench finetune"; do
        # shellcheck disable=SC2086
        run $command text.yaml
        expect_status 2
        expect_err "finetune.task is missing"
    done
}

begin bad_input && {
    write_task
    run finetune sst2.yaml finetune.init=runs/none.ckpt
    expect_status 1
    expect_err "runs/none.ckpt: no such file"
    run finetune sst2.yaml model.n=32
    expect_status 2
    expect_err "override 'model.n=32': model.n = 32, but finetune.init = runs/text/last.ckpt was pretrained with 16"
    printf 'extends: sst2.yaml\nmodel:\n  k: 8\n' >other.yaml
    run finetune other.yaml model.dropout=0.2
    expect_status 2
    expect_err "linformer: other.yaml:3:3: model.k = 8, but finetune.init = runs/text/last.ckpt was pretrained with 4"
    run finetune sst2.yaml data.train=missing.tsv
    expect_status 2
    expect_err "no file matches"
    printf 'sentence\tlabel\ngood\t1\nbad\t-1\n' >test.tsv
    run finetune sst2.yaml data.train=test.tsv
    expect_status 1
    expect_err "test.tsv:3"
    run finetune
    expect_status 2
}

begin benchmark && {
    write_task
    run bench finetune sst2.yaml --steps 3 --pad 16 --json
    expect_status 0
    expect "48 rows" [ "$(number rows out)" = 48 ]
    expect "rows of 16 tokens" [ "$(number padded_tokens out)" = 768 ]
    expect "fewer when ragged" [ "$(number ragged_tokens out)" -lt 768 ]
    expect "no run folder" [ ! -e runs/sst2 ]
    run bench finetune sst2.yaml --steps 2 --pad 8
    expect_status 0
    expect_out "ratio"
    run bench finetune sst2.yaml --pad 17
    expect_status 2
    expect_err "model.n = 16"
}
