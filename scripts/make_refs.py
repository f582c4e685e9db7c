#!/usr/bin/env python3
"""Writes tests/refs/*.ref: what an independent PyTorch model, in double precision, says about tiny
two-layer encoders.

    python3 scripts/make_refs.py [folder]          (needs torch and numpy; the tests need neither)

The model here is written from the definition (feature projection first, then the sequence
projection or the pooling, biases included; one sequence at a time, without padding; autograd for
every gradient) and shares no code and no order of operations with the C program.
tests/test_parity.c reads the files and compares.

Every file is one case, little-endian and without padding:

    offset 0   8 bytes  "LFREF001"
    then records up to the end of the file:
        u32 length of the name, the name (no NUL)
        u32 type: 0 float64, 1 float32, 2 uint32
        u32 rows, u32 cols
        rows * cols elements, row-major

    config       uint32   n, layers, width, heads, ffn, vocab, scope (0 head, 1 layer, 2 model),
                          tie_kv, projection (0 linear, 1 fixed, 2 mean, 3 max, 4 conv), full
                          attention, pre-norm, then k of every layer
    adamw        float64  lr, beta1, beta2, eps, weight decay, number of steps (some cases)
    ids, start, masked_rows, labels    uint32, as in include/batch.h; classifiers have no masked_rows
                                       and labels, but
    classes      uint32   the class of each sequence
    param.NAME   float32  parameters, drawn as float32 so that both builds start from the same
    act.NAME     float64  intermediates (some cases)
    hidden       float64  (total, width)
    logits       float64  (sequences, classes), classifiers only
    loss         float64  mean over the masked rows, or the sequences, of the cross-entropy in nats
    grad.NAME    float64  gradient of that mean; absent for frozen tensors
    after.NAME   float64  parameters after the AdamW steps, each on the same batch (some cases)
"""

import math
import os
import struct
import sys

import numpy as np
import torch

torch.set_default_dtype(torch.float64)

# all sizes different, so that swapped dimensions show
N, LAYERS, C, H, FF, V = 11, 2, 6, 3, 10, 13
D = C // H
LENGTHS = [11, 1, 4, 7, 2]
CLASSES = 4
ADAMW = dict(lr=0.01, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01, steps=3)

PROJECTIONS = ["linear", "fixed", "mean", "max", "conv"]

# name: scope, tie_kv, k of each layer, projection, full, pre-norm, keep intermediates, AdamW steps;
# the seed is the place in this list, and names with "class" are classifiers
CASES = {
    "head_untied_post": ("head", False, [7, 4], "linear", False, False, True, False),
    "head_tied_pre": ("head", True, [4, 7], "linear", False, True, False, False),
    "layer_untied_pre": ("layer", False, [7, 4], "linear", False, True, True, True),
    "layer_tied_post": ("layer", True, [5, 5], "linear", False, False, False, True),
    "model_untied_post": ("model", False, [4, 7], "linear", False, False, False, False),
    "model_tied_pre": ("model", True, [7, 4], "linear", False, True, False, True),
    "layer_untied_fixed_post": ("layer", False, [5, 5], "fixed", False, False, False, True),
    "full_post": ("layer", False, [5, 5], "linear", True, False, False, False),
    "class_layer_untied_post": ("layer", False, [7, 4], "linear", False, False, False, True),
    "class_model_tied_pre": ("model", True, [4, 7], "linear", False, True, False, False),
    "mean_post": ("layer", False, [4, 7], "mean", False, False, False, False),
    "max_pre": ("layer", False, [7, 4], "max", False, True, False, False),
    "conv_head_untied_post": ("head", False, [4, 7], "conv", False, False, False, False),
    "conv_layer_tied_pre": ("layer", True, [5, 3], "conv", False, True, False, True),
    "class_conv_model_untied_post": ("model", False, [7, 4], "conv", False, False, False, False),
}


class Case:
    """Parameters by name, and which of E and F each layer and head uses."""

    def __init__(self, name, seed):
        (self.scope, self.tie, self.k, self.kind, self.full, self.pre, self.keep_acts,
         self.steps) = CASES[name]
        self.classifier = name.startswith("class")
        self.rng = np.random.default_rng(seed)
        self.p = {}
        self.matrices = set()
        self.frozen = set()
        self._draw_all()
        self._draw_batch()

    def _draw(self, name, shape, mean, std):
        values = (mean + std * self.rng.standard_normal(shape)).astype(np.float32)
        self.p[name] = torch.tensor(values.astype(np.float64))
        if len(shape) == 2:
            self.matrices.add(name)

    def _draw_projection(self, prefix, ks, heads):
        """E and F for layers of these k: (k, n), or the taps of a convolution, (ceil(n/k), D)."""
        if self.full or self.kind in ("mean", "max"):
            return
        conv = self.kind == "conv"
        shape = (-(-N // min(ks)) * heads, D) if conv else (max(ks) * heads, N)
        for letter in "k" if self.tie else "kv":
            self._draw(f"{prefix}seq_proj_{letter}", shape, 0, 0.5)
            if self.kind == "fixed":
                self.frozen.add(f"{prefix}seq_proj_{letter}")

    def _draw_norm(self, prefix):
        self._draw(prefix + "_w", (C,), 1, 0.3)
        self._draw(prefix + "_b", (C,), 0, 0.3)

    def _draw_linear(self, prefix, rows, cols):
        self._draw(prefix + "_w", (rows, cols), 0, 0.4)
        self._draw(prefix + "_b", (rows,), 0, 0.3)

    def _draw_all(self):
        self._draw("token", (V, C), 0, 0.7)
        self._draw("position", (N, C), 0, 0.7)
        self._draw_norm("emb_ln")
        if self.scope == "model":
            self._draw_projection("", self.k, 1)
        for l in range(LAYERS):
            at = f"layer{l}."
            for x in "qkv":
                self._draw_linear(at + x, C, C)
            if self.scope != "model":
                self._draw_projection(at, [self.k[l]], H if self.scope == "head" else 1)
            self._draw_linear(at + "out", C, C)
            self._draw_norm(at + "ln1")
            self._draw_linear(at + "ff1", FF, C)
            self._draw_linear(at + "ff2", C, FF)
            self._draw_norm(at + "ln2")
        if self.pre:
            self._draw_norm("final_ln")
        if self.classifier:
            self._draw_linear("class_dense", C, C)
            self._draw_linear("class_out", CLASSES, C)
        else:
            self._draw_linear("head", C, C)
            self._draw_norm("head_ln")
            self._draw("head_bias", (V,), 0, 0.3)

    def _draw_batch(self):
        total = sum(LENGTHS)
        self.start = np.concatenate([[0], np.cumsum(LENGTHS)])
        self.ids = self.rng.integers(0, V, total)
        if self.classifier:
            self.labels = self.rng.integers(0, CLASSES, len(LENGTHS))
        else:
            self.rows = np.sort(self.rng.choice(total, 9, replace=False))
            self.labels = self.rng.integers(0, V, len(self.rows))

    def projection(self, letter, layer, head):
        """E (letter k) or F (letter v) of one head, (k_layer, n), or the taps of its windows."""
        rows = -(-N // self.k[layer]) if self.kind == "conv" else self.k[layer]
        letter = "k" if self.tie else letter
        if self.scope == "model":
            return self.p[f"seq_proj_{letter}"][:rows]
        whole = self.p[f"layer{layer}.seq_proj_{letter}"]
        return whole[head * rows:(head + 1) * rows] if self.scope == "head" else whole

    def project(self, letter, layer, head, x):
        """Projected keys or values of one head from x (T, D)."""
        if self.full:
            return x
        taps = self.projection(letter, layer, head) if self.kind not in ("mean", "max") else None
        if self.kind in ("linear", "fixed"):
            return taps[:, :len(x)] @ x
        return pool(self.kind, x, self.k[layer], N, taps)


def pool(kind, x, k, n, taps):
    """One row for each of the k windows of n positions that holds a token of x (T, D)."""
    rows = []
    for r in range(k):
        window = x[r * n // k:(r + 1) * n // k]
        if len(window) == 0:
            break
        if kind == "mean":
            rows.append(window.mean(0))
        elif kind == "max":
            rows.append(window.max(0).values)
        else:
            rows.append((taps[:len(window)] * window).sum(0))
    return torch.stack(rows)


def check_pool():
    """Where k divides n, pool is PyTorch's own pooling and its depthwise convolution."""
    n, k, width = 12, 4, 3
    functional = torch.nn.functional
    taps = torch.randn(n // k, width)
    for T in range(1, n + 1):
        x = torch.randn(T, width)
        columns = x.T[None]
        padded = functional.pad(columns, (0, -T % (n // k)))
        theirs = {
            "mean": functional.avg_pool1d(columns, n // k, ceil_mode=True),
            "max": functional.max_pool1d(columns, n // k, ceil_mode=True),
            "conv": functional.conv1d(padded, taps.T[:, None], stride=n // k, groups=width),
        }
        for kind, wanted in theirs.items():
            assert torch.allclose(pool(kind, x, k, n, taps), wanted[0].T), (kind, T)


def layer_norm(x, w, b):
    mean = x.mean(-1, keepdim=True)
    var = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(var + 1e-5) * w + b


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def attention(case, layer, x):
    """x (T, C): one sequence."""
    p, at = case.p, f"layer{layer}."
    q = x @ p[at + "q_w"].T + p[at + "q_b"]
    k = x @ p[at + "k_w"].T + p[at + "k_b"]
    v = x @ p[at + "v_w"].T + p[at + "v_b"]
    heads = []
    for h in range(H):
        cut = slice(h * D, (h + 1) * D)
        kh = case.project("k", layer, h, k[:, cut])
        vh = case.project("v", layer, h, v[:, cut])
        heads.append(torch.softmax(q[:, cut] @ kh.T / math.sqrt(D), dim=-1) @ vh)
    return torch.cat(heads, dim=1) @ p[at + "out_w"].T + p[at + "out_b"]


def feed_forward(case, layer, x):
    p, at = case.p, f"layer{layer}."
    return gelu(x @ p[at + "ff1_w"].T + p[at + "ff1_b"]) @ p[at + "ff2_w"].T + p[at + "ff2_b"]


def encode(case, ids, acts):
    """One sequence; appends the intermediates to the lists in acts."""
    p = case.p

    def norm(name, x):
        return layer_norm(x, p[name + "_w"], p[name + "_b"])

    x = p["token"][ids] + p["position"][:len(ids)]
    x = norm("emb_ln", x)
    for l in range(LAYERS):
        at = f"layer{l}."
        x = x + attention(case, l, norm(at + "ln1", x) if case.pre else x)
        acts.setdefault(at + "sum_att", []).append(x)
        if not case.pre:
            x = norm(at + "ln1", x)
        x = x + feed_forward(case, l, norm(at + "ln2", x) if case.pre else x)
        acts.setdefault(at + "sum_ffn", []).append(x)
        if not case.pre:
            x = norm(at + "ln2", x)
    return norm("final_ln", x) if case.pre else x


def classify(case, hidden):
    """Logits of RoBERTa's head on the first token of each sequence, without dropout."""
    p = case.p
    first = torch.stack([hidden[row] for row in case.start[:-1]])
    dense = torch.tanh(first @ p["class_dense_w"].T + p["class_dense_b"])
    return dense @ p["class_out_w"].T + p["class_out_b"]


def predict_tokens(case, hidden):
    """Logits of the masked-language-model head."""
    p = case.p
    h = gelu(hidden[torch.tensor(case.rows)] @ p["head_w"].T + p["head_b"])
    return layer_norm(h, p["head_ln_w"], p["head_ln_b"]) @ p["token"].T + p["head_bias"]


def forward(case):
    acts = {}
    ids = torch.tensor(case.ids)
    ends = zip(case.start[:-1], case.start[1:])
    hidden = torch.cat([encode(case, ids[a:b], acts) for a, b in ends])
    logits = (classify if case.classifier else predict_tokens)(case, hidden)
    labels = torch.tensor(case.labels)
    loss = -(torch.log_softmax(logits, dim=-1)[torch.arange(len(labels)), labels]).mean()
    return loss, logits, hidden, {name: torch.cat(parts) for name, parts in acts.items()}


class Writer:
    TYPES = {np.dtype("<f8"): 0, np.dtype("<f4"): 1, np.dtype("<u4"): 2}

    def __init__(self, path):
        self.file = open(path, "wb")
        self.file.write(b"LFREF001")

    def put(self, name, values, dtype):
        a = np.atleast_1d(np.asarray(values)).astype(dtype)
        rows, cols = (a.shape[0], 1) if a.ndim == 1 else a.shape
        text = name.encode()
        self.file.write(struct.pack("<I", len(text)) + text)
        self.file.write(struct.pack("<III", self.TYPES[a.dtype], rows, cols))
        self.file.write(a.tobytes())


def write_case(name, seed, path):
    case = Case(name, seed)
    for key, tensor in case.p.items():
        tensor.requires_grad_(key not in case.frozen)
    w = Writer(path)
    scope = ["head", "layer", "model"].index(case.scope)
    flags = [case.tie, PROJECTIONS.index(case.kind), case.full, case.pre]
    w.put("config", [N, LAYERS, C, H, FF, V, scope] + flags + case.k, "<u4")
    w.put("ids", case.ids, "<u4")
    w.put("start", case.start, "<u4")
    if case.classifier:
        w.put("classes", case.labels, "<u4")
    else:
        w.put("masked_rows", case.rows, "<u4")
        w.put("labels", case.labels, "<u4")
    for key, tensor in case.p.items():
        w.put("param." + key, tensor.detach().numpy(), "<f4")

    loss, logits, hidden, acts = forward(case)
    loss.backward()
    for key, tensor in acts.items() if case.keep_acts else ():
        w.put("act." + key, tensor.detach().numpy(), "<f8")
    w.put("hidden", hidden.detach().numpy(), "<f8")
    if case.classifier:
        w.put("logits", logits.detach().numpy(), "<f8")
    w.put("loss", loss.item(), "<f8")
    for key, tensor in case.p.items():
        if key not in case.frozen:
            w.put("grad." + key, tensor.grad.numpy(), "<f8")

    if case.steps:
        write_adamw(w, case)
    w.file.close()
    print(f"{path}: {os.path.getsize(path)} bytes, loss {loss.item():.6f}")


def write_adamw(w, case):
    a = ADAMW
    w.put("adamw", [a["lr"], *a["betas"], a["eps"], a["weight_decay"], a["steps"]], "<f8")
    decayed = [t for key, t in case.p.items() if key in case.matrices and key not in case.frozen]
    plain = [t for key, t in case.p.items() if key not in case.matrices]
    groups = [{"params": decayed, "weight_decay": a["weight_decay"]},
              {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=a["lr"], betas=a["betas"], eps=a["eps"])
    for _ in range(a["steps"]):
        optimizer.zero_grad()
        forward(case)[0].backward()
        optimizer.step()
    for key, tensor in case.p.items():
        w.put("after." + key, tensor.detach().numpy(), "<f8")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "tests", "refs")
    os.makedirs(folder, exist_ok=True)
    check_pool()
    for i, name in enumerate(CASES):
        write_case(name, 2000 + i, os.path.join(folder, name + ".ref"))


if __name__ == "__main__":
    main()
