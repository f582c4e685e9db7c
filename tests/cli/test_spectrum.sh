# Singular values of the attention of tiny models, one with full attention and one Linformer, trained in seconds.

shared=$(mktemp -d "$work/spectrum-XXXXXX")
small=$root/tests/cli/small.yaml
text=$shared/valid.txt
full=$shared/full/best.ckpt
linformer_ckpt=$shared/lin/best.ckpt

pretrain_shared() { # RUN OVERRIDE...
    local name=$1
    shift
    "$linformer" pretrain "$small" "data.train=$shared/train-*.txt" "data.valid=$text" tokenizer.model="$shared/spm.model" \
        data.tokens="$shared/tokens" model.layers=2 train.steps=15 run="$shared/$name" "$@"
}

make_shared() {
    sh "$root/scripts/make_demo_text.sh" "$shared" 1200 60 &&
        pretrain_shared full model.attention=full && pretrain_shared lin 'model.k=[8, 5]' model.sharing=none
}

need() {
    [ -n "$case_name" ] || return 0
    [ -s "$linformer_ckpt" ] || make_shared >"$shared/made" 2>&1 || fail "no checkpoint: $(tail -n 1 "$shared/made")"
}

# without_gnuplot ARGUMENT...: as run, where no gnuplot is to be found
without_gnuplot() {
    [ -n "$case_name" ] || return 0
    mkdir -p empty
    status=0
    env PATH="$PWD/empty" "$linformer" "$@" >out 2>err || status=$?
}

begin full_attention && {
need
run spectrum "$full" "$text" --sequences 5
expect_status 0
expect_out "full attention of n = 32; 5 whole sequences"
expect_out "share of the largest 8 singular values of P in the sum of all, by layer"
folder=$shared/full/best-spectrum
expect "curves: 2 layers, 2 heads, 32 values" [ "$(wc -l <"$folder/curves-attention.csv")" -eq $((1 + 2 * 2 * 32)) ]
expect "header" [ "$(head -n 1 "$folder/curves-attention.csv")" = layer,head,index,singular_value,share,share_std ]
awk -F , 'NR > 1 { if ($3 == 1) last = 0; if ($5 < last - 1e-9 || $4 < 0) bad++; last = $5; if ($3 == 32 && ($5 < 1 - 1e-9 || $5 > 1 + 1e-9)) bad++ }
    NR > 1 && $3 == 1 && $4 < 0.99 { bad++ } # rows add up to 1, so the largest is 1 at least
    END { exit bad > 0 }' "$folder/curves-attention.csv" || fail "shares do not rise to 1"
awk -F , 'NR == FNR { share[$1 "," $2] = $3 == 8 ? $5 : share[$1 "," $2]; next }
    FNR > 1 { if ($3 != 8 || share[$1 "," $2] != $4) bad++; rows++ } END { exit bad || rows != 4 }' \
    "$folder/curves-attention.csv" "$folder/heatmap-attention.csv" || fail "the heat map is not the curves at 8"
expect_file "$folder/curves-attention.gp"
if command -v gnuplot >/dev/null; then
    expect_out "tables and pictures in $folder"
    for name in curves heatmap; do
        expect "$name is no picture" grep -q '</svg>' "$folder/$name-attention.svg"
        expect "a background" [ "$(grep -c 'fill="white"' "$folder/$name-attention.svg")" -eq 0 ]
    done
fi
}

begin sequences_and_threads && {
need
run spectrum "$full" --sequences 3 --out a --index 4 --json --quiet # the held-out text of the config
expect_status 0
expect_out '"attention":"full","n":32,"sequences":3,"definition":"sum","index":4,"matrices":[{"kind":"attention","layer_shares":['
run spectrum "$full" "$text" --sequences 3 --out b --index 4 --threads 1 --quiet
cut -d , -f 1-4 a/heatmap-attention.csv >first
cut -d , -f 1-4 b/heatmap-attention.csv | paste -d , first - |
    awk -F , 'NR > 1 { d = $4 - $8; if (d > 1e-5 || d < -1e-5) bad++; rows++ } END { exit bad || rows != 4 }' ||
    fail "one thread gives others"
run spectrum "$full" "$text" --sequences 3 --out c --squared --json --quiet
expect_out '"definition":"squares"'
awk -F , 'NR == FNR { share[FNR] = $5; next } FNR > 1 && $5 < share[FNR] - 1e-6 { bad++ } END { exit bad }' \
    a/curves-attention.csv c/curves-attention.csv || fail "squares are less concentrated"
run spectrum "$full" "$text" --sequences 100000 --out d
expect_status 0
expect_err "whole sequences of n = 32, fewer than the 100000 asked for"
}

begin linformer_attention && {
need
run spectrum "$linformer_ckpt" "$text" --sequences 4 --out o --projections --json --quiet
expect_status 0
expect_out '"attention":"linformer"'
expect_out '"index":2,"matrices":[{"kind":"effective"'
expect_out '{"kind":"projected"'
for kind in effective projected; do
    expect "k values a layer" [ "$(wc -l <o/curves-$kind.csv)" -eq $((1 + 2 * 8 + 2 * 5)) ]
done
expect_file o/projections-E.gp
expect_file o/projections-F.gp
if command -v gnuplot >/dev/null; then
    expect_out '"pictures":true'
    expect_file o/projections-E.svg
    expect_file o/projections-F.svg
    expect_file o/heatmap-projected.svg
fi
}

begin suggested_config && {
need
run spectrum "$full" "$text" --sequences 4 --out o --suggest-k 0.8 --multiple 4
expect_status 0
expect_out "in o/suggested-k.yaml"
list=$(sed -n 's/^  k: //p' o/suggested-k.yaml)
expect "list $list" grep -qE '^\[[0-9]+, [0-9]+\]$' <<<"$list"
expect_out "k: $list, sum "
expect_out "to train with it: pretrain CONFIG 'model.k=$list'"
expect_err_without "is a Linformer"
run plan o/suggested-k.yaml --gflops 100 --json
expect_status 0
expect_out "\"k\":$(tr -d ' ' <<<"$list")"
printf 'extends: o/suggested-k.yaml\nmodel: {width: 32, heads: 2, ffn: 64}\ntokenizer: {vocab_size: 700}\n' >mine.yaml
run plan mine.yaml --gflops 100 --json
expect_out "\"k\":$(tr -d ' ' <<<"$list")"
# with each head no smaller than with their mean; both multiples of 4 that reach the share
run spectrum "$full" "$text" --sequences 4 --out p --suggest-k 0.8 --multiple 4 --each-head --json --quiet
expect_out '"k":['
expect_out '"config":"p/suggested-k.yaml"'
sed -n 's/.*"k":\[\([0-9]*\),\([0-9]*\)\],"k_shares":\[\([0-9.e-]*\),\([0-9.e-]*\)\].*/\1 \2 \3 \4/p' out >numbers
tr -d '[],' <<<"$list" | paste -d ' ' numbers - |
    awk '{ exit !($1 % 4 == 0 && $2 % 4 == 0 && $3 >= 0.8 && $4 >= 0.8 && $1 >= $5 && $2 >= $6 && $5 > 0) }' ||
    fail "k, shares, k of the mean: $(cat numbers) $list"
run spectrum "$full" "$text" --sequences 4 --out q --total-k 20 --multiple 2 --json --quiet
expect_status 0
expect_out '"total_k":20,'
expect "uniform k beside it" grep -q 'alike: k = 10\.' q/suggested-k.yaml
run spectrum "$linformer_ckpt" "$text" --sequences 4 --out r --suggest-k 0.8
expect_status 0
expect_err "is a Linformer, so these k are bounded by its own: Pbar F has no rank above that"
}

begin numpy_agrees && {
need
if [ -n "$case_name" ] && ! python3 -c 'import numpy' 2>/dev/null; then
    skip "no python3 with NumPy"
else
    for checkpoint in "$full" "$linformer_ckpt"; do
        run spectrum "$checkpoint" "$text" --sequences 1 --out o --dump-matrices --quiet
        expect_status 0
        expect "NumPy differs" python3 "$root/scripts/compare_spectrum.py" o/matrices >out 2>err
        expect_out "P: 4 matrices"
        rm -r o
    done
fi
}

# A fine-tuned checkpoint has attention too, but its data.valid are rows.
begin classifier && {
need
printf 'label\ttext\nyes\tthe dog\nno\ta cat\nyes\tit was\nno\tit is\n' >rows.tsv
cp rows.tsv held.tsv
cat >task.yaml <<END
model: {n: 32, k: [8, 5], sharing: none, layers: 2, width: 32, heads: 2, ffn: 64, dropout: 0, attention_dropout: 0}
data: {train: rows.tsv, valid: held.tsv}
finetune: {task: custom, init: $linformer_ckpt, text: text, label: label}
train: {epochs: 1, batch: 4, threads: 1}
run: task
END
run finetune task.yaml
expect_status 0
run spectrum task/seed-1/best.ckpt "$text" --sequences 2 --out o --quiet
expect_status 0
expect_file o/curves-effective.csv
run spectrum task/seed-1/best.ckpt --out o
expect_status 2
expect_err "give text files"
}

begin without_gnuplot && {
need
without_gnuplot spectrum "$full" "$text" --sequences 2 --out o --json
expect_status 0
expect_err "warning: no pictures: gnuplot is not installed (Debian: apt-get install gnuplot-nox)"
expect_out '"pictures":false'
expect_file o/curves-attention.csv
expect_file o/heatmap-attention.csv
expect_file o/heatmap-attention.gp
}

begin refused && {
need
printf 'a few words\n\nand more\n' >short.txt
run spectrum "$full" short.txt --out o
expect_status 1
expect_no_out
expect_err "a whole sequence of n = 32 is"
expect_err "31 tokens of one file, and the longest of 1 file has "
expect "an empty folder is left" [ ! -e o ]
run spectrum "$full" none.txt --out o
expect_status 1
expect_err none.txt
run spectrum "$full" "$text" --index 33
expect_status 2
expect_err "--index 33: a matrix has n = 32 singular values at most"
run spectrum "$full" "$text" --projections
expect_status 2
expect_err "no matrices E and F"
run spectrum "$full" "$text" --suggest-k 0.9 --total-k 20
expect_status 2
expect_err "give one of them"
run spectrum "$full" "$text" --multiple 8
expect_status 2
expect_err "--multiple goes with --suggest-k or --total-k"
run spectrum "$full" "$text" --suggest-k 1.5
expect_status 2
expect_err "--suggest-k 1.5"
run spectrum "$full" "$text" --total-k 65
expect_status 2
expect_err "a total k of 65: wanted a multiple of 1 from 2 to 64"
run spectrum "$full" "$text" --suggest-k 0.9 --multiple 33
expect_status 2
expect_err "--multiple 33: k is at most n = 32"
printf 'no checkpoint\n' >x.ckpt
run spectrum x.ckpt "$text"
expect_status 1
expect_err "x.ckpt"
run spectrum "$full" "$text" --out x.ckpt/o
expect_status 1
expect_err "x.ckpt"
run spectrum
expect_status 2
expect_err "spectrum needs more arguments"
}
