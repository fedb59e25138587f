#!/usr/bin/env python3
"""Times the training step of a model in PyTorch: the peer of our training programs' step.

    torch_step.py [--arch resmlp_s12|...|resnet18|resnet50|vgg11|mixer_s16|deit_small|gpt_nano|gpt2]
                  [--batch-size 32] [--steps 3] [--channels-last] [--bf16]
                  [--compile] [--checkpoint] [--device cpu] [--tf32]

resnet50 and vgg11 are torchvision's, mixer_s16 and deit_small are timm's. gpt_nano and gpt2 are as gpt-train has them:
sequences of 256 or 1024 tokens, scaled_dot_product_attention, the head tied to the embedding.

One step: forward, cross-entropy with label smoothing 0.1, backward, AdamW (CNNs: SGD with momentum). Random images of
224 px; fp32, or with --bf16 under autocast. --checkpoint recomputes each block in the backward pass; a block of VGG ends
with a pooling. Prints a line a step,
then the median and the saved MiB as JSON. saved_mib counts each storage once that autograd saves, without parameters; it is
left out with --compile. --steps 0 counts and times nothing. Needs PyTorch (Debian: python3-torch; --compile: 2.0 or later, from pip)."""
import argparse
import json
import os
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

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


class MLPBlock(nn.Module):
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
        self.blocks = nn.ModuleList(MLPBlock(dim, tokens, scale) for _ in range(depth))
        self.norm = Affine(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, images, call):
        x = self.stem(images).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = call(block, x)
        return self.head(self.norm(x).mean(1))


class ConvBlock(nn.Module):
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
            layers += [ConvBlock(inputs, outputs, 1 if stage == 0 else 2), ConvBlock(outputs, outputs, 1)]
            inputs = outputs
        self.layers = nn.ModuleList(layers)
        self.fc = nn.Linear(512, classes)

    def forward(self, images, call):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(images)), inplace=True), 3, 2, 1)
        for block in self.layers:
            x = call(block, x)
        return self.fc(x.mean((2, 3)))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        import torchvision
        self.net = torchvision.models.resnet50()

    def forward(self, images, call):
        net = self.net
        x = net.maxpool(net.relu(net.bn1(net.conv1(images))))
        for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
            for block in stage:
                x = call(block, x)
        return net.fc(net.avgpool(x).flatten(1))


class VGG11(nn.Module):
    def __init__(self):
        super().__init__()
        import torchvision
        self.net = torchvision.models.vgg11()
        self.blocks = [[]]
        for module in self.net.features:
            self.blocks[-1].append(module)
            if isinstance(module, nn.MaxPool2d):
                self.blocks.append([])
        self.blocks = nn.ModuleList(nn.Sequential(*block) for block in self.blocks if block)

    def forward(self, images, call):
        x = images.requires_grad_()  # a checkpoint needs an input with a gradient
        for block in self.blocks:
            x = call(block, x)
        return self.net.classifier(self.net.avgpool(x).flatten(1))


class MixerS16(nn.Module):
    def __init__(self):
        super().__init__()
        import timm
        self.net = timm.create_model("mixer_s16_224")

    def forward(self, images, call):
        net = self.net
        x = net.stem(images)
        for block in net.blocks:
            x = call(block, x)
        return net.head(net.norm(x).mean(1))


class DeiTSmall(nn.Module):
    def __init__(self):
        super().__init__()
        import timm
        self.net = timm.create_model("deit_small_patch16_224")

    def forward(self, images, call):
        net = self.net
        x = net._pos_embed(net.patch_embed(images))
        for block in net.blocks:
            x = call(block, x)
        return net.head(net.norm(x)[:, 0])


class GPTBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.ln_1, self.ln_2 = heads, nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.c_attn, self.c_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.c_fc, self.mlp_proj = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.c_attn(self.ln_1(x)).chunk(3, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).flatten(2))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, dim, depth, heads, context, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, dim), nn.Embedding(context, dim)
        self.h = nn.ModuleList(GPTBlock(dim, heads) for _ in range(depth))
        self.ln_f = nn.LayerNorm(dim)

    def forward(self, tokens, call):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.h:
            x = call(block, x)
        return (self.ln_f(x) @ self.wte.weight.T).flatten(0, 1)


GPTS = {  # dim, depth, heads, context, vocabulary
    "gpt_nano": (384, 6, 6, 256, 256),
    "gpt2": (768, 12, 12, 1024, 50257),
}
CNNS = {"resnet18": ResNet18, "resnet50": ResNet50, "vgg11": VGG11}


def create(arch):
    made = {**CNNS, "mixer_s16": MixerS16, "deit_small": DeiTSmall}
    if arch in made:
        return made[arch]()
    return GPT(*GPTS[arch]) if arch in GPTS else ResMLP(*ARCHS[arch])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", choices=[*ARCHS, *CNNS, "mixer_s16", "deit_small", *GPTS], default="resmlp_s12")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=3, help="timed steps, after one untimed")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="autocast to bf16")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--checkpoint", action="store_true", help="recompute each block")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tf32", action="store_true", help="let cuBLAS use TF32")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.backends.cuda.matmul.allow_tf32 = args.tf32
    torch.backends.cudnn.allow_tf32 = args.tf32
    torch.manual_seed(1)
    images = torch.randn(args.batch_size, 3, 224, 224, device=args.device)
    labels = torch.randint(0, 1000, (args.batch_size,), device=args.device)
    if args.arch in GPTS:
        context, vocabulary = GPTS[args.arch][3:]
        images = torch.randint(0, vocabulary, (args.batch_size, context), device=args.device)
        labels = torch.randint(0, vocabulary, (args.batch_size * context,), device=args.device)
    model = create(args.arch).to(args.device)
    if args.channels_last:
        model, images = (each.to(memory_format=torch.channels_last) for each in (model, images))
    if args.arch in CNNS:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    parameters = {p.data_ptr() for p in model.parameters()}
    call = lambda block, x: block(x)
    if args.checkpoint:
        call = lambda block, x: checkpoint(block, x, use_reentrant=True)
    forward = torch.compile(model) if args.compile else model
    saved = {}

    def loss():
        with torch.autocast(torch.device(args.device).type, torch.bfloat16, enabled=args.bf16):
            return F.cross_entropy(forward(images, call), labels, label_smoothing=0.1)

    def pack(tensor):
        storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
        if storage.data_ptr() not in parameters:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    times = []
    for step in range(args.steps + 1):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        if step == 0 and not args.compile:  # the untimed one
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                value = loss()
            value.backward()
        else:
            loss().backward()
        optimizer.step()
        if args.device != "cpu":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
        print(f"step {step}: {times[-1]:.1f} ms", flush=True)
    result = {"peer": f"PyTorch {torch.__version__}", **vars(args)}
    if args.steps > 0:
        result["step_ms"] = statistics.median(times[1:])
    if not args.compile:
        result["saved_mib"] = sum(saved.values()) / 1048576
    print(json.dumps(result))


if __name__ == "__main__":
    main()
