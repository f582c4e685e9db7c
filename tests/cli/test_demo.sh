# The demo's task: what its generator promises, and that its config runs.

begin task_generator && {
sh "$root/scripts/make_demo_text.sh" data 300 20 2>err
for part in train valid; do
    expect "the header of $part" [ "$(head -n 1 data/task-$part.tsv)" = "$(printf 'sentence\tlabel')" ]
    tail -n +2 data/task-$part.tsv >>rows
done
expect "3000 and 1000 rows" [ "$(wc -l <data/task-train.tsv) $(wc -l <data/task-valid.tsv)" = "3001 1001" ]
expect "two columns, two labels" [ -z "$(awk -F '\t' 'NF != 2 || $2 != "correct" && $2 != "swapped"' rows)" ]
# the same words in another order count as the same: neither form of a sentence is used again
awk -F '\t' '{
    count = split($1, word, /[ .]+/)
    for (i = 2; i <= count; i++)
        for (j = i; j > 1 && word[j - 1] > word[j]; j--) { kept = word[j]; word[j] = word[j - 1]; word[j - 1] = kept }
    key = ""
    for (i = 1; i <= count; i++) key = key " " word[i]
    if (!(key in seen)) distinct++
    seen[key]
} END { print distinct }' rows >distinct
expect "$(cat distinct) distinct sentences" [ "$(cat distinct)" -gt 3900 ]
for part in train valid; do
    correct=$(grep -c 'correct$' data/task-$part.tsv)
    rows=$(($(wc -l <data/task-$part.tsv) - 1))
    expect "$correct correct of $rows in $part" [ $((correct * 100 / rows)) -ge 47 -a $((correct * 100 / rows)) -le 53 ]
done
sh "$root/scripts/make_demo_text.sh" again 300 20 2>err
expect "another task at the second run" cmp -s data/task-train.tsv again/task-train.tsv
# made again where any of the files is gone, and only then
for file in train-00.txt train-01.txt valid.txt task-train.tsv task-valid.tsv; do
    cp again/$file kept
    rm again/$file
    sh "$root/scripts/make_demo_text.sh" again 300 20 2>err
    expect "$file is not made again" cmp -s kept again/$file
    expect_err "300 training"
done
sh "$root/scripts/make_demo_text.sh" again 300 20 2>err
expect "made again though all is there" [ ! -s err ]
# the task does not depend on how much text is made before it
sh "$root/scripts/make_demo_text.sh" more 400 20 2>err
expect "another task for more text" cmp -s data/task-train.tsv more/task-train.tsv
}

begin task_config && {
sh "$root/scripts/make_demo_text.sh" data 1200 60 2>err
# data.valid: the config's own text is there only after a demo
run tokenizer "$root/configs/pretrain/tiny.yaml" 'data.train=data/train-*.txt' data.valid=data/valid.txt \
    tokenizer.model=spm.model tokenizer.vocab_size=1000
expect_status 0
task="data.train=data/task-train.tsv data.valid=data/task-valid.tsv run=run train.epochs=0.2"
run finetune "$root/configs/finetune/demo.yaml" finetune.init=none tokenizer.model=spm.model $task
expect_status 0
expect_out "1,000 validation rows, 3,000 training rows"
expect "no labels" grep -q '"labels":\["correct","swapped"\]' run/results.json
# what scripts/demo.sh reads there
expect "no accuracy" grep -q '"majority":0\.50*1.*"mean":{"accuracy":0\.[0-9]' run/results.json
run predict run/seed-1/best.ckpt 'Rosa gave the guitar to Felix.'
expect_status 0
expect_out "p(swapped)"
}

# A second demo says what it removes; a program that only makes the folders stands in for the real one.
begin again && {
mkdir scripts
cp "$root/scripts/demo.sh" scripts
echo 'exit 0' >scripts/make_demo_text.sh
cat >program <<'EOF'
#!/bin/sh
for word in "$@"; do
    case $word in run=*) folder=${word#run=} ;; esac
done
[ -z "${folder-}" ] || { [ ! -e "$folder" ] && mkdir -p "$folder" && echo '{"majority":0.5,"mean":{"accuracy":0.9}}' >"$folder/results.json"; }
EOF
chmod +x program
mkdir runs && : >runs/mine
sh scripts/demo.sh ./program >out 2>err
expect "exit status $?" [ $? = 0 ]
expect_out "held-out sentences: 90.0 % after pretraining, 90.0 % without it, 50.0 %"
expect "something to remove" [ "$(grep -c 'removing' out)" = 0 ]
rm -r runs/demo-task
sh scripts/demo.sh ./program >out 2>err
expect "exit status $?" [ $? = 0 ]
expect_out "The demo begins again: removing runs/demo runs/demo-task-fresh of an earlier one; tokenizer and tokens in runs/prepared stay."
expect "a run of another name is gone" [ -e runs/mine ]
}
