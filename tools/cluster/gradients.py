#!/usr/bin/env python3
"""Gradients of resnet20 with synchronised batch norm: two ranks beside one, and what rounding alone does in PyTorch.

    gradients.py BUILD_DIR CIFAR10_DIR [SEEDS]     6 seeds

Prints a row for each number of images and seed, with relative errors of the whole gradient: of two ranks beside one; and, where
PyTorch is installed, of its gradient of a like model, of the same images in another order beside theirs (reordered) and in fp32
beside fp64. A gradient is the difference of the weights that a step of SGD leaves with a rate of 1000 and of nearly 0."""
import array
import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    torch = None
RATE = 1000


def weights(path):
    """The parameters in a safetensors file, one after the other."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8 : 8 + size])
    values = array.array("f")
    for name, tensor in sorted(tensors.items()):
        if name != "__metadata__" and tensor["dtype"] == "F32" and "running" not in name:
            first, last = tensor["data_offsets"]
            values.frombytes(data[8 + size + first : 8 + size + last])
    return values


def distance(a, b):
    """|a - b| / |b|"""
    return (sum((x - y) ** 2 for x, y in zip(a, b)) / sum(y * y for y in b)) ** 0.5


def step(program, data, images, seed, ranks, rate, work):
    path = work / "weights.safetensors"
    path.unlink(missing_ok=True)
    ours = [program, "--arch", "resnet20", "--data", data, "--activations", "dense", "--sync-batch-norm", "--batch-size", str(images)]
    ours += ["--seed", str(seed), "--optimizer", "sgd", "--weight-decay", "0", "--warmup-epochs", "0", "--lr", str(rate), "--steps", "1"]
    ours += ["--quiet", "--overwrite", "--output-dir", work / "run", "--export", path]
    start = ["mpirun", "--bind-to", "none", "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
    subprocess.run(start + ours, check=True, stdout=subprocess.DEVNULL)
    return weights(path)


def ranks_beside_one(program, data, images, seed, work):
    start, one, two = (step(program, data, images, seed, n, rate, work) for n, rate in ((1, 1e-30), (1, RATE), (2, RATE)))
    return distance([y - x for x, y in zip(start, two)], [y - x for x, y in zip(start, one)])


def resnet20():
    from torch import nn

    def conv(inputs, outputs, taps, stride):
        return nn.Sequential(nn.Conv2d(inputs, outputs, taps, stride, taps // 2, bias=False), nn.BatchNorm2d(outputs))

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.residual = nn.Sequential(conv(inputs, outputs, 3, stride), nn.ReLU(), conv(outputs, outputs, 3, 1))
            self.shortcut = conv(inputs, outputs, 1, stride) if inputs != outputs else nn.Identity()

        def forward(self, x):
            return torch.relu(self.residual(x) + self.shortcut(x))

    blocks = [Block(a, b, 1 + (a < b)) for a, b in ((16, 16), (16, 16), (16, 16), (16, 32), (32, 32), (32, 32), (32, 64), (64, 64), (64, 64))]
    return nn.Sequential(conv(3, 16, 3, 1), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def rounding(images, seed):
    torch.manual_seed(seed)
    model, x, labels = resnet20(), torch.randn(images, 3, 32, 32), torch.randint(0, 10, (images,))

    def gradient(x, labels):
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(x), labels).backward()
        return torch.cat([p.grad.double().flatten() for p in model.parameters()])

    order = random.Random(seed).sample(range(images), images)
    plain, reordered = gradient(x, labels), gradient(x[order], labels[order])
    model.double()
    exact = gradient(x.double(), labels)
    return ((reordered - plain).norm() / plain.norm()).item(), ((plain - exact).norm() / exact.norm()).item()


def main():
    program, data = pathlib.Path(sys.argv[1]) / "bin/resnet-train-mpi", sys.argv[2]
    print("images,seed,two_ranks,torch_reordered,torch_fp64")
    with tempfile.TemporaryDirectory() as folder:
        for images in 4, 16:
            for seed in range(1, 1 + int(sys.argv[3] if len(sys.argv) > 3 else 6)):
                errors = [ranks_beside_one(program, data, images, seed, pathlib.Path(folder))]
                errors += rounding(images, seed) if torch else []
                print(images, seed, *(f"{e:.1e}" for e in errors), sep=",", flush=True)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main()
