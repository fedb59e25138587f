#!/usr/bin/env python3
"""Times the dense training step of ResNet-18 in PyTorch: the peer of resnet-train's step.

    torch_step_resnet.py [--batch-size 32] [--steps 3] [--channels-last]

One step: forward, cross-entropy with label smoothing 0.1, backward, SGD with momentum. Random images,
224 px, fp32. Prints a line a step and the median as JSON. Needs PyTorch (Debian: python3-torch)."""
import argparse
import json
import os
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return F.relu(y + shortcut, inplace=True)


class ResNet18(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        layers, inputs = [], 64
        for stage, outputs in enumerate((64, 128, 256, 512)):
            layers += [Block(inputs, outputs, 1 if stage == 0 else 2), Block(outputs, outputs, 1)]
            inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(512, classes)

    def forward(self, images):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(images)), inplace=True), 3, 2, 1)
        return self.fc(self.layers(x).mean((2, 3)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=3, help="timed steps, after one untimed")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = ResNet18()
    images = torch.randn(args.batch_size, 3, 224, 224)
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    labels = torch.randint(0, 1000, (args.batch_size,))
    times = []
    for step in range(args.steps + 1):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(images), labels, label_smoothing=0.1).backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
        print(f"step {step}: {times[-1]:.1f} ms", flush=True)
    print(json.dumps({"peer": f"PyTorch {torch.__version__}", "arch": "resnet18",
                      "parameters": sum(p.numel() for p in model.parameters()),
                      "batch_size": args.batch_size, "channels_last": args.channels_last,
                      "threads": torch.get_num_threads(),
                      "step_ms": statistics.median(times[1:])}))


if __name__ == "__main__":
    main()
