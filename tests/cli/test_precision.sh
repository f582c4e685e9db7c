# shellcheck shell=bash
# train.precision in every command that trains or evaluates: it computes nearly what fp32 does, or is refused before anything is done.

# write_task: rows of two words that decide their label, the same as text, and configs for both
write_task() {
    [ -n "$case_name" ] || return 0
    awk 'BEGIN {
        n = split("cat dog sister farmer child sailor teacher queen", who, " ")
        m = split("sees likes follows hates leaves fears", does, " ")
        print "label\ttext"
        for (i = 0; i < 480; i++) {
            verb = 1 + int(i * 7 / 3) % m
            print (verb > 3) "\tthe " who[1 + i * 5 % n] " " does[verb] " the " who[1 + int(i * 3 / 7) % n]
        }
    }' >rows.tsv
    { sed 1q rows.tsv; sed -n '402,$p' rows.tsv; } >valid.tsv
    sed -n '1,401p' rows.tsv >train.tsv
    cut -f2 train.tsv | sed 1d >text.txt
    cut -f2 valid.tsv | sed 1d >held-out.txt
    cat >text.yaml <<'YAML'
model: {n: 24, k: 6, layers: 2, width: 32, heads: 2, ffn: 64}
tokenizer: {vocab_size: 285}
data: {train: text.txt, valid: held-out.txt}
train: {steps: 80, batch: 16, threads: 1}
optimizer: {lr: 3e-3}
YAML
    cat >task.yaml <<'YAML'
finetune: {task: custom, text: text, label: label, seeds: 1}
data: {train: train.tsv, valid: valid.tsv}
train: {epochs: 4, batch: 16, threads: 1}
optimizer: {lr: 3e-3}
YAML
}

# near NAME A B: that member of two JSON texts differs by at most half a percent
near() {
    awk -v a="$(grep -o "\"$1\":[-+.0-9e]*" "$2" | head -n 1 | cut -d: -f2)" \
        -v b="$(grep -o "\"$1\":[-+.0-9e]*" "$3" | head -n 1 | cut -d: -f2)" \
        'BEGIN { exit !(a > 0 && b > 0 && a <= 1.005 * b && b <= 1.005 * a && a != b) }'
}

# use PRECISION: all the commands with that one; what they evaluate goes to files of its name
use() {
    [ -n "$case_name" ] || return 0
    local key=train.precision=$1
    run pretrain text.yaml "run=runs/$1" "$key"
    expect_status 0
    expect "config.yaml has another" grep -q "precision: $1" "runs/$1/config.yaml"
    run eval "runs/$1/best.ckpt" held-out.txt --json
    expect_status 0
    cp out "$1-text"
    run embed "runs/$1/best.ckpt" --out "$1.npy" 'the cat sees the dog'
    expect_status 0
    run finetune task.yaml "run=runs/$1-task" "finetune.init=runs/fp32/best.ckpt" "$key"
    expect_status 0
    run eval "runs/$1-task/seed-1/best.ckpt" valid.tsv --json
    expect_status 0
    cp out "$1-task"
    run predict "runs/$1-task/seed-1/best.ckpt" 'the cat sees the dog'
    expect_status 0
}

begin precision_of_every_command && {
    write_task
    use fp32
    for precision in bf16 fp16; do
        key=train.precision=$precision
        run bench step text.yaml tokenizer.vocab_size=285 "$key" --steps 1 --json
        wanted=$status
        if [ "$wanted" = 0 ]; then
            expect_out "\"precision\":\"$precision\""
            use $precision
            expect "another held-out loss than in fp32" near loss fp32-text $precision-text
            expect "another loss of the task than in fp32" near loss fp32-task $precision-task
        else
            expect_status 2
            expect_err "train.precision = $precision: this "
            run pretrain text.yaml run=runs/refused "$key"
            expect_status 2
            expect_err "fp32 works everywhere"
            run finetune task.yaml run=runs/refused finetune.init=runs/fp32/best.ckpt "$key"
            expect_status 2
            expect "a folder of a refused run" [ ! -e runs/refused ]
        fi
        for mode in inference train; do
            run bench $mode text.yaml "$key" --n 24 --k 6 --tokens 24 --rounds 1 --seconds 0.01
            expect_status "$wanted"
        done
        run bench serve text.yaml tokenizer.vocab_size=285 "$key"
        expect_status "$wanted"
        run bench finetune task.yaml finetune.init=runs/fp32/best.ckpt "$key" --steps 1 --pad 24
        expect_status "$wanted"
        run plan text.yaml --gflops 1 "$key" # for another machine, perhaps
        expect_status 0
    done
}
