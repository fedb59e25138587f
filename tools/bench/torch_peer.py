#!/usr/bin/env python3
"""The products of clprune-bench in PyTorch, one JSON object a line and case in the same schema.

For each case torch.matmul on the dense operands and PyTorch's BSR product on the pruned ones, with
blocks of 1 x B as clprune has them and of B x B, which PyTorch's kernels are made for. On a GPU
each is timed in fp32 with TF32 off and on. Where the installed PyTorch cannot compute a product,
`unsupported` says why and the times are null. The conversion to BSR is not timed.

    torch_peer.py bspmm --form tn,nt --in 1536 --out 384 --block 16,64 --sparsity 0.3:0.9:0.2
"""
import argparse
import itertools
import json
import os
import statistics
import sys
import time
import warnings
from decimal import ROUND_HALF_UP, Decimal

import torch

FORMS = {"gemm": ["nt", "nn", "tn"], "gemm-batched": ["nn", "tn"], "bspmm": ["tn", "nt", "nn"]}


def numbers(kind):
    """A parser of lists and ranges: 4,16 or first:last:step."""

    def parse(text):
        values = []
        for part in text.split(","):
            if ":" not in part:
                values.append(kind(part))
                continue
            first, last, step = (Decimal(x) for x in part.split(":"))
            if step <= 0:
                raise ValueError(part)
            while first <= last:
                values.append(kind(str(first)))
                first += step
        return values

    parse.__name__ = "list"
    return parse


def size(text):
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def fraction(text):
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(text)
    return value


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("op", choices=[*FORMS, "all"])
    parser.add_argument("--form", help="forms to run, as a list (all of the operation)")
    for name, kind, default in (
        ("batch", size, "32"),
        ("in", size, "384"),
        ("out", size, "1536"),
        ("block", size, "16"),
        ("sparsity", fraction, "0.5,0.7,0.9"),
    ):
        parser.add_argument(
            f"--{name}", dest=f"{name}_", type=numbers(kind), default=default, metavar="LIST"
        )
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument("--tokens", type=numbers(size), default="196", metavar="LIST")
    rows.add_argument("--rows", type=numbers(size), metavar="LIST", help="of all samples")
    parser.add_argument("--repeat", type=size, default=11)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=size, default=os.cpu_count())
    parser.add_argument("--json", default="-", help="file; - is stdout")
    arguments = parser.parse_args()
    ops = FORMS if arguments.op == "all" else {arguments.op: FORMS[arguments.op]}
    wanted = arguments.form.split(",") if arguments.form else None
    arguments.cases = [
        (op, form) for op, forms in ops.items() for form in forms if not wanted or form in wanted
    ]
    if not arguments.cases:
        parser.error(f"--form: {arguments.op} has no form {arguments.form}")
    for batch in arguments.batch_:
        for rows in arguments.rows or []:
            if rows % batch:
                parser.error(f"--rows: {rows} rows are not a multiple of --batch {batch}")
    return arguments


def keep_count(blocks, sparsity):
    """Like clprune_keep_count: blocks - round_half_up(sparsity * blocks)."""
    pruned = (Decimal(repr(sparsity)) * blocks).to_integral_value(ROUND_HALF_UP)
    return blocks - int(pruned)


def prune(x, block_rows, block_cols, sparsity):
    """x (batch, tokens, in) with all but the largest blocks of each sample set to zero."""
    batch, rows, cols = x.shape
    blocks = x.reshape(batch, rows // block_rows, block_rows, cols // block_cols, block_cols)
    norms = blocks.square().sum((2, 4)).flatten(1)
    mask = torch.zeros_like(norms)
    keep = keep_count(norms.shape[1], sparsity)
    mask.scatter_(1, norms.topk(keep, dim=1).indices, 1.0)
    mask = mask.reshape(batch, rows // block_rows, 1, cols // block_cols, 1)
    return (blocks * mask).reshape(x.shape), keep / norms.shape[1]


def short(value):
    """Six digits of a measured number."""
    if isinstance(value, list):
        return [short(v) for v in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.device = torch.device(arguments.device)
        self.out = sys.stdout if arguments.json == "-" else open(arguments.json, "w")
        self.cuda = self.device.type == "cuda"
        self.dense_ms = {}  # of the current case, by TF32
        self.name = torch.cuda.get_device_name(self.device) if self.cuda else "cpu"

    def time(self, product):
        """The median and quartiles in milliseconds."""
        times = []
        for i in range(self.arguments.repeat + 1):
            if self.cuda:
                torch.cuda.synchronize(self.device)
            start = time.perf_counter()
            product()
            if self.cuda:
                torch.cuda.synchronize(self.device)
            if i > 0:  # the first one warms up
                times.append(1e3 * (time.perf_counter() - start))
        times.sort()
        last = len(times) - 1
        return statistics.median(times), [times[int(q * last + 0.5)] for q in (0.25, 0.75)]

    def report(self, op, form, shape, implementation, product, **fields):
        """Times `product` in each precision; a text instead is the reason why it is unsupported."""
        dense = implementation == "torch.matmul"
        for tf32 in (False, True) if self.cuda else (False,):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            ms = quartiles = None
            reason = product if isinstance(product, str) else None
            if reason is None:
                try:
                    ms, quartiles = self.time(product)
                except (RuntimeError, NotImplementedError) as error:
                    reason = str(error).strip().split("\n")[0]
            flops = 2.0 * shape["rows"] * shape["in"] * shape["out"] * fields.get("kept", 1.0)
            line = {
                "op": op,
                "form": form,
                **shape,
                "block": fields.get("block"),
                "block_rows": fields.get("block_rows"),
                "sparsity": fields.get("sparsity"),
                "ms": ms,
                "ms_quartiles": quartiles,
                "repetitions": self.arguments.repeat,
                "dense_ms": None if dense else self.dense_ms[tf32],
                "peer": None,
                "peer_ms": None,
                "speedup_vs_peer": None,
                "useful_gflops": 1e-6 * flops / ms if ms else None,
                "peak_gflops": None,
                "peak_fraction": None,
                "implementation": f"{implementation}, PyTorch {torch.__version__}",
                "precision": "tf32" if tf32 else "fp32",
                "threads": None if self.cuda else torch.get_num_threads(),
                "unsupported": reason,
                "device": self.name,
            }
            if dense:
                self.dense_ms[tf32] = ms
            print(json.dumps({k: short(v) for k, v in line.items()}), file=self.out, flush=True)

    def random(self, *sizes):
        """GELU-like: most values are small, some large."""
        u = torch.rand(*sizes, device=self.device) * 2 - 1
        return torch.where(u > 0, u, 0.05 * u)

    def dense(self, op, form, shape):
        """The operands of a dense product, stored as the layer stores them."""
        batch, tokens = shape["batch"], shape["tokens"]
        rows, features, out = shape["rows"], shape["in"], shape["out"]
        if op == "gemm-batched":
            w = self.random(out, tokens)
            if form == "nn":
                return w, self.random(batch, tokens, features)
            return w.t(), self.random(batch, out, features)
        if op == "gemm" and form == "nt":
            return self.random(rows, features), self.random(out, features).t()
        if op == "gemm" and form == "nn":
            return self.random(rows, out), self.random(out, features)
        if form == "tn":
            return self.random(rows, out).t(), self.random(rows, features)
        if form == "nn":
            return self.random(rows, features), self.random(features, out)
        # nt: one product over the samples and features, operands already in that layout
        return self.random(batch * features, out).t(), self.random(batch * features, tokens)

    def sparse(self, form, shape, block_rows, block_cols, sparsity):
        """BSR matrix and dense matrix, whose product is the result or its transpose, and the kept
        fraction; or the reason why it is unsupported."""
        batch, tokens = shape["batch"], shape["tokens"]
        rows, features, out = shape["rows"], shape["in"], shape["out"]
        if tokens % block_rows or features % block_cols:
            return f"blocks of {block_rows} x {block_cols} do not divide {tokens} x {features}"
        if not hasattr(torch.Tensor, "to_sparse_bsr"):
            return "this PyTorch has no to_sparse_bsr"
        x = self.random(batch, tokens, features)
        x, kept = prune(x, block_rows, block_cols, sparsity)
        try:
            if form == "nn":  # y = xs * w
                xs = x.reshape(rows, features).to_sparse_bsr((block_rows, block_cols))
                return xs, self.random(features, out), kept
            if form == "tn":  # dw^T = xs^T * dy
                xs = x.reshape(rows, features).t().contiguous()
                return xs.to_sparse_bsr((block_cols, block_rows)), self.random(rows, out), kept
            # nt: dw^T = sum_n xs_n * dy_n^T, the samples side by side
            xs = x.transpose(0, 1).reshape(tokens, batch * features)
            xs = xs.to_sparse_bsr((block_rows, block_cols))
            return xs, self.random(batch * features, out), kept
        except (RuntimeError, NotImplementedError) as error:
            return str(error).strip().split("\n")[0]

    def run(self, op, form, shape):
        a, b = self.dense(op, form, shape)
        self.report(op, form, shape, "torch.matmul", lambda: torch.matmul(a, b))
        if op != "bspmm":
            return
        for block, sparsity in itertools.product(self.arguments.block_, self.arguments.sparsity_):
            for block_rows in sorted({1, block}):
                made = self.sparse(form, shape, block_rows, block, sparsity)
                fields = {"block": block, "block_rows": block_rows, "sparsity": sparsity}
                if isinstance(made, str):
                    self.report(op, form, shape, "torch.sparse_bsr", made, **fields)
                    continue
                xs, right, kept = made
                self.report(
                    op, form, shape, "torch.sparse_bsr", lambda: xs @ right, kept=kept, **fields
                )

    def run_all(self):
        arguments = self.arguments
        for op, form in arguments.cases:
            for batch, rows, features, out in itertools.product(
                arguments.batch_, arguments.rows or arguments.tokens, arguments.in_, arguments.out_
            ):
                tokens = rows // batch if arguments.rows else rows
                shape = {"batch": batch, "tokens": tokens, "rows": batch * tokens}
                self.run(op, form, {**shape, "in": features, "out": out})


def main():
    warnings.filterwarnings("ignore", message=".*[Ss]parse.*")  # of their beta state
    torch.manual_seed(1)
    with torch.no_grad():
        arguments = parse_arguments()
        torch.set_num_threads(arguments.threads)
        Bench(arguments).run_all()


if __name__ == "__main__":
    main()
