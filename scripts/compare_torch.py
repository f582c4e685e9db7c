#!/usr/bin/env python3
"""Our program and PyTorch on the same model, weights, batch and work, taking turns.

    python3 scripts/compare_torch.py [CONFIG] [section.key=value ...] [options]     (needs torch and numpy)

Every contender is a process of its own that loads once and then makes one step each time it is asked to; while one
works the others sleep.  A round asks each once, the next round in the opposite order.  For each PyTorch variant the
table has the median of its steps and the median of the rounds' ratios to ours.  Both sides make the same updates of
the same weights on the same batch, so that their losses can be compared; dropout is 0 unless --dropout gives it.

    tokens/s     of whole updates (forward, loss, backward, clipping, AdamW), or of passes of the encoder
    peak MiB     largest resident set of the process while it steps, libraries included; above the start: without what
                 was resident when the process had started and imported its libraries
    bf16         of PyTorch: autocast in training, weights converted once in inference
    results      of losses the relative difference to our fp32 ones, at the first step and the worst of all; in inference
                 the difference of the first hidden element
"""
import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PAUSE = 0.05  # seconds until threads that wait for more work are asleep
COMPILE_SECONDS = 120  # assumed, for the estimate
MIB = 1 << 20


# ---- PyTorch's side: a process that answers commands as `linformer bench serve` does


def reset_peak():
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def memory(field):
    with open("/proc/self/status") as file:
        return int(re.search(rf"^{field}:\s*(\d+) kB", file.read(), re.M).group(1)) * 1024


class Worker:
    def __init__(self, options):
        import torch
        from read_checkpoint import read
        from torch_model import Model, Settings

        self.torch, self.options = torch, options
        torch.set_num_threads(options["threads"])
        torch.manual_seed(1)
        self.start_bytes = memory("VmRSS")
        header, arrays = read(options["checkpoint"])
        settings = Settings(header["config"])
        tensors = {name: torch.from_numpy(x.copy()) for name, x in arrays.items() if name != "tokenizer"}
        del arrays
        self.model = Model(settings, tensors)
        del tensors
        self.clip = settings.clip
        with open(options["batch"]) as file:
            batch = json.load(file)
        self.ids = torch.tensor(batch["ids"]).view(batch["sequences"], -1)
        self.rows, self.labels = torch.tensor(batch["masked_rows"]), torch.tensor(batch["labels"])
        if options["all_rows"]:
            labels = torch.full((self.ids.numel(),), -100)
            labels[self.rows] = self.labels
            self.rows, self.labels = None, labels
        self.model.train(options["training"])
        if options["training"]:
            self.optimizer = self.model.optimizer()
        else:
            self.model.requires_grad_(False)
            if options["precision"] == "bf16":
                self.model.to(torch.bfloat16)  # faster than to convert the weights in every pass
        work = self.model.loss if options["training"] else self.model.forward
        self.work = torch.compile(work) if options["compile"] else work
        reset_peak()

    def autocast(self):
        bf16 = self.options["precision"] == "bf16"
        return self.torch.autocast("cpu", dtype=self.torch.bfloat16, enabled=bf16)

    def train(self):
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            loss = self.work(self.ids, self.rows, self.labels)
        loss.backward()
        if self.clip > 0:
            self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return {"loss": loss.item()}

    def infer(self):
        with self.torch.inference_mode():
            self.hidden = self.work(self.ids)
        return {}

    def step(self):
        begin = time.perf_counter()
        result = self.train() if self.options["training"] else self.infer()
        seconds = time.perf_counter() - begin
        if not self.options["training"]:
            result = {"first": self.hidden.flatten()[0].item()}
        return {"seconds": seconds, **result}

    def serve(self):
        print(json.dumps({"start_bytes": self.start_bytes}), flush=True)
        for line in sys.stdin:
            if line.strip() == "step":
                print(json.dumps(self.step()), flush=True)
            else:
                print(json.dumps({"peak_bytes": memory("VmHWM")}), flush=True)


# ---- contenders, as the driver sees them


class Failed(Exception):
    pass


class Contender:
    """A process that steps when asked."""

    def __init__(self, name, command, environment):
        self.name, self.log = name, tempfile.TemporaryFile("w+")
        self.times, self.results = [], []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        env=environment, text=True)
        self.greeting = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            said = self.log.read().strip().splitlines()
            raise Failed(f"{self.name}: {said[-1] if said else 'ended without a word'}")
        return json.loads(line)

    def ask(self, command):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # read says why
        return self.read()

    def step(self, timed=True):
        result = self.ask("step")
        self.results.append(result.get("loss", result.get("first")))
        if timed:
            self.times.append(result["seconds"])
        time.sleep(PAUSE)
        return result["seconds"]

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def our_environment():
    """OpenBLAS's variables would choose kernels for us; whoever sets them means other programs."""
    return {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}


def start_ours(args, overrides, precision, training):
    given = list(overrides)
    if precision != "fp32":
        given.append(f"train.precision={precision}")
    command = [args.linformer, "bench", "serve", args.config, *given, "--sequences", str(args.sequences),
               "--threads", str(args.threads), *([] if training else ["--inference"])]
    return Contender(f"linformer {precision}", command, our_environment())


def start_torch(args, variant, training, checkpoint, batch):
    options = {**variant, "training": training, "threads": args.threads, "checkpoint": checkpoint, "batch": batch}
    name = f"PyTorch {variant['precision']}" + (", compiled" if variant["compile"] else "")
    name += ", head on all rows" if variant["all_rows"] else ""
    return Contender(name, [sys.executable, __file__, "--worker", json.dumps(options)], dict(os.environ))


# ---- measuring


def say(text):
    print(text, file=sys.stderr, flush=True)


def compare(args, ours, theirs):
    """Alternating steps; for each of ours the rounds' ratios theirs / ours."""
    for _ in range(args.warmup):
        say(f"    warm-up: {theirs.name} {theirs.step(timed=False):.2f} s")
    ratios = [[] for _ in ours]
    for r in range(args.rounds):
        order = [*ours, theirs] if r % 2 == 0 else [theirs, *reversed(ours)]
        seconds = {c: c.step() for c in order}
        for i, own in enumerate(ours):
            ratios[i].append(seconds[theirs] / seconds[own])
        say(f"    round {r + 1}: " + ", ".join(f"{c.name} {s:.2f} s" for c, s in seconds.items()))
    return ratios


def variants_of(args, training):
    out = [{"precision": precision, "compile": compiled, "all_rows": False}
           for precision in args.precisions for compiled in ((False, True) if args.compile else (False,))]
    if training and args.all_rows:
        out.append({"precision": "fp32", "compile": False, "all_rows": True})
    return out


def agreement(contender, reference, training, dropout):
    """How far the results are from ours; both lists begin at the first step."""
    pairs = list(zip(contender.results, reference.results))
    if dropout > 0 and training:
        return "dropout"
    if not training:
        return f"{abs(pairs[0][0] - pairs[0][1]):.0e}"
    off = [abs(a - b) / abs(b) for a, b in pairs]
    return f"{off[0]:.0e}, {max(off):.0e}"


def row_of(args, contender, reference, training, ratios):
    median, peak = statistics.median(contender.times), contender.ask("memory")["peak_bytes"]
    return {"name": contender.name, "steps": len(contender.times), "seconds": median,
            "tokens_per_s": reference.greeting["tokens"] / median, "peak_mib": peak / MIB,
            "above_start_mib": (peak - contender.greeting["start_bytes"]) / MIB,
            "ratios": [{"median": statistics.median(r), "low": min(r), "high": max(r)} for r in ratios],
            "loss": agreement(contender, reference, training, args.dropout)}


def start_all_ours(args, overrides, training, failures):
    ours = []
    for precision in args.ours:
        try:
            ours.append(start_ours(args, overrides, precision, training))
        except Failed as failed:
            failures.append(str(failed))
            say(f"  {failed}")
            if precision == "fp32":
                break  # the reference: nothing can be compared without it
    return ours


def warm_up(args, ours, variants):
    """First steps of ours, and from their time an estimate of the rest."""
    seconds = {c: [c.step(timed=False) for _ in range(args.warmup)][-1] for c in ours}
    for c in ours:
        say(f"  {c.name}: {seconds[c]:.2f} s a step")
    theirs = 2 * seconds[ours[0]]
    minutes = (len(variants) * (args.rounds * (sum(seconds.values()) + theirs) + args.warmup * theirs)
               + sum(v["compile"] for v in variants) * COMPILE_SECONDS) / 60
    say(f"  about {minutes:.0f} minutes for {len(variants)} variants of PyTorch")


def run_variant(args, variant, ours, training, files, failures):
    theirs = None
    try:
        theirs = start_torch(args, variant, training, *files)
        row = row_of(args, theirs, ours[0], training, compare(args, ours, theirs))
        say(f"  {row['name']}: {row['tokens_per_s']:.0f} tokens/s, {row['peak_mib']:.0f} MiB; over ours: "
            + ", ".join(f"{r['median']:.2f}" for r in row["ratios"]))
        return row
    except Failed as failed:
        failures.append(str(failed))
        say(f"  {failed}")
        return None
    finally:
        if theirs:
            theirs.close()


def run_scenario(args, title, overrides, training, folder):
    """One table; contenders that cannot run are told and left out."""
    say(title)
    failures, rows = [], []
    ours = start_all_ours(args, overrides, training, failures)
    scenario = {"title": title, "rows": rows, "ours": [c.name for c in ours], "failures": failures}
    try:
        if not ours:
            return scenario
        files = os.path.join(folder, "weights.ckpt"), os.path.join(folder, "batch.json")
        ours[0].ask(f"save {files[0]}")
        with open(files[1], "w") as file:
            json.dump(ours[0].ask("batch"), file)
        scenario["greeting"] = ours[0].greeting
        variants = variants_of(args, training)
        warm_up(args, ours, variants)
        for variant in variants:
            rows.append(run_variant(args, variant, ours, training, files, failures))
        rows[:] = [row for row in rows if row]
        if rows:
            rows[:0] = [row_of(args, c, ours[0], training, []) for c in ours]
        return scenario
    except Failed as failed:  # one of ours, without which the rows have no reference
        rows.clear()
        failures.append(str(failed))
        say(f"  {failed}")
        return scenario
    finally:
        for c in ours:
            c.close()


# ---- output


def print_scenario(s):
    print(f"\n**{s['title']}**\n")
    if s["rows"]:
        over = " | ".join(f"over {name}" for name in s["ours"])
        print(f"| program | tokens/s | ms a step | peak MiB | above the start | {over} | results |")
        print("|---|---|---|---|---|" + "---|" * len(s["ours"]) + "---|")
    for r in s["rows"]:
        ratios = [f"{x['median']:.2f} ({x['low']:.2f}-{x['high']:.2f})" for x in r["ratios"]]
        ratios += [""] * (len(s["ours"]) - len(ratios))
        print(f"| {r['name']} | {r['tokens_per_s']:.0f} | {1e3 * r['seconds']:.1f} | {r['peak_mib']:.0f} | "
              f"{r['above_start_mib']:.0f} | {' | '.join(ratios)} | {r['loss']} |")
    for failure in s["failures"]:
        print(f"\nnot run: {failure}")
    sys.stdout.flush()


def processor():
    with open("/proc/cpuinfo") as file:
        names = re.findall(r"^model name\s*: (.*)$", file.read(), re.M)
    return names[0] if names else platform.processor()


def environment(args):
    import torch

    run = subprocess.run([args.linformer, "--version"], capture_output=True, text=True, env=our_environment())
    config = torch.__config__.show()
    libraries = [m.group(0) for m in (re.search(p, config) for p in (r"oneAPI Math Kernel Library Version [\w.]+",
                                                                   r"MKL-DNN v[\d.]+",
                                                                   r"CPU capability usage: \w+")) if m]
    return [f"{processor()}, {args.threads} threads", "; ".join(run.stdout.strip().splitlines()),
            f"PyTorch {torch.__version__}, Python {platform.python_version()}; " + ", ".join(libraries)]


def check():
    """The model of torch_model.py against the plain one of make_refs.py, in double."""
    import make_refs
    import torch
    from torch_model import Model, Settings

    worst = 0.0
    for i, (name, case) in enumerate(make_refs.CASES.items()):
        if name.startswith("class") or case[3] not in ("linear", "fixed"):
            continue
        plain = make_refs.Case(name, 2000 + i)
        settings = Settings.__new__(Settings)
        settings.n, settings.layers, settings.heads = make_refs.N, make_refs.LAYERS, make_refs.H
        settings.pre, settings.full, settings.k = plain.pre, plain.full, plain.k
        settings.dropout = settings.attention_dropout = 0.0
        settings.fixed = plain.kind == "fixed"
        model = Model(settings, plain.p)
        with torch.no_grad():
            wanted = make_refs.forward(plain)
            ends = zip(plain.start[:-1], plain.start[1:])
            ids = torch.tensor(plain.ids)
            hidden = torch.cat([model(ids[a:b][None])[0] for a, b in ends])
            full = [i for i in range(len(plain.start) - 1) if plain.start[i + 1] - plain.start[i] == make_refs.N]
            rows = torch.tensor([r for r in plain.rows if r < plain.start[1]])
            labels = torch.tensor(plain.labels[: len(rows)])
            loss = model.loss(ids[: make_refs.N][None], rows, labels) if full == [0] and len(rows) else None
        off = (hidden - wanted[2]).abs().max().item() / wanted[2].abs().max().item()
        if loss is not None:
            logits = torch.log_softmax(wanted[1], -1)[torch.arange(len(rows)), labels]
            off = max(off, abs(loss.item() + logits.mean().item()))
        print(f"{name:26} {off:.1e}")
        worst = max(worst, off)
    if not worst <= 1e-12:
        sys.exit(f"the models differ by {worst}")
    print("the models agree")


def precisions_there(linformer):
    """Those of train.precision, where the build has this key."""
    run = subprocess.run([linformer, "help", "config"], capture_output=True, text=True, env=our_environment())
    found = re.search(r"train\.precision: one of ([\w, ]+);", run.stdout)
    return [p.strip() for p in found.group(1).split(",")] if found else ["fp32"]


def parse():
    here = os.path.dirname(HERE)
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("config", nargs="?", default=os.path.join(here, "configs/pretrain/linformer-base.yaml"))
    p.add_argument("overrides", nargs="*", default=[], metavar="section.key=value")
    p.add_argument("--linformer", default=os.path.join(here, "build/linformer"), help="our program")
    p.add_argument("--sequences", type=int, default=8, help="in the batch (8)")
    p.add_argument("--rounds", type=int, default=5, help="measured steps of each (5)")
    p.add_argument("--warmup", type=int, default=2, help="steps before those (2)")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--modes", default="train,inference")
    p.add_argument("--attention", default="linformer,full", help="model.attention of the tables (linformer,full)")
    p.add_argument("--precisions", default="fp32,bf16", help="of PyTorch (fp32,bf16: autocast)")
    p.add_argument("--ours", help="of ours: fp32 and others (all that the build has)")
    p.add_argument("--dropout", type=float, default=0.0, help="of both sides; above 0 the losses differ (0)")
    p.add_argument("--no-compile", dest="compile", action="store_false", help="leave torch.compile out")
    p.add_argument("--no-all-rows", dest="all_rows", action="store_false",
                   help="leave out the head on all rows, which ours never computes")
    p.add_argument("--json", help="write all numbers to this file, as they come")
    p.add_argument("--check", action="store_true", help="only compare this model with that of make_refs.py")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    args = p.parse_args()
    if "=" in args.config:
        p.error(f"{args.config}: an override needs a CONFIG before it")
    args.precisions = args.precisions.split(",")
    if set(args.precisions) - {"fp32", "bf16"}:
        p.error("--precisions: wanted fp32, bf16 or both")
    if set(args.modes.split(",")) - {"train", "inference"}:
        p.error("--modes: wanted train, inference or both")
    if set(args.attention.split(",")) - {"linformer", "full"}:
        p.error("--attention: wanted linformer, full or both")
    if min(args.sequences, args.rounds, args.warmup, args.threads) < 1:
        p.error("--sequences, --rounds, --warmup and --threads are at least 1")
    return args


def main():
    args = parse()
    if args.worker:
        return Worker(json.loads(args.worker)).serve()
    if args.check:
        return check()
    args.ours = args.ours.split(",") if args.ours else precisions_there(args.linformer)
    if args.ours[0] != "fp32":
        sys.exit("--ours begins with fp32, whose losses the others are compared with")
    begin, scenarios = time.time(), []
    for line in environment(args):
        print(line)
    with tempfile.TemporaryDirectory() as folder:
        for attention in args.attention.split(","):
            for mode in args.modes.split(","):
                overrides = [*args.overrides, f"model.attention={attention}", f"model.dropout={args.dropout}",
                             f"model.attention_dropout={args.dropout}"]
                title = f"{mode}, {attention} attention, {args.sequences} sequences"
                scenarios.append(run_scenario(args, title, overrides, mode == "train", folder))
                print_scenario(scenarios[-1])
                if args.json:
                    with open(args.json + ".tmp", "w") as file:
                        json.dump({"environment": environment(args), "scenarios": scenarios}, file, indent=1)
                    os.replace(args.json + ".tmp", args.json)
    print(f"\n{(time.time() - begin) / 60:.1f} minutes")
    if not all(s["rows"] for s in scenarios):
        sys.exit(1)


if __name__ == "__main__":
    main()
