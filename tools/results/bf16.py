#!/usr/bin/env python3
"""Products and 3 x 3 convolutions in bf16 beside PyTorch's (oneDNN), and ours in fp32, in turns.

    bf16.py BENCH OUT [ROUNDS]

BENCH is clprune-bench. OUT/bf16.csv gets a row for each case: the medians over the rounds in ms, then the medians of the
ratios in a round: ours in fp32 to ours in bf16, and PyTorch's in bf16 to ours in bf16. PyTorch's operands and results are
bf16; ours are fp32, rounded on the way, but for the x of forward-bf16. Of kept forms, the peer is PyTorch's dense product. Needs PyTorch 2. POCL_AFFINITY=1
keeps PoCL's threads on cores of their own; $CPU names the machine in the file."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch
from torch.nn import functional as F
from torch.nn.grad import conv2d_input, conv2d_weight

ROWS, BATCH = 6272, 32
PRODUCTS = [(384, 1536), (1536, 384)]  # in, out
CONVOLUTIONS = [(64, 56), (128, 28), (256, 14), (512, 7)]  # channels, image
REPEAT = 11


def bf16(*shape):
    return torch.randn(*shape).to(torch.bfloat16)


def median_ms(call):
    times = []
    for _ in range(REPEAT + 1):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[1:])


def peers():
    """Case: a function that computes it."""
    for size_in, size_out in PRODUCTS:
        x, w, dy = bf16(ROWS, size_in), bf16(size_out, size_in), bf16(ROWS, size_out)
        yield ("gemm", "nt", size_in, size_out), lambda x=x, w=w: x @ w.t()
        yield ("gemm", "nn", size_in, size_out), lambda w=w, dy=dy: dy @ w
        yield ("gemm", "tn", size_in, size_out), lambda x=x, dy=dy: dy.t() @ x
    for channels, image in CONVOLUTIONS:
        x, dy = (bf16(BATCH, channels, image, image).to(memory_format=torch.channels_last) for _ in range(2))
        w = bf16(channels, channels, 3, 3).to(memory_format=torch.channels_last)
        yield ("conv", "forward", channels, image), lambda x=x, w=w: F.conv2d(x, w, padding=1)
        yield ("conv", "dx", channels, image), lambda x=x, w=w, dy=dy: conv2d_input(x.shape, w, dy, padding=1)
        yield ("conv", "dw", channels, image), lambda x=x, w=w, dy=dy: conv2d_weight(x, w.shape, dy, padding=1)


def ours(bench, precision):
    """Case: ms, of each case of the peer and of kept forms."""
    common = ["--batch", str(BATCH), "--sparsity", "0.7", "--block", "16", "--repeat", str(REPEAT), "--precision", precision,
              "--json", "-"]
    runs = [[op, "--rows", str(ROWS), "--in", str(a), "--out", str(b)] for a, b in PRODUCTS for op in ("gemm", "bspmm")]
    runs += [["conv", "--in", str(c), "--out", str(c), "--image", str(image)] for c, image in CONVOLUTIONS]
    found = {}
    for run in runs:
        done = subprocess.run([bench, *run, *common], stdout=subprocess.PIPE, text=True, check=True)
        for case in map(json.loads, done.stdout.splitlines()):
            last = case["image"] if case["op"] == "conv" else case["out"]
            found[case["op"], case["form"], case["in"], last] = case["ms"]
    return found


def peer_of(case):
    op, form, *shape = case
    if op == "conv":
        return ("conv", form.removesuffix("-bf16") if form.startswith("forward") or form == "dx" else "dw", *shape)
    return ("gemm", form, *shape)


def main():
    bench, out = sys.argv[1], pathlib.Path(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    calls, turns = dict(peers()), []
    for _ in range(rounds):
        turns.append((ours(bench, "bf16"), ours(bench, "fp32"), {case: median_ms(call) for case, call in calls.items()}))
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "bf16.csv", "w") as file:
        print(f"# {os.environ.get('CPU', 'CPU not named')}; PyTorch {torch.__version__}; {rounds} rounds, {REPEAT} runs each",
              file=file)
        print("op,form,in,out_or_image,bf16_ms,fp32_ms,torch_bf16_ms,fp32_over_bf16,torch_over_bf16", file=file)
        for case in turns[0][0]:
            peer = peer_of(case)
            if peer not in calls:
                continue
            times = [(a[case], b[case], c[peer]) for a, b, c in turns]
            medians = [statistics.median(t) for t in zip(*times)]
            ratios = [statistics.median(t[i] / t[0] for t in times) for i in (1, 2)]
            print(",".join([*map(str, case), *(f"{m:.2f}" for m in medians), *(f"{r:.2f}" for r in ratios)]), file=file)
    print((out / "bf16.csv").read_text())


if __name__ == "__main__":
    main()
