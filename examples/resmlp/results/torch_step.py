#!/usr/bin/env python3
"""Times the dense training step of a ResMLP in PyTorch: the peer of resmlp-train's step.

    torch_step.py [--arch resmlp_s12] [--batch-size 32] [--steps 3] [--device cpu] [--tf32]

One step: forward, cross-entropy with label smoothing 0.1, backward, AdamW. Random images, fp32.
Prints a line a step and the median as JSON. Needs PyTorch (Debian: python3-torch)."""
import argparse
import json
import os
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

ARCHS = {  # dim, depth, LayerScale
    "resmlp_s12": (384, 12, 0.1),
    "resmlp_s24": (384, 24, 1e-5),
    "resmlp_s36": (384, 36, 1e-6),
    "resmlp_b24": (768, 24, 1e-6),
}


class Affine(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(dim))
        self.beta = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return self.alpha * x + self.beta


class Block(nn.Module):
    def __init__(self, dim, tokens, scale):
        super().__init__()
        self.norm1, self.norm2 = Affine(dim), Affine(dim)
        self.linear_tokens = nn.Linear(tokens, tokens)
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.ls1 = nn.Parameter(scale * torch.ones(dim))
        self.ls2 = nn.Parameter(scale * torch.ones(dim))

    def forward(self, x):
        mixed = self.linear_tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.ls1 * mixed
        return x + self.ls2 * self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ResMLP(nn.Module):
    def __init__(self, dim, depth, scale, size=224, patch=16, classes=1000):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, patch, patch)
        tokens = (size // patch) ** 2
        self.blocks = nn.Sequential(*(Block(dim, tokens, scale) for _ in range(depth)))
        self.norm = Affine(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        x = self.stem(images).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", choices=ARCHS, default="resmlp_s12")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=3, help="timed steps, after one untimed")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tf32", action="store_true", help="let cuBLAS use TF32")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.backends.cuda.matmul.allow_tf32 = args.tf32
    torch.backends.cudnn.allow_tf32 = args.tf32
    torch.manual_seed(1)
    model = ResMLP(*ARCHS[args.arch]).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    images = torch.randn(args.batch_size, 3, 224, 224, device=args.device)
    labels = torch.randint(0, 1000, (args.batch_size,), device=args.device)
    times = []
    for step in range(args.steps + 1):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(images), labels, label_smoothing=0.1).backward()
        optimizer.step()
        if args.device != "cpu":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
        print(f"step {step}: {times[-1]:.1f} ms", flush=True)
    print(json.dumps({"peer": f"PyTorch {torch.__version__}", "arch": args.arch,
                      "batch_size": args.batch_size, "device": args.device, "tf32": args.tf32,
                      "threads": torch.get_num_threads(),
                      "step_ms": statistics.median(times[1:])}))


if __name__ == "__main__":
    main()
