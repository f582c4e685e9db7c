# Help, version, and usage errors: exit status 2, one message, a suggestion, nothing on stdout.

small=$root/tests/cli/small.yaml

begin help
run help
expect_status 0
for command in tokenizer prepare pretrain sweep eval fill-mask inspect plan bench; do expect_out "$command"; done
expect_out "75 stopped by a signal"

begin help_options
run --help
expect_status 0
expect_out "usage: linformer COMMAND"
run plan --help
expect_status 0
expect_out "usage: linformer plan"
expect_out "--gflops"
run help fill-mask
expect_status 0
expect_out "--top K"
run inspect -h
expect_status 0
expect_out "--stats"
run help help
expect_status 0
expect_out "usage: linformer COMMAND"

begin help_config
run help config
expect_status 0
for key in model.n model.sharing tokenizer.vocab_size data.train train.micro_batch optimizer.lr schedule.warmup checkpoint.keep; do
    expect_out "$key"
done

begin version
run --version
expect_status 0
expect_out "linformer "
expect_out "kernel"
expect_out "thread"

begin no_command
run
expect_status 2
expect_no_out
expect_err "usage: linformer COMMAND"
expect_err "no command given"

begin unknown_command
run pretrian config.yaml
expect_status 2
expect_no_out
expect_err "no command pretrian: did you mean pretrain?"
run fly
expect_status 2
expect_err "no command fly: there are tokenizer, prepare"
run --verbose
expect_status 2
expect_err "no option --verbose"
run help fil-mask
expect_status 2
expect_err "did you mean fill-mask?"
run help config more
expect_status 2
expect_err "unexpected argument more"

begin unknown_option
run plan --jsno x.yaml
expect_status 2
expect_no_out
expect_err "plan has no option --jsno: did you mean --json?"
expect_err "usage: linformer plan"
run eval --gflops 3 x.ckpt
expect_status 2
expect_err "eval has no option --gflops"
run pretrain small.yaml --micro-batch 2
expect_status 2
expect_err "pretrain has no option --micro-batch: it is a key of the config, train.micro_batch=VALUE behind CONFIG"
run pretrain small.yaml --train.init=x
expect_status 2
expect_err "pretrain has no option --train.init: it is a key of the config, train.init=VALUE behind CONFIG"
run pretrain small.yaml --init x
expect_err "it is a key of the config, model.init=VALUE or train.init=VALUE or finetune.init=VALUE behind CONFIG"
run predict a.ckpt --seed 2
expect_status 2
expect_err "predict has no option --seed"
expect_err_without "key of the config"

begin bad_option_values
run fill-mask --top 0 x.ckpt
expect_status 2
expect_err "--top 0: wanted a whole number from 1"
run fill-mask --top -3 x.ckpt
expect_status 2
run fill-mask --top=3x x.ckpt
expect_status 2
expect_err "--top 3x"
run fill-mask x.ckpt --top
expect_status 2
expect_err "--top needs a value"
run fill-mask x.ckpt --json=yes
expect_status 2
expect_err "--json takes no value"
run plan --gflops nan x.yaml
expect_status 2
expect_err "--gflops nan"
run plan --gflops 1e99 x.yaml
expect_status 2
run bench step x.yaml --threads 99999999999999999999
expect_status 2

begin missing_arguments
for command in tokenizer prepare pretrain sweep eval fill-mask inspect plan bench; do
    run $command
    expect_status 2
    expect_no_out
    expect_err "usage: linformer $command"
    expect_err "needs more arguments"
done
run inspect a b
expect_status 2
expect_err "unexpected argument b"

begin bench_kinds
run bench kernel
expect_status 2
expect_err "did you mean bench kernels"
run bench nonsense
expect_status 2
expect_err "wanted \`bench kernels\`, \`bench step CONFIG\`, \`bench inference\`"
run bench step
expect_status 2
expect_err "bench step needs a CONFIG"
run bench kernels --sequences 4
expect_status 2
expect_err "bench kernels takes no --sequences"
run bench step x.yaml --pad 4
expect_status 2
expect_err "bench step takes no --pad"
run bench kernels more
expect_status 2
expect_err "unexpected argument more"

begin bad_overrides
run plan "$small" extra
expect_status 2
expect_err "unexpected argument extra: overrides have the form section.key=value"
run plan "$small" model.widht=32
expect_status 2
expect_err "model.width"
run plan "$small" model.heads=5
expect_status 2
expect_err "heads"
run plan no-such.yaml
expect_status 2
expect_err "no-such.yaml"

begin missing_files
for command in "eval no.ckpt" "fill-mask no.ckpt text" "inspect no.ckpt"; do
    run $command
    expect_status 1
    expect_no_out
    expect_err "no.ckpt"
done
run inspect .
expect_status 1
expect_err "is a folder"
run inspect "$root/tests/cli/run.sh"
expect_status 1
expect_err "neither a checkpoint, a token shard, a manifest nor a tokenizer"

begin quiet_and_double_dash
run plan --quiet --gflops 100 -- "$small"
expect_status 0
expect "stderr is not empty" [ ! -s err ]
run inspect -- --stats
expect_status 1
expect_err "--stats: "

# A file that may not grow on: an error, not the end by a signal.
begin limited_file && {
awk 'BEGIN { for (i = 0; i < 20000; i++) print "word" i % 700, "again" i % 900 }' >text.txt
printf 'data: {train: text.txt}\ntokenizer: {vocab_size: 900}\n' >c.yaml
status=0
(ulimit -f 8; exec "$linformer" tokenizer c.yaml >out 2>err) || status=$?
expect_status 1
expect_err "File too large"
}

begin full_stdout && {
if [ -w /dev/full ]; then
    status=0
    "$linformer" help >/dev/full 2>err || status=$?
    expect_status 1
    expect_err "cannot write the results to stdout"
else
    skip "no /dev/full here"
fi
}
