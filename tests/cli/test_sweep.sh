# shellcheck shell=bash
# Sweeps: which runs are done when, by whom, and what the disk says of them.

# write_sweep [STEPS]: a corpus, base.yaml whose runs take a fraction of a second, and s.yaml: 12 runs
write_sweep() {
    [ -n "$case_name" ] || return 0
    awk 'BEGIN {
        n = split("cat dog sister farmer child sailor", who, " ")
        m = split("sees likes follows paints finds calls", does, " ")
        for (i = 0; i < 90; i++) {
            printf "the %s %s the %s\n", who[i * 7 % n + 1], does[i * 5 % m + 1], who[(i * 3 + int(i / 6)) % n + 1]
            if (i % 10 == 9) print ""
        }
    }' >text.txt
    head -n 66 text.txt >train.txt
    tail -n +67 text.txt >valid.txt
    cat >base.yaml <<YAML
model: {n: 24, k: 6, layers: 2, width: 16, heads: 2, ffn: 32}
tokenizer: {type: bpe, vocab_size: 330}
data: {train: train.txt, valid: valid.txt}
train: {steps: ${1:-20}, batch: 4, threads: 1, eval_every: 10, eval_sequences: 10, log_every: 1}
optimizer: {lr: 3e-3}
checkpoint: {every: 20}
YAML
    cat >s.yaml <<'YAML'
run: runs/s
sweep:
  base: base.yaml
  grid:
    model.k: [[3, 6], 6, 12]
    model.sharing: [headwise, kv]
  seeds: 2
YAML
}

# write_tasks: two tasks of a few rows, a.yaml and b.yaml
write_tasks() {
    [ -n "$case_name" ] || return 0
    awk 'BEGIN { print "text\tlabel"
        for (i = 0; i < 40; i++) print "the " (i % 2 ? "cat sees" : "dog likes") " the child\t" i % 2 }' >rows.tsv
    for task in a b; do
        printf 'data: {train: rows.tsv}\ntrain: {epochs: 1, batch: 8, threads: 1, log_every: 1}\n' >$task.yaml
        echo 'finetune: {task: custom, text: text, label: label, holdout: 0.2, init: none}' >>$task.yaml
    done
}

# begins in the background: $pid
start() {
    [ -n "$case_name" ] || return 0
    "$linformer" "$@" >out.txt 2>err </dev/null &
    pid=$!
}

# finish: waits for it
finish() {
    [ -n "$case_name" ] || return 0
    status=0
    wait "$pid" 2>/dev/null || status=$?
}

# until_true COMMAND...: at most a minute
until_true() {
    [ -n "$case_name" ] || return 0
    local tries=0
    until "$@" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 1500 ] || { fail "never true: $*"; return; }
        sleep 0.02
    done
}

records() { find "$1" -name sweep.json 2>/dev/null | wc -l; }
has_records() { [ "$(records "$1")" -ge "$2" ]; }
catches_term() { [ $((0x$(sed -n 's/^SigCgt:\t//p' "/proc/$pid/status") & 0x4000)) != 0 ]; }
has_lines() { [ "$(cat "$1" 2>/dev/null | wc -l)" -ge "$2" ]; }
none_running() { ! "$linformer" sweep "$@" --list | grep -q ' running '; }
in_state() { [ "$(grep -c "^ *[0-9]*  $1 " out)" = "$2" ]; } # STATE COUNT
dates() { find "$1" -name sweep.json -printf '%p %T@\n' | sort; }

# Killed twice at moments of chance, all processes or the sweep alone; then stopped by a signal; then left to end.
begin interrupted_at_random && {
    write_sweep 500
    run sweep s.yaml run=runs/whole --jobs 2
    expect_status 0
    expect "not 12 done" in_state "done" 12
    expect "a run that has not been before is continued" [ "$(cat runs/whole/*/output.txt | grep -c -e --resume)" = 0 ]
    start sweep s.yaml run=runs/part --jobs 2
    until_true has_records runs/part $((1 + RANDOM % 3))
    sleep 0.$((RANDOM % 30))
    # shellcheck disable=SC2046 # one process number a word
    kill -KILL "$pid" $(cat "/proc/$pid/task/$pid/children")
    finish
    expect_status 137
    expect "all 12 are done: nothing was interrupted" [ "$(records runs/part)" -lt 12 ]
    run sweep s.yaml run=runs/part --list
    expect "a killed run is not interrupted" grep -q ' interrupted ' out
    dates runs/part >before
    start sweep s.yaml run=runs/part --jobs 2
    until_true has_records runs/part $((5 + RANDOM % 3))
    sleep 0.$((RANDOM % 30))
    kill -KILL "$pid"
    finish
    until_true none_running s.yaml run=runs/part
    run sweep s.yaml run=runs/part --list
    expect "a run failed by its parent's end" in_state failed 0
    dates runs/part >middle
    expect "a run that was done was done again" [ "$(comm -23 before middle | wc -l)" = 0 ]
    start sweep s.yaml run=runs/part --jobs 2
    until_true grep -q 'again: \|start: ' err
    kill -TERM "$pid"
    finish
    expect_status 75
    expect_err "stopped by SIGTERM; what was at work has saved: start again to go on"
    run sweep s.yaml run=runs/part --jobs 2
    expect_status 0
    expect "not 12 done" in_state "done" 12
    dates runs/part >after
    expect "not 12 records" [ "$(wc -l <after)" = 12 ]
    expect "a run that was done was done again" [ "$(comm -23 middle after | wc -l)" = 0 ]
    for ckpt in runs/whole/*/last.ckpt; do
        expect "$ckpt differs" cmp "$ckpt" "${ckpt/whole/part}"
        expect "not every step once in $ckpt" [ "$(wc -l <"${ckpt%/*}/metrics.jsonl")" = 500 ]
    done
    run sweep s.yaml run=runs/part --jobs 2
    expect_status 0
    expect_err "nothing to do in runs/part"
    dates runs/part >again
    expect "done again" cmp after again
}

# The signal comes while the runs are still being listed.
begin stopped_at_once && {
    write_sweep 5
    start sweep s.yaml sweep.seeds=400
    until_true catches_term
    expect "it catches signals only when it has begun" [ ! -e runs ]
    kill -TERM "$pid"
    finish
    expect_status 75
    expect_err "stopped by SIGTERM"
    expect "something was begun" [ ! -e runs ]
    start pretrain base.yaml run=runs/p
    until_true catches_term
    kill -TERM "$pid"
    finish
    expect_status 75
}

begin one_fails && {
    write_sweep 5
    bad=runs/s/k=6,sharing=kv,seed=2
    [ -z "$case_name" ] || mkdir -p $bad/metrics.jsonl # a folder where a file is to be
    run sweep s.yaml --jobs 2
    expect_status 1
    expect "not 11 done" in_state "done" 11
    expect "not 1 failed" in_state failed 1
    expect_err "k=6,sharing=kv,seed=2 failed with exit status 1 after"
    expect_err "    linformer: $bad/metrics.jsonl: cannot open: Is a directory"
    expect_err "1 of 12 runs failed: k=6,sharing=kv,seed=2;"
    expect "no exit code in the record" grep -q '"exit_code":	1' $bad/sweep.json
    dates runs/s | grep -v $bad >before
    run sweep s.yaml --retry-failed
    expect_status 1
    expect_err "1 run to do, 1 at a time"
    [ -z "$case_name" ] || rmdir $bad/metrics.jsonl
    rm -rf runs/s/k=12,sharing=kv,seed=1
    run sweep s.yaml --retry-failed
    expect_status 0
    expect "not 11 done" in_state "done" 11
    expect "the missing one was done too" in_state pending 1
    run sweep s.yaml
    expect_status 0
    expect "not 12 done" in_state "done" 12
    dates runs/s | grep -v $bad >after
    expect "others were done again" [ "$(comm -23 before after | wc -l)" = 1 ]
}

# A run that a signal ends is a failure with its name, and repeated by the same command.
begin killed_run && {
    write_sweep 100000
    start sweep s.yaml sweep.seeds=1 'sweep.grid={model.k: [6]}'
    until_true has_lines runs/s/k=6,seed=1/metrics.jsonl 3
    [ -z "$case_name" ] || kill -KILL "$(cat "/proc/$pid/task/$pid/children")"
    finish
    expect_status 1
    expect_err "k=6,seed=1 failed: ended by signal 9"
    run sweep s.yaml sweep.seeds=1 'sweep.grid={model.k: [6]}' --list --json
    expect_out '"state":"failed"'
    expect_out '"signal":9'
    start sweep s.yaml sweep.seeds=1 'sweep.grid={model.k: [6]}'
    until_true has_lines runs/s/k=6,seed=1/metrics.jsonl 3
    until_true test ! -e runs/s/k=6,seed=1/sweep.json
    [ -z "$case_name" ] || kill -INT "$pid"
    finish
    expect_status 75
    expect_err "again: k=6,seed=1"
}

begin fail_fast && {
    write_sweep 100000
    cat >two.yaml <<'YAML'
run: runs/s
sweep: {base: base.yaml, grid: {model.k: [3, 6, 12]}}
YAML
    [ -z "$case_name" ] || mkdir -p runs/s/k=6/metrics.jsonl
    run sweep two.yaml --jobs 2 --fail-fast
    expect_status 1
    expect_err "a run failed: waiting for 1 run to save and end"
    expect "the failed one" in_state failed 1
    expect "the other one did not stop" in_state interrupted 1
    expect "the third one began" in_state pending 1
}

# Who starts the sweep may have told the system to forget ended children.
begin forgotten_children && {
    write_sweep 5
    [ -z "$case_name" ] || printf '#!/bin/sh\nexec timeout 60 env --ignore-signal=CHLD "%s" "$@"\n' "$linformer" >ignoring
    chmod +x ignoring
    linformer=$PWD/ignoring run sweep s.yaml --index 1
    expect_status 0
    expect "not one done" in_state "done" 1
}

begin list_and_index && {
    write_sweep 5
    run sweep s.yaml --list
    expect_status 0
    expect "not one line a run" [ "$(wc -l <out)" = 12 ]
    expect_out "    1  pending      k=3-6,sharing=headwise,seed=1"
    expect "--list wrote something" [ ! -e runs/s ]
    run sweep s.yaml --index 4
    expect_status 0
    expect "not one done" in_state "done" 1
    expect_out "    4  done         k=3-6,sharing=kv,seed=2"
    expect "other runs are shown" [ "$(wc -l <out)" = 1 ]
    run sweep s.yaml --list --json
    expect_status 0
    expect_out '"count":12,"runs":[{"index":1,"name":"k=3-6,sharing=headwise,seed=1","state":"pending"'
    expect_out '"name":"k=3-6,sharing=kv,seed=2","state":"done","run":"runs/s/k=3-6,sharing=kv,seed=2","seconds":'
    expect_out '"values":{"model.k":"[3, 6]","model.sharing":"kv","train.seed":"2"}'
    run sweep s.yaml --index 13
    expect_status 2
    expect_err "--index 13: s.yaml has the runs 1 to 12"
    run sweep s.yaml --index 4 --quiet
    expect_status 0
    expect "not quiet" [ ! -s err ]
}

# Two sweeps of one folder share the work: what one does the other leaves.
begin two_at_once && {
    write_sweep 40
    start sweep s.yaml
    [ -z "$case_name" ] || "$linformer" sweep s.yaml >second 2>second.err </dev/null &
    second=$!
    finish
    wait $second
    run sweep s.yaml
    expect_status 0
    expect "not 12 done" in_state "done" 12
    for log in runs/s/*/log.txt; do
        [ -z "$case_name" ] || expect "$log has two runs" [ "$(grep -c '  budget: ' "$log")" = 1 ]
    done
}

begin running_elsewhere && {
    write_sweep 100000
    start sweep s.yaml --index 1
    until_true has_lines runs/s/k=3-6,sharing=headwise,seed=1/metrics.jsonl 2
    run sweep s.yaml --list
    expect_out "    1  running      k=3-6,sharing=headwise,seed=1"
    run sweep s.yaml --index 1
    expect_status 1
    expect_err "1 of 1 runs are at work in another process"
    [ -z "$case_name" ] || kill -USR1 "$pid"
    finish
    expect_status 75
    run sweep s.yaml --list
    expect_out "    1  interrupted  k=3-6,sharing=headwise,seed=1"
    # a training by hand in the folder is seen too
    start pretrain base.yaml model.k=6 run=runs/s/k=6,sharing=kv,seed=1
    until_true has_lines runs/s/k=6,sharing=kv,seed=1/metrics.jsonl 2
    run sweep s.yaml --list
    expect_out "    7  running      k=6,sharing=kv,seed=1"
    run sweep s.yaml --index 7
    expect_status 1
    expect_err "another process"
    [ -z "$case_name" ] || kill -TERM "$pid"
    finish
}

begin changed && {
    write_sweep 5
    run sweep s.yaml sweep.seeds=1
    expect_status 0
    run sweep s.yaml train.steps=6
    expect_status 2
    expect_no_out
    expect_err "runs/s/k=3-6,sharing=headwise,seed=1: train.steps was 5 when the run was started, now it is 6"
    expect "a run was started" [ "$(records runs/s)" = 6 ]
    run sweep s.yaml train.steps=6 run=runs/t --index 1
    expect_status 0
    expect "the override is lost" [ "$(wc -l <runs/t/k=3-6,sharing=headwise,seed=1/metrics.jsonl)" = 6 ]
    run sweep s.yaml train.log_every=2
    expect_status 0
    expect "new seeds are not done" in_state "done" 12
    # a run that failed before it trained anything is repeated with what was wrong put right
    echo 'finetune: {task: custom, text: none, label: label, holdout: 0.2}' >task.yaml
    printf 'data: {train: rows.tsv}\ntrain: {epochs: 1, batch: 8, threads: 1, log_every: 1}\n' >>task.yaml
    write_tasks
    run sweep s.yaml run=runs/u sweep.seeds=1 'sweep.grid={model.k: [6]}' sweep.finetune=task.yaml
    expect_status 1
    sed -i 's/text: none/text: text/' task.yaml
    run sweep s.yaml run=runs/u sweep.seeds=1 'sweep.grid={model.k: [6]}' sweep.finetune=task.yaml train.steps=6
    expect_status 2
    expect_err "train.steps was 5 when the run was started, now it is 6"
    run sweep s.yaml run=runs/u sweep.seeds=1 'sweep.grid={model.k: [6]}' sweep.finetune=task.yaml
    expect_status 0
}

# Threads are divided unless they are given; text is prepared once.
begin threads_and_text && {
    write_sweep 2
    sed -i 's/threads: 1, //' base.yaml
    run sweep s.yaml --jobs 1000 --index 1
    expect_status 0
    expect "not one thread" grep -q '^1 thread of' runs/s/k=3-6,sharing=headwise,seed=1/output.txt
    expect "not given" grep -q 'threads: 1$' runs/s/k=3-6,sharing=headwise,seed=1/config.yaml
    run sweep s.yaml train.threads=2 --jobs 2 --index 2
    expect_status 0
    expect "not the threads that were given" grep -q 'threads: 2$' runs/s/k=3-6,sharing=headwise,seed=2/config.yaml
    expect_file runs/prepared/base-bpe-330/tokenizer.model
    expect "a run prepared text" [ "$(grep -l '^prepare' runs/s/*/output.txt | wc -l)" = 0 ]
    expect "the sweep did not" grep -q 'training a tokenizer of 330' runs/s/prepare.txt
    cat >texts.yaml <<'YAML'
run: runs/texts
sweep: {base: base.yaml, grid: {data.train: [train.txt, valid.txt], data.valid: [text.txt]}, seeds: 2}
YAML
    run sweep texts.yaml --jobs 2
    expect_status 0
    expect "not two texts" [ "$(find runs/texts/texts -name manifest.json | wc -l)" = 2 ]
    run sweep s.yaml run=runs/none data.train=nothing.txt
    expect_status 2
    expect_err "s.yaml: preparing the text ended with status 2, no run was started: see runs/none/prepare.txt"
    expect_err "    linformer: override 'data.train=nothing.txt': data.train"
    expect_no_out
}

begin chained && {
    write_sweep 10
    write_tasks
    cat >chain.yaml <<'YAML'
run: runs/c
sweep: {base: base.yaml, grid: {model.k: [3, 6]}, finetune: [a.yaml, b.yaml]}
YAML
    [ -z "$case_name" ] || mkdir -p runs/c/k=6/metrics.jsonl
    run sweep chain.yaml --jobs 2
    expect_status 1
    expect_out "    1  done         k=3  pretrain done, a done, b done"
    expect_out "    2  failed       k=6  pretrain failed, a pending, b pending"
    expect "not from the run's best.ckpt" grep -q 'init: "runs/c/k=3/best.ckpt"' runs/c/k=3/finetune-b/config.yaml
    expect_file runs/c/k=3/finetune-a/results.json
    expect "the record has no task" grep -q '"task":	"b"' runs/c/k=3/finetune-b/sweep.json
    [ -z "$case_name" ] || rmdir runs/c/k=6/metrics.jsonl
    run sweep chain.yaml --retry-failed
    expect_status 0
    expect_out "    2  done         k=6  pretrain done, a done, b done"
    # a task more is all that is done then
    cp a.yaml c.yaml
    run sweep chain.yaml 'sweep.finetune=[a.yaml, c.yaml]'
    expect_status 0
    expect_err "2 runs to do"
    expect_out "k=6  pretrain done, a done, c done"
}

# Each run begins with the weights, and the tokenizer, of an earlier pretraining.
begin continued && {
    write_sweep 10
    write_tasks
    run pretrain base.yaml run=runs/first train.seed=7
    expect_status 0
    [ -z "$case_name" ] || mv runs/prepared/base-bpe-330/tokenizer.model first.model
    rm -rf runs/prepared
    head -n 40 train.txt >more.txt
    cat >continued.yaml <<'YAML'
run: runs/c
sweep: {base: base.yaml, grid: {optimizer.lr: [1e-3, 2e-3]}, finetune: a.yaml}
YAML
    run sweep continued.yaml train.init=runs/first/best.ckpt data.train=more.txt --jobs 2
    expect_status 0
    expect_out "    2  done         lr=0.002  pretrain done, a done"
    expect "not with its weights" grep -q 'weights: from runs/first/best.ckpt, step ' runs/c/lr=0.001/output.txt
    expect "a tokenizer was trained" grep -q 'tokenizer.model is missing, written from runs/first' runs/c/prepare.txt
    expect "another tokenizer" cmp first.model runs/prepared/base-bpe-330/tokenizer.model
    run sweep continued.yaml 'sweep.grid={train.init: [runs/first/best.ckpt, runs/first/last.ckpt]}' run=runs/d
    expect_status 0
    expect_out "    2  done         init=runs-first-last.ckpt  pretrain done, a done"
    expect_file runs/d/texts/init=runs-first-best.ckpt/prepared/base-bpe-330/tokenizer.model
    run sweep continued.yaml train.init=runs/first/none.ckpt run=runs/e
    expect_status 1
    expect_err "    linformer: train.init = runs/first/none.ckpt: no such file"
}

begin finetune_sweep && {
    write_sweep 10
    write_tasks
    run pretrain base.yaml run=runs/pre
    expect_status 0
    cat >tasks.yaml <<'YAML'
run: runs/f
sweep:
  base: a.yaml
  command: finetune
  zip: [{optimizer.lr: [1e-3, 2e-3], train.batch: [4, 8]}]
YAML
    run sweep tasks.yaml finetune.init=runs/pre/best.ckpt
    expect_status 0
    expect_out "    2  done         lr=0.002,batch=8"
    expect_file runs/f/lr=0.001,batch=4/results.json
    run sweep tasks.yaml run=runs/scratch model.n=24 model.k=6 model.layers=1 model.width=16 model.heads=2 \
        model.ffn=32 tokenizer.model=runs/prepared/base-bpe-330/tokenizer.model
    expect_status 0
    expect "not 2 done" in_state "done" 2
}

# A stand-in for sbatch does the array's jobs one after the other.
begin slurm && {
    write_sweep 5
    [ -z "$case_name" ] || mkdir bin
    cat >bin/sbatch <<'SH'
#!/bin/bash
array=$(sed -n 's/^#SBATCH --array=\([^%]*\).*/\1/p' "$1" | tr , '\n' | sed 's/-/ /')
while read -r first last; do
    for i in $(seq "$first" "${last:-$first}"); do
        echo "job $i"
        SLURM_ARRAY_TASK_ID=$i bash "$1" >/dev/null 2>"err.$i" || exit 1
    done
done <<<"$array"
SH
    [ -z "$case_name" ] || chmod +x bin/sbatch
    run sweep s.yaml --index 3
    run sweep s.yaml "train.mask_rate=0.15" --slurm --dry-run --jobs 2
    expect_status 0
    expect_out "runs/s/sweep.sbatch: 11 jobs"
    for line in '#!/bin/bash' '#SBATCH --job-name="s"' '#SBATCH --array=1-2,4-12%2' '#SBATCH --cpus-per-task=1' \
        "#SBATCH --output=\"$PWD/runs/s/slurm-%a.txt\"" '#SBATCH --requeue' '#SBATCH --signal=B:TERM@120' \
        "cd '$PWD' || exit" \
        "exec '$linformer' sweep 's.yaml' 'train.mask_rate=0.15' 'run=\"runs/s\"' --index \"\$SLURM_ARRAY_TASK_ID\""; do
        expect "the script has no line: $line" grep -qxF -e "$line" runs/s/sweep.sbatch
    done
    expect "--dry-run ran" [ "$(records runs/s)" = 1 ]
    PATH=$PWD/bin:$PATH run sweep s.yaml --slurm
    expect_status 0
    expect_out "job 12"
    run sweep s.yaml --slurm
    expect_status 0
    expect_err "nothing to do in runs/s"
    run sweep s.yaml --list
    expect "not 12 done" in_state "done" 12
    run sweep s.yaml run=runs/t --slurm --dry-run --json
    expect_status 0
    expect_out '{"script":"runs/t/sweep.sbatch","jobs":12}'
    expect "no %J without --jobs" grep -qx '#SBATCH --array=1-12' runs/t/sweep.sbatch
    # Slurm has its own reading of quotes in these lines, and of per cents in the name of a file
    run sweep s.yaml run='runs/5%a "of"' --slurm --dry-run
    expect_status 0
    for line in '#SBATCH --job-name="5%a \"of\""' "#SBATCH --output=\"$PWD/runs/5%%a \\\"of\\\"/slurm-%a.txt\""; do
        expect "the script has no line: $line" grep -qxF -e "$line" 'runs/5%a "of"/sweep.sbatch'
    done
    PATH=$PWD/empty run sweep s.yaml run=runs/t --slurm
    expect_status 1
    expect_err "no sbatch on this machine; the script is runs/t/sweep.sbatch"
}

begin usage && {
    write_sweep 5
    run sweep
    expect_status 2
    expect_err "sweep needs more arguments"
    run sweep s.yaml --dry-run
    expect_status 2
    expect_err "--dry-run goes with --slurm"
    run sweep s.yaml --list --jobs 2
    expect_status 2
    expect_err "--list shows all runs and starts none"
    run sweep s.yaml --slurm --fail-fast
    expect_status 2
    expect_err "--slurm: every job is one --index"
    run sweep s.yaml --index 1 --retry-failed
    expect_status 2
    expect_err "--index repeats a failed run"
    run sweep s.yaml --index 0
    expect_status 2
    run sweep s.yaml more
    expect_status 2
    expect_err "unexpected argument more"
    run pretrain s.yaml
    expect_status 2
    expect_err "s.yaml:2:1: sweep: the file is of a sweep; run it with \`linformer sweep\`"
    run help config
    expect_out "  sweep.grid: a mapping of keys to lists"
    run help sweep
    expect_out "--retry-failed"
    expect "a run began" [ ! -e runs/s ]
}
