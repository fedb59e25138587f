#!/usr/bin/env python3
"""Prints as CSV, for each model and way of keeping of train.py: what autograd saves, how far the
weight gradients are from PyTorch's, and the time of a forward and backward pass.

    measure.py [--data cifar-10-batches-bin] [--draws 32] [--rounds 5] >measure.csv

With g PyTorch's gradient of all parameters, g_i the gradient of draw i and m their mean:

    one_draw   root mean square of |g_i - g| / |g|
    mean       |m - g| / |g|
    chance     the part of `mean` from chance: the spread of the draws, s / sqrt(draws)
    bias       sqrt(max(0, mean^2 - chance^2)): the rest
"""

import argparse
import csv
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import torch
import torch.nn.functional as F

import train


def gradient(model, x, y, keep="pytorch"):
    model.zero_grad()
    with train.around(keep):
        loss = F.cross_entropy(model(x), y)
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()]).double()


def pass_ms(model, x, y, keep):
    start = time.perf_counter()
    gradient(model, x, y, keep)
    return 1000 * (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--draws", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--warm-up", type=int, default=20, help="steps of PyTorch's own before")
    parser.add_argument("--models", nargs="+", default=["mlp", "vit"])
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    images, labels, _, _ = train.read_cifar(args.data) if args.data else train.generate()
    names = ["model", "keep", "saved_mib", "one_draw", "mean", "chance", "bias", "pass_ms"]
    table = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    table.writeheader()
    for model in args.models:
        torch.manual_seed(0)
        start = train.build(model, "pytorch", 0.7)
        optimizer = torch.optim.AdamW(start.parameters(), lr=1e-3)
        for batch in torch.arange(args.warm_up * args.batch_size).split(args.batch_size):
            gradient(start, train.to_floats(images[batch]), labels[batch])
            optimizer.step()
        x, y = train.to_floats(images[-args.batch_size:]), labels[-args.batch_size:]
        g = gradient(start, x, y)
        rows, models = [], []
        for keep in train.KEEPS:
            made = train.build(model, keep, 0.7)
            made.load_state_dict(start.state_dict())
            models.append(made)
            row = dict(model=model, keep=keep, saved_mib=f"{train.saved_mib(made, keep, x, y):.3f}")
            rows.append(row)
            if keep == "pytorch":
                continue
            draws = 1 if keep in ("dense", "largest") else args.draws
            mean, squares = torch.zeros_like(g), 0.0
            for i in range(draws):
                torch.manual_seed(i)
                draw = gradient(made, x, y, keep)
                mean += draw / draws
                squares += float((draw - g).norm() ** 2 / g.norm() ** 2) / draws
            off = float((mean - g).norm() ** 2 / g.norm() ** 2)
            chance = (squares - off) / (draws - 1) if draws > 1 else 0.0
            row.update(one_draw=f"{squares ** 0.5:.3g}", mean=f"{off ** 0.5:.3g}",
                       chance=f"{chance ** 0.5:.3g}", bias=f"{max(0.0, off - chance) ** 0.5:.3g}")
        times = [[] for _ in models]
        for _ in range(args.rounds):  # in turns, so that drift of the machine affects all alike
            for made, keep, seen in zip(models, train.KEEPS, times):
                seen.append(pass_ms(made, x, y, keep))
        for row, seen in zip(rows, times):
            table.writerow({**row, "pass_ms": f"{statistics.median(seen):.1f}"})
        sys.stdout.flush()


if __name__ == "__main__":
    main()
