#!/usr/bin/env python3
"""Make the golden values of the tests with PyTorch: golden_{rng,resmlp,optim,train}.inc, golden_resmlp.safetensors,
and the weights of the model "odd" in timm.safetensors and facebook.safetensors.

    python3 make_golden.py            write the files beside this script
    python3 make_golden.py --check    compute again and compare with the files, write nothing

All reference arithmetic is double precision, on one thread; parameters, images and gradients fed
in are exactly representable in single precision. golden_rng.h is the C twin of the generator,
golden_types.h holds the row types, README.md the formulas.
"""

import argparse
import json
import math
import pathlib
import re
import sys
import textwrap

import numpy as np
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
WIDTH = 100  # columns of the generated files

# As in golden_types.h:
SAMPLES, OPTIM_VALUES, OPTIM_STEPS, TRAIN_STEPS, COSINE_STEPS, HASHED = 16, 7, 5, 10, 50, 1000

# Two norms further apart than this, relatively, are ordered in float32 as they are in float64.
MIN_GAP = 1e-5

# ---- the generator (golden_rng.h) ----------------------------------------------------------------


def bits(seed, index):
    """64 random bits per element of index, a uint64 array."""
    weyl = np.uint64(seed * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)
    z = weyl + (index + np.uint64(1)) * np.uint64(0xD1B54A32D192ED03)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def values(seed, n):
    """value(seed, 0 .. n-1), uniform in [-1, 1), float32."""
    top = (bits(seed, np.arange(n, dtype=np.uint64)) >> np.uint64(40)).astype(np.float32)
    return top * np.float32(2.0**-23) - np.float32(1)


def signs(p, n):
    return np.where(values(5000 + p, n) >= 0, 1.0, -1.0)


def fill_uniform(base, scale, seed, n):
    """base + scale * value: constants rounded to float32, exact in float64, then one rounding."""
    exact = float(np.float32(base)) + float(np.float32(scale)) * values(seed, n).astype(np.float64)
    return exact.astype(np.float32)


def fill_parameter(kind, fan_in, seed, n):
    """A parameter tensor by its kind, a name of enum golden_kind."""
    base, scale = {
        "GOLDEN_WEIGHT": lambda: (0.0, 0.8 * math.sqrt(3.0 / fan_in)),
        "GOLDEN_BIAS": lambda: (0.0, 0.1),
        "GOLDEN_LAYER_SCALE": lambda: (0.1, 0.05),
        "GOLDEN_ALPHA": lambda: (1.0, 0.2),
        "GOLDEN_BETA": lambda: (0.0, 0.1),
    }[kind]()
    return fill_uniform(base, scale, seed, n)


def images(seed, batch, size):
    """Bytes as levels, float32: byte v of channel c is 1.5 (v / 128 - 1) + (c - 1) / 8, exactly."""
    index = np.arange(batch * 3 * size * size, dtype=np.uint64)
    byte = (bits(seed, index) >> np.uint64(56)).astype(np.float32).reshape(batch, 3, size, size)
    shift = (np.arange(3, dtype=np.float32) - 1).reshape(3, 1, 1) / 8
    return np.float32(1.5) * (byte / 128 - 1) + shift


# ---- pruning -------------------------------------------------------------------------------------


class Pruning:
    """A share `sparsity` of each sample's 1 x block blocks is pruned. Records what was decided."""

    def __init__(self, block, sparsity):
        self.block, self.sparsity = block, sparsity
        self.gaps, self.masks = [], []

    def prune(self, x):
        """x: samples x rows x cols -> the same with the pruned blocks zeroed."""
        samples, rows, cols = x.shape
        per_row = -(-cols // self.block)
        count = rows * per_row
        padded = F.pad(x, (0, per_row * self.block - cols))  # a ragged last block is zero padded
        blocks = padded.reshape(samples, count, self.block)
        keep = count - math.floor(self.sparsity * count + 0.5)
        norms = blocks.norm(dim=2)
        # Stable, descending: of equal norms the lower block index comes first, so is kept first.
        order = torch.sort(norms, dim=1, descending=True, stable=True)
        mask = torch.zeros_like(norms)
        mask.scatter_(1, order.indices[:, :keep], 1.0)
        if 0 < keep < count:
            smallest_kept, largest_pruned = order.values[:, keep - 1], order.values[:, keep]
            self.gaps += ((smallest_kept - largest_pruned) / smallest_kept).tolist()
        self.masks.append(mask.bool())
        return (blocks * mask[:, :, None]).reshape(samples, rows, -1)[:, :, :cols]


class PrunedLinear(torch.autograd.Function):
    """y = x Wt + b over features; dW = dYt Xs from the pruned input Xs; dX and db are dense."""

    @staticmethod
    def forward(ctx, x, weight, bias, pruning):
        ctx.save_for_backward(pruning.prune(x), weight)
        return x @ weight.T + bias

    @staticmethod
    def backward(ctx, dy):
        xs, weight = ctx.saved_tensors
        return dy @ weight, torch.einsum("npo,npi->oi", dy, xs), dy.sum((0, 1)), None


class PrunedTokenLinear(torch.autograd.Function):
    """y = W x + b over tokens, x and y tokens x features; dW = dY Xst from the pruned input Xs."""

    @staticmethod
    def forward(ctx, x, weight, bias, pruning):
        ctx.save_for_backward(pruning.prune(x), weight)
        return weight @ x + bias[:, None]

    @staticmethod
    def backward(ctx, dy):
        xs, weight = ctx.saved_tensors
        return weight.T @ dy, torch.einsum("nqd,npd->qp", dy, xs), dy.sum((0, 2)), None


# ---- the model -----------------------------------------------------------------------------------


KIND_OF = {
    "weight": "GOLDEN_WEIGHT", "bias": "GOLDEN_BIAS", "ls1": "GOLDEN_LAYER_SCALE",
    "ls2": "GOLDEN_LAYER_SCALE", "alpha": "GOLDEN_ALPHA", "beta": "GOLDEN_BETA",
}  # by the last part of a tensor's name

# enum golden_kind
KINDS = ["GOLDEN_NONE", "GOLDEN_WEIGHT", "GOLDEN_BIAS", "GOLDEN_LAYER_SCALE", "GOLDEN_ALPHA", "GOLDEN_BETA"]


class ResMLP:
    """ResMLP with the tensor names and the order of timm's resmlp_12_224."""

    def __init__(self, image, patch, dim, depth, hidden, classes, dtype=torch.float64):
        self.depth, self.patch = depth, patch
        tokens = (image // patch) ** 2
        shapes = {"stem.proj.weight": (dim, 3, patch, patch), "stem.proj.bias": (dim,)}
        for i in range(depth):
            shapes.update({
                f"blocks.{i}.ls1": (dim,),
                f"blocks.{i}.ls2": (dim,),
                f"blocks.{i}.norm1.alpha": (1, 1, dim),
                f"blocks.{i}.norm1.beta": (1, 1, dim),
                f"blocks.{i}.linear_tokens.weight": (tokens, tokens),
                f"blocks.{i}.linear_tokens.bias": (tokens,),
                f"blocks.{i}.norm2.alpha": (1, 1, dim),
                f"blocks.{i}.norm2.beta": (1, 1, dim),
                f"blocks.{i}.mlp_channels.fc1.weight": (hidden, dim),
                f"blocks.{i}.mlp_channels.fc1.bias": (hidden,),
                f"blocks.{i}.mlp_channels.fc2.weight": (dim, hidden),
                f"blocks.{i}.mlp_channels.fc2.bias": (dim,),
            })
        shapes.update({
            "norm.alpha": (1, 1, dim),
            "norm.beta": (1, 1, dim),
            "head.weight": (classes, dim),
            "head.bias": (classes,),
        })
        self.p, self.rule = {}, {}
        for position, (name, shape) in enumerate(shapes.items()):
            last = name.rsplit(".", 1)[-1]
            kind = KIND_OF[last]
            fan_in = math.prod(shape[1:]) if last == "weight" else 0
            data = fill_parameter(kind, fan_in, 1000 + position, math.prod(shape)).reshape(shape)
            self.p[name] = torch.from_numpy(data).to(dtype).requires_grad_()
            self.rule[name] = (kind, fan_in)

    def logits(self, image, pruning=None):
        """image: samples x 3 x height x width; pruning: a Pruning, or None for dense layers."""
        p = self.p

        def affine(x, name):
            return p[name + ".beta"] + p[name + ".alpha"] * x

        def linear(x, name):
            weight, bias = p[name + ".weight"], p[name + ".bias"]
            if pruning:
                return PrunedLinear.apply(x, weight, bias, pruning)
            return F.linear(x, weight, bias)

        def linear_tokens(x, name):
            weight, bias = p[name + ".weight"], p[name + ".bias"]
            if pruning:
                return PrunedTokenLinear.apply(x, weight, bias, pruning)
            return F.linear(x.transpose(1, 2), weight, bias).transpose(1, 2)

        x = F.conv2d(image, p["stem.proj.weight"], p["stem.proj.bias"], stride=self.patch)
        x = x.flatten(2).transpose(1, 2)  # samples x tokens x features
        for i in range(self.depth):
            b = f"blocks.{i}"
            y = linear_tokens(affine(x, b + ".norm1"), b + ".linear_tokens")
            x = x + p[b + ".ls1"] * y
            h = linear(affine(x, b + ".norm2"), b + ".mlp_channels.fc1")
            x = x + p[b + ".ls2"] * linear(F.gelu(h), b + ".mlp_channels.fc2")
        return F.linear(affine(x, "norm").mean(dim=1), p["head.weight"], p["head.bias"])


def loss_of(logits, labels):
    return F.cross_entropy(logits, torch.tensor(labels), label_smoothing=0.1)


# ---- writing C -----------------------------------------------------------------------------------


def g17(x):
    return "%.17g" % x


def float_hex(x):
    """A float32 as an exact C literal."""
    mantissa, exponent = float(x).hex().split("p")
    return mantissa.rstrip("0").rstrip(".") + "p" + exponent + "f"


def commas(items):
    return ", ".join(map(str, items))


def braces(items):
    """{items} as a member of a row, in lines of at most WIDTH columns."""
    text = textwrap.fill("{" + commas(items) + "},", WIDTH - 2, initial_indent=" " * 5,
                         subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False)
    return text.strip().rstrip(",")


def table(kind, name, rows):
    return (f"enum {{ {name}_count = {len(rows)} }};\n\n"
            f"static const {kind} {name}[{name}_count] = {{\n" + ",\n".join(rows) + "\n};\n")


def document(title, *parts):
    return f"/* {title}\n   Generated by make_golden.py; see README.md. */\n\n" + "\n".join(parts)


def statistics(array):
    """Of an array: norm, projections, sampled flat indices, the elements there."""
    flat = np.asarray(array, dtype=np.float64).reshape(-1)
    n = flat.size
    index = []
    for k in range(SAMPLES):  # one index hashed out of each sixteenth
        low, high = k * n // SAMPLES, (k + 1) * n // SAMPLES
        index.append(low + int(bits(6000, np.array([k], dtype=np.uint64))[0]) % max(high - low, 1))
    projections = [float((signs(p, n) * flat).sum()) for p in range(2)]
    return float(np.sqrt((flat * flat).sum())), projections, index, flat[index]


# ---- the tables ----------------------------------------------------------------------------------


def make_rng():
    pairs = [(0, 0), (0, 1), (1, 0), (7, 0), (7, 1), (7, 2), (7, 12345), (1000, 0), (1149, 589823),
             (5000, 0), (5001, 0), (2**32 + 1, 2**33 + 5), (2**64 - 1, 2**64 - 1)]
    rows = []
    for seed, index in pairs:
        z = int(bits(seed, np.array([index], dtype=np.uint64))[0])
        value = np.float32(z >> 40) * np.float32(2.0**-23) - np.float32(1)
        rows.append(f"    {{UINT64_C({seed}), UINT64_C({index}),\n"
                    f"     UINT64_C(0x{z:016X}), {float_hex(value)}}}")
    tensors = [("GOLDEN_WEIGHT", 768), ("GOLDEN_WEIGHT", 147), ("GOLDEN_WEIGHT", 36),
               ("GOLDEN_BIAS", 0), ("GOLDEN_LAYER_SCALE", 0), ("GOLDEN_ALPHA", 0),
               ("GOLDEN_BETA", 0)]
    fills = []
    for seed, (kind, fan_in) in enumerate(tensors, 1000):
        data = fill_parameter(kind, fan_in, seed, HASHED)
        h = 0
        for word in data.view(np.uint32).tolist():
            h = (h * 0x100000001B3 + word) & 0xFFFFFFFFFFFFFFFF
        fills.append(f"    {{{kind}, {fan_in}, {seed},\n"
                     f"     {braces(map(float_hex, data[:4]))},\n"
                     f"     UINT64_C(0x{h:016X})}}")
    return document("Test vectors of the generator; equality is exact.",
                    table("golden_rng_vector", "golden_rng_vectors", rows),
                    table("golden_fill_vector", "golden_fill_vectors", fills))


MODELS = {
    "s12_64px": dict(image=64, patch=16, dim=384, depth=12, hidden=1536, classes=10),
    "tiny": dict(image=32, patch=4, dim=128, depth=6, hidden=512, classes=10),
    "odd": dict(image=21, patch=7, dim=20, depth=2, hidden=36, classes=5),
}
#        case            model       batch block sparsity
CASES = [("s12_64px", "s12_64px", 2, 0, 0.0),
         ("tiny", "tiny", 4, 0, 0.0),
         ("odd", "odd", 3, 0, 0.0),
         ("tiny_paper", "tiny", 4, 16, 0.5),
         ("odd_paper", "odd", 3, 4, 0.5),
         ("odd_paper_ragged", "odd", 3, 16, 0.7)]


def run_case(shape, batch, pruning, seed, dtype):
    """Forward and backward once: loss, {name: gradient or value}, {name: (kind, fan_in)}."""
    model = ResMLP(**shape, dtype=dtype)
    image = torch.from_numpy(images(seed, batch, shape["image"])).to(dtype)
    logits = model.logits(image, pruning)
    loss = loss_of(logits, [(3 * i + 1) % shape["classes"] for i in range(batch)])
    loss.backward()
    tensors = {name: p.grad for name, p in model.p.items()}
    tensors.update(logits=logits.detach())
    return float(loss.detach()), tensors, model.rule


def image_seed(shape, batch, block, sparsity):
    """The first seed from 7 on with every gap above MIN_GAP: rounding cannot change a choice."""
    for seed in range(7, 200):
        pruning = Pruning(block, sparsity)
        model = ResMLP(**shape)
        with torch.no_grad():
            model.logits(torch.from_numpy(images(seed, batch, shape["image"])).double(), pruning)
        if min(pruning.gaps) > MIN_GAP:
            return seed
        print(f"  image seed {seed} passed over: gap {min(pruning.gaps):.3g}")
    raise SystemExit("no image seed with a safe gap")


def relative(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm())


def check_pruned(name, args, loss, tensors, rule):
    """s = 0 gives the dense gradients; s > 0 changes only the weights of the pruned layers."""
    shape, batch, block, seed = args
    _, dense, _ = run_case(shape, batch, None, seed, torch.float64)
    loss0, tensors0, _ = run_case(shape, batch, Pruning(block, 0.0), seed, torch.float64)
    worst = max(relative(tensors0[k], dense[k]) for k in dense)
    if worst > 1e-13 or abs(loss0 - loss) > 1e-14:
        raise SystemExit(f"{name}: s = 0 differs from dense by {worst}")
    changed = {k for k in dense if relative(tensors[k], dense[k]) > 1e-9}
    if changed != {k for k in rule if re.search(r"(linear_tokens|fc1|fc2)\.weight$", k)}:
        raise SystemExit(f"{name}: not just the weight gradients of the pruned layers changed")


def make_resmlp():
    """The table of cases, and the rows of their tensors: see golden_tensor."""
    cases, rows = [], {}
    for name, model, batch, block, sparsity in CASES:
        shape = MODELS[model]
        seed, pruning, pruning32, gap = 7, None, None, 0.0
        if block:
            seed = image_seed(shape, batch, block, sparsity)
            pruning, pruning32 = Pruning(block, sparsity), Pruning(block, sparsity)
        loss, tensors, rule = run_case(shape, batch, pruning, seed, torch.float64)
        _, tensors32, _ = run_case(shape, batch, pruning32, seed, torch.float32)
        if pruning:
            gap = min(pruning.gaps)
            same = all(torch.equal(a, b) for a, b in zip(pruning.masks, pruning32.masks))
            if gap <= MIN_GAP or not same:
                raise SystemExit(f"{name}: the selection depends on rounding")
            check_pruned(name, (shape, batch, block, seed), loss, tensors, rule)
        error = max(relative(tensors32[k], tensors[k]) for k in tensors)
        print(f"{name}: image seed {seed}, loss {loss:.6f}, least gap {gap:.3g},"
              f" float32 error {error:.2g}")
        sizes = [shape[k] for k in ("image", "patch", "dim", "depth", "hidden", "classes")]
        cases.append("    /* float32 in PyTorch: worst relative l2 error of a tensor"
                     f" {error:.1e} */\n"
                     f'    {{"{name}", {commas(sizes)}, {batch}, {block}, {sparsity}, {seed},\n'
                     f"     {g17(loss)}, {g17(gap)}, {len(rule)}}}")
        for tensor, data in tensors.items():
            kind, fan_in = rule.get(tensor, ("GOLDEN_NONE", 0))
            norm, projections, index, sampled = statistics(data.numpy())
            rows[f"{name}/{tensor}"] = [KINDS.index(kind), fan_in, data.numel(), norm, *projections, *index, *sampled]
    return document("ResMLP: models, inputs and losses; golden_resmlp.safetensors has the tensors.",
                    table("golden_resmlp_case", "golden_resmlp_cases", cases)), rows


class Lamb(torch.optim.Optimizer):
    """Algorithm 2 of arXiv:1904.00962, phi the identity; trust ratio 1 where either norm is 0."""

    def __init__(self, params, **settings):
        super().__init__(params, settings)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
                state["m"] = beta1 * state["m"] + (1 - beta1) * p.grad
                state["v"] = beta2 * state["v"] + (1 - beta2) * p.grad**2
                m_hat = state["m"] / (1 - beta1 ** state["t"])
                v_hat = state["v"] / (1 - beta2 ** state["t"])
                r = m_hat / (v_hat.sqrt() + group["eps"]) + group["weight_decay"] * p
                p_norm, r_norm = float(p.norm()), float(r.norm())
                trust = p_norm / r_norm if p_norm > 0 and r_norm > 0 else 1.0
                p -= group["lr"] * trust * r


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of arXiv:2302.06675."""

    def __init__(self, params, **settings):
        super().__init__(params, settings)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = (beta1 * m + (1 - beta1) * p.grad).sign()
                p -= group["lr"] * (update + group["weight_decay"] * p)
                self.state[p]["m"] = beta2 * m + (1 - beta2) * p.grad


OPTIM_TENSORS = [(7, 1.0), (64, 1.0), (130, 1.0), (5, 0.0)]  # size, scale of the start
OPTIMIZERS = {  # in the order of clprune_optimizer_kind: class, lr, weight_decay, momentum, beta1, beta2, eps
    "sgd": (torch.optim.SGD, 0.05, 0.01, 0.9, 0.0, 0.0, 0.0),
    "adamw": (torch.optim.AdamW, 0.05, 0.05, 0.0, 0.9, 0.999, 1e-8),
    "lamb": (Lamb, 0.05, 0.2, 0.0, 0.9, 0.999, 1e-6),
    "lion": (Lion, 0.005, 0.5, 0.0, 0.9, 0.99, 0.0),
}


def make_optim():
    runs, rows = [], []
    for name, (make, *settings) in OPTIMIZERS.items():
        lr, decay, momentum, beta1, beta2, eps = settings
        params = [torch.from_numpy(fill_uniform(0.0, scale, 3000 + i, n)).double().requires_grad_()
                  for i, (n, scale) in enumerate(OPTIM_TENSORS)]
        given = dict(momentum=momentum, betas=(beta1, beta2), eps=eps)
        own = {key: given[key] for key in given if any(value != 0 for value in np.ravel(given[key]))}
        optimizer = make(params, lr=lr, weight_decay=decay, **own)
        for t in range(OPTIM_STEPS):
            for i, p in enumerate(params):
                p.grad = torch.from_numpy(values(3100 + 10 * t + i, p.numel())).double()
            optimizer.step()
        runs.append(f'    {{"{name}", {commas(settings)}, {len(rows)}, {len(params)}}}')
        for i, (p, (n, scale)) in enumerate(zip(params, OPTIM_TENSORS)):
            flat = p.detach().numpy()
            norm, projections, _, _ = statistics(flat)
            shown = map(g17, flat) if n <= OPTIM_VALUES else ["0"]
            rows.append(f'    {{"{name}", {i}, {scale}, {n},\n'
                        f"     {g17(norm)}, {braces(map(g17, projections))},\n"
                        f"     {braces(shown)}}}")
    warmup, total, base, least = 10, COSINE_STEPS, 0.1, 0.001
    lrs = [base * (t + 1) / warmup if t < warmup else
           least + 0.5 * (base - least) * (1 + math.cos(math.pi * (t - warmup) / (total - warmup)))
           for t in range(total)]
    cosine = ("static const golden_cosine_settings golden_cosine ="
              f" {{{warmup}, {total}, {base}, {least}}};\n\n"
              "static const double golden_cosine_lr[GOLDEN_COSINE_STEPS] =\n"
              f"     {braces(map(g17, lrs))};\n")
    return document("Parameters after 5 optimizer steps, and a learning-rate table.",
                    table("golden_optim_run", "golden_optim_runs", runs),
                    table("golden_optim_tensor", "golden_optim_tensors", rows), cosine)


def train(dtype, block, sparsity, batch, lr, weight_decay):
    """Losses of a short AdamW run, and the pruning record (None: dense)."""
    shape = MODELS["tiny"]
    model = ResMLP(**shape, dtype=dtype)
    optimizer = torch.optim.AdamW(model.p.values(), lr=lr, weight_decay=weight_decay)
    pruning = Pruning(block, sparsity) if block else None
    losses = []
    for t in range(TRAIN_STEPS):
        image = torch.from_numpy(images(100 + t, batch, shape["image"])).to(dtype)
        labels = [(3 * i + t) % shape["classes"] for i in range(batch)]
        loss = loss_of(model.logits(image, pruning), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, pruning


def make_train():
    rows = []
    for name, block, sparsity in [("dense", 0, 0.0), ("paper", 16, 0.5)]:
        settings = block, sparsity, 8, 1e-3, 0.05
        losses, pruning = train(torch.float64, *settings)
        losses32, pruning32 = train(torch.float32, *settings)
        error = max(abs(a - b) for a, b in zip(losses, losses32))
        gap, note = 0.0, ""
        if pruning:
            gap = min(pruning.gaps)
            near = sum(g <= MIN_GAP for g in pruning.gaps)
            moved = sum(int((a != b).sum()) // 2 for a, b in zip(pruning.masks, pruning32.masks))
            note = (f";\n       {near} of {len(pruning.gaps)} gaps are at most {MIN_GAP:g}, and"
                    f" {moved} blocks were chosen otherwise than in float64")
        print(f"train {name}: losses {losses[0]:.6f} .. {losses[-1]:.6f}, gap {gap:.3g},"
              f" float32 off by {error:.2g}{note}")
        _, _, batch, lr, weight_decay = settings
        rows.append(f"    /* float32 in PyTorch: losses off by at most {error:.1e}{note} */\n"
                    f'    {{"{name}", {batch}, {block}, {sparsity}, {lr}, {weight_decay},'
                    f" {g17(gap)},\n     {braces(map(g17, losses))}}}")
    return document("Losses of short training runs.",
                    table("golden_train_run", "golden_train_runs", rows))


# ---- safetensors files ---------------------------------------------------------------------------


def encode(header, tensors):
    """A safetensors file of [(name, tensor)], in this order, whose header begins with `header`."""
    data = b""
    for name, tensor in tensors:
        dtype, kind = {torch.int64: ("I64", "<i8"), torch.float64: ("F64", "<f8")}.get(tensor.dtype, ("F32", "<f4"))
        part = tensor.detach().numpy().astype(kind).tobytes()
        offsets = [len(data), len(data) + len(part)]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": offsets}
        data += part
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def safetensors(tensors):
    """The bytes that Python's safetensors.torch.save gives {name: tensor} with metadata {"format": "pt"}."""
    wide_first = sorted(tensors.items(), key=lambda t: (t[1].dtype != torch.int64, t[0]))
    single = [(name, t if t.dtype == torch.int64 else t.float()) for name, t in wide_first]
    return encode({"__metadata__": {"format": "pt"}}, single)


def write_rows(path, rows, check, close):
    """Whether the file has these rows, {name: numbers}; without `check` it then has. close(a, b, row): whether b of a
    computed row is close enough to a of the file's row."""
    if not check:
        path.write_bytes(encode({}, [(name, torch.tensor(row, dtype=torch.float64)) for name, row in rows.items()]))
        return True
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    old, data = json.loads(content[8:8 + size]), content[8 + size:]
    same = list(old) == list(rows)
    for name in old if same else []:
        row = np.frombuffer(data[slice(*old[name]["data_offsets"])], "<f8").tolist()
        same = same and len(row) == len(rows[name]) and all(close(a, b, row) for a, b in zip(row, rows[name]))
    print(f"{path.name}: {'agrees' if same else 'differs'}")
    return same


def write_safetensors(path, tensors, check):
    """Whether the file has these tensors; without `check` it then has."""
    if not check:
        path.write_bytes(safetensors(tensors))
        return True
    same = path.read_bytes() == safetensors(tensors)
    print(f"{path.name}: {'agrees' if same else 'differs'}")
    return same


def facebook(tensors):
    """The names and shapes of the authors' code, which timm maps to its own when it loads such a file."""
    theirs = {}
    for name, tensor in tensors.items():
        for ours, other in [("stem.", "patch_embed."), ("linear_tokens.", "attn."),
                            ("mlp_channels.", "mlp."), (".ls", ".gamma_")]:
            name = name.replace(ours, other)
        theirs[name] = tensor.reshape(-1) if name.endswith(("alpha", "beta")) else tensor
    return theirs


# ---- command line --------------------------------------------------------------------------------

# Integer, decimal or hexadecimal literal, not part of a name.
NUMBER = re.compile(r"(?<![\w.])-?(?:0x[0-9A-Fa-f.]+(?:p[+-]?\d+f?)?"
                    r"|\d+(?:\.\d+)?(?:e[+-]?\d+)?)")


def differences(old, new):
    """Compare two generated files: all text and whole numbers equal, decimals to 1e-9 of the
    largest one in the row; comments are ignored. Returns "" or the first difference."""
    old, new = (re.sub(r"/\*.*?\*/", "", text, flags=re.S) for text in (old, new))
    if "".join(NUMBER.sub("#", old).split()) != "".join(NUMBER.sub("#", new).split()):
        return "different layout"
    for row_old, row_new in zip(re.split(r"\n    \{", old), re.split(r"\n    \{", new)):
        a, b = NUMBER.findall(row_old), NUMBER.findall(row_new)
        scale = max([abs(float(v)) for v in a if "." in v and "x" not in v], default=0.0)
        for x, y in zip(a, b):
            if x == y:
                continue
            whole = "x" in x + y or re.fullmatch(r"-?\d+", x)
            if whole or abs(float(x) - float(y)) > 1e-9 * scale:
                return f"{x} in the file, {y} computed"
    return ""


def close(a, b, row):
    """As in differences()."""
    scale = max([abs(x) for x in row if not x.is_integer()], default=0.0)
    return a == b or (not a.is_integer() and abs(a - b) <= 1e-9 * scale)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the files only")
    check = parser.parse_args().check
    torch.set_num_threads(1)  # one summation order
    np.seterr(over="ignore")  # uint64 arithmetic is modulo 2^64
    failed = False
    makers = {"rng": make_rng, "resmlp": make_resmlp, "optim": make_optim, "train": make_train}
    for name, make in makers.items():
        path = HERE / f"golden_{name}.inc"
        text = make()
        if name == "resmlp":
            text, rows = text
            failed = not write_rows(HERE / "golden_resmlp.safetensors", rows, check, close) or failed
        if not check:
            path.write_text(text, encoding="ascii", newline="\n")
            continue
        problem = differences(path.read_text(encoding="ascii"), text)
        print(f"{path.name}: {problem or 'agrees'}")
        failed = failed or bool(problem)
    weights = ResMLP(**MODELS["odd"], dtype=torch.float32).p
    for name, tensors in [("timm", weights), ("facebook", facebook(weights))]:
        failed = not write_safetensors(HERE / f"{name}.safetensors", tensors, check) or failed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
