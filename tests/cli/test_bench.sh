#!/bin/bash
# bench inference and bench train: tables, files and refusals.
small=$root/tests/cli/small.yaml
quick="--n 32,64 --k 4,16,40 --tokens 64 --rounds 2 --seconds 0.1"

# shellcheck disable=SC2086 # several options
begin bench_inference && {
run bench inference "$small" $quick --memory 1MiB --csv cells.csv
expect_status 0
expect_out "full, stored"
expect_out "linformer k=40"
expect_out "| n | k=4 | k=16 | k=40 |"
expect_out "sequences in a batch that fit into 1.00 MiB"
expect_out "1 layers, width 32"
expect_err "round 2: linformer k=16"
expect "nine cells and a line of names" [ "$(wc -l <cells.csv)" = 10 ]
expect "no cell of k above n" [ "$(grep -c '^inference,linformer,32,40,' cells.csv)" = 0 ]
run bench inference "$small" $quick --json --quiet
expect_status 0
for member in '"mode":"inference"' '"side":"stored"' '"speedup_blockwise":' '"bound":' '"peak_bytes":'; do
    expect_out "$member"
done
expect "a log in spite of --quiet" [ ! -s err ]
}

# shellcheck disable=SC2086
begin bench_train && {
run bench train "$small" train.threads=1 $quick --layers 2
expect_status 0
expect_out "2 layers, width 32"
expect_out "over block-wise"
}

begin bench_dry_run && {
run bench train --dry-run --n 512,1048576 --k 128
expect_status 0
expect_err "n=1048576 k=0 stored:"
expect_err "not run"
expect_out "no room"
expect_out "| 512 | - (1.15) |"
expect_out "2 layers, width 768, 12 heads, ffn 3072, headwise"
}

# shellcheck disable=SC2086
begin bench_picture && {
command -v gnuplot >/dev/null || skip "no gnuplot"
run bench inference "$small" $quick --svg "it's.svg" --quiet
expect_status 0
expect "an SVG file" grep -q '</svg>' "it's.svg"
expect "all series are named" [ "$(grep -c 'Linformer, k' "it's.svg")" -ge 3 ]
}

# A full disk stops gnuplot in the middle, and it says nothing of it.
# shellcheck disable=SC2086
begin bench_half_a_picture && {
mkdir bin
printf '#!/bin/sh\n[ "$(wc -l)" = 0 ] || printf "<svg><title>half" >half.svg\n' >bin/gnuplot
chmod +x bin/gnuplot
PATH=$PWD/bin:$PATH run bench inference "$small" $quick --svg half.svg --quiet
expect_status 1
expect_err "half.svg: the picture that gnuplot drew is not whole"
expect "half a picture stays" [ ! -e half.svg ]
}

begin bench_no_gnuplot && {
mkdir bin
printf '#!/bin/sh\necho broken >&2\nexit 3\n' >bin/gnuplot
chmod +x bin/gnuplot
PATH=$PWD/bin:$PATH run bench inference --svg x.svg # would take an hour
expect_status 1
expect_err "broken"
}

begin bench_refusals && {
refuse() {
    expect_status 2
    expect_err "$1"
}
run bench inference --n 512,x
refuse "--n 512,x: wanted whole numbers from 2 to 1048576 with commas between"
run bench inference --n 512,
refuse "wanted whole numbers"
run bench train --k 0,4
refuse "--k 0,4: wanted whole numbers from 1"
run bench train --n 1024,512
refuse "each number larger than the one before"
run bench train --n 16 --k 32
refuse "n = 16: no k is as small"
run bench train model.layers=2
refuse "model.layers=2: an override needs a CONFIG before it"
run bench train --memory 4Gib
refuse "--memory 4Gib: wanted a number of bytes, such as 4GiB"
run bench inference --dry-run --svg x.svg
refuse "--svg has nothing to show of a --dry-run"
run bench step "$small" --tokens 4
refuse "bench step takes no --tokens"
run bench train --sequences 4
refuse "bench train takes no --sequences"
run bench inference --csv missing/x.csv --n 16 --k 4 --tokens 16
expect_status 1
expect_err "missing/x.csv: cannot create it"
}

begin bench_serve && {
printf 'step\nsave weights.ckpt\n' >commands
status=0
"$linformer" bench serve "$small" --sequences 2 <commands >out 2>err || status=$?
expect_status 0
expect_out '"tokens":64,'
expect_out '"loss":'
expect_file weights.ckpt
run bench serve
expect_status 2
expect_err "bench serve needs a CONFIG"
run bench step "$small" --inference
expect_status 2
expect_err "bench step takes no --inference"
}
