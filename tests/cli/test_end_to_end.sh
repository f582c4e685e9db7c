# From text to a checkpoint that fills masks, in seconds: 30 steps on generated text.

small=$root/tests/cli/small.yaml
shared=$(mktemp -d "$work/end-XXXXXX")
text="data.train=$shared/train-*.txt data.valid=$shared/valid.txt"
places="run=$shared/run tokenizer.model=$shared/spm.model data.tokens=$shared/tokens"
checkpoint=$shared/run/last.ckpt

# need PART: makes what earlier cases make, where a filter left them out: text, tokenizer or checkpoint
need() {
    [ -n "$case_name" ] || return 0
    [ -s "$shared/valid.txt" ] || sh "$root/scripts/make_demo_text.sh" "$shared" 1200 60 2>/dev/null
    case $1 in
    tokenizer) [ -s "$shared/spm.model" ] || "$linformer" tokenizer "$small" $text $places >/dev/null 2>&1 ;;
    checkpoint) [ -s "$checkpoint" ] || "$linformer" pretrain "$small" $text $places >/dev/null 2>&1 ;;
    esac
}

# number NAME: a member of the JSON object in out
number() { sed -n "s/.*\"$1\":\([-+.0-9e]*\).*/\1/p" out; }

# metric_loss LINE: of metrics.jsonl
metric_loss() { sed -n "$1s/.*\"loss\":\([-+.0-9e]*\).*/\1/p" "$shared/run/metrics.jsonl"; }

less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a + 0 < b + 0) }'; }

begin generator && {
sh "$root/scripts/make_demo_text.sh" "$shared" 1200 60 2>err
expect_file "$shared/train-00.txt"
expect_file "$shared/train-01.txt"
expect_file "$shared/valid.txt"
# no held-out document is a training document
paragraphs() { awk 'BEGIN { RS = ""; ORS = "\n" } { gsub("\n", "|"); print }' "$@" | sort; }
paragraphs "$shared"/train-*.txt >train
paragraphs "$shared/valid.txt" >valid
expect "60 held-out documents" [ "$(wc -l <valid)" -eq 60 ]
expect "1200 training documents" [ "$(wc -l <train)" -eq 1200 ]
expect "a document twice" [ -z "$(sort train valid | uniq -d)" ]
sh "$root/scripts/make_demo_text.sh" again 1200 60 2>err
expect "another text at the second run" cmp -s again/train-01.txt "$shared/train-01.txt"
}

begin tokenizer && {
need text
run tokenizer "$small" $text $places --json
expect_status 0
expect_out '"vocab":700'
expect_file "$shared/spm.model"
run inspect "$shared/spm.model" --json
expect_status 0
expect_out '"type":"tokenizer"'
expect_out '"<mask>":4'
}

begin prepare && {
need tokenizer
run prepare "$small" $text $places --json
expect_status 0
expect_out '"unigram_entropy":'
expect_out '"documents":1200,'
expect_out '"documents":60,'
run inspect "$shared/tokens/manifest.json" --json
expect_status 0
expect_out '"type":"manifest"'
expect_out '"checksums_verified":true'
for shard in "$shared"/tokens/*.tok; do
    run inspect "$shard"
    expect_status 0
    expect_out "token shard"
done
run prepare "$small" $text $places
expect_status 0
expect_err "is current: nothing to do"
}

begin prepare_trains_the_tokenizer && {
need text
run prepare "$small" $text tokenizer.model=new.model data.tokens=new
expect_status 0
expect_err "tokenizer.model = new.model: no such file: a new tokenizer of 700 pieces is trained there"
expect_file new.model
expect_file new/manifest.json
}

begin pretrain && {
need tokenizer
run pretrain "$small" $text $places
expect_status 0
expect_file "$checkpoint"
expect_file "$shared/run/best.ckpt"
expect "30 lines of metrics" [ "$(grep -c '"loss":' "$shared/run/metrics.jsonl")" -ge 30 ]
expect "the loss falls: $(metric_loss 1) to $(metric_loss 30)" less "$(metric_loss 30)" "$(metric_loss 1)"
run pretrain "$small" $text $places
expect_status 2
expect_err "--resume"
run pretrain "$small" $text $places --resume
expect_status 0
}

begin inspect_checkpoint && {
need checkpoint
run inspect "$checkpoint" --json
expect_status 0
for member in step parameters projection_matrices config tensors tokenizer_hash checksums_verified; do
    expect_out "\"$member\":"
done
expect_out '"step":30,'
expect_out '"name":"layer0.seq_proj_k","shape":[8,32]'
run inspect "$checkpoint" --stats
expect_status 0
expect_out "std"
expect_out "sharing: headwise"
}

# JSON of other kinds is not taken for the manifest beside it; a manifest may have any name.
begin inspect_json && {
need checkpoint
cp "$shared"/tokens/* .
cp "$shared/run/metrics.jsonl" .
echo '{"results": [1, 2]}' >results.json
head -c 100 manifest.json >cut.json
for file in metrics.jsonl results.json cut.json; do
    run inspect $file
    expect_status 1
    expect_no_out
    expect_err "neither a checkpoint, a token shard, a manifest nor a tokenizer: $file"
done
mv manifest.json other.json
run inspect other.json --json
expect_status 0
expect_out '"file":"other.json","type":"manifest"'
expect_out '"complete":true'
}

begin damaged_checkpoint && {
need checkpoint
size=$(wc -c <"$checkpoint")
for place in 3 100 $((size / 2)) $((size - 1)); do
    cp "$checkpoint" damaged.ckpt
    byte=$(tail -c +$((place + 1)) damaged.ckpt | head -c 1 | od -An -tu1 | tr -d ' ')
    printf "\\$(printf %o $(((byte + 1) % 256)))" | dd of=damaged.ckpt bs=1 seek="$place" conv=notrunc 2>/dev/null
    expect "byte $place is the same" [ "$(cmp damaged.ckpt "$checkpoint" | wc -l)" -eq 1 ]
    run inspect damaged.ckpt
    expect_status 1
    expect_err "damaged.ckpt"
done
head -c $((size - 1)) "$checkpoint" >short.ckpt
run inspect short.ckpt
expect_status 1
}

begin eval && {
need checkpoint
TMPDIR=$PWD run eval "$checkpoint" "$shared/valid.txt" --json
expect_status 0
loss=$(number loss)
expect "loss $loss below ln 700" less "$loss" 6.551
expect "perplexity" less 1 "$(number perplexity)"
expect "entropy" less 1 "$(number unigram_entropy)"
expect "the temporary folder stays" [ -z "$(ls -d linformer-* 2>/dev/null)" ]
run eval "$checkpoint" "$shared/valid.txt" --json --batch 3 --threads 1
expect "another batch size: $(number loss), $loss" less "$(awk -v a="$(number loss)" -v b="$loss" \
    'BEGIN { print a < b ? b - a : a - b }')" 1e-4
run eval "$checkpoint" --json
expect_status 0
logged=$(sed -n 's/.*"valid_loss":\([-+.0-9e]*\).*/\1/p' "$shared/run/metrics.jsonl" | tail -n 1)
expect "without text the run's own evaluation: $(number loss), $logged" less "$(awk -v a="$(number loss)" -v b="$logged" \
    'BEGIN { print a < b ? b - a : a - b }')" 1e-4
gzip -c "$shared/valid.txt" >valid.txt.gz
run eval "$checkpoint" valid.txt.gz "$shared/train-00.txt" --sequences 7
expect_status 0
expect_out "in 7 sequences"
run eval "$checkpoint" no-such.txt
expect_status 1
expect_err "linformer: no-such.txt: cannot open"
: >empty.txt
run eval "$checkpoint" empty.txt
expect_status 1
expect_err "empty.txt: holds no text"
}

begin fill_mask && {
need checkpoint
run fill-mask "$checkpoint" 'The dog <mask> at the stranger.' --top 3
expect_status 0
expect_out "The dog <mask> at the stranger."
expect "4 lines" [ "$(wc -l <out)" -eq 4 ]
run fill-mask "$checkpoint" --json 'Snow is cold and <mask>.' 'Two <mask> three is <mask>.' --top 2
expect_status 0
expect "6 fills" [ "$(grep -o '"probability":' out | wc -l)" -eq 6 ]
expect "6 tokens" [ "$(grep -o '"token":' out | wc -l)" -eq 6 ]
expect "2 texts" [ "$(grep -o '"text":' out | wc -l)" -eq 2 ]
}

# JSON is UTF-8, whatever the text is.
begin fill_mask_bytes && {
need checkpoint
run fill-mask "$checkpoint" --json --top 1 "$(printf 'caf\351 <mask> \303\251')"
expect_status 0
expect "no UTF-8" iconv -f UTF-8 -t UTF-8 -o same out
expect_out "$(printf 'caf\357\277\275 <mask> \303\251')"
}

# The text that the run was evaluated on is gone: the checkpoint names it.
begin eval_text_gone && {
need checkpoint
mkdir moved
cp "$shared"/train-00.txt moved/t.txt
cp "$shared"/valid.txt moved/v.txt
run pretrain "$small" data.train=moved/t.txt data.valid=moved/v.txt run=run tokenizer.model="$shared/spm.model" \
    data.tokens=tokens train.steps=1
expect_status 0
rm -r moved
run eval run/last.ckpt
expect_status 2
expect_err "run/last.ckpt: the text it was evaluated on: "
expect_err "moved/v.txt: no file matches"
}

begin fill_mask_stdin && {
need checkpoint
printf 'The cat <mask>.\r\n\nThe <mask> is red.\n' | "$linformer" fill-mask --top 1 "$checkpoint" >out 2>err
status=$?
expect_status 0
expect "4 lines" [ "$(wc -l <out)" -eq 4 ]
run fill-mask "$checkpoint"
expect_status 2
expect_err "no text"
printf '\n\r\n' | "$linformer" fill-mask "$checkpoint" >out 2>err
status=$?
expect_status 2
expect_err "no text"
printf 'The <mask> is red.\nnothing\n' | "$linformer" fill-mask "$checkpoint" >out 2>err
status=$?
expect_status 2
expect_err "stdin, line 2: 'nothing': the text has no <mask>"
}

begin fill_mask_refuses && {
need checkpoint
run fill-mask "$checkpoint" "$(awk 'BEGIN { for (i = 0; i < 40; i++) printf "dog " }')<mask>"
expect_status 2
expect_err "n = 32"
run fill-mask "$checkpoint" --top 100000 '<mask>'
expect_status 2
expect_err "695 pieces"
}

# Interrupted while it waits for stdin: ended by the signal, with a message, and quickly.
begin interrupt && {
need checkpoint
mkfifo input
"$linformer" fill-mask "$checkpoint" <input >out 2>err &
pid=$!
exec 9>input
for i in $(seq 200); do # the log's first line comes after the signals are taken care of
    ! grep -q kernel err || break
    sleep 0.1
done
kill -TERM $pid
wait $pid
status=$?
exec 9>&-
expect "exit status $status, wanted 143" [ "$status" -eq 143 ]
expect_err "interrupted"
}

# Interrupted while it prepares text: the temporary folder goes.
begin interrupted_eval && {
need checkpoint
for i in $(seq 60); do cat "$shared"/train-*.txt; done >big.txt
mkdir temp
TMPDIR=$PWD/temp "$linformer" eval "$checkpoint" big.txt >out 2>err &
pid=$!
for i in $(seq 600); do
    [ -z "$(ls temp)" ] || break
    sleep 0.05
done
expect "no temporary folder" [ -n "$(ls temp)" ]
kill -TERM $pid
wait $pid
status=$?
expect_status 143
expect_err "interrupted"
expect "left behind: $(ls temp)" [ -z "$(ls temp)" ]
}

rm -rf "$shared"
