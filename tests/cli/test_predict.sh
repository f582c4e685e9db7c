# A fine-tuned checkpoint in use: eval, predict and embed, on generated rows that tell three classes apart in seconds.

shared=$(mktemp -d "$work/predict-XXXXXX")
checkpoint=$shared/run/seed-1/best.ckpt
pretrained=$shared/pre/last.ckpt
tab=$(printf '\t')

# rows COUNT SEED: a header, then label and text; every class has words of its own, between words that all have
rows() {
    awk -v count="$1" -v seed="$2" 'BEGIN {
        srand(seed)
        split("lion tiger horse goat red green blue white three seven eleven twenty", own, " ")
        split("the a some was seen there again and then it of", all, " ")
        print "kind\ttext"
        for (i = 0; i < count; i++) {
            class = int(3 * rand()); words = 1 + int(12 * rand()); at = int(words * rand())
            text = ""
            for (w = 0; w < words; w++)
                text = text (w ? " " : "") (w == at ? own[1 + 4 * class + int(4 * rand())] : all[1 + int(11 * rand())])
            print (class == 0 ? "animal" : class == 1 ? "colour" : "größer 1") "\t" text
        }
    }'
}

make_shared() {
    rows 900 1 >"$shared/train.tsv"
    rows 120 2 >"$shared/valid.tsv"
    cut -f2 "$shared/train.tsv" >"$shared/text.txt"
    cat >"$shared/pre.yaml" <<EOF
model: {n: 16, k: 4, layers: 1, width: 32, heads: 2, ffn: 64, dropout: 0, attention_dropout: 0}
tokenizer: {model: $shared/spm.model, vocab_size: 300}
data: {train: text.txt, tokens: $shared/tokens}
train: {steps: 5, batch: 16, threads: 1}
run: $shared/pre
EOF
    cat >"$shared/task.yaml" <<EOF
model: {n: 16, k: 4, layers: 1, width: 32, heads: 2, ffn: 64, dropout: 0, attention_dropout: 0}
tokenizer: {model: $shared/spm.model}
data: {train: train.tsv, valid: valid.tsv}
finetune: {task: custom, init: none, text: text, label: kind}
train: {epochs: 8, batch: 16, threads: 1}
optimizer: {lr: 5e-3}
run: $shared/run
EOF
    "$linformer" tokenizer "$shared/pre.yaml" && "$linformer" pretrain "$shared/pre.yaml" &&
        "$linformer" finetune "$shared/task.yaml"
}

need() {
    [ -n "$case_name" ] || return 0
    [ -s "$checkpoint" ] || make_shared >"$shared/made" 2>&1 || fail "no checkpoint: $(tail -n 1 "$shared/made")"
}

# run_stdin FILE ARGUMENT...: as run, with the file on stdin
run_stdin() {
    [ -n "$case_name" ] || return 0
    local input=$1
    shift
    status=0
    "$linformer" "$@" >out 2>err <"$input" || status=$?
}

texts() { tail -n +2 "$shared/valid.tsv" | cut -f2; }

# number NAME: a member of the JSON object on stdin
number() { sed -n "s/.*\"$1\":\([-+.0-9e]*\).*/\1/p"; }

# close_tables A B: the same labels, and probabilities within 1e-6; both have a header
close_tables() {
    paste "$1" "$2" | awk -F '\t' '
        NR > 1 { if ($1 != $6) bad++; for (i = 2; i <= 5; i++) { d = $i - $(i + 5); if (d > 1e-6 || d < -1e-6) bad++ } rows++ }
        NF != 10 { bad++ }
        END { exit bad || rows < 1 }'
}

begin eval_gives_the_logged_scores && {
need
run eval "$checkpoint" "$shared/valid.tsv" --json --quiet
expect_status 0
step=$(number step <out)
grep -h valid_loss "$shared/run/seed-1/metrics.jsonl" | grep -F "\"step\":$step," >logged
for pair in loss:valid_loss accuracy:accuracy f1:f1 mcc:mcc majority:majority; do
    # numerically: 0.825 may be written in more digits, and cJSON writes 15 where they are within one rounding
    expect "${pair%:*} $(number "${pair%:*}" <out), logged $(number "${pair#*:}" <logged)" \
        awk -v a="$(number "${pair%:*}" <out)" -v b="$(number "${pair#*:}" <logged)" 'BEGIN { d = a - b; exit !(a != "" && d * d <= 9e-32 * b * b) }'
done
expect_out '"collapsed":null,"rows":120,"cut":'
expect_out '"labels":["animal","colour","größer 1"],"confusion":[['
mv out first
run eval "$checkpoint" --json --quiet
expect "data.valid of the config gives other scores" cmp -s first out
accuracy=$(number accuracy <out)
expect "accuracy $accuracy: the task was not learned" awk -v a="$accuracy" 'BEGIN { exit !(a > 0.9) }'
run eval "$checkpoint" "$shared/valid.tsv" "$shared/valid.tsv" --quiet
expect_status 0
expect_out "240 rows; the most frequent class alone: accuracy 0."
expect_out "true \\ predicted"
expect "no row of the confusion matrix" grep -q '^ *größer 1  *0  *0  *[0-9][0-9]*$' out
}

begin eval_warns_of_collapse && {
need
printf 'text\tkind\nlion\tanimal\nlion\tcolour\n' >one.tsv
run eval "$checkpoint" one.tsv
expect_status 0
expect_err "warning: all 2 rows are predicted as animal"
expect_out "accuracy 0.5000"
run eval "$checkpoint" one.tsv --json --quiet
expect_out '"collapsed":"animal"'
}

begin eval_refuses && {
need
printf 'text\nlion\n' >no.tsv
run eval "$checkpoint" no.tsv
expect_status 1
expect_no_out
expect_err "kind"
printf 'text\tkind\nlion\tanimal\ntiger\tplant\n' >no.tsv
run eval "$checkpoint" no.tsv
expect_status 1
expect_err "no.tsv:3: the label 'plant'"
run eval "$checkpoint" no.tsv --sequences 5
expect_status 2
expect_err "--sequences"
run eval "$pretrained" "$shared/text.txt" --json --quiet
expect_status 0
expect_out '"perplexity":'
run eval "$pretrained" "$shared/text.txt" "$pretrained"
expect_status 1
expect_no_out
expect_err "last.ckpt: holds a checkpoint, wanted UTF-8 text"
run eval "$pretrained" "$shared/valid.tsv"
expect_status 2
expect_err "valid.tsv: a table is no plain text"
run eval "$checkpoint" "$pretrained"
expect_status 1
expect_err "last.ckpt: holds a checkpoint"
}

begin predict_ways_in_agree && {
need
texts >lines
run_stdin lines predict "$checkpoint" --quiet
expect_status 0
expect "rows lost" [ "$(wc -l <out)" -eq 121 ]
expect "header" [ "$(head -n 1 out)" = "label${tab}probability${tab}p(animal)${tab}p(colour)${tab}p(größer 1)" ]
cut -f1 out | tail -n +2 | paste - <(tail -n +2 "$shared/valid.tsv" | cut -f1) >both
expect "labels are not those of the texts" awk -F '\t' '$1 == $2 { n++ } END { exit !(n > 108) }' both
mv out stdin.tsv
run predict "$checkpoint" --file "$shared/valid.tsv" --quiet
expect "line numbers" [ "$(sed -n 2p out | cut -f1)$(tail -n 1 out | cut -f1)" = 2121 ]
cut -f2- out >file.tsv
expect "a file gives others than stdin" cmp -s file.tsv stdin.tsv
mapfile -t words <lines
run predict "$checkpoint" "${words[@]}" --quiet
expect "arguments give others than stdin" cmp -s out stdin.tsv
cut -f2 "$shared/valid.tsv" | gzip >unlabelled.tsv.gz
run predict "$checkpoint" --file unlabelled.tsv.gz --quiet
cut -f2- out >file.tsv
expect "a file without labels gives others" cmp -s file.tsv stdin.tsv
sed 's/.*/{"text":"&","more":[1]}/' lines >rows.jsonl
run predict "$checkpoint" --file rows.jsonl --quiet
cut -f2- out >file.tsv
expect "JSON lines give others" cmp -s file.tsv stdin.tsv
for batch in 1 5 1000; do
    run_stdin lines predict "$checkpoint" --quiet --batch $batch
    expect "batch $batch gives others" close_tables out stdin.tsv
done
tac lines >backwards
run_stdin backwards predict "$checkpoint" --quiet
{ head -n 1 out; tail -n +2 out | tac; } >again.tsv
expect "another order gives others" close_tables again.tsv stdin.tsv
}

begin predict_json && {
need
run predict "$checkpoint" 'some lion' 'it was blue' --quiet --format json
expect_status 0
expect "two lines" [ "$(wc -l <out)" -eq 2 ]
expect "an object a line" [ "$(grep -cE '^\{"label":"(animal|colour)","probability":[0-9.e-]+,"probabilities":\{"animal":[0-9.e-]+,"colour":[0-9.e-]+,"größer 1":[0-9.e-]+\}\}$' out)" -eq 2 ]
printf '%s' "$(paste -sd, out)" >lines
run predict "$checkpoint" 'some lion' 'it was blue' --quiet --json
expect "--json is not the same rows in one object" [ "$(cat out)" = "{\"results\":[$(cat lines)],\"rows\":2,\"cut\":0}" ]
run predict "$checkpoint" --file "$shared/valid.tsv" --quiet --format json
expect_out '{"line":121,"label":"'
}

# More rows than are taken at a time: all of them, in order.
begin predict_many && {
need
rows 9001 3 >many.tsv
run predict "$checkpoint" --file many.tsv --quiet
expect_status 0
tail -n +2 out | cut -f1 >numbers
expect "lines 2 to 9002" cmp -s numbers <(seq 2 9002)
tail -n +2 out | cut -f2 | paste - <(tail -n +2 many.tsv | cut -f1) >both
expect "labels are not those of the texts" awk -F '\t' '$1 == $2 { n++ } END { exit !(n > 8400) }' both
cut -f2 many.tsv | tail -n +2 >lines
cut -f2- out >file.tsv
run_stdin lines predict "$checkpoint" --quiet
expect "stdin gives others" cmp -s out file.tsv
}

# With --batch 1 an answer comes before the next line is asked.
begin predict_answers_each_line && {
need
mkfifo questions
timeout 60 "$linformer" predict "$checkpoint" --quiet --batch 1 <questions >answers 2>err &
exec 7>questions
for text in lion red; do
    label=$([ $text = lion ] && echo animal || echo colour)
    (trap '' PIPE; echo "$text" >&7) 2>/dev/null
    for _ in $(seq 200); do grep -q "^$label" answers && break; sleep 0.05; done
    expect "no answer to $text" grep -q "^$label" answers
done
exec 7>&-
wait
}

begin predict_long_texts && {
need
long="$(printf 'the %.0s' $(seq 40))"
run predict "$checkpoint" "$long" lion
expect_status 0
expect_err "1 of 2 rows are longer than n = 16 tokens and were cut"
}

# Every line has its row; those that may be a slip are counted.
begin lines_of_stdin && {
need
printf 'lion\n\nred\tx\n \nseven\n' >in
run_stdin in predict "$checkpoint"
expect_status 0
expect "five rows" [ "$(wc -l <out)" -eq 6 ]
expect "rows moved: $(cut -f1 out | paste -sd ' ')" [ "$(sed -n '2p;4p;6p' out | cut -f1 | paste -sd ,)" = "animal,colour,größer 1" ]
expect "blank lines differ" [ "$(sed -n 3p out | cut -c1-10)" = "$(sed -n 5p out | cut -c1-10)" ]
expect_err "warning: 2 of the 5 lines have an empty text (the first: line 2); each has its row all the same"
expect_err "warning: 1 of the 5 lines hold a tab (the first: line 3)"
run_stdin in predict "$checkpoint" --batch 1 --json
expect_status 0
expect_out '"rows":5'
for pooling in cls mean; do
    run_stdin in embed "$checkpoint" --pooling $pooling --out x.npy
    expect_status 0
    expect_out "x.npy: 5 vectors of 32"
    expect_err "warning: 2 of the 5 lines have an empty text (the first: line 2)"
done
expect_err "warning: 2 of 5 texts have no tokens (the first: line 2): zeros stand for their means"
}

begin predict_refuses && {
need
run predict "$pretrained" lion
expect_status 1
expect_no_out
expect_err "finetune"
run predict "$checkpoint" lion ''
expect_status 1
expect_err "argument:2: the text is empty"
echo lion >in
run predict "$checkpoint" 'a lion' in
expect_status 2
expect_no_out
expect_err "TEXT in is the name of a file: --file in reads its rows, <in its lines"
printf 'lion\nr\377d\n' >in
run_stdin in predict "$checkpoint"
expect_status 1
expect_err "stdin:2: byte 2 of the text (0xFF) is not UTF-8"
: >in
run_stdin in predict "$checkpoint" --json
expect_status 2
expect_no_out
expect_err "no text"
run predict "$checkpoint" lion --file in
expect_status 2
expect_err "not both"
run predict "$checkpoint" --file none.tsv
expect_status 1
expect_err "none.tsv"
run predict "$checkpoint" --file --json
expect_status 2
expect_err "--file needs a value"
run predict "$checkpoint" lion --format xml
expect_status 2
expect_err "--format xml: wanted tsv or json"
run predict "$checkpoint" lion --format tsv --json
expect_status 2
printf 'words\nlion\n' >no.tsv
run predict "$checkpoint" --file no.tsv
expect_status 1
expect_err "no.tsv:1"
}

# Even where the texts never end.
begin predict_cannot_write && {
need
if [ -w /dev/full ]; then
    status=0
    yes lion | timeout 60 "$linformer" predict "$checkpoint" >/dev/full 2>err || status=$?
    expect_status 1
    expect_err "cannot write the results to stdout"
fi
status=0
"$linformer" predict "$checkpoint" lion >&- 2>err || status=$?
expect_status 1
expect_err "cannot write the results to stdout"
yes lion | { timeout 60 "$linformer" predict "$checkpoint" --quiet 2>err; echo $? >code; } | head -n 1 >out
status=$(cat code)
expect_status 1
expect_err "cannot write the results to stdout: Broken pipe"
}

begin pairs && {
need
awk -F '\t' 'NR == 1 { print "first\tsecond\tsame" } NR > 1 { print $2 "\t" last "\t" ($1 == kind ? "yes" : "no") } { last = $2; kind = $1 }' \
    "$shared/train.tsv" >pairs.tsv
"$linformer" finetune "$shared/task.yaml" finetune.text=first finetune.text_pair=second finetune.label=same \
    data.train=pairs.tsv 'data.valid=[]' finetune.holdout=0.2 train.epochs=1 run=pairs >out 2>err || fail "finetune"
run predict pairs/seed-1/best.ckpt "lion${tab}tiger" --quiet
expect_status 0
expect_out "p(no)${tab}p(yes)"
cut -f1,2 pairs.tsv | tail -n +2 | head -n 50 >lines
run_stdin lines predict pairs/seed-1/best.ckpt --quiet
mv out stdin.tsv
run predict pairs/seed-1/best.ckpt --file pairs.tsv --quiet
cut -f2- out | head -n 51 >file.tsv
paste file.tsv stdin.tsv | awk -F '\t' 'NR > 1 { d = $3 - $7; if ($1 != $5 || d > 1e-6 || d < -1e-6) bad++; rows++ } END { exit bad || rows != 50 }' ||
    fail "a file of pairs gives others than stdin"
run predict pairs/seed-1/best.ckpt "lion tiger"
expect_status 1
expect_err "argument:1: 0 tabs"
run embed pairs/seed-1/best.ckpt "lion${tab}tiger" --out x.npy --quiet
expect_status 0
run eval pairs/seed-1/best.ckpt
expect_status 0
expect_out "180 rows; the most frequent class alone"
}

# npy FILE OFFSET COUNT: bytes of it
npy() { tail -c +$(($2 + 1)) "$1" | head -c "$3"; }

begin embed && {
need
texts >lines
for model in "$checkpoint" "$pretrained"; do
    for pooling in cls mean; do
        run_stdin lines embed "$model" --pooling $pooling --out x.npy --quiet --json
        expect_status 0
        expect_out "{\"out\":\"x.npy\",\"rows\":120,\"width\":32,\"pooling\":\"$pooling\",\"cut\":"
        expect "shape" [ "$(npy x.npy 10 59)" = "{'descr': '<f4', 'fortran_order': False, 'shape': (120, 32)" ]
        expect "size" [ "$(wc -c <x.npy)" -eq $((128 + 120 * 32 * 4)) ]
        mv x.npy "$pooling.npy"
    done
    expect "cls and mean are the same" [ "$(cmp -l cls.npy mean.npy | wc -l)" -gt 1000 ]
    # row 50 alone, in a batch of one, up to rounding
    run embed "$model" "$(sed -n 51p lines)" --out one.npy --quiet
    expect_out "one.npy: 1 vectors of 32"
    npy one.npy 128 128 | od -An -v -tf4 -w4 >one
    npy cls.npy $((128 + 50 * 128)) 128 | od -An -v -tf4 -w4 >same
    paste one same | awk '{ d = $1 - $2; if (d > 1e-5 || d < -1e-5) bad++; if ($1 > 0.1) large++ } END { exit bad || NR != 32 || !large }' ||
        fail "row 50 is not the vector of text 50"
done
run embed "$checkpoint" --file "$shared/valid.tsv" --out file.npy --quiet
expect_status 0
run_stdin lines embed "$checkpoint" --out x.npy --quiet
expect "a file gives others than stdin" cmp -s file.npy x.npy
run embed "$pretrained" --file "$shared/valid.tsv" --out file.npy
expect_status 0
}

begin embed_refuses && {
need
run embed "$checkpoint" lion
expect_status 2
expect_err "--out"
run embed "$checkpoint" lion --out x.npy --pooling max
expect_status 2
expect_err "--pooling max: wanted cls or mean"
echo lion >in
run embed "$checkpoint" in --out x.npy
expect_status 2
expect_err "TEXT in is the name of a file"
: >in
run_stdin in embed "$checkpoint" --out x.npy
expect_status 2
run embed "$checkpoint" lion --out none/x.npy
expect_status 1
expect_err "none/x.npy"
printf 'words\nlion\n' >no.tsv
run embed "$pretrained" --file no.tsv --out x.npy
expect_status 1
expect_err "text"
expect "something is left: $(echo x.npy*)" [ -z "$(find . -name 'x.npy*')" ]
}
