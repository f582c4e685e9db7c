# shellcheck shell=bash
# model.projection mean, max and conv in every command that a checkpoint goes through.

# write_files PROJECTION: n is no multiple of k
write_files() {
    [ -n "$case_name" ] || return 0
    sst2_rows 600 1 >train.tsv
    sst2_rows 150 2 >dev.tsv
    cut -f1 train.tsv | tail -n +2 >text.txt
    cat >text.yaml <<YAML
model: {n: 22, k: [4, 6], projection: $1, layers: 2, width: 32, heads: 2, ffn: 64, dropout: 0, attention_dropout: 0}
tokenizer: {model: spm.model, vocab_size: 285}
data: {train: text.txt, tokens: tokens}
train: {steps: 20, batch: 16, threads: 1, short_rate: 0.5, recompute: layer}
optimizer: {lr: 3e-3}
YAML
    cat >sst2.yaml <<'YAML'
finetune: {task: sst2, init: runs/text/last.ckpt}
data: {train: train.tsv, valid: dev.tsv}
train: {epochs: 5, batch: 16, threads: 1}
optimizer: {lr: 5e-3}
YAML
}

number() { sed -n "s/.*\"$1\":\([-+.0-9e]*\).*/\1/p" out; }

# whole_way PROJECTION DESCRIPTION MATRICES: from text to predictions
whole_way() {
    write_files "$1"
    run pretrain text.yaml
    expect_status 0
    expect_err "$2, $3 projection matrices"
    run inspect runs/text/last.ckpt --json
    expect_status 0
    expect_out "\"projection_matrices\":$3,"
    expect_out "\"sharing\":\"$2\""
    run eval runs/text/last.ckpt text.txt --json
    expect_status 0
    expect "loss $(number loss) below ln 285" awk -v a="$(number loss)" 'BEGIN { exit !(a > 0 && a < 5.65) }'
    run fill-mask runs/text/last.ckpt 'the film <mask> seen'
    expect_status 0
    run embed runs/text/last.ckpt 'the old dog' --pooling mean --out vectors.npy
    expect_status 0
    run plan text.yaml --json
    expect_status 0
    expect_out "\"projection_matrices\":$3,"
    run bench step text.yaml --steps 2 --profile
    expect_status 0
    expect_out "$2"
    expect_out "sequence projection"
    run finetune sst2.yaml --json
    expect_status 0
    run eval runs/sst2/seed-1/best.ckpt dev.tsv --json
    expect_status 0
    expect "nothing learnt" awk -v a="$(number accuracy)" 'BEGIN { exit !(a > 0.9) }'
    run predict runs/sst2/seed-1/best.ckpt 'a good old film'
    expect_status 0
    run finetune sst2.yaml model.projection=linear run=runs/other
    expect_status 2
    expect_err "model.projection = linear, but finetune.init = runs/text/last.ckpt was pretrained with $1"
}

begin mean && {
    whole_way mean "mean pooling" 0
    # nobody shares what is not there
    run finetune sst2.yaml model.sharing=kv model.proj_init_std=0.5 train.steps=1 run=runs/kv
    expect_status 0
    run pretrain text.yaml model.sharing=kv train.init=runs/text/last.ckpt train.steps=1 run=runs/again
    expect_status 0
    expect_err "model.sharing has no effect with model.projection = mean"
    run pretrain text.yaml model.init=local run=runs/local
    expect_status 2
    expect_err "needs model.projection = linear"
}

begin max && whole_way max "max pooling" 0

begin conv && {
    whole_way conv "convolution, headwise" 4
    run inspect runs/text/last.ckpt --json
    expect_out '"name":"layer0.seq_proj_k","shape":[6,16]'
    expect_out '"name":"layer1.seq_proj_v","shape":[4,16]'
    run finetune sst2.yaml model.sharing=kv run=runs/kv
    expect_status 2
    expect_err "was pretrained with headwise"
    run pretrain text.yaml model.sharing=kv train.init=runs/text/last.ckpt run=runs/again
    expect_status 2
    expect_err "was pretrained with headwise"
}
