"""Gradients of PyTorch's operations within clprune.compressed beside those of autograd alone, at 4 and 8 bits,
the worst of 5 draws. CLPRUNE_LIBRARY is the library. Run by test_pytorch.sh."""

import contextlib
import unittest

import torch
import torch.nn.functional as F

from pytorch_case import Case, error

import clprune

P = torch.sigmoid  # a probability, up to 1 in float32
POSITIVE = torch.nn.functional.softplus
SIZE = (32, 64)


def target():
    return (torch.arange(2048).view(SIZE) % 7 == 0).float()


def heads(z):
    return z.view(1, 2, 32, 32)


def attention(scale):
    return lambda z: F.scaled_dot_product_attention(
        scale * heads(z), scale * heads(z).flip(2), heads(z).flip(3))


# What the loss is of 3 * normal values; they are made by an operation, so that what is saved is coded.
EXACT = {  # nothing is left of the error of the codes: bits are enough, or the values stay
    "relu": F.relu, "relu_": lambda z: F.relu(z * 1, inplace=True), "relu6": F.relu6,
    "leaky_relu": lambda z: F.leaky_relu(z, 0.1),
    "leaky_relu_": lambda z: F.leaky_relu(z * 1, 0.1, inplace=True), "threshold": lambda z: F.threshold(z, 0.5, 9.0),
    "hardtanh": lambda z: F.hardtanh(z, -2, 3), "hardtanh, defaults": F.hardtanh, "hardsigmoid": F.hardsigmoid,
    "hardshrink": F.hardshrink, "softshrink": lambda z: F.softshrink(z, 1.0), "abs": torch.abs,
    "clamp": lambda z: z.clamp(-1, 2), "clamp, one side": lambda z: z.clamp(min=0.1),
    "clamp_min": lambda z: torch.clamp_min(z, -0.5), "clamp_max": lambda z: torch.clamp_max(z, 0.5),
    "clamp(max=)": lambda z: z.clamp(max=1), "relu after abs": lambda z: F.relu(z.abs() - 1),
    "BCE": lambda z: F.binary_cross_entropy(P(6 * z), target()),
    "log(p + eps)": lambda z: torch.log(F.softmax(2 * z, -1) + 1e-8) * target(),
    "log1p(-p)": lambda z: torch.log1p(-0.9999 * P(3 * z)), "acos": lambda z: torch.acos(0.999 * torch.tanh(3 * z)),
    "asin": lambda z: torch.asin(0.9999 * torch.sin(z)), "atanh": lambda z: torch.atanh(0.999 * torch.tanh(z)),
    "acosh": lambda z: torch.acosh(1 + z * z), "logit": lambda z: torch.logit(P(2 * z), 1e-6),
    "erfinv": lambda z: torch.erfinv(0.9999 * torch.tanh(z)), "sqrt": lambda z: torch.sqrt(z ** 2 + 1e-6),
    "rsqrt": lambda z: torch.rsqrt(z ** 2 + 1e-4), "reciprocal": lambda z: 1 / (z.abs() + 0.01),
    "division": lambda z: z.flip(0) / (z.abs() + 0.01), "x ** -2": lambda z: (z.abs() + 0.05) ** -2,
    "x ** 0.3": lambda z: (z.abs() + 1e-5) ** 0.3, "x ** y": lambda z: (z.abs() + 0.01) ** z.flip(0).tanh(),
    "log": lambda z: torch.log(z.abs() + 1e-4), "log2": lambda z: torch.log2(z * z + 1e-4),
    "log10": lambda z: torch.log10(z * z + 1e-4), "xlogy": lambda z: torch.xlogy(target(), z * z + 1e-5),
    "Normal.log_prob": lambda z: torch.distributions.Normal(0.0, torch.exp(2 * z)).log_prob(target()),
    "gaussian_nll": lambda z: F.gaussian_nll_loss(z, target(), torch.exp(2 * z.flip(0)), reduction="none"),
    "poisson_nll": lambda z: F.poisson_nll_loss(z * z, target(), log_input=False, reduction="none"),
    "kl_div": lambda z: F.kl_div(torch.log(P(3 * z) + 1e-8), P(3 * z.flip(0)), reduction="none"),
    "cumprod": lambda z: torch.cumprod(1 - P(z) + 1e-10, -1), "lgamma": lambda z: torch.lgamma(z.abs() + 0.01),
    "digamma": lambda z: torch.digamma(z.abs() + 0.01), "atan2": lambda z: torch.atan2(0.1 * z, 0.1 * z.flip(0)),
    "tan": lambda z: torch.tan(z), "log_": lambda z: (z.abs() + 1e-3).log_(), "sqrt_": lambda z: (z * z + 1e-5).sqrt_(),
    "sigmoid_": lambda z: (3 * z).sigmoid_(), "hypot": lambda z: torch.hypot(z, z.flip(0)),
    "logsumexp": lambda z: torch.logsumexp(9 * z, -1), "amax": lambda z: z.amax(-1),
    "normalize": lambda z: F.normalize(0.01 * z, dim=0, eps=1e-3), "attention, large logits": attention(9.0),
    "inv": lambda z: torch.linalg.inv(z.view(2, 32, 32)),
    "exp": lambda z: torch.exp(5 * z),
}
CODED = {  # an error like that of the codes
    "mul": lambda z: z * z.flip(0), "square": lambda z: z ** 2, "cube": lambda z: z ** 3,
    "mm": lambda z: z @ z.t(), "bmm": lambda z: heads(z)[0] @ heads(z)[0].flip(0),
    "addcmul": lambda z: torch.addcmul(z, z, z.flip(0)), "lerp": lambda z: torch.lerp(z, z.flip(0), P(z)),
    "conv2d": lambda z: F.conv2d(z.view(2, 4, 16, 16), z[:1, :36].reshape(1, 4, 3, 3)),
    "einsum": lambda z: torch.einsum("ij,kj->ik", z, z), "sigmoid": lambda z: P(z / 3),
    "tanh": lambda z: torch.tanh(z / 3), "gelu": F.gelu, "silu": F.silu, "mish": F.mish, "softplus": lambda z: F.softplus(z / 3),
    "elu": lambda z: F.elu(z / 3), "selu": lambda z: F.selu(z / 3), "hardswish": F.hardswish, "softmax": lambda z: F.softmax(z / 3, -1),
    "log_softmax": lambda z: F.log_softmax(z / 3, -1), "layer_norm": lambda z: F.layer_norm(z, (64,)),
    "group_norm": lambda z: F.group_norm(z, 4), "batch_norm": lambda z: F.batch_norm(z, None, None, training=True),
    "batch_norm, unlike channels": lambda z: F.batch_norm(z * torch.logspace(-3, 3, 64), None, None, training=True),
    "attention": attention(0.3), "sin": torch.sin, "cos": torch.cos, "erf": torch.erf, "atan": torch.atan,
    "prelu": lambda z: F.prelu(z, torch.full((1,), 0.25)), "glu": F.glu, "smooth_l1": lambda z: F.smooth_l1_loss(z, target(), reduction="none"),
    "huber": lambda z: F.huber_loss(z, target(), reduction="none"), "maximum": lambda z: torch.maximum(z, z.flip(0)),
    "BCE with logits": lambda z: F.binary_cross_entropy_with_logits(z, target(), reduction="none"),
    "cross_entropy": lambda z: F.cross_entropy(z, torch.arange(32)), "prod": lambda z: (z[:, :4] + 2).prod(-1),
    "cosine_similarity": lambda z: F.cosine_similarity(z, z.flip(0)), "norm": lambda z: z.norm(dim=-1),
    "std": lambda z: z.std(-1), "cdist": lambda z: torch.cdist(z, z.flip(0)), "logsigmoid": F.logsigmoid,
}


class Twice(torch.autograd.Function):
    """Saves its input, and its result, which the next operation reads."""

    @staticmethod
    def forward(ctx, x):
        y = 2 * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, y = ctx.saved_tensors
        return (x + 3 * y) * dy


# What keeps bits of what it makes or reads, and who else reads that: both save the same tensor.
PIECES = {name: EXACT[name] for name in (
    "relu", "relu_", "relu6", "leaky_relu", "leaky_relu_", "hardtanh", "hardsigmoid", "hardshrink", "clamp", "abs")}
PIECES.update({"threshold_": lambda z: F.threshold(z * 1, 0.5, 9.0, inplace=True), "clamp_": lambda z: (z * 1).clamp_(-1, 2),
               "hardtanh_": lambda z: F.hardtanh(z * 1, -2, 3, inplace=True)})


def shares(read):
    """The operation's result, its input and both are read."""
    def together(*results):
        return torch.cat([y.flatten() for y in results])

    return [lambda p, z: read(p(z), z), lambda p, z: together(p(z), read(z, z)),
            lambda p, z: (lambda y: together(read(y, z), read(z, z), y))(p(z)),
            lambda p, z: read(p(z).transpose(0, 1), z.transpose(0, 1)),
            lambda p, z: together(p(Twice.apply(z)), read(p(z), z))]


READERS = {
    "conv2d": lambda y, z: F.conv2d(y[None, None], z[:3, :3][None, None]), "mm": lambda y, z: y @ z.t(),
    "mul": lambda y, z: y * z.flip(0), "layer_norm": lambda y, z: F.layer_norm(y, (y.shape[1],)), "leaky_relu": lambda y, z: F.leaky_relu(y, 0.2), "Twice": lambda y, z: Twice.apply(y),
    "conv1d": lambda y, z: F.conv1d(y[None], z[:4, :3][:, None].expand(-1, y.shape[0], -1))}


def gradient(f, seed, bits=None):
    """Of f with a weight for each output, and what was saved."""
    z = (3 * torch.randn(SIZE, generator=torch.Generator().manual_seed(9))).requires_grad_()
    torch.manual_seed(seed)
    with clprune.compressed(bits=bits) if bits else contextlib.nullcontext():
        y = f(z * 1)
        weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(10))
        loss = (y * weights).sum()
    return torch.autograd.grad(loss, z)[0]


class Operations(Case):
    def worst(self, f, bits):
        want = gradient(f, 0)
        return max(error(gradient(f, seed, bits), want) for seed in range(5))

    def check(self, table, bounds):
        bad = []
        for name, f in table.items():
            for bits, bound in bounds.items():
                worst = self.worst(f, bits)
                if not worst <= bound:
                    bad.append(f"{name}, {bits} bits: {worst:.3g}, above {bound}")
        self.assertEqual(bad, [])

    def test_there_are_enough(self):
        self.assertGreaterEqual(len(EXACT) + len(CODED), 90)

    def test_exact(self):
        self.check(EXACT, {8: 0.03, 4: 0.4})

    def test_coded(self):
        self.check(CODED, {8: 0.04, 4: 0.4})

    def test_others_that_read_what_bits_are_kept_of(self):
        """A convolution behind F.relu once got the bits in place of its input."""
        table = {f"{name}, {reader}, {i}": lambda z, p=p, share=share: share(p, z) for name, p in PIECES.items()
                 for reader, read in READERS.items() for i, share in enumerate(shares(read))}
        bad = []
        for name, f in table.items():
            want = gradient(f, 0)
            got = error(gradient(f, 0, 8), want)
            bad += [] if got <= 0.06 else [f"{name}: {got:.3g}"]
        self.assertEqual((len(table), bad), (455, []))

    def test_slopes_of_two_values_take_a_bit(self):
        for name in ("relu", "leaky_relu", "relu6", "hardtanh", "hardsigmoid", "hardshrink", "clamp"):
            x = torch.randn(64, 64, requires_grad=True)
            with clprune.saved_bytes(torch.nn.Module()) as saved, clprune.compressed(bits=8):
                y = EXACT[name](x * 1)
            self.assertLessEqual(saved.total, 64 * 64 // 8, name)
            got, = torch.autograd.grad(y.sum(), x)
            self.assertTrue(torch.equal(got, torch.autograd.grad(EXACT[name](x).sum(), x)[0]), name)

    @unittest.skipUnless(hasattr(getattr(torch, "compiler", None), "set_stance"), "PyTorch 2.6")
    def test_compiled_models_save_codes_too(self):
        model, x = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64)), torch.randn(64, 64)
        kept = []
        for run in (model, torch.compile(model, backend="aot_eager")):
            with clprune.saved_bytes(model, x) as saved, clprune.compressed():
                run(x).sum().backward()
            kept.append(saved.total)
        self.assertEqual(*kept)


if __name__ == "__main__":
    unittest.main()
