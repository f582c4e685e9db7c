#!/bin/bash
# check_slurm.sh [LINFORMER]: a sweep of 12 short runs through a real Slurm array on this machine, against the same sweep run
# without it: every run once, the same weights, and a job that was told to stop is gone on with by the next array.
# Starts a slurmctld and a slurmd of its own, with files in a temporary folder and on ports of its own, and ends them; other
# Slurm daemons are not touched. Needs root and Debian's packages slurmctld, slurmd and slurm-client.
set -eu

linformer=$(realpath "${1:-build/linformer}")
PATH=$PATH:/usr/sbin
for program in slurmctld slurmd sbatch squeue scancel sinfo; do
    command -v $program >/dev/null || {
        echo "check_slurm.sh: no $program here: apt install slurmctld slurmd slurm-client" >&2
        exit 2
    }
done
[ "$(id -u)" = 0 ] || { echo "check_slurm.sh: slurmd starts jobs as root only" >&2; exit 2; }

work=$(mktemp -d)
daemons=()
cleanup() {
    for pid in "${daemons[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${daemons[@]}"; do wait "$pid" 2>/dev/null || true; done
    if [ -n "${failed:-}" ]; then echo "files kept in $work"; else rm -rf "$work"; fi
}
trap cleanup EXIT
fail() {
    echo "FAIL: $*"
    failed=1
    exit 1
}
until_true() { # SECONDS COMMAND...
    local tries=$(($1 * 5)) what=${*:2}
    shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "never true: $what"
        sleep 0.2
    done
}

# ---- a cluster of one node

cd "$work"
mkdir state spool
host=$(hostname -s)
cat >slurm.conf <<CONF
ClusterName=check
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=26817
SlurmdPort=26818
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf
slurmctld -D >slurmctld.log 2>&1 &
daemons+=($!)
slurmd -D -N "$host" >slurmd.log 2>&1 &
daemons+=($!)
is_idle() { [ "$(sinfo -h -o %t)" = idle ]; }
is_empty() { [ -z "$(squeue -h)" ]; }
until_true 60 is_idle

# ---- the sweep

awk 'BEGIN {
    n = split("cat dog sister farmer child sailor", who, " ")
    m = split("sees likes follows paints finds calls", does, " ")
    for (i = 0; i < 90; i++) {
        print "the", who[i * 7 % n + 1], does[i * 5 % m + 1], "the", who[(i * 3 + int(i / 6)) % n + 1]
        if (i % 10 == 9) print ""
    }
}' >text.txt
head -n 66 text.txt >train.txt
tail -n +67 text.txt >valid.txt
cat >base.yaml <<'YAML'
model: {n: 24, k: 6, layers: 2, width: 16, heads: 2, ffn: 32}
tokenizer: {type: bpe, vocab_size: 330}
data: {train: train.txt, valid: valid.txt}
train: {steps: 500, batch: 4, threads: 1, eval_every: 50, log_every: 1}
optimizer: {lr: 3e-3}
YAML
cat >s.yaml <<'YAML'
sweep:
  base: base.yaml
  grid: {model.k: [[3, 6], 6, 12], model.sharing: [headwise, kv]}
  seeds: 2
YAML
records() { find "$1" -name sweep.json 2>/dev/null | wc -l; }
in_state() { "$linformer" sweep s.yaml run="$1" --list | grep -c "^ *[0-9]*  $2 " || true; }

"$linformer" sweep s.yaml run=runs/plain --quiet >/dev/null
"$linformer" sweep s.yaml run=runs/array --slurm
has_run() { [ "$(records runs/array)" -ge 2 ]; }
# a job that is at work, until one has stopped; it may end by itself at the same moment
stops_one() {
    scancel --signal=TERM --batch "$(squeue -h -t R -o %A | tail -n 1)"
    sleep 1
    [ "$(in_state runs/array interrupted)" -gt 0 ]
}
until_true 120 has_run
until_true 60 stops_one
until_true 300 is_empty
stopped=$(in_state runs/array interrupted)
echo "first array: $(in_state runs/array 'done') of 12 done, $stopped stopped"
find runs/array -name sweep.json -printf '%p %T@\n' | sort >before
"$linformer" sweep s.yaml run=runs/array --slurm
until_true 300 is_empty
find runs/array -name sweep.json -printf '%p %T@\n' | sort >after
[ "$(in_state runs/array 'done')" = 12 ] || fail "$(in_state runs/array 'done') of 12 runs are done"
[ "$(comm -23 before after | wc -l)" = 0 ] || fail "a run that was done was done again"
for whole in runs/plain/*/last.ckpt; do
    cmp "$whole" "${whole/plain/array}" || fail "${whole%/*} has other weights through the array"
    steps=$(cut -d, -f1 "${whole%/*}/metrics.jsonl" | sort -u | wc -l)
    array=$(dirname "${whole/plain/array}")/metrics.jsonl
    [ "$(cut -d, -f1 "$array" | sort -u | wc -l)" = "$steps" ] || fail "$array: steps are missing"
    [ "$(wc -l <"$array")" = "$(wc -l <"${whole%/*}/metrics.jsonl")" ] || fail "$array: steps are double"
done
"$linformer" sweep s.yaml run=runs/array --slurm 2>&1 | grep -q "nothing to do" || fail "a third array has jobs"
echo "ok: 12 runs through Slurm $(sinfo --version | cut -d' ' -f2), the same weights as without"
