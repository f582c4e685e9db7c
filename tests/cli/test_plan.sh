# plan and bench: numbers, JSON members, nothing needed but the config.

base="$root/configs/pretrain/linformer-base.yaml"
size="model.n=512 model.k=128 tokenizer.vocab_size=50000 --gflops 100"

# parameters WANTED MATRICES OVERRIDE...
parameters() {
    local wanted=$1 matrices=$2
    shift 2
    run plan "$base" --json $size "$@"
    expect_status 0
    expect_out "\"parameters\":$wanted,"
    expect_out "\"projection_matrices\":$matrices,"
}

begin parameters_of_sharing_modes && {
parameters 143365712 288 model.sharing=none
parameters 126064208 24 model.sharing=headwise
parameters 125277776 12 model.sharing=kv
parameters 124556880 1 model.sharing=layerwise
parameters 124491344 0 model.attention=full
}

begin all_configs && {
for config in "$root"/configs/pretrain/*.yaml; do
    run plan "$config" --gflops 100
    expect_status 0
    expect_out "parameters"
    expect_out "memory"
done
}

begin json_members && {
run plan "$root/tests/cli/small.yaml" --json --gflops 100
expect_status 0
for member in parameters trainable projection_matrices k vocab micro_batch memory_bytes memory flops_per_token \
    forward_flops_per_token gflops tokens_per_s tokens hours; do
    expect_out "\"$member\":"
done
expect "one line" [ "$(wc -l <out)" -eq 1 ]
expect_out '"gflops":100,'
expect_out '"peak_gflops":null'
expect_out "\"tokens\":$((30 * 16 * 32)),"
}

# Every thread has scratch of its own.
begin memory_of_the_threads && {
for threads in 1 7; do
    run plan "$root/tests/cli/small.yaml" --json --gflops 100 train.threads=$threads
    expect_status 0
    sed 's/.*"memory_bytes":\([0-9]*\).*/\1/' out >"memory.$threads"
done
expect "more memory for more threads" [ "$(cat memory.7)" -gt "$(cat memory.1)" ]
}

begin measured_speed && {
run plan "$root/tests/cli/small.yaml"
expect_status 0
expect_out "that a large product reaches here"
}

begin bench_step && {
run bench step "$root/tests/cli/small.yaml" --json --steps 3 --warmup 1 --sequences 4
expect_status 0
for member in tokens_per_s gflops peak_gflops fraction_of_peak peak_rss_mib page_faults blas_kernel predicted_mib step_s machine; do
    expect_out "\"$member\":"
done
expect_out '"tokens":128,'
expect_out '"steps":3,'
run bench step "$root/tests/cli/small.yaml" --steps 2
expect_status 0
expect_out "tokens/s"
expect_out "of the"
}

begin bench_step_profile && {
run bench step "$root/tests/cli/small.yaml" --json --steps 2 --profile
expect_status 0
for part in "q, k, v" "sequence projection" attention ff1 ff2 layernorm gelu loss decoder optimizer; do
    expect_out "\"part\":\"$part\""
done
expect_out '"memory_gbytes_per_s":'
run bench step "$root/tests/cli/small.yaml" --steps 2 --profile
expect_status 0
expect_out "of peak"
expect_out "ms a step"
run bench step "$root/tests/cli/small.yaml" --steps 2
expect "a profile without --profile" [ "$(grep -c 'ms a step' out)" = 0 ]
}
