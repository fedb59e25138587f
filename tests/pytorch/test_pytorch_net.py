"""Tests of clprune.Net (examples/pytorch/clprune/net and tracing) against PyTorch: the
same loss, gradients, steps and outputs. CLPRUNE_LIBRARY is the library. Run by test_pytorch.sh."""

import copy
import functools
import gc
import math
import subprocess
import sys
import unittest
import unittest.mock

import torch
import torch.nn.functional as F
from torch import nn

from pytorch_case import error

import clprune
import clprune.tracing.views as clprune_views

if int(torch.__version__.split(".")[0]) < 2:
    print("skipped: clprune.Net needs PyTorch 2.0", file=sys.stderr)
    sys.exit(77)

CLASSES = 10


# ---- models ---------------------------------------------------------------------------------------


class Residual(nn.Module):
    """ResNet's block; the second ReLU is the first one's module."""

    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out, momentum=0.3)
        self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += self.downsample(x)
        return self.relu(y)


def resnet():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        Residual(16, 24, 2), Residual(24, 24, 1), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(),
        nn.Linear(24, CLASSES))


def vgg():
    """The flattened image is 2 x 3 pixels: PyTorch's order of features is not the net's."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2), nn.Conv2d(16, 24, 3, padding=1),
        nn.ReLU(True), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d((2, 3)), nn.Flatten(), nn.ReLU(),
        nn.Linear(24 * 6, 32), nn.ReLU(True), nn.Dropout(0.0), nn.Linear(32, CLASSES))


def group_norms():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, padding=1), nn.GroupNorm(1, 24, eps=1e-3), nn.SiLU(), nn.Conv2d(24, 20, 1),
        nn.GroupNorm(20, 20, affine=False), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(20, 30),
        nn.GroupNorm(5, 30), nn.Linear(30, CLASSES))


class Excitation(nn.Module):
    """Squeeze-and-excitation as torchvision has it: 1 x 1 convolutions of pooled images."""

    def __init__(self, channels, gate):
        super().__init__()
        self.pool, self.gate, self.act = nn.AdaptiveAvgPool2d(1), gate, nn.SiLU()
        self.fc1, self.fc2 = nn.Conv2d(channels, 8, 1), nn.Conv2d(8, channels, 1, bias=False)

    def forward(self, x):
        return self.gate(self.fc2(self.act(self.fc1(self.pool(x))))) * x


def mobilenet():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16, momentum=0.01), nn.Hardswish(),
        nn.Conv2d(16, 16, 5, 2, 2, groups=16), nn.ReLU6(), Excitation(16, nn.Hardsigmoid()),
        nn.Conv2d(16, 24, 1, bias=False), nn.BatchNorm2d(24), nn.Hardtanh(0, 6), Excitation(24, nn.Sigmoid()),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, CLASSES))


def depthwise():
    """Depthwise convolutions, with two outputs a channel, and groups."""
    return nn.Sequential(
        nn.Conv2d(3, 24, 1), nn.BatchNorm2d(24), nn.ReLU(),
        nn.Conv2d(24, 24, 3, 1, 1, groups=24, bias=False), nn.BatchNorm2d(24), nn.ReLU(),
        nn.AvgPool2d(3, 1, 1), nn.Conv2d(24, 24, 5, 2, 2, groups=24), nn.AvgPool2d(2, ceil_mode=True), nn.GELU(),
        nn.Conv2d(24, 48, 3, padding="same", groups=24),
        nn.ReLU(), nn.Conv2d(48, 32, 3, padding=1, groups=4), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, CLASSES))


class Shuffled(nn.Module):
    """ShuffleNet's two units: halves of the features, one of which stays, joined and shuffled."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                                  nn.MaxPool2d(3, 2, ceil_mode=True))
        self.branch = nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU(),
                                  nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.BatchNorm2d(8))
        self.left, self.right = nn.Conv2d(16, 10, 3, 2, 1), nn.Conv2d(16, 20, 3, 2, 1)
        self.head = nn.Linear(15, CLASSES)

    def shuffle(self, x, groups):
        n, c, h, w = x.shape
        return x.view(n, groups, c // groups, h, w).transpose(1, 2).contiguous().view(n, -1, h, w)

    def forward(self, x):
        first, second = self.stem(x).chunk(2, dim=1)
        x = self.shuffle(torch.cat((first, self.branch(second)), dim=1), 2)
        x = F.relu(self.shuffle(torch.cat((self.left(x), self.right(x)), 1), 3))
        return self.head((x[:, :15] * 0.5 + x[:, 15:]).mean([2, 3]))


class Dense(nn.Module):
    """DenseNet's lists, which grow; rows without a class token, and rows of two images."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, 2, 1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(12 + 8 * i), nn.ReLU(), nn.Conv2d(12 + 8 * i, 8, 3, 1, 1, bias=False))
            for i in range(3))
        self.token = nn.Parameter(torch.randn(1, 1, 36))
        self.mix, self.head = nn.Linear(36, 36), nn.Linear(36, CLASSES)

    def forward(self, x):
        parts = [self.stem(x)]
        for layer in self.layers:
            parts.append(layer(torch.cat(parts, 1)))
        image = torch.cat(parts, 1)
        small = F.max_pool2d(image, 2, ceil_mode=True).flatten(2).transpose(1, 2)
        rows = torch.cat((small, image.flatten(2).transpose(1, 2)), dim=1)
        rows = self.mix(torch.cat((self.token.expand(x.size(0), -1, -1), rows), 1))
        a, b = torch.split(rows[:, 1:], [20, rows.shape[1] - 21], 1)
        return self.head(F.gelu(torch.concat([b, a], -2)).mean(1) + rows[:, 0])


class Mixer(nn.Module):
    """MLP-Mixer with a shape read in forward, as timm writes it."""

    def __init__(self, bias=True):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 4, 4)
        self.norm1 = nn.LayerNorm(32, eps=1e-6)
        self.tokens = nn.Sequential(nn.Linear(6, 16, bias=bias), nn.GELU(), nn.Linear(16, 6))
        self.norm2 = nn.LayerNorm(32)
        self.channels = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32, bias=bias))
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        batch, _, height, width = x.shape
        torch._assert(height % 4 == 0, "height")
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.norm2(x))
        return self.head(x.mean(dim=1).reshape(batch, -1))


class Affine(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.alpha = nn.Parameter(1 + 0.1 * torch.randn(1, 1, features))
        self.beta = nn.Parameter(0.1 * torch.randn(1, 1, features))

    def forward(self, x):
        return torch.addcmul(self.beta, self.alpha, x)


class ResMLP(nn.Module):
    """timm's ResMLP: Affine by addcmul, LayerScale by a product and a sum."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 4, 4)
        self.norm1, self.norm2 = Affine(32), Affine(32)
        self.tokens = nn.Linear(6, 6)
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.ls1 = nn.Parameter(0.5 * torch.rand(32))
        self.ls2 = nn.Parameter(0.5 * torch.rand(32))
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = x + self.ls1 * self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.mlp(self.norm2(x)) * self.ls2
        return self.head(x.mean(1))


class Functions(nn.Module):
    """Functions in place of modules, a product with a parameter alone, numbers, channels last."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(0.2 * torch.randn(16, 3, 3, 3))
        self.gain = nn.Parameter(1 + 0.1 * torch.randn(16, 1, 1))
        self.norm = nn.LayerNorm(16)
        self.bn = nn.BatchNorm2d(16, affine=False)
        self.fc = nn.Linear(16, 16, bias=False)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = F.relu(F.conv2d(x, self.weight, None, stride=2, padding=1))
        x = self.bn(x * self.gain)
        t = F.layer_norm(x.permute(0, 2, 3, 1), (16,), self.norm.weight, self.norm.bias, 1e-5)
        t = F.gelu(F.linear(t, self.fc.weight)).permute(0, 3, 1, 2)
        x = torch.add(x, 0.5 * t) / 2
        x = F.max_pool2d(x, 2)
        x = F.dropout(x, 0.0, self.training)
        return self.head(F.adaptive_avg_pool2d(x, 1).view(x.size(0), -1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, padding=1)
        self.middle = nn.Conv2d(8, 8, 3, padding=1)
        self.larger = nn.Upsample(scale_factor=2)
        self.up = nn.ConvTranspose2d(8, 12, 3, (2, 1), 1, output_padding=(1, 0), groups=2)
        self.last = nn.ConvTranspose2d(20, 6, 2, 2, bias=False)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x):
        x = F.relu(self.down(x))
        small = F.relu(self.middle(F.max_pool2d(x, 2)))
        smaller = F.interpolate(F.max_pool2d(small, 2), scale_factor=2)
        x = torch.cat([x + self.larger(small + smaller), self.up(F.max_pool2d(x, (2, 1)))], dim=1)
        return self.head(self.last(x).mean((2, 3)))


class Resampled(nn.Module):
    """Images of other sizes: interpolated, padded, pooled, cut, rolled and mirrored."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 2, padding="same")
        self.circular = nn.Conv2d(8, 8, 3, padding=(2, 1), padding_mode="circular")
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.pad, self.pool = nn.ReflectionPad2d((1, 2, 0, 1)), nn.AdaptiveAvgPool2d((3, 5))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = F.relu(self.circular(self.conv(x)))
        small = F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)
        x = x + F.interpolate(small, size=x.shape[2:], mode="bilinear", align_corners=False)
        x = self.pool(F.pad(self.pad(x), (0, 1, 2, 0)).roll((1, -2), (2, 3)))
        left, right = F.interpolate(self.up(x), scale_factor=1.5, mode="nearest").split([4, x.shape[3] * 3 - 4], 3)
        return self.head(left.flip(2).mean((2, 3)) * right[:, :, ::2, 1:-1].mean((2, 3)))


class Shared(nn.Module):
    """A layer that runs twice."""

    def __init__(self):
        super().__init__()
        self.first, self.again = nn.Linear(20, 32), nn.Linear(32, 32)
        self.bn = nn.BatchNorm1d(32, momentum=0.03)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        x = torch.relu(self.bn(self.first(x)))
        x = self.again(x).relu()
        return self.head(self.again(x) + x)


class Attention(nn.Module):
    """Self-attention as models write it, `how`, among rows."""

    def __init__(self, how, mask=None):
        super().__init__()
        self.how, self.heads = how, 3
        self.stem = nn.Linear(10, 24)
        self.shift, self.q_bias, self.v_bias = (nn.Parameter(torch.randn(24)) for _ in range(3))
        self.qkv = nn.Linear(24, 72) if how in (Attention.permuted, Attention.indexed, Attention.causal, Attention.joined) \
            else nn.ModuleList(nn.Linear(24, 24) for _ in range(3))
        self.proj, self.head = nn.Linear(24, 24), nn.Linear(24, CLASSES)
        self.register_buffer("mask", torch.ones(9, 9).tril().view(1, 1, 9, 9), persistent=False)

    def forward(self, x):
        x = self.stem(x)
        if x.shape[1] % 7 == 0:  # a condition on sizes
            x = x + self.proj(self.how(self, x, *x.shape))
        return self.head((x + self.shift).mean(1))

    def parts(self, x, n, t):
        """q, k and v of (N, heads, T, 8), by layers of their own."""
        return [part(x).view(n, t, self.heads, 8).transpose(1, 2) for part in self.qkv]

    def permuted(self, x, n, t, c):
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, 8).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, c)

    def indexed(self, x, n, t, c):
        qkv = self.qkv(x).reshape(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        weights = ((qkv[0] * 8 ** -0.5) @ qkv[1].transpose(-2, -1)).softmax(dim=-1)
        return (F.dropout(weights, 0.0) @ qkv[2]).transpose(1, 2).reshape(n, t, c)

    def causal(self, x, n, t, c):
        q, k, v = (part.view(n, t, self.heads, 8).transpose(1, 2) for part in self.qkv(x).split(c, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(k.size(-1)))
        weights = F.softmax(scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")), dim=-1)
        return (weights @ v).transpose(1, 2).contiguous().view(n, t, c)

    def joined(self, x, n, t, c):
        """Biases of queries and values beside each other, with none of keys, as in BEiT."""
        qkv = F.linear(x, self.qkv.weight, torch.cat((self.q_bias, torch.zeros_like(self.v_bias), self.v_bias)))
        q, k, v = qkv.reshape(n, t, 3, self.heads, 8).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, c)

    def apart(self, x, n, t, c):
        q, k, v = self.parts(x, n, t)
        hidden = torch.full((t, t), float("-inf")).triu(1)
        scores = torch.matmul(q, k.transpose(2, 3)) / 2 + hidden  # a scale of its own
        return torch.matmul(scores.softmax(-1), v).transpose(1, 2).flatten(2)

    def flag(self, x, n, t, c):
        return F.scaled_dot_product_attention(*self.parts(x, n, t), is_causal=True, scale=0.7).transpose(1, 2).flatten(2)

    def batched(self, x, n, t, c):
        q, k, v = (part.reshape(n * self.heads, t, 8) for part in self.parts(x, n, t))
        weights = torch.softmax(torch.bmm(q, k.transpose(1, 2)) / 8 ** 0.5, -1)
        return torch.bmm(weights, v).view(n, self.heads, t, 8).transpose(1, 2).reshape(n, t, c)

    def single(self, x, n, t, c):
        q, k, v = (part(x) for part in self.qkv)
        return (q @ k.transpose(1, 2) / c ** 0.5).softmax(-1) @ v


class GPT(nn.Module):
    """Tokens, a table of more positions than are used, a head tied to the tokens' table, a logit for each row."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(30, 24), nn.Embedding(20, 24)
        self.norm, self.attention = nn.LayerNorm(24), Attention(Attention.causal)
        self.rms = nn.RMSNorm(24, 1e-5) if hasattr(nn, "RMSNorm") else nn.Identity()
        self.head = nn.Linear(24, 30, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids):
        n, t = ids.size()
        x = self.wte(ids) + self.wpe(torch.arange(0, t, dtype=torch.long, device=ids.device))
        x = x + self.attention.proj(self.attention.causal(self.norm(x), n, t, 24))
        return self.head(self.rms(x))


class Gains(nn.Module):
    """One parameter as a scale of features, as a LayerScale and as the weight of a norm."""

    def __init__(self):
        super().__init__()
        self.first, self.gain, self.shift = nn.Linear(20, 6), nn.Parameter(torch.randn(6)), nn.Parameter(torch.randn(6))
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x):
        x = self.first(x)
        y = F.relu(x * self.gain) * 0.5
        return self.head(F.layer_norm(y + x * self.gain, (6,), self.gain, self.shift))


class ViTBlock(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(32), nn.LayerNorm(32, eps=1e-6)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.fc1, self.act, self.fc2 = nn.Linear(32, 48), act, nn.Linear(48, 32)

    def forward(self, x):
        y = self.ln_1(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        x = x + y
        return x + self.fc2(self.act(self.fc1(self.ln_2(x))))


class ViT(nn.Module):
    """As torchvision writes it: a class token, positions, the row of the token at the end."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(3, 32, 4, 4)
        self.class_token = nn.Parameter(torch.randn(1, 1, 32))
        self.pos_embedding = nn.Parameter(torch.randn(1, 7, 32))
        self.blocks = nn.Sequential(ViTBlock(nn.GELU("tanh")), ViTBlock(nn.SiLU()))
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        n = x.shape[0]
        x = self.proj(x).reshape(n, 32, -1).permute(0, 2, 1)
        x = torch.cat([self.class_token.expand(n, -1, -1), x], dim=1) + self.pos_embedding
        return self.head(self.blocks(x)[:, 0])


class Windows(nn.Module):
    """Attention in windows of 2 x 3 pixels, with what `add` adds to the scores, as Swin writes it: rolled images in four
    dimensions; merged patches at the end."""

    def __init__(self, add):
        super().__init__()
        self.add = add
        self.stem, self.norm = nn.Conv2d(3, 8, 2, 2), nn.LayerNorm(8)
        self.qkv, self.proj = nn.Linear(8, 24), nn.Linear(8, 8)
        self.table = nn.Parameter(torch.randn(15, 2))
        y, x = torch.arange(6) // 3, torch.arange(6) % 3
        self.register_buffer("index", (y[:, None] - y + 1) * 5 + x[:, None] - x + 2)
        self.register_buffer("mask", torch.where(torch.rand(4, 6, 6) < 0.8, 0.0, -100.0))
        self.merge, self.head = nn.Linear(32, 8, bias=False), nn.Linear(8, CLASSES)

    def forward(self, x):
        x = self.stem(x).permute(0, 2, 3, 1)
        n, height, width, c = x.shape
        w = torch.roll(self.norm(x), (-1, -2), (1, 2)).view(n, height // 2, 2, width // 3, 3, c)
        w = w.permute(0, 1, 3, 2, 4, 5).reshape(-1, 6, c)
        q, k, v = self.qkv(w).reshape(-1, 6, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        w = self.proj(self.add(self, q, k, v).transpose(1, 2).reshape(-1, 6, c))
        w = w.view(n, height // 2, width // 3, 2, 3, c).permute(0, 1, 3, 2, 4, 5).reshape(n, height, width, c)
        x = x + torch.roll(w, (1, 2), (1, 2))
        x = F.pad(x, (0, 0, 0, 1, 0, 1))[:, :height, :width, :]
        x = self.merge(x.reshape(n, height // 2, 2, width // 2, 2, c).permute(0, 1, 3, 4, 2, 5).flatten(3))
        return self.head(x.mean((1, 2)))

    def of_table(self):
        return self.table[self.index.view(-1)].view(6, 6, 2).permute(2, 0, 1)

    def fused(self, q, k, v):
        mask = self.of_table().unsqueeze(0) + self.mask[None, :, None].expand(q.shape[0] // 4, -1, -1, -1, -1).reshape(
            -1, 1, 6, 6)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def apart(self, q, k, v):
        scores = (q * 0.5) @ k.transpose(-2, -1) + self.of_table().unsqueeze(0)
        scores = scores.view(-1, 4, 2, 6, 6) + self.mask.unsqueeze(1).unsqueeze(0)
        return scores.view(-1, 2, 6, 6).softmax(-1) @ v

    def einsum(self, q, k, v):
        scores = torch.einsum("b h i d, b h j d -> b h i j", q, k * 0.5)
        return torch.einsum("b h i j, b h j d -> b h i d", F.softmax(scores + self.of_table(), dim=-1), v)

    def alone(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


class Biases(nn.Module):
    """Attention with what `add` adds to the scores; qkv is one head after the other."""

    def __init__(self, add):
        super().__init__()
        self.add, self.qkv, self.head = add, nn.Linear(10, 36), nn.Linear(12, CLASSES)
        self.table, self.embed = nn.Parameter(torch.randn(3, 13)), nn.Embedding(13, 3)
        self.register_buffer("index", torch.arange(7)[:, None] - torch.arange(7) + 6)
        self.register_buffer("alibi", -torch.tensor([0.5, 0.25, 0.125])[:, None, None] * torch.arange(7.0))

    def forward(self, x):
        qkv = self.qkv(x).view(-1, 7, 3, 3, 4)
        q, k, v = (qkv[..., i, :].transpose(1, 2) for i in range(3))
        return self.head(self.add(self, q, k, v).transpose(1, 2).reshape(-1, 7, 12)[:, 3])

    def heads_first(self, q, k, v):
        return (q @ k.transpose(2, 3) * 0.5 + self.table[:, self.index]).softmax(-1) @ v

    def embedded(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, self.embed(self.index).permute(2, 0, 1).unsqueeze(0))

    def numbers(self, q, k, v):
        causal = torch.full((7, 7), -1e9).triu(1)
        return F.scaled_dot_product_attention(q, k, v, self.alibi[None] + causal)

    def batches(self, q, k, v):
        alibi = self.alibi.repeat(q.shape[0], 1, 1)
        q, k = (part.reshape(-1, 7, 4) for part in (q, k))
        scores = alibi.baddbmm(batch1=q, batch2=k.transpose(1, 2), beta=1.0, alpha=0.5).view(-1, 3, 7, 7)
        return scores.softmax(-1) @ v

    def own(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, torch.eye(7).bool() | (torch.arange(7) < 2))


def turned(x, cos, sin):
    first, second = x[..., :x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class OneMoreRMSNorm(nn.Module):
    """Gemma's."""

    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(0.1 * torch.randn(features))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1.0 + self.weight)


OneMoreRMSNorm.__module__ = "transformers.models.gemma"


class Turned(nn.Module):
    """Causal attention with rotary positions, as `how` writes them, beside the MLP as in GPT-NeoX and Phi; 2 heads of 12."""

    def __init__(self, how, part=12, theta=1e4):
        super().__init__()
        self.how, self.part = how, part
        self.norm, self.qkv, self.out = nn.LayerNorm(24), nn.Linear(24, 72), nn.Linear(24, 24)
        self.mlp = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 24))
        self.head = nn.Linear(24, CLASSES)
        self.q_norm, self.k_norm = (nn.RMSNorm(12, 1e-5), nn.RMSNorm(12, 1e-5)) if hasattr(nn, "RMSNorm") else (nn.Identity(),) * 2
        if how is Turned.gained:
            self.q_norm, self.k_norm = OneMoreRMSNorm(12), OneMoreRMSNorm(12)
        self.register_buffer("frequencies", theta ** (-torch.arange(0, part, 2).float() / part), persistent=False)

    def tables(self, x):
        angles = torch.arange(x.shape[1])[:, None].float() * self.frequencies
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()

    def forward(self, x):
        n, t, _ = x.shape
        qkv = self.qkv(self.norm(x)).view(n, t, 2, 36)
        q, k, v = self.how(self, qkv, *self.tables(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, -1)
        return self.head((x + self.out(y) + self.mlp(x)).mean(1))

    def whole(self, qkv, cos, sin):
        q, k, v = qkv.transpose(1, 2).chunk(3, -1)
        return turned(q, cos, sin), turned(k, cos[None, None], sin[None, None]), v

    def joined(self, qkv, cos, sin):
        q, k, v = qkv.transpose(1, 2).chunk(3, -1)
        q, k = (torch.cat((turned(x[..., :self.part], cos, sin), x[..., self.part:]), dim=-1) for x in (q, k))
        return q, k, v

    def rows_first(self, qkv, cos, sin):
        q, k, v = qkv.chunk(3, -1)
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        q, k = (torch.cat([turned(x[:, :, :, :self.part], cos, sin), x[:, :, :, self.part:]], 3) for x in (q, k))
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


    def normed(self, qkv, cos, sin):
        q, k, v = qkv.chunk(3, -1)
        q, k, v = self.q_norm(q).transpose(1, 2), self.k_norm(k.transpose(1, 2)), v.transpose(1, 2)
        return turned(q, cos, sin), turned(k, cos, sin), v

    def gained(self, qkv, cos, sin):
        """Gemma 3's norms of heads."""
        q, k, v = (part.transpose(1, 2) for part in qkv.chunk(3, -1))
        return turned(self.q_norm(q), cos, sin), turned(self.k_norm(k), cos, sin), v


class TurnedOfRows(Turned):
    """By other angles than those of frequencies, and with a factor."""

    def __init__(self):
        super().__init__(Turned.joined, 6)

    def tables(self, x):
        cos, sin = super().tables(x)
        order = torch.arange(x.shape[1]).square() % 5
        return 1.5 * cos[order], 1.5 * sin[order]


class TurnedAlike(TurnedOfRows):
    """Each row by the same angles: a table of one row."""

    def tables(self, x):
        return tuple(table[3:4] for table in super().tables(x))


class TurnedOfSamples(TurnedOfRows):
    """With a table for each sample."""

    def tables(self, x):
        return tuple(table.expand(x.shape[0], 1, -1, -1) for table in super().tables(x))


class Gemma(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(20, 24), OneMoreRMSNorm(24)
        self.gate, self.up, self.down = nn.Linear(24, 40, bias=False), nn.Linear(24, 40, bias=False), nn.Linear(40, CLASSES)
        self.register_buffer("scale", torch.tensor(24 ** 0.5), persistent=False)

    def forward(self, x):
        x = self.norm(self.first(x) * self.scale)
        return self.down(F.gelu(self.gate(x), approximate="tanh") * self.up(x))


class Lines(nn.Module):
    """Convolutions of lines, of pooled channels for gates and of pixels; a batch norm of rows; positions that are resampled to
    the size they have; the mean of two heads."""

    def __init__(self):
        super().__init__()
        self.stem, self.gate = nn.Conv2d(3, 8, 3, padding=1), nn.Conv1d(1, 1, 3, padding=1, bias=False)
        self.conv, self.bn = nn.Conv1d(8, 12, 5, 2, 2, groups=2), nn.BatchNorm1d(12)
        self.positions = nn.Parameter(torch.randn(1, 48, 12))
        self.register_buffer("angles", torch.arange(48 * 12).float(), persistent=False)
        self.heads = nn.ModuleList(nn.Linear(12, CLASSES) for _ in range(2))

    def forward(self, x):
        x = self.stem(x)
        gate = self.gate(x.mean((2, 3)).view(x.shape[0], 1, -1)).sigmoid().view(x.shape[0], -1, 1, 1)
        x = torch.relu(self.conv((x * gate.expand_as(x)).flatten(2))).transpose(1, 2)
        x = self.bn(x.flatten(0, 1)).reshape_as(x)
        positions = F.interpolate(self.positions.reshape(1, 6, 8, 12).permute(0, 3, 1, 2), size=(6, 8), mode="bilinear")
        table = self.angles.view(48, 12).sin().expand(x.shape[0], -1, -1)  # nobody trains it
        x = torch.tanh(x + table + positions.reshape(1, -1, 48).permute(0, 2, 1)).mean(1)
        return torch.stack([head(x) for head in self.heads]).mean(0)


class Responses(nn.Module):
    """Global response normalisation as timm and transformers write it."""

    def __init__(self):
        super().__init__()
        self.stem, self.conv = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 12, 3)
        self.weight, self.bias = (nn.Parameter(torch.randn(1, 1, 1, 12)) for _ in range(2))
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        norms = x.norm(p=2, dim=(2, 3), keepdim=True)
        x = x * (norms / (norms.mean(dim=1, keepdim=True) + 1e-6))
        x = self.conv(x).permute(0, 2, 3, 1)
        norms = torch.linalg.vector_norm(x, ord=2, dim=(1, 2), keepdim=True)
        x = self.weight * (x * (norms / (norms.mean(dim=-1, keepdim=True) + 1e-6))) + self.bias + x
        return self.head(F.gelu(x).mean((1, 2)))


class ByHand(nn.Module):
    """GELU of its formula, the factor before or behind; the output has a name."""

    def __init__(self):
        super().__init__()
        self.fcs = nn.ModuleList(nn.Linear(20, 20) for _ in range(3))
        self.register_buffer("angles", torch.arange(20).float(), persistent=False)
        self.head = nn.Linear(20, CLASSES)

    def forward(self, x):
        x = self.fcs[0](x)
        x = self.fcs[1](x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))))
        x = self.fcs[2]((1 + (x * 0.5 ** 0.5).erf()) * x) * self.angles.cos() + self.angles.sin()
        x = x + torch.relu(x).square()
        return {"out": self.head(x)}


class Orders(nn.Module):
    """Features, rows and samples in other orders."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(2, 8, 3, padding=1)
        self.head, self.part = nn.Linear(32, CLASSES), nn.Linear(4, CLASSES)

    def forward(self, x):
        y = self.conv(x).view(-1, 2, 2, 2, 8, 10)
        y = self.out(y.permute(0, 1, 4, 2, 5, 3).reshape(-1, 2, 16, 20))
        y = F.gelu(y.view(-1, 4, 2, 16, 20).transpose(1, 2).reshape(-1, 8, 16, 20))
        y = y.view(-1, 8, 8, 2, 10, 2).permute(0, 1, 3, 5, 2, 4).reshape(-1, 32, 8, 10)
        y = y.mean((2, 3))
        return self.head(y) + self.part(y.view(-1, 4, 8).transpose(1, 2)[:, 3])


class Odd(nn.Module):
    """Two class tokens, registers, a product with a transposed parameter, rows of all samples as one dimension, attention to
    fewer rows, and what nobody reads, of which a part is not supported."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.ParameterList(nn.Parameter(torch.randn(1, 1, 8)) for _ in range(2))
        self.registers = nn.Parameter(torch.randn(1, 3, 16))
        self.stem, self.fc, self.pooler = nn.Linear(10, 8), nn.Linear(8, 16), nn.Linear(16, 16)
        self.q, self.kv, self.weight = nn.Linear(16, 8), nn.Linear(16, 16), nn.Parameter(torch.randn(16, 8))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        n, t = x.shape[0], x.shape[1] + 2
        x = torch.cat([token.expand(n, -1, -1) for token in self.tokens] + [self.stem(x)], 1)
        x = F.gelu(self.fc(x.reshape(-1, 8))).view(n, t, 16)
        x, t = torch.cat((x[:, :1], self.registers.expand(n, -1, -1), x[:, 1:]), 1), t + 3
        pooled = F.softplus(torch.tanh(self.pooler(x[:, 0])))
        k, v = self.kv(x[:, 2:5]).view(n, 3, 2, 2, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.q(x).view(n, t, 2, 4).transpose(1, 2), k, v)
        x, pooled = x + y.transpose(1, 2).reshape(n, t, 8) @ self.weight.T, pooled + 1
        return self.head(x.mean(1))


def images(batch, height=8, width=12):
    return torch.randn(batch, 3, height, width)


class Standardised(nn.Module):
    """Convolutions of standardised weights, as NFNet has them with gains and BiT without; a weight that is also used as it is;
    a number for all features, of a residual path."""

    def __init__(self):
        super().__init__()
        self.stem, self.a, self.b = nn.Conv2d(3, 8, 3, 1, 1), nn.Conv2d(8, 8, 3, 1, 1, groups=2), nn.Conv2d(8, 8, 1, bias=False)
        self.gain, self.skip = nn.Parameter(torch.rand(8, 1, 1, 1) + 0.5), nn.Parameter(torch.tensor(0.7))
        self.shift, self.head = nn.Parameter(torch.tensor([0.3])), nn.Linear(8, CLASSES)

    def forward(self, x):
        w = self.a.weight
        w = F.batch_norm(w.reshape(1, 8, -1), None, None, weight=(self.gain * 0.3).view(-1), training=True, momentum=0.0,
                         eps=1e-6).reshape_as(w)
        x = F.relu(self.stem(x))
        y = F.conv2d(x, w, self.a.bias, 1, 1, 1, 2)
        v, m = torch.var_mean(self.b.weight, dim=[1, 2, 3], keepdim=True, unbiased=False)
        y = F.conv2d(F.gelu(y), (self.b.weight - m) / torch.sqrt(v + 1e-8))
        x = x + y * self.skip + self.b(x)
        return self.head(x.mean((2, 3)) + self.shift)


class Computed(nn.Module):
    """Parameters of other layers that are computed, also by modules, and from buffers; some of them are frozen."""

    def __init__(self):
        super().__init__()
        self.w, self.q = nn.Parameter(torch.randn(6, 8)), nn.Parameter(torch.randn(2))
        self.k, self.still = nn.Parameter(torch.randn(2)), nn.Parameter(torch.randn(2), requires_grad=False)
        self.table, self.net = nn.Parameter(torch.randn(5, 4)), nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
        self.norm, self.a, self.b = nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, CLASSES)
        self.register_buffer("places", torch.randn(5, 3))
        self.register_buffer("order", torch.tensor([2, 0, 1, 4, 3]))
        self.project = nn.Linear(3, 8)

    def forward(self, x):
        x = x + self.net(self.table[self.order]) + self.project(self.places).expand(x.shape[0], -1, -1)
        x = F.linear(x, self.w, torch.cat([self.q, self.k.tanh(), 2 * self.still]))
        x = self.norm(x) @ self.a.weight.clamp(-0.2, 0.2) / self.a.bias.exp() * (1 + self.k.abs().sum())
        x = F.layer_norm(x, (6,), self.norm.weight.relu() + 0.1, eps=0.1) + (2 * self.q - self.q.detach()).sum()
        return self.b(x).mean(1)


class Masked(nn.Module):
    """Weights times masks, which are ones in the beginning."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 12), nn.Linear(12, CLASSES)
        self.register_buffer("mask", torch.ones(12, 8))
        self.register_buffer("other", torch.ones(CLASSES, 12))

    def forward(self, x):
        x = F.linear(x, self.a.weight * self.mask, self.a.bias).tanh()
        return x @ (self.b.weight * self.other).t()


class Truths(nn.Module):
    """Truth that is no mask of scores: 0 and 1, for each element or each row."""

    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.Linear(10, 8), nn.Linear(8, CLASSES)
        self.register_buffer("seen", torch.rand(7, 8) < 0.5, persistent=False)

    def forward(self, x):
        return self.head((self.fc(x) * self.seen + self.seen[:, :1]).tanh().mean(1))


class Shapes(nn.Module):
    """Attention in shapes that the fused layer lacks, from products."""

    def __init__(self, how, heads=2, features=12):
        super().__init__()
        self.how, self.heads, self.size = how, heads, features // heads
        self.qkv, self.proj, self.head = nn.Linear(10, 3 * features), nn.Linear(features, 10), nn.Linear(10, CLASSES)
        self.wide, self.widened = nn.Linear(10, 5 * features, bias=False), nn.Linear(3 * features, 10)
        self.before, self.after = nn.Linear(heads, heads), nn.Linear(heads, heads)
        self.temperature, self.scale = nn.Parameter(torch.rand(heads, 1, 1) + 0.5), nn.Parameter(torch.full((heads, 1, 1), 2.0))
        self.table, self.mlp = nn.Parameter(torch.randn(heads, 9)), nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, heads))
        self.kv = nn.Linear(10, 2 * features)

    def forward(self, x):
        return self.head(F.gelu(x + self.how(self, x)).mean(1))

    def split(self, x):
        n, t, _ = x.shape
        return self.qkv(x).reshape(n, t, 3, self.heads, self.size).permute(2, 0, 3, 1, 4).unbind(0)

    def joined(self, y):
        return self.proj(y.transpose(1, 2).flatten(2))

    def channels(self, x):
        q, k, v = (part.transpose(-1, -2) for part in self.split(x))
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2) * self.temperature
        return self.proj((scores.softmax(-1) @ v).permute(0, 3, 1, 2).flatten(2))

    def talking(self, x):
        q, k, v = self.split(x)
        scores = self.before((q * 0.4 @ k.transpose(-2, -1)).permute(0, 2, 3, 1)).permute(0, 3, 1, 2).softmax(-1)
        return self.joined(self.after(scores.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) @ v)

    def wider(self, x):
        """LeViT's: values wider than keys, a bias for each distance; heads beside each other before they are cut."""
        n, t, _ = x.shape
        q, k, v = self.wide(x).view(n, t, self.heads, -1).split([self.size, self.size, 3 * self.size], 3)
        ids = (torch.arange(t)[:, None] - torch.arange(t)).abs()
        scores = q.permute(0, 2, 1, 3) @ k.permute(0, 2, 3, 1) * 0.3 + self.table[:, ids]
        return self.widened(F.hardswish((scores.softmax(-1) @ v.permute(0, 2, 1, 3)).transpose(1, 2).reshape(n, t, -1)))

    def fused_wider(self, x):
        n, t, _ = x.shape
        q, k, v = self.wide(x).view(n, t, self.heads, -1).transpose(1, 2).split([self.size, self.size, 3 * self.size], -1)
        return self.widened(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def cosines(self, x):
        """Swin V2's."""
        q, k, v = self.split(x)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        scores = scores * self.scale.clamp(max=4.6).exp()
        places = torch.stack(torch.meshgrid(torch.arange(7.0), torch.arange(7.0), indexing="ij"), -1).to(x.dtype)
        return self.joined((scores + 16 * self.mlp(places).permute(2, 0, 1).sigmoid()).softmax(-1) @ v)

    def linear(self, x):
        """Without a softmax; keys and values first."""
        q, k, v = self.split(x)
        return self.joined(F.relu(q) @ (F.relu(k).transpose(-2, -1) @ v) * 0.1)

    def one_query(self, x):
        q, _, v = self.split(x)
        k, _ = self.kv(x).view(x.shape[0], -1, 2, self.heads, self.size).permute(2, 0, 3, 1, 4).unbind(0)
        y = (q[:, :, :1] * 0.4 @ k.transpose(-2, -1)).softmax(-1) @ v
        return torch.cat([self.joined(y), x[:, 1:]], 1)

    def windowed(self, x):
        """Talking heads in windows of rows."""
        n, t, c = x.shape
        x = x[:, :6].reshape(n * 2, 3, c)
        q, k, v = self.split(x)
        scores = (q @ k.transpose(-2, -1) + self.table.view(self.heads, 3, 3)).softmax(-1)
        y = self.joined(self.after(scores.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) @ v).reshape(n, 6, 10)
        return torch.cat([y, x.reshape(n, 6, c)[:, :1]], 1)

    def causal(self, x):
        """Hidden keys, and a softmax whose result is scaled."""
        q, k, v = self.split(x)
        scores = (q @ k.transpose(-2, -1)).masked_fill(torch.ones(7, 7).triu(1).bool(), float("-inf")).softmax(-1)
        return self.joined((scores * self.temperature) @ v)


class Outlook(nn.Module):
    """VOLO's attention to the pixels of a window, the sums of windows, and the maximum of all rows; SKNet's paths."""

    def __init__(self):
        super().__init__()
        self.stem, self.v, self.attn = nn.Conv2d(3, 8, 3, 2, 1), nn.Linear(8, 8), nn.Linear(8, 81 * 2)
        self.unfold, self.pool = nn.Unfold(3, padding=1, stride=2), nn.AvgPool2d(2, 2, ceil_mode=True)
        self.paths = nn.ModuleList(nn.Conv2d(8, 8, 3, 1, d, d) for d in (1, 2))
        self.reduce, self.select, self.head = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 16, 1), nn.Linear(8, CLASSES)

    def forward(self, x):
        x = self.stem(x).permute(0, 2, 3, 1)
        n, height, width, c = x.shape
        h, w = -(-height // 2), -(-width // 2)
        v = self.unfold(self.v(x).permute(0, 3, 1, 2)).reshape(n, 2, c // 2, 9, h * w).permute(0, 1, 4, 3, 2)
        scores = self.attn(self.pool(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)).reshape(n, h * w, 2, 9, 9)
        y = ((scores.permute(0, 2, 1, 3, 4) * 0.5).softmax(-1) @ v).permute(0, 1, 4, 3, 2).reshape(n, c * 9, h * w)
        x = x.permute(0, 3, 1, 2) + F.fold(y, (height, width), 3, padding=1, stride=2)
        y = torch.stack([path(x) for path in self.paths], dim=1)
        scores = self.select(F.relu(self.reduce(y.sum(1).mean((2, 3), keepdim=True)))).view(n, 2, c, 1, 1)
        x = (y * torch.softmax(scores, dim=1)).sum(dim=1).flatten(2).transpose(1, 2)
        return self.head(x.mean(1) + 0.5 * x.max(1)[0])


class Several(nn.Module):
    """Inputs of each shape, and outputs within each other."""

    def __init__(self):
        super().__init__()
        self.conv, self.row, self.rows = nn.Conv2d(3, 6, 3, 2, 1), nn.Linear(5, 6), nn.Linear(4, 6)
        self.a, self.b = nn.Linear(6, CLASSES), nn.Linear(6, 3)

    def forward(self, images, row, rows):
        x = F.relu(self.conv(images)) * torch.sigmoid(self.row(row))[:, :, None, None]
        y = x.mean((2, 3)) + self.rows(rows).relu().mean(1)
        return {"classes": self.a(y), "more": (x, self.b(y).softmax(-1)), "none": None}


class Moves(nn.Module):
    """Operations that only move elements of images, as whole models have them, and sums and products of tensors that are broadcast;
    `how` makes a tensor with 8 features in dimension 1 of one with as many."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.conv, self.last = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 1)
        self.weight, self.mix = nn.Parameter(torch.randn(4, 6, 2) / 2), nn.Conv2d(2, 2, 3, 1, 1)
        self.row, self.col = nn.Parameter(torch.randn(11, 8) / 2), nn.Parameter(torch.randn(7, 8) / 2)
        self.head, self.norm = nn.Linear(8, CLASSES), nn.GroupNorm(2, 4)

    def forward(self, images):
        return self.head(self.last(self.how(self, torch.tanh(self.conv(images)))).mean((2, 3)))

    def shifted(self, x):
        """Relative positions, whose scores are shifted row by row, as BoTNet's."""
        def of_axis(q, keys):
            batch, height, width, _ = q.shape
            y = F.pad((q @ keys.t()).reshape(-1, width, 2 * width - 1), [0, 1]).flatten(1)
            y = F.pad(y, [0, width - 1]).reshape(-1, width + 1, 2 * width - 1)[:, :width, width - 1:]
            return y.reshape(batch, height, 1, width, width).expand(-1, -1, height, -1, -1)

        q = x.permute(0, 2, 3, 1)
        scores = of_axis(q, self.row).permute(0, 1, 3, 2, 4) + of_axis(q.transpose(1, 2), self.col).permute(0, 3, 1, 4, 2)
        y = (x.flatten(2).transpose(1, 2) @ x.flatten(2) + scores.reshape(-1, 24, 24)).softmax(-1) @ x.flatten(2).transpose(1, 2)
        return y.transpose(1, 2).reshape(x.shape)

    def gathered(self, x):
        """Of positions with heads beside the samples, as DeBERTa's."""
        q = x.reshape(-1, 4, 24).transpose(1, 2)
        keys = self.weight.view(2, 4, 6).repeat(x.shape[0], 1, 1)
        at = (torch.arange(24)[:, None] - torch.arange(24)).clamp(-3, 2) + 3
        scores = torch.bmm(q, keys).gather(-1, at.expand([q.shape[0], 24, 24]))
        scores = (q @ q.transpose(1, 2) / 2 + scores).view(-1, 2, 24, 24).masked_fill(~torch.ones(24, 24).bool().tril(), -3e38)
        return (scores.softmax(-1).view(-1, 24, 24) @ q).transpose(1, 2).reshape(x.shape)

    def linear(self, x):
        """Linear attention with a column of ones, as EfficientViT's."""
        q, k, v = x.view(-1, 2, 4, 24).transpose(2, 3).relu(), x.view(-1, 2, 4, 24).transpose(2, 3).sigmoid(), x.view(-1, 2, 4, 24)
        y = q @ (k.transpose(-1, -2) @ F.pad(v.transpose(2, 3), (0, 1), value=1.0))
        return (y[..., :-1] / (y[..., -1:] + 1e-5)).transpose(2, 3).reshape(x.shape)

    def broadcast(self, x):
        y = x * (x[:, :1] - 0.5) + x.sum((1, 2), keepdim=True) / (x.square().sum(1, keepdim=True) + 1)
        return y - x.pow(3).mean(3, keepdim=True) + x.amax(2, keepdim=True) - x.max(1, keepdim=True)[0]

    def windows(self, x):
        """Convolutions and pools of windows."""
        y = x.view(-1, 2, 4, 4, 6).transpose(1, 2).reshape(-1, 2, 4, 6)
        return self.mix(y).view(-1, 4, 2, 4, 6).transpose(1, 2).reshape(x.shape) + F.max_pool2d(y, 2).view(-1, 8, 2, 3).repeat(
            1, 1, 2, 2)

    def written(self, x):
        y = x.clone()
        y[:, 2:4, 1:] = y[:, 5:7, :-1] * 2
        return y.repeat_interleave(2, 2)[:, :, ::2].flip(1).roll(3, 1) + x[:, [3, 3, 0, 1, 2, 7, 6, 5]]

    def einsum(self, x):
        y = torch.einsum("bhwc,hkc->bhwk", x.permute(0, 2, 3, 1), self.weight.reshape(4, 6, 2).repeat(1, 1, 4))
        return x + F.pad(y, (1, 1)).permute(0, 3, 1, 2) * F.adaptive_max_pool2d(x, (2, 3)).mean((2, 3), keepdim=True)

    def axes(self, x):
        """Operations on other axes than a net's value has them on."""
        y = self.norm(F.pad(x, [1, 1], value=2.0).transpose(1, 2)).transpose(1, 2)
        return torch.cat([y, torch.roll(y, 1, 1)], 3)[..., 3:9] - F.pad(x, [0, 0, 0, 0, 1, 1])[:, 2:].mean(2, keepdim=True)

    def joined(self, x):
        y = torch.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
        a, b = torch.cat([x, y], 3).view(-1, 2, 4, 4, 12).chunk(2, 4)
        return torch.cat([a, b], 2).flatten(1, 2)[:, ::2] + F.avg_pool1d(x.flatten(2), 3, 1, 1).view(x.shape)


class First(nn.Module):
    def forward(self, several):
        return several[0]


class Recurrent(nn.Module):
    """Cells over rows, over both axes of images as Sequencer has them, and the last state."""

    def __init__(self, kind, batch_first=True):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, 2, 1)
        self.rows = kind(8, 5, 2, batch_first=batch_first, bidirectional=True)
        self.wide, self.high = kind(8, 8, batch_first=True), kind(8, 6, batch_first=True, bias=False)
        self.head, self.batch_first, self.lstm = nn.Linear(10 + 8 + 6, CLASSES), batch_first, kind is nn.LSTM

    def forward(self, images):
        x = torch.tanh(self.conv(images)).permute(0, 2, 3, 1)
        rows = x.mean(1) if self.batch_first else x.mean(1).transpose(0, 1)
        rows = self.rows(rows)[0] if self.batch_first else self.rows(rows)[0].transpose(0, 1)
        wide = self.wide(x.reshape(-1, *x.shape[2:]))[0].reshape(x.shape)
        high = self.high(wide.mean(2))[1]
        return self.head(torch.cat([rows.mean(1), wide.mean((1, 2)),
                                    (high[0] if self.lstm else high)[-1]], 1))


class FromStates(nn.Module):
    """A decoder that begins with an encoder's states; a cell that begins with what two linear layers make of an image, or with a
    parameter, and ends with its last state; zeros are none."""

    def __init__(self, kind):
        super().__init__()
        self.lstm = kind is nn.LSTM
        self.encoder, self.decoder = (kind(12, 10, 2, batch_first=True, bidirectional=True) for _ in range(2))
        self.h, self.c = nn.Linear(36, 8), nn.Linear(36, 8)
        self.cell, self.learns = (kind(20, 8, batch_first=True) for _ in range(2))
        self.learnt = nn.Parameter(torch.randn(1, 1, 8))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, images):
        x = images.permute(0, 2, 3, 1).flatten(2)
        zeros = x.new_zeros(4, x.shape[0], 10)
        rows, states = self.encoder(x[..., :12], (zeros, zeros) if self.lstm else zeros)
        rows = self.decoder(x[..., 12:24], states)[0]
        h, c = torch.tanh(self.h(x.mean(1))).unsqueeze(0), self.c(x[:, 0]).unsqueeze(0)
        last = self.cell(rows, (h, c) if self.lstm else h + c)[1]
        first = self.learnt.expand(1, x.shape[0], 8).contiguous()
        more = self.learns(rows, (first, first) if self.lstm else first)[0]
        return self.head(torch.cat([(last[0] if self.lstm else last).squeeze(0), more.mean(1)], 1))


class LastStates(nn.Module):
    """The last states of two layers and directions, which a model takes apart in its way."""

    def __init__(self, take):
        super().__init__()
        self.cell, self.head, self.take = nn.LSTM(36, 6, 2, batch_first=True, bidirectional=True), nn.Linear(12, CLASSES), take

    def forward(self, images):
        h, c = self.cell(images.permute(0, 2, 3, 1).flatten(2))[1]
        return self.head(torch.tanh(self.take(h)) + self.take(c))

    def at_once(states):
        return torch.cat((states[-2], states[-1]), 1)

    def by_all_axes(states):
        return torch.cat((states[0, :, :], states[-1, :, :]), dim=1)

    def by_layer(states):
        return states.view(2, 2, -1, 6)[1].permute(1, 0, 2).flatten(1)


class Steps(nn.Module):
    """A cell for each step."""

    def __init__(self, kind):
        super().__init__()
        self.cell, self.lstm, self.head = kind(36, 6), kind is nn.LSTMCell, nn.Linear(12, CLASSES)

    def forward(self, images):
        x = images.permute(0, 2, 3, 1).flatten(2)
        state, found = None, []
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
            found.append(state[0] if self.lstm else state)
        return self.head(torch.cat([torch.stack(found, 1).mean(1), state[1] if self.lstm else state], 1))


MODELS = {
    **{f"recurrent, {kind.__name__}, {first}": (functools.partial(Recurrent, kind, first), images)
       for kind in (nn.LSTM, nn.GRU) for first in (True, False)},
    **{f"moves, {how.__name__}": (functools.partial(Moves, how), images) for how in (
        Moves.shifted, Moves.gathered, Moves.linear, Moves.broadcast, Moves.windows, Moves.written, Moves.einsum,
        Moves.axes, Moves.joined)},
    "resnet": (resnet, lambda n: images(n, 16, 16)),
    "vgg": (vgg, images),
    "group norms": (group_norms, images),
    "depthwise": (depthwise, images),
    "mobilenet": (mobilenet, images),
    "shuffled": (Shuffled, images),
    "dense": (Dense, images),
    "mixer": (Mixer, images),
    "mixer without biases": (lambda: Mixer(False), images),
    "resmlp": (ResMLP, images),
    "functions": (Functions, images),
    "unet": (UNet, images),
    "resampled": (Resampled, images),
    "vit": (ViT, images),
    "gains": (Gains, lambda n: torch.randn(n, 20)),
    "shared": (Shared, lambda n: torch.randn(n, 20)),
    **{f"attention, {how.__name__}": (functools.partial(Attention, how), lambda n: torch.randn(n, 7, 10)) for how in (
        Attention.permuted, Attention.indexed, Attention.causal, Attention.joined, Attention.apart, Attention.flag,
        Attention.batched, Attention.single)},
    **{f"windows, {add.__name__}": (functools.partial(Windows, add), images) for add in (
        Windows.fused, Windows.apart, Windows.einsum, Windows.alone)},
    **{f"biases, {add.__name__}": (functools.partial(Biases, add), lambda n: torch.randn(n, 7, 10)) for add in (
        Biases.heads_first, Biases.embedded, Biases.numbers, Biases.batches, Biases.own)},
    "standardised": (Standardised, images),
    "computed": (Computed, lambda n: torch.randn(n, 5, 8)),
    "truths": (Truths, lambda n: torch.randn(n, 7, 10)),
    **{f"shapes, {how.__name__}": (functools.partial(Shapes, how), lambda n: torch.randn(n, 7, 10)) for how in (
        Shapes.channels, Shapes.talking, Shapes.wider, Shapes.fused_wider, Shapes.cosines, Shapes.linear, Shapes.one_query,
        Shapes.windowed, Shapes.causal)},
    "outlook": (Outlook, images),
    "odd": (Odd, lambda n: torch.randn(n, 7, 10)),
    **{f"rotary, {how.__name__}, {part}": (functools.partial(Turned, how, part, theta), lambda n: torch.randn(n, 7, 24))
       for how, part, theta in ((Turned.whole, 12, 1e4), (Turned.joined, 4, 5e5), (Turned.rows_first, 8, 1e4),
                                (Turned.normed, 12, 1e4), (Turned.gained, 12, 5e5))},
    **{f"rotary, of {what}": (how, lambda n: torch.randn(n, 7, 24)) for what, how in (
        ("rows", TurnedOfRows), ("one row", TurnedAlike), ("samples", TurnedOfSamples))},
    "gemma": (Gemma, lambda n: torch.randn(n, 20)),
    "lines": (Lines, images),
    "responses": (Responses, images),
    "by hand": (ByHand, lambda n: torch.randn(n, 20)),
    "orders": (Orders, lambda n: images(n, 8, 10)),
    "mlp": (lambda: nn.Sequential(nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 16), nn.Tanh(),
                                  nn.Linear(16, CLASSES)),
            lambda n: torch.randn(n, 20)),
    **{f"last states, {take.__name__}": (functools.partial(LastStates, take), images)
       for take in (LastStates.at_once, LastStates.by_all_axes, LastStates.by_layer)},
    **{f"steps, {kind.__name__}": (functools.partial(Steps, kind), images) for kind in (nn.LSTMCell, nn.GRUCell)},
    **{f"from states, {kind.__name__}": (functools.partial(FromStates, kind), images) for kind in (nn.LSTM, nn.GRU)},
    "recurrent, RNN": (functools.partial(Recurrent, nn.RNN), images),
    "recurrent, RNN of ReLU": (functools.partial(Recurrent, functools.partial(nn.RNN, nonlinearity="relu")), images),
    "from states, RNN": (functools.partial(FromStates, nn.RNN), images),
    **{f"steps, RNNCell, {of}": (functools.partial(Steps, functools.partial(nn.RNNCell, nonlinearity=of)), images)
       for of in ("tanh", "relu")},
}


def labels(batch):
    return torch.randint(CLASSES, (batch,))


def autograd(model, x, y, criterion=F.cross_entropy):
    """Loss and gradients of PyTorch in training mode; the model moves its running statistics."""
    model.train().zero_grad()
    out = model(x)
    loss = criterion(out["out"] if isinstance(out, dict) else out, y)
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters()
                         if p.grad is not None}


class Attends(nn.Module):
    """Tokens and a mask of lengths: attention with the mask in the first layer, or as in `masks`, and what `take` makes of the rows."""

    def __init__(self, take, layers=1, masks=None, padding=0):
        super().__init__()
        self.take, self.masks, self.head = take, masks or (lambda mask, i: mask == 0 if i == 0 else None), nn.Linear(32, 5)
        self.embed, self.norm = nn.Embedding(60, 32, padding_idx=padding), nn.BatchNorm1d(32)
        self.register_buffer("seen", torch.zeros(32))
        self.cores = nn.ModuleList(nn.MultiheadAttention(32, 4, batch_first=True) for _ in range(layers))

    def forward(self, ids, mask):
        x = self.embed(ids)
        for i, core in enumerate(self.cores):
            x = x + core(x, x, x, key_padding_mask=self.masks(mask, i), need_weights=False)[0]
        return self.head(self.take(self, x, mask))


def first_row(model, x, mask):
    return x[:, 0]


def mean_row(model, x, mask):
    return x.mean(1)


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def made(self, name):
        make, inputs = MODELS[name]
        model = make()
        for module in model.modules():  # neither 0 nor 1, which hide faults
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm)):
                for parameter in module.parameters():
                    parameter.data += 0.3 * torch.randn_like(parameter)
        return model, inputs

    def assert_alike(self, net, model, x, y, criterion=F.cross_entropy, loss=1e-5, grads=1e-5):
        """The net has the loss and the gradients of the model, which may be one in double."""
        got, found = net.gradients(x, y)
        dtype = next(model.parameters()).dtype
        want, expected = autograd(model, x.to(dtype) if x.is_floating_point() else x, y, criterion)
        self.assertLess(abs(got - want), loss)
        self.assert_grads(found, expected, grads)

    def assert_grads(self, got, want, bound):
        """Each tensor's error, relative to its norm and a hundredth of the whole norm."""
        self.assertEqual(set(got), set(want))
        whole = sum(float(w.double().norm()) ** 2 for w in want.values()) ** 0.5
        for name, w in want.items():
            self.assertEqual(got[name].shape, w.shape)
            away = float((got[name].double() - w.double()).norm())
            self.assertLessEqual(away / (float(w.double().norm()) + 0.01 * whole), bound, name)


class Small(Case):
    def test_no_batch_size_magnifies_the_error_through_batch_norms(self):
        """Compact and least at 4 bits, down to the 2 values a channel that a batch norm needs."""
        torch.manual_seed(3)
        blocks = [nn.Sequential(nn.Conv2d(16, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
                  for _ in range(3)]
        model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *blocks, nn.Flatten(), nn.Linear(16, 4))
        x, y = torch.randn(8, 3, 8, 8), torch.randint(4, (8,))
        for keep in ("compact", "least"):
            net = clprune.Net(model, x, keep=keep)
            for batch in (2, 3, 5, 8):
                whole = copy.deepcopy(model).train()
                F.cross_entropy(whole(x[:batch]), y[:batch]).backward()
                _, got = net.gradients(x[:batch], y[:batch])
                flat = [torch.cat([grads[name].flatten() for name, _ in whole.named_parameters()])
                        for grads in (got, {name: p.grad for name, p in whole.named_parameters()})]
                self.assertLess(error(*flat), 0.6, (keep, batch))
            net.close()


class Compiled(Case):
    def test_methods_run_as_they_are(self):
        """Compiled code once freed a tensor before the library had read its memory."""
        x, y = torch.randn(8, 3, 8, 8), torch.randint(4, (8,))
        def make():
            torch.manual_seed(2)
            return clprune.Net(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                                             nn.Flatten(), nn.Linear(4, 4)), x, keep="exact")
        for name, arguments in (("step", (x, y)), ("gradients", (x, y)), ("__call__", (x,)),
                                ("state_dict", ())):
            plain, net = make(), make()
            want = getattr(plain, name)(*arguments)
            got = torch.compile(getattr(net, name), backend="eager")(*arguments)
            torch.testing.assert_close(got, want, rtol=0, atol=0)
        temporary = torch.compile(lambda a, b: net.step(a * 2, b + 0), backend="eager")
        self.assertEqual(temporary(x, y), plain.step(x * 2, y))


class Values(Case):
    def test_gradients_are_those_of_autograd(self):
        for name in MODELS:
            with self.subTest(name):
                model, inputs = self.made(name)
                x, y = inputs(6), labels(6)
                net = clprune.Net(model, x, keep="exact")
                for n in 6, 4:  # then a smaller batch
                    self.assert_alike(net, model.double(), x[:n], y[:n])
                net.close()

    def test_recurrent(self):
        """A cell is a few layers, however many steps; dense gradients are PyTorch's, codes nearly; what is refused."""
        for kind in nn.LSTM, nn.GRU:
            model = nn.Sequential(kind(9, 32, 2, batch_first=True, bidirectional=True), First(), nn.Linear(64, CLASSES))
            x, y = torch.randn(12, 15, 9), torch.randint(CLASSES, (12, 15))
            loss = lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten())
            want, expected = autograd(copy.deepcopy(model), x, y, loss)
            kept = []
            for keep, bits, bound in (("dense", 4, 1e-5), ("exact", 4, 1e-5), ("compact", 8, 0.02), ("compact", 4, 0.2),
                                      ("least", 4, 0.4)):
                with self.subTest(kind.__name__, keep=keep, bits=bits):
                    net = clprune.Net(model, x, keep=keep, bits=bits)
                    self.assertLess(len(str(net).splitlines()), 24)
                    got, grads = net.gradients(x, y)
                    self.assertLess(abs(got - want), 1e-5)
                    away = error(*(torch.cat([values[n].flatten() for n in expected]) for values in (grads, expected)))
                    self.assertLess(away, bound)
                    kept.append(net.saved_bytes)
                    net.close()
            self.assertEqual(kept, sorted(kept, reverse=True))
            self.assertLess(kept[-1], kept[0] / 2)
            model = nn.Sequential(kind(9, 128, batch_first=True), First())
            x, y = torch.randn(12, 120, 9), torch.randn(12, 120, 128)
            net = clprune.Net(model, x, keep="least", loss="mse")  # a few samples at a time
            self.assert_alike(net, model, x, y, lambda out, y: F.mse_loss(out, y))
            net.close()
            drops = kind(9, 8, 3, batch_first=True, dropout=0.5)
            net = clprune.Net(nn.Sequential(drops, First(), nn.Linear(8, 2)), x)
            self.assertEqual(sum(" dropout" in line for line in str(net).splitlines()), 2)
            net.close()
        with self.assertRaisesRegex(clprune.Error, "a projection .proj_size."):
            clprune.Net(nn.Sequential(nn.LSTM(9, 8, proj_size=4, batch_first=True), First()), x)

    def test_tokens(self):
        """A loss of each row, of which some do not count; pixels likewise."""
        ids, targets = torch.randint(30, (5, 7)), torch.randint(30, (5, 7))
        targets[1, 3:] = targets[0] = -100
        conv = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 6, 1))
        pixels = torch.randint(6, (5, 8, 12))
        pixels[2, :3] = -100
        for model, x, y in ((GPT(), ids, targets), (conv, images(5), pixels)):
            for keep in "dense", "exact":
                net = clprune.Net(model, x, keep=keep)
                self.assert_alike(net, copy.deepcopy(model).double(), x, y, lambda out, y: F.cross_entropy(
                    (out.movedim(-1, 1) if y is targets else out), y))
                net.close()
        net = clprune.Net(GPT(), ids)
        for data, text in (((ids, targets[:, :4]), "expected integers of .5, 7."), ((ids, targets - 1), "labels are -101"),
                           ((ids + 0.5, targets), "the input is torch.float32"), ((ids[:, :3], targets), "the input is .5, 3.")):
            with self.assertRaisesRegex(ValueError, text):
                net.step(*data)
        with self.assertRaisesRegex(clprune.Error, "token"):
            net.step(ids + 30, targets)
        padded = nn.Sequential(nn.Embedding(30, 8, padding_idx=3), nn.Linear(8, 4))
        net = clprune.Net(padded, ids.clamp(min=4))
        net(ids.clamp(min=3))
        with self.assertRaisesRegex(ValueError, "the tokens have 3, padding_idx"):
            net.step(ids.clamp(min=3), targets.clamp(max=3))

    def test_transformers(self):
        """Models of transformers, which take tokens, with masks, rotary positions and shared keys."""
        try:
            import transformers
        except ImportError:
            self.skipTest("transformers is not installed")
        small = dict(vocab_size=60, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48,
                     max_position_embeddings=32)
        dry = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        gpt = dict(vocab_size=60, n_embd=32, n_layer=1, n_head=4, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0,
                   attn_pdrop=0.0, bos_token_id=1, eos_token_id=1)

        class Logits(nn.Module):
            def __init__(self, model):
                super().__init__()
                self.model = model

            def forward(self, ids):
                return self.model(ids).logits

        for name, config in (
                ("LlamaForCausalLM", transformers.LlamaConfig(**small)),
                ("LlamaForCausalLM", transformers.LlamaConfig(**small, rope_parameters=dict(
                    rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                    original_max_position_embeddings=8))),
                ("Qwen2ForCausalLM", transformers.Qwen2Config(**small, num_key_value_heads=2, rope_parameters=dict(
                    rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=8))),
                ("Phi3ForCausalLM", transformers.Phi3Config(
                    **small, pad_token_id=0, original_max_position_embeddings=16, rope_parameters=dict(
                        rope_type="longrope", rope_theta=500.0, partial_rotary_factor=0.5, short_factor=[1.5, 3.0],
                        long_factor=[9.0, 9.0]))),
                ("Qwen2ForCausalLM", transformers.Qwen2Config(**small, num_key_value_heads=2)),
                ("Qwen3ForCausalLM", transformers.Qwen3Config(**small, num_key_value_heads=2, head_dim=16)),
                ("GPTNeoXForCausalLM", transformers.GPTNeoXConfig(
                    **small, rotary_pct=0.5, hidden_dropout=0.0, attention_dropout=0.0)),
                ("PhiForCausalLM", transformers.PhiConfig(**small, partial_rotary_factor=0.5)),
                ("StableLmForCausalLM", transformers.StableLmConfig(**small, num_key_value_heads=2, partial_rotary_factor=0.5)),
                ("Olmo2ForCausalLM", transformers.Olmo2Config(**small, num_key_value_heads=2)),
                ("GemmaForCausalLM", transformers.GemmaConfig(**small, num_key_value_heads=1, head_dim=16)),
                ("Gemma2ForCausalLM", transformers.Gemma2Config(
                    **small, num_key_value_heads=2, head_dim=16, sliding_window=4, query_pre_attn_scalar=2,
                    attn_logit_softcapping=1.0, final_logit_softcapping=2.0)),
                ("BertForMaskedLM", transformers.BertConfig(**small, **dry)),
                ("RobertaForMaskedLM", transformers.RobertaConfig(**small, **dry)),
                ("BertForSequenceClassification", transformers.BertConfig(**small, **dry)),
                ("GlmForCausalLM", transformers.GlmConfig(**small, num_key_value_heads=2, head_dim=8, pad_token_id=0)),
                ("CohereForCausalLM", transformers.CohereConfig(**small, num_key_value_heads=2)),
                ("EsmForMaskedLM", transformers.EsmConfig(
                    **small, **dry, position_embedding_type="rotary", mask_token_id=2, pad_token_id=0)),
                ("FalconForCausalLM", transformers.FalconConfig(
                    **small, hidden_dropout=0.0, attention_dropout=0.0, bos_token_id=1, eos_token_id=1)),
                ("GPTJForCausalLM", transformers.GPTJConfig(**gpt, rotary_dim=4)),
                ("CodeGenForCausalLM", transformers.CodeGenConfig(**gpt, rotary_dim=6)),
                ("GPT2LMHeadModel", transformers.GPT2Config(**gpt))):
            config.use_cache = False
            for attention in ("eager",) if name.startswith("Gemma2") else ("sdpa", "eager"):  # caps of scores
                with self.subTest(name, attention=attention):
                    model = Logits(getattr(transformers, name)._from_config(config, attn_implementation=attention))
                    for parameter in model.parameters():
                        parameter.data += 0.1 * torch.randn_like(parameter)
                    x = torch.randint(3, 60, (4, 7))
                    net = clprune.Net(model, x, keep="exact", loss=lambda out, _: out.square().mean())
                    self.assert_alike(net, model, x, None, lambda out, _: out.square().mean(), grads=2e-5)
                    net.close()
        try:
            import peft
        except ImportError:
            return
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**small, use_cache=False))
        model = Logits(peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"])))
        for name, parameter in model.named_parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
        net = clprune.Net(model, x, keep="exact", loss=lambda out, _: out.square().mean())
        self.assert_alike(net, model, x, None, lambda out, _: out.square().mean(), grads=2e-5)

    def test_padding(self):
        """A mask of samples' lengths as second input: gradients are autograd's, whatever padding there is."""
        class Logits(nn.Module):
            def __init__(self, model):
                super().__init__()
                self.model = model

            def forward(self, ids, mask):
                return self.model(input_ids=ids, attention_mask=mask).logits

        models = {"module": lambda _: Attends(first_row)}
        try:
            import transformers
        except ImportError:
            pass
        else:
            small = dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                         max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
            configs = {
                "BertForSequenceClassification": transformers.BertConfig(**small, num_labels=5),
                "RobertaForSequenceClassification": transformers.RobertaConfig(**small, num_labels=5),
                "BertForTokenClassification": transformers.BertConfig(**small, num_labels=5),
                "LlamaForCausalLM": transformers.LlamaConfig(**small, use_cache=False),
                "GPT2LMHeadModel": transformers.GPT2Config(
                    vocab_size=60, n_embd=32, n_layer=1, n_head=4, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0,
                    attn_pdrop=0.0, bos_token_id=1, eos_token_id=1, use_cache=False)}
            models.update((name, lambda how, name=name, config=config: Logits(
                getattr(transformers, name)._from_config(config, attn_implementation=how)))
                for name, config in configs.items())
        mask = (torch.arange(9) < torch.tensor([9, 4, 1, 8])[:, None]).long()
        for name, make in models.items():
            for attention in ("sdpa", "eager") if name != "module" else ("sdpa",):
                with self.subTest(name, attention=attention):
                    model = make(attention)
                    ids = torch.where(mask == 1, torch.randint(5, 60, (4, 9)), 1 if name.startswith("Rob") else 0)
                    rows = model(ids, mask).dim() == 3
                    y = torch.where(mask == 1, torch.randint(5, (4, 9)), -100) if rows else torch.randint(5, (4,))
                    out = model(ids, mask)
                    want = F.cross_entropy(out.movedim(-1, 1), y)
                    want.backward()
                    net = clprune.Net(model, (ids, mask), keep="exact")
                    self.assertLess(error(net((ids, mask))[mask == 1] if rows else net((ids, mask)),
                                          (out[mask == 1] if rows else out).detach()), 1e-4)
                    loss, grads = net.gradients((ids, mask), y)
                    self.assertLess(abs(loss - float(want.detach())), 1e-5)
                    for key, parameter in model.named_parameters():
                        if parameter.grad is not None and parameter.grad.norm() > 1e-6:
                            self.assertLess(error(grads[key], parameter.grad), 2e-5, key)
                    if rows and not name.startswith(("Llama", "GPT")):
                        with self.assertRaisesRegex(ValueError, "behind a sample's length are to be -100"):
                            net.step((ids, mask), y.clamp(min=0))
                    for wrong, text in (((ids, mask.flip(1)), "pad on the right"), ((ids, mask[:, :5]), "the mask is .4, 5."),
                                        (ids, r"one tensor, expected \(tensor, mask\)")):
                        with self.assertRaisesRegex(ValueError, text):
                            net.gradients(wrong, y)
                    net.close()
        module = clprune.NetModule(model := Attends(first_row), (ids, mask), keep="exact").train()
        grads = {}
        for run in model, module:
            model.zero_grad()
            F.cross_entropy(run(ids, mask), torch.tensor([0, 1, 2, 3])).backward()
            grads[run] = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        self.assertLess(error(grads[module], grads[model]), 1e-5)

    def padded(self, rows=9, lengths=(9, 4, 1, 8)):
        mask = (torch.arange(rows) < torch.tensor(lengths)[:, None]).long()
        return torch.where(mask == 1, torch.randint(5, 60, (len(lengths), rows)), 0), mask, torch.randint(5, (len(lengths),))

    def test_padding_that_counts(self):
        """Where padding can reach an output, or a mask hides something else, the model or the batch is refused."""
        ids, mask, y = self.padded()
        full = torch.full_like(ids, 7), torch.ones_like(mask)
        for take in (mean_row, lambda model, x, mask: x[:, 4], lambda model, x, mask: x[:, -1],
                     lambda model, x, mask: model.norm(x.transpose(1, 2)).transpose(1, 2)[:, 0]):
            for start in False, True:
                model = Attends(take)
                if start:
                    nn.init.zeros_(model.head.weight)
                net = clprune.Net(model, full)
                with self.assertRaisesRegex(ValueError, "the tokens have 0, padding_idx"):
                    net.step((ids, mask), y)
                with self.assertRaisesRegex(ValueError, "the input is .4, 5., expected .N, 9."):
                    net.step((ids[:, :5].clamp(min=1), mask[:, :5]), y)
                net.close()
        for model, text in (
                (Attends(lambda model, x, mask: (x * mask[..., None]).sum(1)), "cannot be converted"),
                (Attends(first_row, 2), "of 2 layers of attention 1 have the mask"),
                (Attends(first_row, 0), "of 0 layers of attention 0 have the mask"),
                (Attends(first_row, masks=lambda mask, _: torch.cat([torch.ones_like(mask[:, :4]), mask[:, 4:]], 1) == 0),
                 "hides others than later rows"),
                (Attends(first_row, masks=lambda mask, _: mask[:, :mask.sum(1).max().item()] == 0), "asks for a number"),
                (Attends(lambda model, x, mask: x[:, 0] + 1 if mask.all().item() else x[:, 0]), "asks for a number"),
                (Attends(lambda model, x, mask: x[:, 0] * max(mask.sum(1).tolist())), "asks for a number"),
                (Attends(lambda model, x, mask: x[:, 0] + model.seen.copy_(mask.float().mean()) * 0 + model.seen), "cannot be conv")):
            with self.assertRaisesRegex(clprune.Error, text):
                clprune.Net(model, full)
        with self.assertRaisesRegex(clprune.Error, "the model needs another input, mask"):
            clprune.Net(model, ids)
        net = clprune.Net(Attends(first_row), (ids, mask))
        for wrong, text in (((ids, mask.tolist()), "the mask is a list"), ((ids, mask.flip(0).flip(1)), "pad on the right"),
                            (ids, "the input is one tensor")):
            with self.assertRaisesRegex(ValueError, text):
                net.step(wrong, y)
        module = clprune.NetModule(Attends(first_row), (ids, mask)).train()
        for wrong in ((ids, mask, mask), ((ids, mask),)):
            with self.assertRaisesRegex(ValueError, "takes the input in training, and perhaps a mask"):
                module(*wrong)

    def test_masks_of_scores(self):
        """One head without a dimension of its own, whose scores are masked in each way."""
        hide = -1e9
        ways = (lambda scores, seen: torch.where(seen, scores, torch.tensor(hide)),
                lambda scores, seen: torch.where(seen & torch.ones(9, 9).bool().tril(), scores, -math.inf),
                lambda scores, seen: torch.where(~seen, hide, scores),
                lambda scores, seen: scores.masked_fill(~seen, hide),
                lambda scores, seen: scores + (1.0 - seen.float()) * hide)
        ids, mask, y = self.padded()
        for way in ways:
            class Scored(Attends):
                def forward(self, ids, mask):
                    x = self.embed(ids)
                    scores = way(x @ x.transpose(1, 2) / 32 ** 0.5, mask[:, None].bool())
                    return self.head((scores.softmax(-1) @ x)[:, 0])

            model = Scored(None, 0)
            want = F.cross_entropy(model(ids, mask), y)
            want.backward()
            loss, grads = clprune.Net(model, (ids, mask), keep="exact").gradients((ids, mask), y)
            self.assertLess(abs(loss - want.item()), 1e-5)
            for name in "embed.weight", "head.weight":
                self.assertLess(error(grads[name], model.get_parameter(name).grad), 2e-5)

    def test_padding_of_two_rows(self):
        ids, mask, y = self.padded(2, (1, 1, 2, 2))
        model = Attends(first_row)
        want = F.cross_entropy(model(ids, mask), y)
        self.assertLess(abs(clprune.Net(model, (ids, mask), keep="exact").step((ids, mask), y) - want.item()), 1e-5)

    def test_shorter_batches(self):
        """A batch of fewer tokens than the example's, of one output a sample or one a token, under each kind of loss."""
        ids, mask, y = self.padded()
        for take in first_row, (lambda model, x, mask: x):
            model = Attends(take)
            rows = model(ids, mask).dim() == 3
            for loss in "cross_entropy", lambda out, y: F.cross_entropy(out.movedim(-1, 1), y):
                net = clprune.Net(model, (ids, mask), keep="exact", loss=loss)
                for length in 9, 5, 2:
                    with self.subTest(length, rows=rows, loss=loss):
                        some = mask[:, :length].clone()
                        x, target = ids[:, :length], torch.where(some == 1, y[:, None], -100) if rows else y
                        model.zero_grad()
                        out = model(x, some)
                        want = F.cross_entropy(out.movedim(-1, 1), target)
                        want.backward()
                        got, grads = net.gradients((x, some), target)
                        self.assertLess(abs(got - want.item()), 1e-5)
                        self.assert_grads(grads, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}, 1e-5)
                        shown = net((x, some))
                        self.assertEqual(shown.shape, out.shape)
                        self.assertLess(error(*(v.detach()[some == 1] if rows else v.detach() for v in (shown, out))), 1e-5)
                        if rows and length > 2:
                            with self.assertRaisesRegex(ValueError, "behind a sample's length are to be"):
                                net.gradients((x, some), target.clamp(min=0))
                net.close()

    def test_first_in_a_process(self):
        """A NetModule, which needs no optimizer, as the first use of the library."""
        code = "import clprune, torch; clprune.NetModule(torch.nn.Linear(8, 4), torch.randn(2, 8))"
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_tokenized(self):
        """Models of transformers as they are, with batches as tokenizers give them."""
        try:
            import transformers
        except ImportError:
            self.skipTest("transformers is not installed")
        small = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, num_labels=5,
                     hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        mask = (torch.arange(9) < torch.tensor([9, 4, 1, 8])[:, None]).long()
        ids, y = torch.where(mask == 1, torch.randint(5, 60, (4, 9)), 0), torch.randint(5, (4,))
        bert = transformers.BertConfig(**small, vocab_size=60, max_position_embeddings=32)
        vit = transformers.ViTConfig(**small, image_size=32, patch_size=8)
        pair = transformers.BertForSequenceClassification(bert).eval()
        self.assertLess(error(clprune.Net(pair, (ids, mask), keep="exact")((ids, mask)), pair(ids, mask).logits.detach()), 1e-4)
        roberta = transformers.RobertaForTokenClassification(
            transformers.RobertaConfig(**small, vocab_size=60, max_position_embeddings=32))
        padded = dict(input_ids=torch.where(mask == 1, ids, 1), attention_mask=mask)
        net = clprune.Net(roberta, padded, keep="exact")  # positions of padding are others
        labels = torch.where(mask == 1, ids % 5, -100)
        want = F.cross_entropy(roberta.train()(**padded).logits.movedim(-1, 1), labels).item()
        self.assertLess(abs(net.step(padded, labels) - want), 1e-5)
        gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=60, n_embd=32, n_layer=1, n_head=4, n_positions=32, bos_token_id=1, eos_token_id=1))
        with self.assertRaisesRegex(ValueError, "the batch has token_type_ids"):  # it adds tokens' embeddings for them
            clprune.Net(gpt, dict(input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids)))
        gpt.forward = gpt.forward
        with self.assertRaisesRegex(clprune.Error, "a forward of its own"):
            clprune.Net(gpt, dict(input_ids=ids, attention_mask=mask))
        for model, batch in (
                (transformers.BertForSequenceClassification(bert), dict(
                    input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids))),
                (transformers.ViTForImageClassification(vit), dict(pixel_values=torch.randn(4, 3, 32, 32)))):
            with self.subTest(type(model).__name__):
                kind, state = type(model), {name: value.clone() for name, value in model.state_dict().items()}
                net = clprune.Net(model, batch, keep="exact", optimizer="sgd", momentum=0.0, shares=True)
                self.assertIs(type(model), kind)
                self.assertTrue(all(torch.equal(value, state[name]) for name, value in model.state_dict().items()))
                want = F.cross_entropy(model.train()(**batch).logits, y)
                want.backward()
                loss, grads = net.gradients(batch, y)
                self.assertLess(abs(loss - want.item()), 1e-5)
                expected = {name: parameter.grad for name, parameter in model.named_parameters()}
                self.assertEqual(set(grads), set(expected))
                self.assertLess(error(*(torch.cat([values[name].flatten() for name in expected])
                                        for values in (grads, expected))), 2e-5)
                net.step(batch, y)
                self.assertLess(F.cross_entropy(model(**batch).logits, y).item(), want.item())
                self.assertLess(error(net(batch), model.eval()(**batch).logits.detach()), 1e-4)
        batch = dict(input_ids=ids, attention_mask=mask)
        shifted = torch.where(mask[:, 1:] == 1, ids[:, 1:], -100)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=60, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48))
        want = model(**batch, labels=torch.where(mask == 1, ids, -100)).loss.item()
        loss = clprune.Net(model, batch).step(batch, F.pad(shifted, (0, 1), value=-100))
        self.assertLess(abs(loss - want), 1e-5)
        net = clprune.Net(transformers.BertForSequenceClassification(bert), batch)
        for more, text in ((dict(labels=y), "the batch has labels"), (dict(token_type_ids=mask), "has token_type_ids"),
                           (dict(decoder_input_ids=ids), "the inputs are of .*9,.*9,.*, expected one tensor")):
            with self.assertRaisesRegex(ValueError, text):
                net.step({**batch, **more}, y)
        with self.assertRaisesRegex(ValueError, "the batch has attention_mask; expected one or more of input_ids, pixel_values"):
            net.step({"attention_mask": mask}, y)
        with self.assertRaisesRegex(clprune.Error, "without logits"):
            clprune.Net(transformers.BertModel(bert), batch)
        with self.assertRaisesRegex(ValueError, "the example is no tensor"):
            clprune.NetModule(transformers.BertForSequenceClassification(bert), batch)

    def test_frozen_weights_as_codes(self):
        """Losses and gradients are those of a model that has the values of the codes."""
        model = nn.Sequential(nn.Embedding(30, 64), nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.LayerNorm(64),
                              nn.Linear(64, 30))
        for name, parameter in model.named_parameters():
            parameter.requires_grad = name.startswith("4.")
        x, y, taken = torch.randint(30, (4, 7)), torch.randint(30, (4, 7)), []
        for bits in 0, 16, 8, 4, "nf4":
            with self.subTest(bits):
                net = clprune.Net(model, x, keep="exact", base_bits=bits)
                there = copy.deepcopy(model)
                there.load_state_dict(net.state_dict())
                away = error(there[1].weight.data.flatten(), model[1].weight.data.flatten())
                self.assertLess(away, {0: 1e-9, 16: 0.003, 8: 0.01, 4: 0.12, "nf4": 0.14}[bits])
                self.assertGreaterEqual(away, {0: 0, 16: 0.001, 8: 0.002, 4: 0.03, "nf4": 0.05}[bits])
                self.assert_alike(net, there, x, y, lambda out, y: F.cross_entropy(out.movedim(-1, 1), y))
                taken.append(net.memory()["parameters"])
        self.assertEqual(sorted(taken[:4], reverse=True), taken[:4])  # with so few columns nf4 takes more than 4
        for how in dict(base_bits=3), dict(base_bits=4, shares=True):
            with self.assertRaisesRegex(ValueError, "base_bits is [34], expected 0, 4, 8, 16 or nf4"):
                clprune.Net(model, x, **how)

    def test_plan(self):
        """What is said before is what a net takes, to the byte."""
        model, inputs = self.made("vit")
        x = inputs(6)
        plan = clprune.plan(model, x[:2], batch=6, optimizer="sgd", base_bits=8)
        self.assertEqual((plan.batch, plan.parameters), (6, sum(p.numel() for p in model.parameters())))
        text = str(plan).splitlines()
        self.assertEqual(len(text), 2 + len(plan.rows))
        for row, line in zip(plan.rows, text[2:]):
            with self.subTest(line):
                net = clprune.Net(model, x, keep=row.keep, extra_work=row.extra_work, optimizer="sgd", base_bits=8)
                copied = 0 if net._run.in_place else x.numel() * 4
                self.assertEqual((row.saved, row.memory - x.numel() * 4), (net.saved_bytes, net.memory()["total"] - copied))
                self.assertEqual(line.split()[-2:], [f"{row.saved / 2**20:.1f}", f"{row.memory / 2**20:.1f}"])
                net.close()
        saved = [row.saved for row in plan.rows]
        self.assertEqual(saved, sorted(saved, reverse=True))
        less = clprune.plan(model, x, [("exact", 0)], store="bf16", batch=3).rows[0]
        self.assertLess(less.saved, plan.rows[1].saved / 2)
        for how, text in (dict(keep="dense"), "takes no keep"), (dict(shares=True), "takes no shares"), (dict(bit=4), "takes no bit"):
            with self.assertRaisesRegex(TypeError, text):
                clprune.plan(model, x, **how)

    def test_presets(self):
        """Dense and exact have the gradients of PyTorch, codes nearly; less and less is kept."""
        for name in "resnet", "resmlp", "mixer":
            model, inputs = self.made(name)
            x, y = inputs(16), labels(16)
            want, expected = autograd(copy.deepcopy(model), x, y)
            kept = []
            for keep, bits, bound in (("dense", 4, 1e-5), ("exact", 4, 1e-5), ("bf16", 4, 0.05),
                                      ("compact", 8, 0.05), ("compact", 4, 0.3), ("least", 4, 0.5)):
                with self.subTest(name, keep=keep, bits=bits):
                    how = dict(keep="exact", store="bf16") if keep == "bf16" else dict(keep=keep)
                    net = clprune.Net(model, x, bits=bits, **how)
                    loss, grads = net.gradients(x, y)
                    self.assertLess(abs(loss - want), 1e-5)
                    self.assertLess(error(*(torch.cat([values[n].flatten() for n in expected])
                                            for values in (grads, expected))), bound)
                    kept.append(net.saved_bytes)
                    self.assertEqual(str(net).split()[-2:], ["kept", f"{kept[-1] / 1024:.1f}"])
                    net.close()
            dense, exact, bf16, *coded = kept
            self.assertEqual([dense, exact, *coded], sorted([dense, exact, *coded], reverse=True))
            self.assertLess(bf16, exact)
            self.assertLess(coded[-1], dense / 2)

    def test_extra_work(self):
        model, x, y = nn.Sequential(*(ViTBlock(nn.GELU()) for _ in range(4))), *torch.randn(2, 64, 16, 32)
        _, expected = autograd(copy.deepcopy(model), x, y, F.mse_loss)
        nets = [clprune.Net(model, x, loss="mse", extra_work=percent) for percent in (0, 33)]
        self.assertLess(nets[1].saved_bytes, 0.6 * nets[0].saved_bytes)
        grads = nets[1].gradients(x, y)[1]
        self.assertLess(error(*(torch.cat([values[n].flatten() for n in expected])
                                for values in (grads, expected))), 0.3)

    def test_steps_are_those_of_pytorch(self):
        for name, kind in (("resnet", "sgd"), ("mixer", "adamw"), ("shared", "sgd")):
            with self.subTest(name):
                model, inputs = self.made(name)
                x, y = inputs(6), labels(6)
                nesterov = name == "shared"
                net = clprune.Net(model, x, keep="exact", optimizer=kind, lr=1e-2, momentum=0.9, nesterov=nesterov)
                theirs = (torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9, nesterov=nesterov) if kind == "sgd"
                          else torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0))
                for step in range(5):
                    want, _ = autograd(model, x, y)
                    theirs.step()
                    self.assertLess(abs(net.step(x, y) - want), 1e-4)
                state, expected = net.state_dict(), model.state_dict()
                self.assertEqual(set(state), set(expected))
                for key, value in expected.items():
                    self.assertEqual(state[key].shape, value.shape)
                    self.assertLess(error(state[key].float(), value.float()), 1e-2, key)
                copied = copy.deepcopy(model)
                copied.load_state_dict(state)
                self.assertLess(error(net(x), copied.eval()(x)), 1e-5)
                self.assertLess(error(net(x[:2]), copied(x[:2])), 1e-5)
                net.close()

    def test_several_inputs_and_outputs(self):
        def loss(out, y):
            return F.cross_entropy(out["classes"], y) + out["more"][0].square().mean() + out["more"][1][:, 0].sum()

        model, x, y = Several(), (torch.randn(4, 3, 8, 8), torch.randn(4, 5), torch.randn(4, 7, 4)), labels(4)
        net, double = clprune.Net(model, x, keep="exact", loss=loss), copy.deepcopy(model).double()
        got, grads = net.gradients(x, y)
        want = loss(double(*(part.double() for part in x)), y)
        want.backward()
        self.assertLess(abs(got - want.item()), 1e-5)
        self.assert_grads(grads, {name: p.grad for name, p in double.named_parameters()}, 1e-5)
        out, want = copy.deepcopy(net)(x), model(*x)
        self.assertIsNone(out["none"])
        for a, b in ((out["classes"], want["classes"]), (out["more"][0], want["more"][0]), (out["more"][1], want["more"][1])):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
        net.close()
        net = clprune.Net(model, x, keep="exact", loss=None, optimizer=None)
        for given in ((), (None, None, None)):
            with self.assertRaisesRegex(clprune.Error, "call forward first"):
                net.backward(*given)
        dy = [torch.randn_like(net.forward(x)["classes"]), None, torch.randn(4, 3)]
        torch.set_default_dtype(torch.float64)
        try:
            net.backward(dy[0].double(), None, dy[2])
        finally:
            torch.set_default_dtype(torch.float32)
        net.forward(x)
        module, found = clprune.NetModule(model, x, keep="exact"), net.backward(*dy)
        for run in (model, module):
            model.train().zero_grad()
            out = run(*x)
            ((out["classes"] * dy[0]).sum() + (out["more"][1] * dy[2]).sum()).backward()
            self.assert_grads(found, {name: p.grad for name, p in model.named_parameters()}, 1e-5)
        for given, text in (((x[0], x[2], x[1]), "expected .*8, 8.*5,.*7, 4"), (x[0], "the inputs are of one tensor"),
                            (x[:2], "the inputs are of"), ((*x[:2], x[2].double()), "torch.float64 of .4, 7, 4."),
                            ((*x[:2], x[2][:3]), "float32 of .3, 7, 4., expected")):
            with self.assertRaisesRegex(ValueError, text):
                net.forward(given)
        net.forward(x)
        with self.assertRaisesRegex(ValueError, "expected those of the outputs, .*4, 10.*4, 6, 4, 4.*4, 3"):
            net.backward(dy[0])
        with self.assertRaisesRegex(clprune.Error, "returns several tensors, which have no cross_entropy"):
            clprune.Net(model, x)
        with self.assertRaisesRegex(ValueError, "torch.int64 of .4, 7, 1."):
            clprune.Net(model, (x[0], torch.zeros(4, 7, 1).long(), x[1]))
        unread = Traps().module(lambda m, x, y: m.fc(x), fc=nn.Linear(5, 4))
        with self.assertRaisesRegex(clprune.Error, "depends on 1 of the model's 2 inputs"):
            clprune.Net(unread, (x[1], torch.zeros(4, 3)))
        pair = Traps().module(lambda m, x, y: m.fc(x.mean((2, 3)) + y), fc=nn.Linear(3, CLASSES))  # no mask of 3 rows
        given = torch.randn(4, 3, 5, 5), torch.randn(4, 3)
        torch.testing.assert_close(clprune.Net(pair, given)(given), pair(*given), rtol=1e-5, atol=1e-6)
        mixed = Traps().module(lambda m, x: (m.fc(x), 3), fc=nn.Linear(5, 4))
        with self.assertRaisesRegex(clprune.Error, "returns a int among its outputs"):
            clprune.Net(mixed, x[1], loss=None)

    def test_images_and_texts(self):
        """Two towers, and a loss that compares all samples, as CLIP's; and pairs of texts."""
        class Towers(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.left, self.right = nn.Conv2d(3, 8, 3, 2, 1), nn.Linear(8, 6), nn.Linear(8, 6)
                self.words, self.core = nn.Embedding(30, 8), nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)

            def forward(self, images, words):
                a, b = self.left(self.conv(images).relu().mean((2, 3))), self.right(self.core(self.words(words)).mean(1))
                return F.normalize(a, dim=1), F.normalize(b, dim=1)

        def loss(out, y):
            products = 3 * out[0] @ out[1].t()
            return (F.cross_entropy(products, y) + F.cross_entropy(products.t(), y)) / 2

        model, x, y = Towers(), (torch.randn(6, 3, 8, 8), torch.randint(30, (6, 5))), torch.arange(6)
        for keep, bound in (("dense", 1e-5), ("exact", 1e-5), ("compact", 0.1), ("least", 0.2)):
            net, double = clprune.Net(model, x, keep=keep, bits=8, loss=loss), copy.deepcopy(model).double()
            got, grads = net.gradients(x, y)
            want = loss(double(x[0].double(), x[1]), y)
            want.backward()
            self.assertLess(abs(got - want.item()), 1e-5)
            self.assert_grads(grads, {name: p.grad for name, p in double.named_parameters()}, bound)
            before = [net.step(x, y) for _ in range(10)]
            self.assertLess(before[-1], before[0])
            net.close()
        pair = Traps().module(lambda m, a, b: m.fc(m.words(a).mean(1) * m.words(b).mean(1)), fc=nn.Linear(8, CLASSES),
                              words=nn.Embedding(30, 8))
        x = torch.randint(30, (6, 5)), torch.randint(30, (6, 5))
        torch.testing.assert_close(clprune.Net(pair, x)(x), pair(*x), rtol=1e-5, atol=1e-6)

    def test_modules_of_transformers(self):
        """nn.Transformer and its parts, causal and with masks of lengths, in both orders of samples and rows."""
        def hides(x):
            return nn.Transformer.generate_square_subsequent_mask(x.shape[1])

        def encoder(batch_first, first=False, function="relu"):
            layer = nn.TransformerEncoderLayer(16, 4, 24, 0.0, function, batch_first=batch_first, norm_first=first)
            return nn.TransformerEncoder(layer, 2, nn.LayerNorm(16) if first else None, enable_nested_tensor=batch_first)

        def turned(m, x, *others, **named):
            if m.core.layers[0].self_attn.batch_first if hasattr(m.core, "layers") else m.core.batch_first:
                return m.core(x, *others, **named)
            return m.core(x.transpose(0, 1), *(y.transpose(0, 1) for y in others), **named).transpose(0, 1)

        words, mask = torch.randint(1, 30, (4, 7)), (torch.arange(7) < torch.tensor([7, 3, 5, 1])[:, None]).long()
        for batch_first in True, False:
            cases = [
                (encoder(batch_first), lambda m, x: turned(m, m.words(x)), words),
                (encoder(batch_first, True, "gelu"), lambda m, x: turned(m, m.words(x), mask=hides(x), is_causal=True), words),
                (encoder(batch_first), lambda m, x, mask: turned(m, m.words(x), src_key_padding_mask=mask == 0), (words, mask)),
                (nn.Transformer(16, 4, 1, 2, 24, 0.0, batch_first=batch_first),
                 lambda m, x, y: turned(m, m.words(x), m.words(y), tgt_mask=hides(y)), (words, torch.randint(2, 30, (4, 6)))),
                (nn.MultiheadAttention(16, 4, batch_first=True), lambda m, x: m.core(*[m.words(x)] * 3)[0], words)]
            for i, (core, code, x) in enumerate(cases):
                with self.subTest(case=i, batch_first=batch_first):
                    one, two = (lambda m, x: m.head(code(m, x))), (lambda m, x, y: m.head(code(m, x, y)))
                    model = Traps().module(two if isinstance(x, tuple) else one, core=core, words=nn.Embedding(30, 16),
                                           head=nn.Linear(16, CLASSES))
                    net = clprune.Net(model, x, keep="exact")
                    x = x if isinstance(x, tuple) else (x,)
                    y = torch.randint(CLASSES, (4, x[-1].shape[1]))
                    if i == 2:
                        y = torch.where(mask == 0, -100, y)
                    got, grads = net.gradients(x if len(x) > 1 else x[0], y)
                    double = copy.deepcopy(model).double().train()
                    want = F.cross_entropy(double(*x).transpose(1, 2), y)
                    want.backward()
                    self.assertLess(abs(got - want.item()), 1e-5)
                    self.assert_grads(grads, {name: p.grad for name, p in double.named_parameters()}, 1e-5)
                    net.close()

    def test_losses_of_elements(self):
        model, x = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 6)), torch.randn(4, 5, 8)
        targets = {"mse": torch.randn(4, 5, 6), "smooth_l1": 2 * torch.randn(4, 5, 6), "bce": (torch.rand(4, 5, 6) < 0.4).float()}
        losses = {"mse": F.mse_loss, "smooth_l1": F.smooth_l1_loss, "bce": F.binary_cross_entropy_with_logits}
        for loss, y in targets.items():
            net = clprune.Net(model, x, keep="exact", loss=loss)
            self.assert_alike(net, model, x, y, losses[loss])
            net.close()

    def test_class_weights(self):
        """Loss and gradients are those of PyTorch's losses with weight and pos_weight."""
        words = nn.Sequential(nn.Embedding(30, 8), nn.Linear(8, 7))
        rows = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 7))
        pixels = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 7, 1))
        w, p = torch.rand(7) * 3, torch.rand(7) * 4
        w[2] = 0
        ignored = torch.randint(7, (4, 5))
        ignored[1, 2:] = -100
        cases = [
            (rows, torch.randn(4, 8), torch.randint(7, (4,)), "cross_entropy", dict(smoothing=0.0), w, None),
            (rows, torch.randn(4, 8), torch.randint(7, (4,)), "cross_entropy", dict(smoothing=0.2), w, None),
            (words, torch.randint(30, (4, 5)), ignored, "cross_entropy", dict(smoothing=0.1), w, None),
            (pixels, torch.randn(2, 3, 6, 6), torch.randint(7, (2, 6, 6)), "cross_entropy", {}, w, None),
            (rows, torch.randn(4, 8), torch.rand(4, 7), "bce", {}, w, p),
            (rows, torch.randn(4, 5, 8), torch.rand(4, 5, 7).round(), "bce", {}, None, p),
            (pixels, torch.randn(2, 3, 6, 6), torch.rand(2, 7, 6, 6), "bce", {}, w.view(7, 1, 1), p.view(7, 1, 1)),
            (rows, torch.randn(4, 8), torch.rand(4, 7), "bce", {}, torch.tensor(2.0), torch.tensor([3.0])),
            (rows, torch.randn(4, 5, 8), torch.randn(4, 5, 7), "mse", {}, w, None),
            (pixels, torch.randn(2, 3, 6, 6), torch.randn(2, 7, 6, 6), "smooth_l1", {}, w.view(7, 1, 1), None)]
        for i, (model, x, y, loss, how, weight, pos) in enumerate(cases):
            def criterion(out, y):
                weights, positives = (None if value is None else value.to(out.dtype) for value in (weight, pos))
                y = y.to(out.dtype) if y.is_floating_point() else y
                if loss == "cross_entropy":
                    out = out.transpose(1, 2) if out.dim() == 3 else out
                    return F.cross_entropy(out, y, weights, label_smoothing=how.get("smoothing", 0.0))
                if loss == "bce":
                    return F.binary_cross_entropy_with_logits(out, y, weights, pos_weight=positives)
                return ((F.mse_loss if loss == "mse" else F.smooth_l1_loss)(out, y, reduction="none") * weights).mean()

            with self.subTest(case=i, loss=loss):
                net = clprune.Net(model, x, keep="exact", loss=loss, class_weight=weight, pos_weight=pos, **how)
                double = copy.deepcopy(model).double().train()
                for again in False, True:  # a copy has them, too
                    got, grads = (copy.deepcopy(net) if again else net).gradients(x, y)
                    double.zero_grad()
                    want = criterion(double(x.double() if x.is_floating_point() else x), y)
                    want.backward()
                    self.assertLess(abs(got / want.item() - 1), 1e-6)
                    self.assert_grads(grads, {name: q.grad for name, q in double.named_parameters()}, 1e-5)
                few = net.gradients(x[:1], y[:1])[0]
                want = criterion(double(x[:1].double() if x.is_floating_point() else x[:1]), y[:1])
                # a sum of weights that is 0 gives 0, not NaN
                self.assertLess(abs(few - want.nan_to_num().item()), 1e-6 * abs(want.nan_to_num().item()) + 1e-9)
                net.close()
        self.assertGreater(clprune.plan(rows, cases[0][1], (("exact", 0),), class_weight=w).rows[0].memory, 0)
        for how, says in [
                (dict(class_weight=torch.ones(6)), r"class_weight is \(6,\), expected \(7,\)"),
                (dict(class_weight=torch.ones(1)), r"class_weight is \(1,\), expected \(7,\)"),
                (dict(pos_weight=w), "pos_weight is given with the loss 'cross_entropy'; "),
                (dict(loss="mse", pos_weight=w), "pos_weight with 'bce'"),
                (dict(loss=None, class_weight=w), "is given with the loss None"),
                (dict(loss=F.l1_loss, class_weight=w), "class_weight goes with losses that have a name"),
                (dict(loss="bce", pos_weight=torch.ones(2, 7)), r"pos_weight is \(2, 7\), expected \(7,\), or what has")]:
            with self.subTest(says=says), self.assertRaisesRegex(ValueError, says):
                clprune.Net(rows, cases[0][1], **how)
        with self.assertRaisesRegex(ValueError, r"expected \(7, 6, 6\), or what has as many axes, and one number"):
            clprune.Net(pixels, cases[3][1], loss="bce", pos_weight=torch.arange(6.0))

    def test_sample_weights(self):
        words = nn.Sequential(nn.Embedding(30, 8), nn.Linear(8, 7))
        rows = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 7))
        y, weights = torch.randint(7, (4, 5)), torch.tensor([0.5, 0.0, 2.0, 1.0])
        y[2, 1:] = -100
        cases = [
            (rows, torch.randn(4, 8), torch.randint(7, (4,)), "cross_entropy", None,
             lambda out, y: F.cross_entropy(out, y, reduction="none")),
            (words, torch.randint(30, (4, 5)), y, "cross_entropy", None,
             lambda out, y: F.cross_entropy(out.transpose(1, 2), y, reduction="none").sum(1) * 4 / (y != -100).sum()),
            (rows, torch.randn(4, 8), torch.randint(7, (4,)), "cross_entropy", torch.rand(7),
             lambda out, y: F.cross_entropy(out, y, cases[2][4].double(), reduction="none") * 4 / cases[2][4][y].sum()),
            (rows, torch.randn(4, 5, 8), torch.randn(4, 5, 7), "mse", None,
             lambda out, y: F.mse_loss(out, y.double(), reduction="none").mean((1, 2))),
            (rows, torch.randn(4, 8), torch.rand(4, 7), "bce", torch.rand(7),
             lambda out, y: F.binary_cross_entropy_with_logits(out, y.double(), cases[4][4].double(), reduction="none").mean(1))]
        for i, (model, x, y, loss, weight, criterion) in enumerate(cases):
            with self.subTest(case=i):
                net = clprune.Net(model, x, keep="exact", loss=loss, class_weight=weight)
                double = copy.deepcopy(model).double().train()
                for by in weights, None, weights:
                    got, grads = net.gradients(x, y, by)
                    double.zero_grad()
                    losses = criterion(double(x.double() if x.is_floating_point() else x), y)
                    want = (losses if by is None else losses * by).mean()
                    want.backward()
                    self.assertLess(abs(got / want.item() - 1), 1e-6)
                    self.assert_grads(grads, {name: q.grad for name, q in double.named_parameters()}, 1e-5)
                self.assertAlmostEqual(net.step(x, y, weights=weights), got, places=6)
                for wrong in torch.ones(3), torch.ones(4, 1):
                    with self.assertRaisesRegex(ValueError, r"the weights are .*, expected \(4,\)"):
                        net.step(x, y, weights=wrong)
                net.close()
        with self.assertRaisesRegex(clprune.Error, "weights go with a loss that has a name"):
            clprune.Net(rows, cases[0][1], loss=F.l1_loss).step(cases[0][1], torch.rand(4, 7), weights=weights)

    def test_soft_targets(self):
        """Probabilities in place of labels: of F.cross_entropy, and of KL with a teacher, whose gradient is the same."""
        words = nn.Sequential(nn.Embedding(30, 8), nn.Linear(8, 7))
        rows = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 7))
        pixels = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 7, 1))
        samples = torch.tensor([0.5, 2.0])
        for i, (model, x, smoothing, weight, by) in enumerate([
                (rows, torch.randn(2, 8), 0.0, None, None), (rows, torch.randn(2, 8), 0.1, torch.rand(7), samples),
                (words, torch.randint(30, (2, 5)), 0.2, None, None),
                (pixels, torch.randn(2, 3, 6, 6), 0.0, torch.rand(7), samples)]):
            with self.subTest(case=i):
                teacher, y = copy.deepcopy(model), None
                with torch.no_grad():
                    for p in teacher.parameters():
                        p.add_(torch.randn_like(p))
                    axis = 1 if i == 3 else -1
                    y = teacher(x).softmax(axis)
                net = clprune.Net(model, x, keep="exact", loss="soft_cross_entropy", smoothing=smoothing, class_weight=weight)
                double = copy.deepcopy(model).double().train()
                got, grads = net.gradients(x, y, by)
                out = double(x.double() if x.is_floating_point() else x)
                losses = F.cross_entropy(out.movedim(axis, 1), y.double().movedim(axis, 1), reduction="none",
                                         label_smoothing=smoothing, weight=None if weight is None else weight.double())
                losses = losses.reshape(2, -1).mean(1)
                want = (losses if by is None else losses * by).mean()
                want.backward(retain_graph=True)
                self.assertLess(abs(got / want.item() - 1), 1e-6)
                self.assert_grads(grads, {name: q.grad for name, q in double.named_parameters()}, 1e-5)
                if i == 0:
                    double.zero_grad()
                    F.kl_div(out.log_softmax(-1), y.double(), reduction="batchmean").backward()
                    self.assert_grads(grads, {name: q.grad for name, q in double.named_parameters()}, 1e-5)
                with self.assertRaisesRegex(ValueError, "the target is"):
                    net.step(x, y[..., 1:])
                net.close()

    def test_learnt_queries(self):
        """Attention of rows that are parameters, as in DETR, in both orders."""
        class Detr(nn.Module):
            def __init__(self, batch_first):
                super().__init__()
                self.stem, self.core = nn.Conv2d(3, 16, 3, 2, 1), nn.Transformer(16, 4, 1, 1, 24, 0.0, batch_first=batch_first)
                self.queries, self.places = nn.Parameter(torch.rand(6, 16)), nn.Parameter(torch.rand(16, 16))
                self.classes, self.boxes, self.first = nn.Linear(16, 5), nn.Linear(16, 4), batch_first

            def forward(self, x):
                x = self.stem(x).flatten(2)
                if self.first:
                    y = self.core(x.transpose(1, 2) + self.places, self.queries.expand(x.shape[0], -1, -1))
                else:
                    y = self.core(x.permute(2, 0, 1) + self.places[:, None], self.queries[:, None].repeat(1, x.shape[0], 1))
                    y = y.transpose(0, 1)
                return self.classes(y), self.boxes(y).sigmoid()

        def loss(out, _):
            return out[0].square().mean() + out[1].mean()

        for batch_first in True, False:
            model, x = Detr(batch_first), torch.randn(4, 3, 8, 8)
            net, double = clprune.Net(model, x, keep="exact", loss=loss), copy.deepcopy(model).double()
            got, grads = net.gradients(x, None)
            want = loss(double(x.double()), None)
            want.backward()
            self.assertLess(abs(got - want.item()), 1e-5)
            self.assert_grads(grads, {name: p.grad for name, p in double.named_parameters()}, 1e-5)
            net.close()

    def test_encoders_with_decoders(self):
        try:
            import transformers
        except ImportError:
            self.skipTest("transformers is not installed")
        small = dict(vocab_size=60, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                     decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=16, dropout=0.0,
                     attention_dropout=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=2)
        models = {
            "T5ForConditionalGeneration": transformers.T5Config(
                vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0, decoder_start_token_id=0),
            "BartForConditionalGeneration": transformers.BartConfig(**small),
            "BigBirdPegasusForConditionalGeneration": transformers.BigBirdPegasusConfig(**small, attention_type="original_full"),
            "WhisperForConditionalGeneration": transformers.WhisperConfig(
                **{**small, "num_mel_bins": 8, "max_source_positions": 12, "max_target_positions": 16})}
        for name, config in models.items():
            with self.subTest(name):
                model = getattr(transformers, name)(config)
                x = {"decoder_input_ids": torch.randint(3, 60, (3, 7))}
                x.update(dict(input_features=torch.randn(3, 8, 24)) if "Whisper" in name else
                         dict(input_ids=torch.randint(3, 60, (3, 9))))
                y = torch.randint(3, 60, (3, 7))
                net = clprune.Net(model, x, keep="exact")
                got, grads = net.gradients(x, y)
                want = F.cross_entropy(model.train()(**x).logits.transpose(1, 2), y)
                want.backward()
                self.assertLess(abs(got - want.item()), 1e-5)
                self.assert_grads(grads, {n: p.grad for n, p in model.named_parameters() if n in grads}, 2e-5)
                net.close()

    def test_several_outputs_with_a_mask(self):
        class Model(Attends):
            def forward(self, ids, mask):
                y = super().forward(ids, mask)
                return y, y.tanh()

        model, mask = Model(first_row), (torch.arange(9) < torch.tensor([9, 4, 1, 8])[:, None]).long()
        x = torch.where(mask == 1, torch.randint(5, 60, (4, 9)), 0), mask
        net = clprune.Net(model, x, keep="exact", loss=None, optimizer=None)
        out, dy = net.forward(x), [torch.randn(4, 5), torch.randn(4, 5)]
        want = model.train()(*x)
        for a, b in zip(out, want):
            torch.testing.assert_close(a, b.detach(), rtol=1e-4, atol=1e-5)
        sum((part * d).sum() for part, d in zip(want, dy)).backward()
        for name, grad in net.backward(*dy).items():
            if model.get_parameter(name).grad.norm() > 1e-6:
                self.assertLess(error(grad, model.get_parameter(name).grad), 2e-5, name)

    def test_masks_of_weights(self):
        """What a net converted with neutral masks computes with others."""
        model, x, y = Masked(), torch.randn(4, 8), labels(4)
        net = clprune.Net(model, x, keep="exact")
        for mask in (model.mask, model.other):
            mask.copy_(torch.rand(mask.shape) < 0.5)
        net.load_state_dict(model.state_dict())
        got, found = net.gradients(x, y)
        want, expected = autograd(model, x, y)
        self.assertLess(abs(got - want), 1e-5)
        self.assert_grads(found, expected, 1e-5)

    def test_steps_of_computed_parameters(self):
        """Weight decay is that of weights; copies, other nets with the state, and nets that share go on with the same bits."""
        x, y = images(6), labels(6)
        for optimizer, keep in (("adamw", "exact"), ("lamb", "exact"), ("adamw8", "compact")):
            model = Standardised()
            model.stem.bias.requires_grad = False
            how = dict(keep=keep, optimizer=optimizer, lr=0.01, weight_decay=0.1)
            net, shared, other = clprune.Net(model, x, **how), copy.deepcopy(model), copy.deepcopy(model)
            trained = {name: p for name, p in other.named_parameters() if p.requires_grad}
            steps = torch.optim.AdamW([{"params": [p for name, p in trained.items() if ("weight" in name) == decays],
                                        "weight_decay": 0.1 * decays} for decays in (True, False)], lr=0.01)
            for _ in range(3):
                steps.zero_grad()
                loss = F.cross_entropy(other(x), y)
                loss.backward()
                steps.step()
                got = net.step(x, y)
                if (optimizer, keep) == ("adamw", "exact"):
                    self.assertLess(abs(got - loss.item()), 1e-5)
            same = clprune.Net(model, x, **how)
            same.load_state_dict(net.state_dict())
            same.load_optimizer_state(net.optimizer_state())
            copied, sharing = copy.deepcopy(net), clprune.Net(shared, x, shares=True, **how)
            want = net.step(x, y)
            self.assertEqual(same.step(x, y), want)
            self.assertEqual(copied.step(x, y), want)
            for name, value in copied.state_dict().items():
                self.assertTrue(torch.equal(value, net.state_dict()[name]), name)
            for _ in range(4):
                last = sharing.step(x, y)
            self.assertEqual(last, want)
            for name, value in shared.state_dict().items():
                self.assertTrue(torch.equal(value, net.state_dict()[name]), name)
            with torch.no_grad():
                shared.gain.mul_(2)
            want = shared.eval()(x)
            torch.testing.assert_close(sharing(x), want, rtol=1e-4, atol=1e-5)
            for each in (net, same, copied, sharing):
                each.close()
        module = clprune.NetModule(model, x, keep="exact").train()
        other = copy.deepcopy(model).double().train()
        other.zero_grad()
        F.cross_entropy(other(x.double()), y).backward()
        F.cross_entropy(module(x), y).backward()
        self.assert_grads({name: p.grad for name, p in model.named_parameters() if p.grad is not None},
                          {name: p.grad for name, p in other.named_parameters() if p.grad is not None}, 1e-5)

    def test_regression(self):
        """Outputs that are tokens, images and vectors, against targets of their shape."""
        convolutions = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(),
                                     nn.Conv2d(8, 5, 3, padding=1))
        for model, x in ((convolutions, images(4)),
                         (nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Linear(32, 7)),
                          torch.randn(4, 9, 20)),
                         (nn.Linear(20, 7), torch.randn(4, 20)),
                         (nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Flatten()), images(4))):
            y = torch.randn_like(model(x))
            net = clprune.Net(model, x, keep="exact", loss="mse")
            self.assert_alike(net, model, x, y, F.mse_loss)
            self.assertLess(error(net(x), model(x)), 1e-5)
            net.close()

    def test_smoothing_and_forms(self):
        model, inputs = self.made("mlp")
        x, y = inputs(6), labels(6)
        keep = clprune.Keep(form="quantised", bits=8)
        net = clprune.Net(model, x, keep=keep, smoothing=0.1,
                          rules=[("0", None), ("rows", clprune.Keep(form="dense"))])
        self.assert_alike(net, model, x, y, grads=0.02,
                          criterion=lambda a, b: F.cross_entropy(a, b, label_smoothing=0.1))

    def test_frozen_parameters_stay(self):
        model, inputs = self.made("resnet")
        x, y = inputs(6), labels(6)
        whole = clprune.Net(model, x, keep="dense")
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.startswith("8."))
        net = clprune.Net(model, x, keep="dense")
        self.assertLess(net.saved_bytes, whole.saved_bytes / 50)
        before = net.state_dict()
        net.step(x, y)
        moved = {name for name, value in net.state_dict().items()
                 if not torch.equal(value, before[name])}
        self.assertEqual({name for name in moved if "running" not in name and "num" not in name},
                         {"8.weight", "8.bias"})

    def test_modules_that_were_converted(self):
        model, inputs = self.made("mlp")
        x, y = inputs(6), labels(6)
        before = copy.deepcopy(model)
        net = clprune.Net(clprune.convert_(model), x, keep="exact")
        self.assert_alike(net, before, x, y)

    def test_dropout_is_drawn_anew(self):
        model = nn.Sequential(nn.Linear(20, 64), nn.Dropout(0.5), nn.Linear(64, CLASSES))
        x, y = torch.randn(6, 20), labels(6)
        net = clprune.Net(model, x, lr=0.0)
        self.assertNotEqual(net.step(x, y), net.step(x, y))
        self.assertLess(error(net(x), model.eval()(x)), 1e-5)

    def test_packages(self):
        """torchvision's and timm's models, where they are installed."""
        for package, name in (("timm", "vit_tiny_patch16_224"), ("torchvision", "resnet18"),
                              ("timm", "resmlp_12_224"),
                              ("timm", "mixer_s16_224"), ("timm", "resnet26")):
            try:
                if package == "timm":
                    import timm
                    model = timm.create_model(name, num_classes=CLASSES)
                else:
                    import torchvision
                    model = getattr(torchvision.models, name)(num_classes=CLASSES)
            except ImportError:
                continue
            with self.subTest(name):
                side = 64 if "resnet" in name else 224
                x, y = images(2, side, side), labels(2)
                net = clprune.Net(model, x, keep="exact")
                self.assert_alike(net, model, x, y, loss=1e-4, grads=1e-3)
                net.close()

    def test_output_with_a_name(self):
        """As torchvision's models of segmentation have it."""
        model, inputs = self.made("by hand")
        x = inputs(4)
        module = clprune.NetModule(model, x, keep="exact").train()
        torch.testing.assert_close(module(x)["out"], model(x)["out"])

    def test_stochastic_depth(self):
        """It drops samples in training, others each step, and none in inference."""
        try:
            from torchvision.ops import StochasticDepth
            from timm.layers import DropPath
        except ImportError:
            self.skipTest("there is no torchvision, or no timm")
        for drop in StochasticDepth(0.5, "row"), DropPath(0.5):
            model = nn.Sequential(nn.Flatten(), nn.Linear(288, 16), drop, nn.Linear(16, CLASSES))
            x, y = images(64), labels(64)
            net = clprune.Net(model, x, lr=0.0)
            first = net.forward(x)
            net.step(x, y)
            second = net.forward(x)
            bias = model[3].bias.detach()
            dropped = (first - bias).abs().amax(1) < 1e-6
            self.assertTrue(10 < int(dropped.sum()) < 54)
            self.assertFalse(torch.equal(first, second))
            kept = 2 * (model.eval()(x) - bias) + bias
            self.assertLess(error(first[~dropped], kept[~dropped]), 1e-5)
            self.assertLess(error(net(x), model(x)), 1e-5)
            net.close()
        self.assertRaisesRegex(clprune.Error, "stochastic depth of 0.5 and mode 'batch'", clprune.Net,
                               nn.Sequential(nn.Flatten(), StochasticDepth(0.5, "batch"), nn.Linear(288, 4)), x)

    def test_depthwise_packages(self):
        """Gradients, and the losses of three steps. MobileNet V2 magnifies the last bits: PyTorch's own gradients in
        channels last are .003 from double precision, and its losses in two layouts differ by 1e-3 in the third step."""
        try:
            import torchvision
        except ImportError:
            self.skipTest("there is no torchvision")
        for name in "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny":
            with self.subTest(name):
                torch.manual_seed(1)
                model = getattr(torchvision.models, name)(num_classes=CLASSES)
                for module in model.modules():  # nothing is drawn
                    if isinstance(module, (nn.Dropout, torchvision.ops.StochasticDepth)):
                        module.p = 0.0
                x, y = images(8, 64, 64), labels(8)
                net = clprune.Net(model, x, keep="exact", optimizer="sgd", lr=1e-4, momentum=0.0)
                chaotic = name == "mobilenet_v2"
                model = copy.deepcopy(model).to(torch.float64 if chaotic else torch.float32).train()
                x, mine = x.to(next(model.parameters()).dtype), x
                self.assert_grads(net.gradients(mine, y)[1], autograd(copy.deepcopy(model), x, y)[1], 2e-2 if chaotic else 2e-3)
                optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
                for _ in range(2 if chaotic else 3):
                    loss = F.cross_entropy(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    self.assertLess(abs(net.step(mine, y) - loss.item()), 1e-3 if chaotic else 1e-4)
                net.close()


class Traps(Case):
    """What could be converted to something else without a word."""

    def module(self, forward, **modules):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                for name, module in modules.items():
                    if isinstance(module, (nn.Module, nn.Parameter)):
                        setattr(self, name, module)
                    else:
                        self.register_buffer(name, module, persistent=False)

        Model.forward = forward
        return Model()

    def same(self, model, x):
        y = labels(x.shape[0])
        net = clprune.Net(model, x, keep="exact")
        self.assert_alike(net, copy.deepcopy(model).double(), x, y)

    def refused(self, model, x, text):
        with self.assertRaisesRegex(clprune.Error, text):
            clprune.Net(model, x)

    def test_aliases_of_what_is_changed_in_place(self):
        parts = dict(identity=nn.Identity(), a=nn.Linear(8, 8), b=nn.Linear(8, CLASSES),
                     c=nn.Linear(8, CLASSES))

        def through_identity(m, x):
            h = m.a(x)
            other = m.identity(h)
            return m.b(F.relu(h, inplace=True)) + m.c(other)

        def through_copy(m, x):
            h = m.a(x)
            other = h.clone()
            return m.b(h.mul_(0.5)) + m.c(h) + m.c(other)

        x = torch.randn(4, 8)
        self.same(self.module(through_identity, **parts), x)
        self.same(self.module(through_copy, **parts), x)

        def through_view(m, x):
            h = m.conv(x)
            flat = h.flatten(2)
            h.relu_()
            return m.b(h.mean((2, 3)) + flat.mean(2))

        self.refused(self.module(through_view, conv=nn.Conv2d(3, 8, 1), b=nn.Linear(8, CLASSES)),
                     images(4), "of which there is another view")

    def test_orders_of_flattened_features(self):
        fc = nn.Linear(48, CLASSES)
        self.refused(self.module(lambda m, x: m.fc(x.flatten(1)) + m.fc(
            x.permute(0, 2, 3, 1).flatten(1)), fc=fc), torch.randn(4, 3, 4, 4), "fc.weight has two uses")
        self.same(self.module(
            lambda m, x: m.fc(m.a(x).flatten(1) + m.b(x).flatten(1)), fc=nn.Linear(16, CLASSES),
            a=nn.Conv2d(3, 4, 2, stride=2), b=nn.Conv2d(3, 2, (2, 1), stride=(2, 1))), torch.randn(4, 3, 4, 4))
        self.same(self.module(lambda m, x: m.fc(m.n(x.flatten(1).relu().reshape(-1, 4, 8)).mean(1)), n=nn.LayerNorm(8),
                              fc=nn.Linear(8, CLASSES)), torch.randn(4, 4, 8))

    def test_what_depends_on_the_batch(self):
        fc = nn.Linear(8, CLASSES)
        self.refused(self.module(lambda m, x: m.fc(x.reshape(2, -1, 8).mean(1)), fc=fc),
                     torch.randn(6, 4, 8), "the model fails with 3|a tensor of|depend on the number")

    def test_what_training_changes(self):
        self.refused(self.module(lambda m, x: m.fc(x) if m.training else 2 * m.fc(x),
                                 fc=nn.Linear(8, CLASSES)), torch.randn(4, 8), "output differs")
        bn = nn.BatchNorm1d(8)
        self.refused(self.module(lambda m, x: m.fc(F.batch_norm(x, m.bn.running_mean, m.bn.running_var)),
                                 fc=nn.Linear(8, CLASSES), bn=bn), torch.randn(4, 8),
                     "uses running statistics in training")

    def test_hooks_and_parametrised_weights(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, CLASSES))
        model[0].register_forward_hook(lambda module, args, result: 2 * result)
        self.refused(model, torch.randn(4, 8), "0: it has hooks")
        model = nn.Sequential(nn.Linear(8, 8), nn.utils.weight_norm(nn.Linear(8, CLASSES)))
        self.refused(model, torch.randn(4, 8), "1: it has hooks|its weight is computed")

    def test_attention_with_other_parameters(self):
        """At 0, as they begin, they change no output, but they have gradients."""

        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.num_heads, self.scale = 2, 0.5
                self.qkv, self.proj = nn.Linear(8, 24), nn.Linear(8, 8)
                self.attn_drop, self.proj_drop = nn.Dropout(0.0), nn.Dropout(0.0)
                self.positions = nn.Parameter(torch.zeros(2, 5, 5))

            def forward(self, x):
                q, k, v = self.qkv(x).view(-1, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
                weights = (q @ k.transpose(2, 3) * self.scale + self.positions).softmax(-1)
                return self.proj((weights @ v).transpose(1, 2).reshape(-1, 5, 8))

        Attention.__module__ = "timm.models.beit"
        x = torch.randn(4, 5, 8)
        model = nn.Sequential(Attention(), nn.Linear(8, CLASSES))
        net = clprune.Net(model, x, keep="exact")
        y = torch.randint(CLASSES, (4, 5))
        self.assert_alike(net, copy.deepcopy(model).double(), x, y, lambda out, y: F.cross_entropy(out.movedim(-1, 1), y))
        net.close()
        if hasattr(nn.utils.parametrizations, "weight_norm"):
            attention = nn.MultiheadAttention(8, 2, batch_first=True)
            nn.utils.parametrizations.weight_norm(attention.out_proj)
            self.refused(self.module(lambda m, x: m.a(x, x, x, need_weights=False)[0], a=attention), x,
                         "a: the parameters of its out_proj are computed")

    def test_products_and_parameters_in_odd_shapes(self):
        def rows(n):
            return torch.randn(n, 5, 8)

        def turned_pixels(x):
            return (x.flatten(2) + x.transpose(2, 3).flatten(2) * x.flatten(2)).transpose(1, 2)

        eye = torch.eye(5)
        for forward, inputs, modules in (
                (lambda m, x: F.scaled_dot_product_attention(x, x[:, :3], x[:, :3], attn_mask=m.table[:5, :3]), rows, {}),
                (lambda m, x: F.scaled_dot_product_attention(x, x, x, attn_mask=m.head.bias[:5] * m.table[:1, :5] * eye.to(x)),
                 rows, {}),
                (lambda m, x: (x @ x.transpose(1, 2)).softmax(1) @ x, rows, {}),
                (lambda m, x: (x @ x.transpose(1, 2)) @ x / 9, rows, {}),
                (lambda m, x: (x @ x.transpose(1, 2) + m.head.bias[:5] * eye.to(x)).softmax(-1) @ x, rows, {}),
                (lambda m, x: torch.einsum("nid,njd->nij", x, x).softmax(-1).transpose(1, 2) @ x, rows, {}),
                (lambda m, x: m.fc((x @ x.transpose(1, 2)).tanh() * m.table[:5, :5]), rows, {"fc": nn.Linear(5, 8)}),
                (lambda m, x: (x.softmax(-1) * 3 + F.normalize(x, dim=1)) * m.table[:5], rows, {}),
                (lambda m, x: x.transpose(1, 2).softmax(-1).transpose(1, 2) + m.table.sum() * m.table[0, 0], rows, {}),
                (lambda m, x: turned_pixels(m.conv(x)), images, {"conv": nn.Conv2d(3, 8, 1)}),
                (lambda m, x: m.fc(m.norm(x)).mean((1, 2)).view(-1, 1, 8), images, {
                    "fc": nn.Linear(12, 8), "norm": nn.LayerNorm(12)}),
                (lambda m, x: F.conv2d(x, 2 * m.conv.weight).flatten(2).transpose(1, 2), images, {"conv": nn.Conv2d(3, 8, 1)}),
                (lambda m, x: F.linear(x, m.fc.weight.t()), rows, {"fc": nn.Linear(8, 8)})):
            model = self.module(lambda m, x: m.head(forward(m, x)).mean(1), head=nn.Linear(8, CLASSES),
                                table=nn.Parameter(torch.randn(8, 8)), **modules)
            with self.subTest(list(modules), code=forward.__code__.co_firstlineno):
                self.same(model, inputs(4))

    def test_parameters_in_another_form(self):
        """Which has the parameter's elements now, but not later, or no gradient."""
        fc, x = nn.Linear(8, 8), torch.randn(4, 8, 8)
        fc.weight.data.abs_()
        for form in torch.relu, torch.abs, torch.detach:
            model = self.module(lambda m, x: (m.fc(x) + form(m.fc.weight)).mean(1), fc=copy.deepcopy(fc))
            net, other = clprune.Net(model, x, keep="exact", optimizer="sgd", lr=0.1, momentum=0), copy.deepcopy(model)
            y = labels(4) % 8
            steps = torch.optim.SGD(other.parameters(), lr=0.1)
            for _ in range(3):  # the values that follow are others
                steps.zero_grad()
                loss = F.cross_entropy(other(x), y)
                loss.backward()
                steps.step()
                self.assertLess(abs(loss.item() - net.step(x, y)), 1e-5, form)
            self.assertLess(float((other.fc.weight - net.state_dict()["fc.weight"]).norm()), 1e-5, form)
            net.close()
        self.refused(self.module(lambda m, x: torch.erf(m.fc(x)).mean(1), fc=fc), x, "erf is supported in GELU")

    def test_parameters_that_are_computed(self):
        """Whose value at conversion is that of another tensor, often as they are 0; they would not be trained, or otherwise."""
        def written(m, x):
            b = torch.zeros(6)
            b[:2], b[4:] = m.q, m.v
            return F.linear(x, m.w, b)

        def input_written(m, x):
            b = torch.zeros(6)
            b[:2] = x[0, 0, :2]
            return F.linear(x, m.w, b)

        def scaled(m, x):
            s = torch.ones(1)
            s[0] = m.q[0]
            return F.linear(x, m.w) * s

        def in_place(m, x):
            a = m.net(m.t + 0.5)
            b = a * 2
            return m.l(x + b + F.relu(a, inplace=True) + a).mean(1)

        def in_place_twice(m, x):
            a = m.w * 2
            a.add_(1)
            return F.linear(x, a.mul_(2))

        def attended(form):
            return lambda m, x: F.scaled_dot_product_attention(x, x, x, attn_mask=form(m.table).view(5, 5))

        def zeros(*shape):
            return nn.Parameter(torch.zeros(*shape))

        x, rows = torch.randn(4, 8), torch.randn(4, 5, 8)
        parts = {"w": nn.Parameter(torch.randn(6, 8)), "q": zeros(2), "k": zeros(2), "v": zeros(2)}
        for forward, data, modules in (
                (lambda m, x: m.b(F.linear(x, m.w, torch.cat([m.q, m.k.tanh(), m.v]))).mean(1), rows, {
                    **parts, "b": nn.Linear(6, CLASSES)}),
                (lambda m, x: m.l(x) * m.a.tanh(), x, {"l": nn.Linear(8, CLASSES), "a": zeros(1)}),
                (lambda m, x: m.l(x) + m.a.clamp(-1, 1) ** 3 + m.a.tanh(), x, {"l": nn.Linear(8, CLASSES), "a": zeros(CLASSES)}),
                (lambda m, x: m.l(x + m.a.tanh()) + (2 * m.a - m.a.detach())[:1], x, {"l": nn.Linear(8, CLASSES), "a": zeros(8)}),
                (lambda m, x: m.l(x @ m.a.clamp(-9, 9)), x, {"a": nn.Parameter(torch.randn(8, 6)), "l": nn.Linear(6, CLASSES)}),
                (in_place, rows, {"l": nn.Linear(8, CLASSES), "t": zeros(5, 2), "net": nn.Sequential(
                    nn.Linear(2, 8), nn.ReLU(inplace=True), nn.Linear(8, 8))}),
                (lambda m, x: m.l(attended(torch.sin)(m, x)).mean(1), rows, {"table": zeros(25, 1), "l": nn.Linear(8, CLASSES)})):
            with self.subTest(modules=list(modules)):
                self.same(self.module(forward, **modules), data)
        for forward, data, text, modules in (
                (written, rows, "computed from others", parts),
                (in_place_twice, rows, "changed in place", parts),
                (input_written, rows, "a write by index of others than tensors of the model's operations", parts),
                (scaled, x, "computed from others", parts),
                (attended(lambda t: F.dropout(t, 0.5)), rows, "random numbers", {"table": zeros(25, 1)}),
                (lambda m, x: x + F.dropout(m.a, 0.1, m.training), x, "random numbers", {"a": torch.randn(8) / 100}),
                (lambda m, x: x + m.drop(m.a), x, "random numbers", {"a": torch.randn(8) / 100, "drop": nn.Dropout(0.1)}),
                (lambda m, x: x + m.bn(m.a) / 100, rows, "computed from others",
                 {"a": torch.randn(5, 8), "bn": nn.BatchNorm1d(8, affine=False)})):
            with self.subTest(text, modules=list(modules)):
                self.refused(self.module(forward, **modules), data, text)

        def sines(m, x):  # no parameter has a part in it
            table = torch.zeros(5, 8)
            table[:, ::2] = m.angles.sin()
            table[:, 1::2] = m.angles.cos()
            return m.fc(x + table).mean(1)

        parts["b"] = nn.Linear(6, CLASSES)
        self.same(self.module(lambda m, x: m.b(F.linear(x, m.w, torch.cat([m.q, torch.zeros_like(
            m.v, requires_grad=False), m.v]))).mean(1), **{name: parts[name] for name in "wqvb"}), rows)
        repeated = self.module(lambda m, x: m.fc(x + m.a.repeat(x.shape[0], 1, 1)).mean(1),
                               fc=nn.Linear(8, CLASSES), a=zeros(1, 5, 8))
        self.same(repeated, rows)
        self.same(self.module(sines, fc=nn.Linear(8, CLASSES), angles=torch.randn(5, 4)), rows)

    def test_shapes_of_outputs(self):
        conv = nn.Conv2d(3, 4, 3)
        self.refused(self.module(lambda m, x: m.conv(x).mean((2, 3), keepdim=True).expand(-1, -1, 7, 7), conv=conv), images(4),
                     "output: .* is expanded to")
        self.refused(self.module(lambda m, x: m.conv(x) if m.training else m.conv(x)[:1], conv=conv), images(4),
                     "the net's output is .2, 4, 6, 10., the model's in inference .1, 4, 6, 10.")

    def test_parts_of_gelu_and_of_norms(self):
        def responses(m, x):
            x = m.a(x)
            norms = torch.norm(x, p=2, dim=1, keepdim=True)
            return m.b(x * (norms / (norms.mean(-1, keepdim=True) + 1e-6))).mean(1)

        x = torch.randn(4, 5, 5)
        self.same(self.module(responses, a=nn.Linear(5, 5), b=nn.Linear(5, CLASSES)), x)
        for forward in (lambda m, x: x * (torch.erf(x / 2 ** 0.5) + 1 + 1) * 0.5,
                        lambda m, x: x.transpose(1, 2) * (torch.erf(x / 2 ** 0.5) + 1) * 0.5):
            self.refused(self.module(forward), x, "erf is supported in GELU|needs two tensors|unless they have the same shape")

    def test_examples_that_do_not_tell(self):
        """A norm of what is centred already, and rotary positions of 0: by the example, they could be others."""
        try:
            import transformers
            from transformers.models.cohere.modeling_cohere import CohereLayerNorm
        except ImportError:
            self.skipTest("transformers is not installed")
        norms = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), CohereLayerNorm(8), nn.Linear(8, CLASSES))
        gptj = self.module(lambda m, x: m.model(x).last_hidden_state, model=transformers.GPTJModel(transformers.GPTJConfig(
            vocab_size=60, n_embd=32, n_layer=1, n_head=4, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            rotary_dim=4, bos_token_id=1, eos_token_id=1, use_cache=False)))
        for name, parameter in gptj.named_parameters():
            if "q_proj" in name or "k_proj" in name:
                parameter.data.zero_()
        for model, x in ((norms, torch.randn(4, 8)), (gptj, torch.randint(3, 60, (4, 7)))):
            net = clprune.Net(model, x, keep="exact", loss=lambda out, _: out.square().mean())
            for parameter in model.parameters():
                parameter.data += 0.3 * torch.randn_like(parameter)
            net.load_state_dict(model.state_dict())
            self.assert_alike(net, model, x, None, lambda out, _: out.square().mean(), grads=2e-5)
            net.close()

    def test_values_that_are_no_numbers(self):
        model = nn.Linear(8, CLASSES)
        model.weight.data[0, 0] = float("nan")
        self.refused(model, torch.randn(4, 8), "output differs from the model's .* by nan")

    def test_default_dtype(self):
        model, x = nn.Sequential(nn.Linear(8, CLASSES)), torch.randn(4, 8)
        net = clprune.Net(model, x)
        torch.set_default_dtype(torch.float64)
        try:
            self.assertTrue(torch.equal(net.state_dict()["0.weight"], model[0].weight))
        finally:
            torch.set_default_dtype(torch.float32)

    def test_states_are_whole(self):
        """Tied and unused parameters, and counters."""
        model = self.module(lambda m, x: m.b(m.bn(m.a(x)).relu()), a=nn.Linear(8, 8),
                            b=nn.Linear(8, 8), bn=nn.BatchNorm1d(8), unused=nn.Linear(2, 2))
        model.b.weight = model.a.weight
        model.bn.num_batches_tracked += 10
        x, y = torch.randn(4, 8), torch.randint(8, (4,))
        net = clprune.Net(model, x)
        net.step(x, y)
        state = net.state_dict()
        self.assertEqual(int(state["bn.num_batches_tracked"]), 11)
        model.load_state_dict(state)
        self.assertTrue(torch.equal(model.b.weight, model.a.weight))
        self.assertLess(error(net(x), model.eval()(x)), 1e-5)

    def test_squeezed_targets(self):
        model = self.module(lambda m, x: m.fc(x).squeeze(-1), fc=nn.Linear(8, 1))
        x, y = torch.randn(4, 5, 8), torch.randn(4, 5)
        net = clprune.Net(model, x, keep="exact", loss="mse")
        self.assert_alike(net, model, x, y, F.mse_loss)
        self.assertLess(error(net(x), model(x)), 1e-5)


class Life(Case):
    def test_the_model_is_left_alone(self):
        model, inputs = self.made("resnet")
        model.eval()
        model[1].train()
        before, modes = copy.deepcopy(model.state_dict()), [m.training for m in model.modules()]
        torch.manual_seed(3)
        clprune.Net(model, inputs(4)).close()
        drawn = torch.rand(1)
        torch.manual_seed(3)
        inputs(4)
        self.assertEqual(drawn, torch.rand(1))
        self.assertEqual(modes, [m.training for m in model.modules()])
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)

    def test_loading_and_seeds(self):
        model, inputs = self.made("mixer")
        x, y = inputs(4), labels(4)
        losses = []
        for seed in 0, 0, 1:
            net = clprune.Net(model, x, keep="least", seed=seed)
            losses.append([net.step(x, y) for _ in range(4)])
        self.assertEqual(losses[0], losses[1])
        self.assertNotEqual(losses[0], losses[2])
        net.load_state_dict(model.state_dict())
        self.assertLess(error(net(x), model(x)), 1e-5)
        with self.assertRaisesRegex(ValueError, "no value for .*head.bias"):
            net.load_state_dict({})
        with self.assertRaisesRegex(ValueError, r"head.bias is \(3,\), expected \(10,\)"):
            net.load_state_dict({**model.state_dict(), "head.bias": torch.zeros(3)})

    def test_inputs_are_read_in_place(self):
        for name in "resnet", "mixer", "mlp":
            model, inputs = self.made(name)
            x, y = inputs(5), labels(5)
            net = clprune.Net(model, x, keep="exact")
            self.assertLess(net.memory()["input"], x.nbytes)
            loss = net.gradients(x, y)[0]
            apart = torch.cat((x.new_zeros(1), x.flatten()))[1:].view(x.shape)  # not aligned
            ways = dict(same=x, apart=apart, mixed=torch.stack((x, x), -1)[..., 0], numbers=x.double(),
                        leaf=x.clone().requires_grad_())
            if x.dim() == 4:
                ways["last"] = x.to(memory_format=torch.channels_last)
                ways["turned"] = x.transpose(2, 3).contiguous().transpose(2, 3)
            for way, other in ways.items():
                with self.subTest(name, way=way):
                    copy, out = other.detach().clone(), net(x)
                    with unittest.mock.patch.object(net._run, "call", wraps=net._run.call) as call:
                        self.assertTrue(torch.equal(net(other), out))
                        self.assertTrue(torch.equal(net(other[1:4]), out[1:4]))
                        self.assertEqual(net.gradients(other, y)[0], loss)
                    read = [c.args[2] for c in call.mock_calls if c.args[0] == "mat_wrap"]
                    self.assertEqual(read[0] == read[2] == other.data_ptr(),
                                     way in ("same", "leaf", "last"))
                    self.assertIsNone(net._run.inputs[0].taken)
                    self.assertTrue(torch.equal(other, copy))
            want = net.gradients(x[:4], y[:4])[0]
            x[4] = 0
            self.assertEqual(net.gradients(x[:4], y[:4])[0], want)
            x[0] = 0
            self.assertNotEqual(net.gradients(x[:4], y[:4])[0], want)

    def test_an_input_that_changes_before_the_backward_pass(self):
        model, inputs = self.made("resnet")
        x = inputs(4)
        net = clprune.Net(model, x, loss=None, keep="exact")
        dy = torch.ones_like(net.forward(x))
        x[0, 0, 0, 0] += 1
        with self.assertRaisesRegex(clprune.Error, "the input was changed in place since forward"):
            net.backward(dy)
        net.forward(x)
        net.backward(dy)
        loss = clprune.Net(model, x, loss=lambda out, _: (x.add_(1), out.sum())[1])
        with self.assertRaisesRegex(clprune.Error, "the input was changed in place"):
            loss.step(x, None)

    def test_closed(self):
        model, inputs = self.made("mlp")
        x = inputs(4)
        net = clprune.Net(model, x)
        net.close()
        net.close()
        for use in (lambda: net.step(x, labels(4)), lambda: net(x), net.state_dict, net.memory,
                    lambda: str(net)):
            with self.assertRaisesRegex(clprune.Error, "the net is closed"):
                use()

    def test_memory(self):
        model, inputs = self.made("resnet")
        net = clprune.Net(model, inputs(4))
        memory = net.memory()
        self.assertEqual(memory["parameters"], 4 * sum(
            t.numel() for name, t in model.state_dict().items() if "num_batches" not in name))
        self.assertEqual(memory["total"], sum(
            memory[c] for c in ("input", "parameters", "gradients", "optimizer", "arena")))
        self.assertLess(memory["arena"], memory["activations"] + memory["workspace"])
        self.assertGreater(net.saved_bytes, 0)
        self.assertGreaterEqual(memory["process_peak"], memory["process"])
        self.assertGreater(memory["process"], memory["total"])


class Shares(Case):
    """Nets in the memory of a model (shares=True)."""

    def test_the_model_has_the_bits_of_a_net_of_a_copy_after_each_step(self):
        for name in "resnet", "vgg", "vit", "shared", "resmlp":
            with self.subTest(name):
                model, inputs = self.made(name)
                x, y = inputs(6), labels(6)
                apart = copy.deepcopy(model)
                net = clprune.Net(model, x, keep="exact", shares=True, lr=1e-2)
                other = clprune.Net(apart, x, keep="exact", lr=1e-2)
                first = next(module for module in model.modules() if isinstance(module, nn.Linear))
                copied = 0 if name != "vgg" else first.weight.numel()  # behind an image of 2 x 3 pixels
                self.assertEqual(net.memory()["parameters"], 4 * copied)
                for step in range(3):
                    self.assertEqual(net.step(x, y), other.step(x, y))
                    state = model.state_dict()
                    for key, value in other.state_dict().items():
                        self.assertTrue(torch.equal(state[key], value), key)
                    for key, value in net.state_dict().items():
                        self.assertTrue(torch.equal(state[key], value), key)
                    self.assertLess(error(model.eval()(x), net(x)), 1e-5)
                before = copy.deepcopy(model.state_dict())
                net.close()
                other.close()
                for key, value in model.state_dict().items():
                    self.assertTrue(torch.equal(value, before[key]), key)
                autograd(model, x, y)  # it still trains

    def test_values_that_others_write(self):
        model, inputs = self.made("vgg")
        x, y = inputs(6), labels(6)
        net = clprune.Net(model, x, keep="exact", shares=True)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.9)
        self.assertLess(error(net(x), model.eval()(x)), 1e-5)
        model.load_state_dict({name: 0.8 * value for name, value in model.state_dict().items()})
        self.assertLess(error(net(x), model.eval()(x)), 1e-5)
        self.assert_alike(net, model, x, y)
        net.load_state_dict({name: 0.7 * value for name, value in model.state_dict().items()})
        self.assertLess(error(net(x), model.eval()(x)), 1e-5)
        pending, version = model(x).sum(), model[0].weight._version
        net.step(x, y)
        self.assertGreater(model[0].weight._version, version)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            pending.backward()
        again = copy.deepcopy(net)
        self.assertTrue(torch.equal(again(x), net(x)))
        before = {name: value.clone() for name, value in model.state_dict().items()}
        again.step(x, y)  # a copy is alone
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)

    def test_masks_that_change_in_place(self):
        """Buffers of which parameters are computed, and that no layer has."""
        model, x, y = Masked(), torch.randn(4, 8), labels(4)
        net = clprune.Net(model, x, keep="exact", shares=True)
        net.gradients(x, y)
        for mask in (model.mask, model.other):
            mask.copy_(torch.rand(mask.shape) < 0.5)
        got, found = net.gradients(x, y)
        want, expected = autograd(model, x, y)
        self.assertLess(abs(got - want), 1e-5)
        self.assert_grads(found, expected, 1e-5)
        self.assertTrue(torch.equal(net.state_dict()["mask"], model.mask))

    def test_memory_that_is_not_the_same_any_more(self):
        def resized(model):
            model[0].weight.untyped_storage().resize_(0)

        def replaced(model):
            model[0].weight = nn.Parameter(model[0].weight.detach().clone())

        def moved(model):
            model[0].weight.data = model[0].weight.data.clone()

        def transposed(model):
            model[0].weight.data = model[0].weight.data.t()

        for change in resized, replaced, moved, transposed, lambda model: model.double():
            model = nn.Sequential(nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, CLASSES))
            x, y = torch.randn(4, 20), labels(4)
            net = clprune.Net(model, x, shares=True)
            net.step(x, y)
            change(model)
            for call in (lambda: net.step(x, y)), (lambda: net(x)), net.state_dict:
                with self.assertRaisesRegex(clprune.Error, "0.weight .*shares=True"):
                    call()
            net.close()

    def test_odd_memory(self):
        """Not aligned, not contiguous; a net outlives the model."""
        x, y = torch.randn(4, 20), labels(4)
        model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(),
                              nn.Linear(32, CLASSES))
        model[0].weight.data = torch.randn(20, 32).t()
        model[2].weight.data = torch.randn(32 * 32 + 1)[1:].view(32, 32) * 0.2
        net = clprune.Net(model, x, keep="exact", shares=True, optimizer="sgd", momentum=0.0, lr=0.1)
        want = copy.deepcopy(model)
        for _ in range(3):
            loss, grads = autograd(want, x, y)
            with torch.no_grad():
                for name, parameter in want.named_parameters():
                    parameter -= 0.1 * grads[name]
            self.assertLess(abs(net.step(x, y) - loss), 1e-5)
        for name, value in want.state_dict().items():
            self.assertLess(error(model.state_dict()[name], value), 1e-5)
        out = net(x)
        del model
        gc.collect()
        self.assertTrue(torch.equal(net(x), out))
        net.step(x, y)

    def test_a_model_that_needs_its_weights_in_order(self):
        class Views(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, CLASSES)

            def forward(self, x):
                x = self.conv(x)
                if not isinstance(x, torch.fx.Proxy):
                    x.view(x.shape[0], -1)
                return self.head(x.mean((2, 3)))

        model = Views()
        with self.assertRaisesRegex(clprune.Error, "channels last, as shares=True has them: .*view"):
            clprune.Net(model, images(4), shares=True)
        self.assertTrue(model.conv.weight.is_contiguous())
        clprune.Net(model, images(4)).close()


class Errors(Case):
    def refused(self, forward, text, x=None, **modules):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(20, CLASSES)
                for name, module in modules.items():
                    setattr(self, name, module)

        Model.forward = forward
        with self.subTest(text), self.assertRaisesRegex(clprune.Error, text):
            clprune.Net(Model(), torch.randn(4, 20) if x is None else x)

    def test_operations_that_a_net_does_not_have(self):
        x = images(4)
        for forward, text, modules in (
                (lambda m, x: m.head(m.act(x)), "\n    act: Mish is not supported",
                 {"act": nn.Mish()}),
                (lambda m, x: m.head(torch.erf(x)), r"erf is supported in GELU", {}),
                (lambda m, x: m.head(x) - m.head(x).detach().tanh(), r"\n    detach: its gradient is stopped", {}),
                (lambda m, x: (lambda h: (h.detach_(), m.last(h))[1])(m.head(x)), r"\n    detach_: its gradient is stopped",
                 {"last": nn.Linear(10, 4)}),
                (lambda m, x: m.head(torch.cat([x[:2], x[2:]], 0)), "getitem.*: \\[slice.*part along one dim", {}),
                (lambda m, x: m.head(torch.cat([x, x], 0)), "\n    head: a tensor of .4, 20., whose elements are not those", {}),
                (lambda m, x: x.view(-1, 4, 5)[:2, 1], "output: a tensor of .2, 5., whose elements are not those", {}),
                (lambda m, x: x @ x.t(), "matmul: a tensor of .20, 2., whose elements are not those", {}),
                (lambda m, x: m.head(x.sum(0, keepdim=True) + x), "sum_1: a sum or maximum over the samples", {}),
                (lambda m, x: m.head(x.softmax(0)), "softmax: a tensor of .* in this order|the first dimension is not", {}),
                (lambda m, x: x.view(-1, 4, 5) @ x.view(-1, 4, 5), "the model fails|matmul: a product of", {}),
                (lambda m, x: x.view(-1, 4, 5).transpose(0, 1) @ x.view(-1, 4, 5).permute(1, 2, 0),
                 "matmul: a product of tensors whose first dimension is not the samples", {}),
                (lambda m, x: m.head(x).transpose(0, 1), "output: a tensor of .10, 2., whose elements are not those", {}),
                (lambda m, x: (m.head(x), x), "the model returns several tensors, which have no cross_entropy", {})):
            self.refused(forward, text, **modules)
        for forward, text, modules in (
                (lambda m, x: x * x[:, :, :4], "the model fails", {}),
                (lambda m, x: m.bn(x), "bn: a batch norm without running statistics",
                 {"bn": nn.BatchNorm2d(3, track_running_stats=False)}),
                (lambda m, x: m.bn(m.bn(x)), "bn: a batch norm that runs twice",
                 {"bn": nn.BatchNorm2d(3)}),
                (lambda m, x: m.conv(x).flatten(1), "the output of a sample is \\(480,\\), expected clas",
                 {"conv": nn.Conv2d(3, 5, 1)})):
            self.refused(forward, text, x, **modules)
        rows = torch.randn(4, 5, 8)
        core = nn.MultiheadAttention(8, 2, batch_first=True)
        self.refused(lambda m, x: m.m(x, x, x.relu())[0].mean(1), "m: nn.MultiheadAttention needs key and value", rows, m=core)
        self.refused(lambda m, x: m.m(x, *[x.relu()] * 2, attn_mask=torch.zeros(5, 5))[0].mean(1),
                     "m: a mask in attention to other rows", rows, m=core)
        self.refused(lambda m, x: m.m(x, x, x, attn_mask=m.k)[0].mean(1), "m: a mask of attention that is computed from a parameter, k",
                     rows, m=core, k=nn.Parameter(torch.zeros(5, 5)))
        self.refused(lambda m, x: m.m(x, x, x, need_weights=False, attn_mask=torch.zeros(5, 5), is_causal=True)[0].mean(1),
                     "m: is_causal beside a mask of attention that is not causal", rows, m=core)
        self.refused(lambda m, x: m.m(x, x, x)[1].sum(1), "the weights of nn.MultiheadAttention", rows, m=core)
        hides = Traps().module(lambda m, x: m.fc(m.m(x, x, x, attn_mask=m.k)[0].mean(1)), m=core, fc=nn.Linear(8, CLASSES))
        hides.register_buffer("k", torch.zeros(5, 5))
        module = clprune.NetModule(hides, rows, keep="exact")
        hides.k.copy_(nn.Transformer.generate_square_subsequent_mask(5))
        with self.assertRaisesRegex(clprune.Error, "k has other values"):
            module(rows)
        self.refused(lambda m, x: (x.transpose(0, 1) + m.k[:, :x.shape[0]]).relu().mean(0), "another one for each sample|of (T, N, C)|not those",
                     rows, k=nn.Parameter(torch.zeros(1, 9, 8)))
        for how, more, text in (
                ({"batch_first": True, "add_bias_kv": True}, {}, "m: nn.MultiheadAttention needs .* without bias_kv"),
                ({}, {}, "elements are not those of one sample"),
                ({"batch_first": True}, {"need_weights": False, "attn_mask": torch.zeros(5, 5).fill_diagonal_(-1e9)},
                 "m: a mask of attention that hides others than later rows")):
            self.refused((lambda kwargs: lambda m, x: m.m(x, x, x, **kwargs)[0].mean(1))(more),
                         text, rows, m=nn.MultiheadAttention(8, 2, **how))
        table = torch.cat([torch.arange(5)[:, None] * torch.tensor([1, 1e-2])] * 2, -1)

        def of_heads(x):
            return x.view(-1, 5, 2, 4).transpose(1, 2)

        for forward, text in (
                (lambda m, x: F.scaled_dot_product_attention(x, x, x, attn_mask=torch.arange(25.0 * len(x)).view(-1, 5, 5)),
                 "_tensor_constant0 of .2, 5, 5. with a tensor of .N, 5, 5."),
                (lambda m, x: (x @ x.transpose(1, 2) + torch.zeros(3, 5)).softmax(-1) @ x, "size of tensor"),
                (lambda m, x: of_heads(x)[..., :2] + of_heads(x)[..., 2:], "a sum of features of heads that is not rotary"),
                (lambda m, x: turned(of_heads(x), table.cos(), table), "rotary positions of other angles"),
                (lambda m, x: turned(of_heads(x)[..., 2:], table[:, ::2].cos(), table[:, ::2].sin()),
                 "other features than the first ones|other than those of Llama"),
                (lambda m, x: torch.cat([of_heads(x)[..., 2:], of_heads(x)[..., :2]], -1), "in another order than that of rotary|whose elements are not those"),
                (lambda m, x: turned(of_heads(x), table.cos(), table.sin()).transpose(1, 2).flatten(2),
                 "rotary positions or repeated heads in another"),
                (lambda m, x: F.scaled_dot_product_attention(turned(of_heads(x), table.cos(), table.sin()), *[of_heads(x)] * 2),
                 "rotary positions or repeated heads in another")):
            self.refused(forward, text, rows)
        self.refused(lambda m, x: m.head(x) if x.sum() > 0 else m.head(-x),
                     "torch.fx cannot trace the model: TraceError")

    def test_probabilities_that_are_dropped_and_used_twice(self):
        """Both uses have the same draw: as one tensor, or not at all."""
        def inside(m, x):
            p = F.dropout((x @ x.transpose(1, 2)).softmax(-1), 0.5, m.training)
            return m.head((p @ x + p @ m.fc(x)).mean(1))

        def tensor(m, x):
            p = F.dropout((x @ x.transpose(1, 2)).softmax(-1), 0.5, m.training)
            return m.head((p * 0.5 @ x + p @ m.fc(x)).mean(1))

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc, self.head = nn.Linear(20, 20), nn.Linear(20, CLASSES)

        rows = torch.randn(4, 5, 20)
        self.refused(inside, "some are dropped, and that are used twice", rows, fc=nn.Linear(20, 20))
        Model.forward = tensor
        functions = [layer.function for layer in clprune.Net(Model(), rows)._program.layers]
        self.assertEqual((functions.count("dropout"), functions.count("attention")), (1, 0))

    def test_buffers_that_layers_have_as_numbers(self):
        """Other values in the model's state."""
        class Placed(nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.head = nn.Embedding(7, 10), nn.Linear(10, CLASSES)
                self.register_buffer("places", torch.arange(7))

            def forward(self, x):
                return self.head((x + self.table(self.places)).tanh().mean(1))

        for make, name, x in ((Placed, "places", torch.randn(4, 7, 10)),
                              (lambda: Biases(Biases.numbers), "alibi", torch.randn(4, 7, 10)),
                              (lambda: Biases(Biases.heads_first), "index", torch.randn(4, 7, 10)),
                              (lambda: Windows(Windows.fused), "mask", images(4))):
            with self.subTest(name):
                model, shared = make(), make()
                net, of_shared = clprune.Net(model, x), clprune.Net(shared, x, shares=True)
                module = clprune.NetModule(model, x)
                module(x)
                for of in model, shared:
                    of.get_buffer(name)[-1] = 0
                text = f"{name} has other values than when the Net was made"
                before = net.state_dict()
                for run in (lambda: net.load_state_dict(model.state_dict()), lambda: module(x), lambda: of_shared(x)):
                    with self.assertRaisesRegex(clprune.Error, text):
                        run()
                self.assertTrue(all(torch.equal(value, before[key]) for key, value in net.state_dict().items()))
                net.load_state_dict({**model.state_dict(), name: before[name]})

    def test_masks_that_are_computed_from_parameters(self):
        """Truth is not a number that is added."""
        def fused(m, q, k, v):
            return F.scaled_dot_product_attention(q, k, v, m.table[:, m.index] > -1)

        def filled(m, q, k, v):
            return (q @ k.transpose(2, 3)).masked_fill(m.table[:, m.index] < -1, -1e9).softmax(-1) @ v

        for add in (fused, filled):
            with self.subTest(add.__name__), self.assertRaisesRegex(
                    clprune.Error, "a mask of attention that is computed from a parameter, table"):
                clprune.Net(Biases(add), torch.randn(4, 7, 10))

    def test_rotary_positions_of_any_number_of_samples(self):
        """Tables for two samples and for three are those of one."""
        for seed in range(4):
            angles = torch.rand(1, 7, 3, generator=torch.Generator().manual_seed(seed))
            of = [clprune_views.Angles.of(*((1.1 * table).double().expand(n, -1, -1) for table in (angles.cos(), angles.sin())))
                  for n in (1, 2, 3, 5)]
            self.assertEqual(of, of[:1] * 4)

    def test_rotary_positions_that_are_trained(self):
        """By angles that are computed from a parameter, whole or of a part of each head."""
        for how, part in ((Turned.joined, 4), (Turned.rows_first, 8)):
            model = Turned(how, part)
            model.frequencies = nn.Parameter(model.frequencies)
            with self.subTest(how.__name__), self.assertRaisesRegex(
                    clprune.Error, "angles that are computed from a parameter, frequencies"):
                clprune.Net(model, torch.randn(4, 7, 24))

    def test_what_only_training_would_show(self):
        """Outputs in inference do not tell these from what a net would train."""
        class Reversed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, dy):
                return -dy

        def without_gradients(m, x):
            with torch.no_grad():
                x = m.fc(x)
            return m.head(x)

        def hooked(m, x):
            x = m.fc(x)
            if x.requires_grad:
                x.register_hook(lambda dy: dy * 0.1)
            return m.head(x)

        def dropped(m, x):
            weight = m.fc.weight.clone()
            F.dropout(weight, 0.5, m.training, True)
            return m.head(F.linear(x, weight))

        def clamped(m, x):
            m.fc.weight.data.clamp_(-0.1, 0.1)
            return m.head(m.fc(x))

        def placed(m, x):
            return m.head(x + m.table(torch.arange(20).remainder(1)))

        def layer_dropped(m, x):
            return m.head(x if m.training and float(torch.rand(())) < 0.0 else m.fc(x))

        fc = nn.Linear(20, 20)
        for forward, text, modules in (
                (without_gradients, "the model computes without gradients", {"fc": fc}),
                (hooked, "register_hook of a tensor is not supported", {"fc": fc}),
                (lambda m, x: m.head(Reversed.apply(m.fc(x))), "Reversed has a backward pass of its own", {"fc": fc}),
                (dropped, "random numbers in what is not computed from the input", {"fc": fc}),
                (clamped, "parameter is changed in place|computed from others|not supported", {"fc": fc}),
                (layer_dropped, "the model draws random numbers itself", {"fc": fc}),
                (lambda m, x: m.head(x * float(m.fc.weight.detach().sum())), "asks for a number in a tensor|detach", {"fc": fc}),
                (lambda m, x, other: m.head(x), "needs another input, other", {})):
            self.refused(forward, text, **modules)
        rows = torch.randn(4, 5, 8)
        for forward, text, modules in (
                (lambda m, x: x + m.table(torch.arange(5)), "its row of padding", {"table": nn.Embedding(5, 8, padding_idx=0)}),
                (lambda m, x: x + m.table(torch.arange(5)), "more than a table", {"table": nn.Embedding(5, 8, max_norm=1.0)}),
                (lambda m, x: F.dropout(x @ x.transpose(1, 2), 0.5).softmax(-1) @ x, "the net's output differs", {})):
            self.refused(forward, text, rows, **modules)

    def test_modes_and_state_of_the_model(self):
        """Modules that stay in inference in training; arguments that are not given; a model as before."""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.drop, self.mask = nn.Conv2d(3, 6, 3, padding=1), nn.Dropout(0.9), None
                self.register_buffer("calls", torch.zeros(()))

            def train(self, mode=True):
                super().train(mode)
                self.drop.eval()
                return self

            def forward(self, x, scale=None, *rest, **more):
                self.calls += 1
                if self.mask is None:
                    self.mask = torch.full((x.shape[2], x.shape[3]), 2.0)
                if scale is not None:
                    x = x * scale
                self.last = self.drop(self.conv(x)).transpose(2, 3)
                return self.last

        model, x, y = Model(), images(4), torch.randint(6, (4, 12, 8))
        before = dict(vars(model))
        net = clprune.Net(model, x, keep="exact")
        self.assertEqual(dict(vars(model)), before)
        self.assertEqual(float(model.calls), 0)
        self.assert_alike(net, copy.deepcopy(model).double(), x, y)
        with self.assertRaisesRegex(clprune.Error, "running statistics in training"):
            bn = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6))
            bn.train = lambda mode=True: (nn.Module.train(bn, mode), bn[1].eval())[0]
            clprune.Net(bn, x, loss="mse")

    def test_many_are_listed(self):
        model = nn.Sequential(*[nn.Mish() for _ in range(14)])
        with self.assertRaisesRegex(clprune.Error, "(?s)\n    0: Mish.*\n    9: Mish.*and 4 more"):
            clprune.Net(model, torch.randn(4, 20))

    def test_arguments(self):
        model, inputs = self.made("mlp")
        x = inputs(4)
        for how, text in ((dict(keep="some"), "keep is 'some', expected one of dense, exact"),
                          (dict(loss="l1"), "loss is 'l1'"),
                          (dict(optimizer="adam"), "optimizer is 'adam', expected one of sgd"),
                          (dict(precision="fp8"), "precision is 'fp8', expected one of fp32")):
            with self.assertRaisesRegex(ValueError, text):
                clprune.Net(model, x, **how)
        with self.assertRaisesRegex(ValueError, "no batch"):
            clprune.Net(model, torch.zeros(()))
        with self.assertRaisesRegex(clprune.Error, "NO_DEVICE"):
            clprune.Net(model, x, device="no such device")
        with self.assertRaisesRegex(clprune.Error, "net_settle.*bits"):
            clprune.Net(model, x, bits=3)
        with self.assertRaisesRegex(clprune.Error, "net_settle.*store is 3"):
            clprune.Net(model, x, store="int8")
        with self.assertRaisesRegex(clprune.Error, "no such layer"):
            clprune.Net(model, x, rules=[("no such layer", None)])

    def test_data(self):
        model, inputs = self.made("mlp")
        x, y = inputs(4), labels(4)
        net = clprune.Net(model, x)
        for data, text in (((inputs(5), labels(5)), r"the input is \(5, 20\), expected \(N, 20\) "),
                           ((x[:0], y[:0]), "N from 1 to 4"),
                           ((x[:, :19], y), r"the input is \(4, 19\)"),
                           ((x, y[:3]), r"labels are torch.int64 of \(3,\), expected"),
                           ((x, y.float()), "labels are torch.float32"),
                           ((x, y - 10), "labels are -"),
                           ((x, y + 10), "expected 0 to 9")):
            with self.assertRaisesRegex(ValueError, text):
                net.step(*data)
        self.assertEqual(net.steps, 0)
        net.step(x, y)


if __name__ == "__main__":
    unittest.main()
