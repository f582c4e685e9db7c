"""The model in PyTorch as a user of it would write it, for scripts/compare_torch.py: whole batches, the fused
kernels that PyTorch has, autograd, AdamW.  Parameters come from a checkpoint and keep their names.

The definition is that of include/encoder.h, and as there keys and values are compressed before they are projected
where that is less work.  scripts/compare_torch.py --check compares it with the plain model of make_refs.py."""
import re

import torch
import torch.nn.functional as F


class Settings:
    """What the checkpoint's config says, as far as this model needs it."""

    def __init__(self, text):
        def value(key, kind=str):
            return kind(re.search(rf"^  {key}: (.*)$", text, re.M).group(1).strip('"'))

        self.n, self.layers, self.heads = (value(key, int) for key in ("n", "layers", "heads"))
        self.pre = value("norm") == "pre"
        self.full = value("attention") == "full"
        k = [int(x) for x in value("k").strip("[]").split(",")]
        self.k = k * self.layers if len(k) == 1 else k
        self.dropout, self.attention_dropout = value("dropout", float), value("attention_dropout", float)
        if value("projection") not in ("linear", "fixed"):
            raise ValueError(f"model.projection = {value('projection')}: only linear and fixed ones are written here")
        self.fixed = value("projection") == "fixed"
        self.lr, self.eps = value("lr", float), value("eps", float)
        self.betas = tuple(float(x) for x in value("betas").strip("[]").split(","))
        self.weight_decay, self.clip = value("weight_decay", float), value("clip", float)
        self.decay_all = value("decay") == "all"  # the first: optimizer.decay, not schedule.decay
        self.lr_share = {"position": value("position_lr", float), "seq_proj": value("proj_lr", float)}


class Model(torch.nn.Module):
    """tensors: name -> array or tensor, as in a checkpoint."""

    def __init__(self, settings, tensors):
        super().__init__()
        self.s = settings
        self.names = {}
        for name, x in tensors.items():
            frozen = settings.fixed and "seq_proj" in name
            parameter = torch.nn.Parameter(torch.as_tensor(x).clone(), requires_grad=not frozen)
            self.names[name] = name.replace(".", "_")
            self.register_parameter(self.names[name], parameter)

    def w(self, name):
        return getattr(self, self.names[name])

    def linear(self, x, name):
        return F.linear(x, self.w(name + "_w"), self.w(name + "_b"))

    def norm(self, x, name):
        weight = self.w(name + "_w")
        return F.layer_norm(x, weight.shape, weight, self.w(name + "_b"), 1e-5)

    def drop(self, x):
        return F.dropout(x, self.s.dropout, self.training) if self.s.dropout else x

    def sequence_projection(self, letter, layer, T):
        """(rows, T), or (heads, rows, T) where each head has its own."""
        prefix = f"layer{layer}." if f"layer{layer}.seq_proj_k" in self.names else ""
        if f"{prefix}seq_proj_{letter}" not in self.names:
            letter = "k"  # E = F
        whole, k = self.w(f"{prefix}seq_proj_{letter}"), self.s.k[layer]
        if whole.shape[0] == k * self.s.heads and self.s.heads > 1 and prefix:
            return whole.view(self.s.heads, k, -1)[:, :, :T]
        return whole[:k, :T]

    def split(self, x):
        B, rows, C = x.shape
        return x.view(B, rows, self.s.heads, C // self.s.heads).transpose(1, 2)

    def keys_values(self, layer, x):
        """Both (B, heads, rows, width of a head)."""
        at = f"layer{layer}."
        if self.s.full:
            return [self.split(self.linear(x, at + letter)) for letter in "kv"]
        B, T, _ = x.shape
        E, Fv = (self.sequence_projection(letter, layer, T) for letter in "kv")
        if E.dim() == 3 or self.s.k[layer] >= T:
            parts = zip("kv", (E, Fv))
            return [torch.matmul(e, self.split(self.linear(x, at + letter))) for letter, e in parts]
        # (E (x W + b) = (E x) W + (E 1) b
        tied = Fv.data_ptr() == E.data_ptr()
        out, compressed = [], None
        for letter, e in zip("kv", (E, Fv)):
            if compressed is None or not tied:
                compressed = torch.matmul(e, x)
            bias = e.sum(1, keepdim=True) * self.w(f"{at}{letter}_b")
            out.append(self.split(F.linear(compressed, self.w(f"{at}{letter}_w")) + bias))
        return out

    def attention(self, layer, x):
        at = f"layer{layer}."
        q = self.split(self.linear(x, at + "q"))
        k, v = self.keys_values(layer, x)
        p = self.s.attention_dropout if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=p)
        return self.linear(out.transpose(1, 2).reshape(x.shape), at + "out")

    def feed_forward(self, layer, x):
        at = f"layer{layer}."
        return self.linear(F.gelu(self.linear(x, at + "ff1")), at + "ff2")

    def forward(self, ids):
        """ids (B, T) -> hidden states (B, T, C)."""
        x = F.embedding(ids, self.w("token")) + self.w("position")[: ids.shape[1]]
        x = self.drop(self.norm(x, "emb_ln"))
        for layer in range(self.s.layers):
            at = f"layer{layer}."
            if self.s.pre:
                x = x + self.drop(self.attention(layer, self.norm(x, at + "ln1")))
                x = x + self.drop(self.feed_forward(layer, self.norm(x, at + "ln2")))
            else:
                x = self.norm(x + self.drop(self.attention(layer, x)), at + "ln1")
                x = self.norm(x + self.drop(self.feed_forward(layer, x)), at + "ln2")
        return self.norm(x, "final_ln") if self.s.pre else x

    def loss(self, ids, rows, labels):
        """Mean cross-entropy.  rows: those to predict, of all B T, labels one for each; or None, and labels has one
        for every row, -100 where there is nothing to predict."""
        hidden = self(ids).flatten(0, 1)
        if rows is not None:
            hidden = hidden[rows]
        h = self.norm(F.gelu(self.linear(hidden, "head")), "head_ln")
        return F.cross_entropy(F.linear(h, self.w("token"), self.w("head_bias")), labels, ignore_index=-100)

    def optimizer(self):
        groups = {}
        for name, attribute in self.names.items():
            parameter = getattr(self, attribute)
            if not parameter.requires_grad:
                continue
            share = next((f for part, f in self.s.lr_share.items() if part in name), 1.0)
            decay = self.s.weight_decay if parameter.dim() == 2 or self.s.decay_all else 0.0
            groups.setdefault((share, decay), []).append(parameter)
        listed = [{"params": p, "lr": self.s.lr * share, "weight_decay": decay}
                  for (share, decay), p in groups.items()]
        return torch.optim.AdamW(listed, lr=self.s.lr, betas=self.s.betas, eps=self.s.eps, fused=True)
