"""Tests of clprune.convert_ for each kind of module, of what it says, and of modules and inputs that
it must not break, against PyTorch itself. CLPRUNE_LIBRARY is the library. Run by test_pytorch.sh."""

import contextlib
import copy
import gc
import pickle
import unittest
import warnings
import weakref

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize

import pytorch_case
from pytorch_case import loss_of

import clprune
import clprune.convert.kinds as clprune_kinds
import clprune.convert.modules as clprune_modules
from clprune.convert.sources import TOP_HOOKS


def run(model, x, seed=3):
    """Output, and gradients of x and of all parameters; buffers after the pass."""
    torch.manual_seed(seed)
    model.zero_grad()
    x = x.clone().requires_grad_()
    y = model(x * 1)
    loss_of(y).backward()
    return (y.detach(), [x.grad] + [p.grad.clone() for p in model.parameters()],
            [b.clone() for b in model.buffers()])


def named_class(module, name, base, **parts):
    """A class as another package has it."""
    return type(name, (base,), {"__module__": module, **parts})


class Case(pytorch_case.Case):
    def assert_close(self, got, want, tolerance, least=1e-3):
        super().assert_close(got, want, tolerance, least)


torch.manual_seed(1)  # the layers below are the same in each run
IMAGES = (4, 3, 15, 17)
TOKENS = (4, 7, 32)
KINDS = {
    "layer_norm": ([nn.LayerNorm(32), nn.Linear(32, 8)], TOKENS),
    "layer_norm_of_two_axes": ([nn.LayerNorm((7, 32)), nn.Linear(32, 8)], TOKENS),
    "layer_norm_without_weight": ([nn.LayerNorm(32, elementwise_affine=False), nn.Linear(32, 8)],
                                  TOKENS),
    "batch_norm": ([nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
                    nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 5, 1)], IMAGES),
    "batch_norm_without_weight": ([nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8, affine=False),
                                   nn.Conv2d(8, 5, 2, bias=False)], IMAGES),
    "batch_norm_then_conv": ([nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.Conv2d(8, 5, 1)], IMAGES),
    "group_norm": ([nn.Conv2d(3, 8, 3, bias=False), nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv2d(8, 5, 1)],
                   IMAGES),
    "group_norm_without_weight": ([nn.Conv1d(3, 8, 3), nn.GroupNorm(4, 8, affine=False),
                                   nn.Conv1d(8, 5, 1)], (4, 3, 15)),
    "group_norm_of_rows": ([nn.Linear(32, 24), nn.GroupNorm(3, 24), nn.Linear(24, 5)], (9, 32)),
    "avg_pool": ([nn.Conv2d(3, 8, 3), nn.AvgPool2d(3, (2, 1), 1, count_include_pad=False),
                  nn.AvgPool2d((2, 3), ceil_mode=True), nn.AdaptiveAvgPool2d((2, 3)),
                  nn.AvgPool2d(2, 1, divisor_override=3)], IMAGES),
    "global_avg_pool": ([nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1)], IMAGES),
    "pool": ([nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d((2, 3), ceil_mode=True, dilation=2),
              nn.Conv2d(8, 8, 3, groups=4, padding="same", dilation=2)], IMAGES),
    "conv1d": ([nn.Conv1d(3, 8, 3, stride=2, bias=False), nn.BatchNorm1d(8), nn.Tanh(), nn.Conv1d(8, 5, 1)],
               (4, 3, 15)),
    "conv3d": ([nn.Conv3d(3, 8, 3, padding=1, bias=False), nn.BatchNorm3d(8), nn.Sigmoid(),
                nn.Conv3d(8, 5, 1)], (4, 3, 5, 6, 7)),
    "circular": ([nn.Conv2d(3, 8, 3, padding_mode="circular", padding=1), nn.SiLU(inplace=True),
                  nn.Conv2d(8, 5, 1)], IMAGES),
    "activations": ([nn.Linear(32, 16), nn.SiLU(), nn.Linear(16, 16), nn.Hardswish(),
                     nn.Linear(16, 16), nn.GELU("tanh"), nn.LeakyReLU(0.1, inplace=True),
                     nn.ReLU6(), nn.Mish(), nn.ELU()], TOKENS),
    "mlp": ([nn.Linear(96, 64), nn.GELU(), nn.Linear(64, 96, bias=False)], (4, 200, 96)),
    "dropout": ([nn.Linear(32, 16), nn.Dropout(0.3), nn.Linear(16, 16), nn.Dropout(0.0)], TOKENS),
}
if hasattr(nn, "RMSNorm"):
    KINDS["rms_norm"] = ([nn.RMSNorm(32), nn.Linear(32, 8)], TOKENS)
    KINDS["rms_norm_of_two_axes"] = ([nn.RMSNorm((7, 32), eps=1e-5), nn.Linear(32, 8)], TOKENS)


def kept_exactly(model):
    """A converted copy that keeps what the codes are made of, normalised values and derivatives, but
    without rounding: form "dense" keeps inputs of norms and activation functions instead."""
    converted = clprune.convert_(copy.deepcopy(model), form="dense")
    for module in converted.modules():
        if isinstance(module, (clprune_modules.NormKind, clprune_modules.ActivationKind)):
            module.keep = clprune.Keep(form="pruned", sparsity=0.0, criterion="largest")
    return converted


class Kinds(Case):
    def models(self):
        for name, (layers, shape) in KINDS.items():
            x = torch.randn(shape)
            yield name, nn.Sequential(*copy.deepcopy(layers)), x
            if len(shape) == 4:
                yield name + " channels_last", nn.Sequential(*copy.deepcopy(layers)), x.to(
                    memory_format=torch.channels_last)

    def test_kept_dense_they_have_the_gradients_of_pytorch(self):
        for name, model, x in self.models():
            with self.subTest(name):
                converted = clprune.convert_(copy.deepcopy(model), form="dense")
                got, want = run(converted, x), run(model, x)
                for mine, theirs in zip(got, want):  # output, gradients, buffers
                    self.assert_same(mine, theirs)
                self.assertEqual(clprune.summary(converted).left, {})

    def test_kept_exactly_they_have_them_but_for_rounding(self):
        for name, model, x in self.models():
            with self.subTest(name):
                got, want = run(kept_exactly(model), x), run(model, x)
                self.assert_same(got[0], want[0])
                self.assert_close(got[1], want[1], 5e-6)
                self.assert_same(got[2], want[2])

    def test_as_codes_they_are_near(self):
        for name, model, x in self.models():
            with self.subTest(name):
                converted = clprune.convert_(copy.deepcopy(model))
                got, want = run(converted, x), run(model, x)
                self.assertTrue(torch.equal(got[0], want[0]))
                self.assert_close(got[1], want[1], 0.5)
                clprune.convert_(converted, bits=8)
                self.assert_close(run(converted, x)[1], want[1], 0.04)

    def test_as_codes_they_have_no_bias_to_speak_of(self):
        """The mean of draws nears PyTorch's gradient as 1 / sqrt(draws)."""
        for name in ("layer_norm", "group_norm", "batch_norm", "batch_norm_then_conv", "activations",
                     "conv1d"):
            layers, shape = KINDS[name]
            model, x = nn.Sequential(*copy.deepcopy(layers)), torch.randn(shape)
            converted = clprune.convert_(copy.deepcopy(model), gelu_bits=4)
            want = torch.cat([g.flatten() for g in run(model, x)[1]]).double()
            draws = torch.stack([torch.cat([g.flatten() for g in run(converted, x, seed)[1]])
                                 for seed in range(64)]).double()
            one = float(((draws - want) ** 2).sum(1).mean().sqrt())
            of_mean = float((draws.mean(0) - want).norm())
            self.assertGreater(one, 0)
            self.assertLess(of_mean, 0.25 * one, name)

    def test_autocast(self):
        for name, model, x in self.models():
            with self.subTest(name), torch.autocast("cpu", torch.bfloat16):
                try:
                    exact = run(copy.deepcopy(model).float(), x)
                except RuntimeError as error:  # PyTorch's own: Mish and GroupNorm before 2.0
                    if torch.__version__ >= "2":
                        raise
                    self.skipTest(str(error))
                got = run(clprune.convert_(copy.deepcopy(model), form="dense"), x)
                self.assertTrue(torch.equal(got[0], exact[0]))
                # PyTorch's own sums of bf16 gradients may be less exact: with its bits where equal
                self.assertLess(float((got[1][0] - exact[1][0]).norm() / exact[1][0].norm()), 2e-2)

    @unittest.skipUnless(TOP_HOOKS, "PyTorch before 2.1 does not tell of checkpoints")
    def test_a_conv_after_relu_of_a_norm_keeps_nothing_of_its_own(self):
        for norm in nn.BatchNorm2d(16), nn.GroupNorm(4, 16):
            model = nn.Sequential(nn.Conv2d(8, 16, 1), norm, nn.ReLU(), nn.Conv2d(16, 8, 1))
            x = torch.randn(4, 8, 32, 32, requires_grad=True)
            clprune.convert_(model)
            with clprune.saved_bytes(model, x) as saved:
                model(x)
            images = 4 * 32 * 32
            codes = 4.5 / 8 * images
            self.assertLess(saved.total, 1.02 * (8 * codes + 16 * codes + 16 * images / 8) + 64)

    def test_average_pooling_keeps_nothing(self):
        x = torch.randn(2, 3, 12, 12, requires_grad=True)
        for pool in nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(4), nn.AdaptiveAvgPool2d(1):
            with clprune.saved_bytes(clprune.convert_(pool)) as saved:
                y = pool(x.clone())
            if torch.__version__ >= "2" or getattr(pool, "output_size", 0) != 1:
                self.assertEqual(saved.total, 0)
            self.assertIn("keep=nothing", repr(pool))
            y.sum().backward()

    def test_images_without_a_batch(self):
        for module in (nn.MaxPool2d(3, 2), nn.AvgPool2d(3, 2), nn.AdaptiveAvgPool2d(2),
                       nn.Conv2d(3, 4, 3)):
            for x in torch.randn(3, 9, 9), torch.randn(9, 9, 3).permute(2, 0, 1):
                converted = clprune.convert_(copy.deepcopy(module), form="dense")
                for got, want in zip(run(converted, x), run(module, x)):
                    self.assert_same(got, want)

    @unittest.skipUnless(TOP_HOOKS, "PyTorch before 2.1 does not tell of checkpoints")
    def test_a_linear_layer_after_a_norm_keeps_nothing_of_its_own(self):
        model = clprune.convert_(nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64)))
        x = torch.randn(4, 100, 64, requires_grad=True)
        with clprune.saved_bytes(model, x) as saved:
            y = model(x)
        self.assertEqual(saved.total, 400 * 36 + 400 * 4)  # 400 rows of codes, and their 1 / std
        y.sum().backward()

    def test_what_is_shared_has_the_right_order(self):
        """A layer that reads a view of what a norm wrote, or of what another layer reads."""

        class Views(nn.Module):
            def __init__(self, view, features):
                super().__init__()
                self.norm, self.view = nn.LayerNorm(12), view
                self.a, self.b = nn.Linear(12, 5), nn.Linear(features, 5)

            def forward(self, x):
                with torch.no_grad():
                    self.norm.weight.normal_()
                    self.norm.bias.normal_()
                y = self.norm(x)
                return self.b(self.view(y)).sum() + self.a(y).sum() + self.a(x).sum() + self.b(
                    self.view(x)).sum()

        for view, features in ((lambda y: y.transpose(1, 2), 12), (lambda y: y.flatten(1), 144),
                               (lambda y: y.view(4, 6, 24), 24), (lambda y: y[:, :, ::2], 6),
                               (lambda y: y[:, :1].expand(4, 7, 12), 12)):
            model, x = Views(view, features), torch.randn(4, 12, 12)
            for converted, tolerance in (
                    (clprune.convert_(copy.deepcopy(model), form="dense"), 1e-6),
                    (kept_exactly(model), 3e-6),
                    (clprune.convert_(copy.deepcopy(model), bits=8), 0.05)):
                for around in contextlib.nullcontext, clprune.compressed:
                    with around():
                        got = run(converted, x)
                    self.assert_close(got[1], run(model, x)[1], tolerance)

    def test_relu_of_an_expanded_tensor(self):
        class Expanded(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.relu, self.layer = nn.LayerNorm(12), nn.ReLU(), nn.Linear(12, 5)

            def forward(self, x):
                return self.layer(self.relu(self.norm(x).expand(4, 7, 12)))

        model, x = Expanded(), torch.randn(4, 1, 12)
        self.assert_close(run(kept_exactly(model), x)[1], run(model, x)[1], 3e-6)

    @unittest.skipUnless(hasattr(nn, "RMSNorm"), "PyTorch before 2.4 has no RMSNorm")
    def test_eps_of_rms_norm(self):
        """Without one PyTorch takes that of a type: of inputs this small it decides."""
        for dtype in torch.float32, torch.bfloat16, torch.float16:
            model, x = nn.RMSNorm(64).to(dtype), (0.01 * torch.randn(16, 64)).to(dtype)
            self.assert_close(run(kept_exactly(model), x)[1], run(model, x)[1], 0.02)

    def test_frozen_parameters(self):
        for name, model, x in self.models():
            for p in model.parameters():
                p.requires_grad_(False)
            results = []
            for made in model, clprune.convert_(copy.deepcopy(model), form="dense"):
                leaf = x.clone().requires_grad_()
                torch.manual_seed(3)
                made(leaf * 1).square().sum().backward()
                results.append(leaf.grad)
            torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


class Never(Case):
    """Never more than before."""

    def saved(self, model, x):
        with clprune.saved_bytes(model, x) as saved:
            y = model(x)
        return saved.total, y

    def test_relu_before_a_layer_that_keeps_its_output(self):
        class Scale(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(16))

            def forward(self, x):
                return x * self.weight

        for activation in nn.ReLU, nn.Tanh:
            model = nn.Sequential(nn.Linear(16, 16), activation(), nn.Dropout(0.0), Scale())
            x = torch.randn(64, 16)
            before = self.saved(model, x)[0]
            clprune.convert_(model, kinds=[activation])
            self.assertEqual(self.saved(model, x)[0], before)
            clprune.convert_(model)
            self.assertRegex(str(clprune.summary(model)), "left: 1: 3, which is left, keeps its out")

    def test_a_layer_whose_input_is_kept_anyway(self):
        layer = nn.Linear(64, 8)
        x = torch.randn(32, 64, requires_grad=True)
        before = self.saved(nn.Sequential(nn.ReLU(), layer), x)[0]
        converted = clprune.convert_(copy.deepcopy(layer))
        with self.assertWarnsRegex(UserWarning, "Relu"):
            with clprune.saved_bytes(layer, x, *converted.parameters()) as saved:
                y = converted(F.relu(x))
        self.assertEqual(saved.total, before)
        y.sum().backward()
        self.assertTrue(torch.equal(  # it is exact, then
            converted.weight.grad, torch.ones(32, 8).t() @ F.relu(x).detach()))

    def test_autocast_keeps_no_copies_of_weights(self):
        layer = clprune.convert_(nn.Linear(256, 256))
        x = torch.randn(4, 256, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16), clprune.saved_bytes(layer, x) as saved:
            y = layer(layer(layer(x)))
        self.assertLess(saved.total, 3 * 4 * 256)
        y.float().sum().backward()


class Summaries(Case):
    def test_what_is_converted_and_why_not(self):
        class Mine(nn.Linear):
            def forward(self, x):
                return super().forward(x) * 2

        model = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4), "c": nn.GLU(),
                               "d": nn.ModuleDict({"e": nn.SiLU(), "f": nn.Flatten()})})
        clprune.convert_(model, skip=["b"])
        text = str(clprune.summary(model))
        self.assertEqual(text.splitlines()[0], "clprune: 2 of 4 modules converted")
        self.assertIn("left: b: skip has 'b'", text)
        self.assertIn("left: c: GLU is not known (clprune.register", text)
        self.assertEqual(clprune.summary(model).converted, ["a", "d.e"])
        with self.assertWarnsRegex(UserWarning, "Mine"):
            mine = clprune.convert_(Mine(4, 4))
        self.assertIs(type(mine), Mine)

        class Plain(nn.Linear):
            pass

        plain = clprune.convert_(Plain(4, 4))
        self.assertIsInstance(plain, clprune_modules.Converted)
        self.assertIs(type(clprune.unconvert_(plain)), Plain)

    def test_skip_patterns(self):
        with self.assertWarnsRegex(UserWarning, "'haed\\*', which no module"):
            clprune.convert_(nn.ModuleDict({"head": nn.Linear(4, 4)}), skip=["haed*"])
        model = clprune.convert_(nn.ModuleDict({"head": nn.Sequential(nn.Linear(4, 4)),
                                                "heads": nn.Linear(4, 4)}), skip=["head"])
        self.assertEqual(clprune.summary(model).converted, ["heads"])
        layer = nn.Linear(4, 4)
        for skip in "encoder", "decoder":
            clprune.convert_(nn.ModuleDict({"encoder": layer, "decoder": layer}), skip=[skip])
            self.assertIs(type(layer), nn.Linear)

    def test_skip_of_one_name(self):
        model = clprune.convert_(nn.ModuleDict({"head": nn.Linear(4, 4), "body": nn.Linear(4, 4)}),
                                 skip="head*")
        self.assertEqual(clprune.summary(model).converted, ["body"])

    def test_report_has_a_line_for_each_call(self):
        class Twice(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(64, 64)

            def forward(self, x):
                return self.layer(self.layer(x * 1)[:8] * 1)

        lines = clprune.report(clprune.convert_(Twice()), torch.randn(4096, 64)).splitlines()
        self.assertEqual([line.split()[:2] for line in lines[1:3]],
                         [["layer", "1.000"], ["layer", "0.002"]])

    def test_modules_that_are_never_called(self):
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.mix = nn.LayerNorm(8), nn.ModuleDict({"b": nn.Linear(8, 8)})

            def forward(self, x):
                return F.linear(self.norm(x), self.mix["b"].weight)

        model = clprune.convert_(nn.Sequential(Block(), nn.Linear(8, 8)))
        x = torch.randn(4, 8)
        self.assertIn("never called: 0.mix.b", clprune.report(model, x).splitlines())
        with self.assertWarnsRegex(UserWarning, "did not call 1 of its conv.* modules: 0.mix.b"):
            model(x).sum().backward()
        model(x).sum().backward()  # once
        self.assertEqual(clprune.summary(model).never_called, ["0.mix.b"])
        alone = clprune.convert_(nn.Sequential(Block(), nn.Linear(8, 8)))
        alone[1](x).sum().backward()  # a part of a model may be used alone

    def test_modules_that_need_no_call(self):
        """Frozen norms, and dropout whose rate attention reads: a warning would be an error here."""
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = nn.ModuleDict({
                    "fc": nn.Linear(8, 8), "norm": nn.BatchNorm1d(8), "frozen": nn.LayerNorm(8),
                    "drop": nn.Dropout(0.1), "act": nn.GELU(), "pool": nn.MaxPool2d(2)})

            def forward(self, x):
                parts = self.parts
                return F.dropout(parts["frozen"](parts["norm"](parts["fc"](x))), parts["drop"].p)

        model = clprune.convert_(nn.Sequential(Block(), nn.Linear(8, 8)))
        for name in "norm", "frozen":
            model[0].parts[name].eval().requires_grad_(False)
        model(torch.randn(4, 8)).sum().backward()
        self.assertEqual(clprune.summary(model).never_called, [f"0.parts.{n}" for n in ("drop", "act", "pool")])

    def test_report_takes_what_the_model_takes(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(64, 64)

            def forward(self, batch, *, scale=None):
                x = batch["x"] if isinstance(batch, dict) else batch
                return {"y": self.layer(x * 1.0 if scale is None else x * scale)}

        model = clprune.convert_(Model())
        x = torch.randn(4, 64, requires_grad=True)
        for text in (clprune.report(model, x, scale=2.0), clprune.report(model, {"x": x}),
                     clprune.report(model, batch=x)):
            self.assertRegex(text, "layer +0.001 +0.000")


class Cube(nn.Module):
    def forward(self, x):
        return x ** 3


class Classes(Case):
    def test_register(self):
        class Act(nn.Module):
            def forward(self, z):
                return z * torch.sigmoid(1.7 * z)

        class Dense(nn.Linear):
            def forward(self, x):
                return F.linear(x, self.weight, self.bias)

        class Root(nn.Module):
            def __init__(self, width, shift=0):
                super().__init__()
                self.weight, self.eps, self.shift = nn.Parameter(torch.ones(width)), 1e-6, shift

            def forward(self, x):
                return (self.weight + self.shift) * x * torch.rsqrt(
                    x.square().mean(-1, keepdim=True) + self.eps)

        x = torch.randn(8, 5, 16)
        model = nn.Sequential(Root(16), Dense(16, 16), Act())
        for cls, like in (Act, nn.GELU), (Dense, nn.Linear), (Root, getattr(nn, "RMSNorm", None)):
            if like is not None:
                clprune.register(cls, like=like)
        converted = clprune.convert_(copy.deepcopy(model), form="dense")
        self.assertIsInstance(converted[2], clprune_modules.Converted)
        self.assert_close(run(converted, x)[1], run(model, x)[1], 2e-6)
        twin = pickle.loads(pickle.dumps(clprune.convert_(nn.Sequential(nn.SiLU(), nn.GELU()))))
        self.assertIsInstance(twin[0], nn.SiLU)
        with self.assertRaisesRegex(ValueError, "like is Dropout"):
            clprune.register(Act, like=nn.Dropout)
        for module in (Root(16, shift=1),):  # it is not what it was registered for
            if Root in clprune_kinds._registered:
                want = run(copy.deepcopy(module), x)
                clprune.convert_(module)
                with self.assertWarnsRegex(UserWarning, "computes something else"):
                    got = run(module, x)
                self.assert_close(got[1], want[1], 0)
                self.assertIs(type(module), Root)

    def test_registered_classes_with_parameters_that_would_get_no_gradient(self):
        class Swish(nn.Module):
            def __init__(self):
                super().__init__()
                self.beta = nn.Parameter(torch.ones(1))

            def forward(self, x):
                return x * torch.sigmoid(self.beta * x)

        class LowRank(nn.Linear):  # at first it computes what nn.Linear does
            def __init__(self):
                super().__init__(8, 8)
                self.a, self.b = nn.Linear(8, 2, bias=False), nn.Parameter(torch.zeros(8, 2))

            def forward(self, x):
                return F.linear(x, self.weight, self.bias) + self.a(x) @ self.b.t()

        clprune.register(Swish, like=nn.GELU)
        clprune.register(LowRank, like=nn.Linear)
        for cls, name in (Swish, "beta"), (LowRank, r"b, a\.weight"):
            model, x = cls(), torch.randn(4, 8)
            converted = clprune.convert_(copy.deepcopy(model), form="dense")
            with self.assertWarnsRegex(UserWarning, rf"other parameters \({name}\), which would get"):
                got = run(converted, x)
            self.assert_close(got[1], run(model, x)[1], 1e-6)
            self.assertIs(type(converted), cls)
        model = clprune.convert_(Swish().requires_grad_(False))
        model(torch.randn(4, 8, requires_grad=True)).sum().backward()
        self.assertIsInstance(model, clprune_modules.Converted)

    def test_registered_classes_that_are_built_otherwise(self):
        class Transposed(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight, self.bias = nn.Parameter(torch.randn(8, 4)), None

            def forward(self, x):
                return x @ self.weight

        class NoBias(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(4, 8))

            def forward(self, x):
                return x @ self.weight.t()

        class Pair(nn.Module):
            def forward(self, x):
                return x, 1

        x = torch.randn(5, 8)
        for cls, like in (Transposed, nn.Linear), (NoBias, nn.Linear), (Pair, nn.GELU):
            clprune.register(cls, like=like)
            module = clprune.convert_(cls())
            with self.assertWarnsRegex(UserWarning, "computes something else"):
                module(x)
            self.assertIs(type(module), cls)

    def test_a_registered_class_that_works_in_place(self):
        class Square(nn.Module):
            def forward(self, x):
                return x.square_()

        clprune.register(Square, like=nn.GELU)
        x = torch.randn(4, 8)
        want = run(Square(), x)
        for how in {"form": "dense"}, {"gelu_bits": 8}:
            got = run(clprune.convert_(Square(), **how), x)
            self.assertTrue(torch.equal(got[0], want[0]))  # not twice
            self.assert_close(got[1][0], want[1][0], 0.02)

    def test_a_convolution_with_a_part_of_its_own(self):
        class Standardised(nn.Conv2d):
            def _conv_forward(self, x, weight, bias):
                return super()._conv_forward(x, weight - weight.mean(), bias)

        with self.assertWarnsRegex(UserWarning, "Standardised has a forward pass of its own"):
            self.assertIs(type(clprune.convert_(Standardised(3, 4, 3))), Standardised)

    def test_a_function_that_is_not_of_elements(self):
        class Soft(nn.Module):
            def forward(self, x):
                return x.softmax(-1)

        clprune.register(Soft, like=nn.GELU)
        module = clprune.convert_(Soft())
        with self.assertWarnsRegex(UserWarning, "computes something else"):
            got = run(module, torch.randn(4, 8))
        self.assert_close(got[1], run(Soft(), torch.randn(4, 8))[1], 10)

    def test_classes_of_other_packages_by_name(self):
        new_gelu = named_class("transformers.activations", "NewGELUActivation", nn.Module,
                               forward=lambda self, input: 0.5 * input * (1.0 + torch.tanh(
                                   0.79788456 * (input + 0.044715 * input ** 3))))

        def init(self, out, width):
            nn.Module.__init__(self)
            self.weight = nn.Parameter(torch.randn(width, out) * 0.1)
            self.bias = nn.Parameter(torch.zeros(out))

        conv1d = named_class("transformers.pytorch_utils", "Conv1D", nn.Module, __init__=init,
                             forward=lambda self, x: x @ self.weight + self.bias)
        model = nn.Sequential(conv1d(32, 16), new_gelu(), conv1d(16, 32))
        converted = clprune.convert_(copy.deepcopy(model), form="dense")
        self.assertEqual(len(clprune.summary(converted).converted), 3)
        x = torch.randn(4, 5, 16)
        self.assert_close(run(converted, x)[1], run(model, x)[1], 2e-6)
        x.requires_grad_()
        with clprune.saved_bytes(model, x) as before:
            model(x)
        clprune.convert_(converted)
        with clprune.saved_bytes(converted, x) as after:
            converted(x)
        self.assertLess(after.total, 0.3 * before.total)

    def test_those_packages(self):
        try:
            import timm.layers as t
            import transformers.activations as a
            from transformers.models.llama.modeling_llama import LlamaRMSNorm
            from transformers.models.t5.modeling_t5 import T5LayerNorm
            from transformers.pytorch_utils import Conv1D
        except ImportError:
            self.skipTest("there is no timm, or no transformers")
        images = [nn.Conv2d(3, 8, 3), t.LayerNorm2d(8), t.GELU(), nn.Conv2d(8, 8, 1),
                  t.GroupNorm(8, num_groups=2), nn.Conv2d(8, 8, 1), t.GroupNorm1(8)]
        tokens = [LlamaRMSNorm(32), Conv1D(16, 32), a.NewGELUActivation(), T5LayerNorm(16),
                  nn.Linear(16, 16), a.GELUActivation(), t.RmsNorm(16), nn.Linear(16, 16),
                  a.QuickGELUActivation(), t.LayerNorm(16), nn.Linear(16, 16), a.GELUTanh()]
        for layers, x in (images, torch.randn(IMAGES)), (tokens, torch.randn(TOKENS)):
            model = nn.Sequential(*layers)
            for converted in clprune.convert_(copy.deepcopy(model), form="dense"), kept_exactly(model):
                self.assertEqual(clprune.summary(converted).left, {})
                got, want = run(converted, x), run(model, x)
                self.assertTrue(torch.equal(got[0], want[0]))
                self.assert_close(got[1], want[1], 5e-6)

    def test_parametrisations_before_and_after(self):
        spectral = nn.utils.parametrizations.spectral_norm
        x = torch.randn(8, 32)
        for first in True, False:
            layer = nn.Linear(32, 16)
            torch.manual_seed(5)
            plain = spectral(copy.deepcopy(layer))
            torch.manual_seed(5)
            ours = clprune.convert_(spectral(layer) if first else nn.Sequential(layer)[0],
                                    form="dense")
            if not first:
                ours = spectral(ours)
            self.assert_close(run(ours, x)[1], run(plain, x)[1], 2e-6)
            self.assertTrue(torch.equal(ours.parametrizations.weight[0]._u,
                                        plain.parametrizations.weight[0]._u))  # one power iteration
            clprune.convert_(ours, bits=8)
            self.assertEqual(ours.keep.bits, 8)
            clprune.unconvert_(ours)
            self.assertNotIsInstance(ours, clprune_modules.Converted)
            self.assert_close(run(ours, x)[1], run(plain, x)[1], 0)
            clprune.convert_(ours)
            parametrize.remove_parametrizations(ours, "weight")
            self.assertIs(type(ours), clprune.Linear)

    def test_a_weight_is_computed_once_a_call(self):
        calls = []

        class Count(nn.Module):
            def forward(self, w):
                calls.append(1)
                return w * 1

        layer = clprune.convert_(nn.Linear(32, 16))
        parametrize.register_parametrization(layer, "weight", Count())
        calls.clear()
        layer(torch.randn(8, 32))
        self.assertEqual(len(calls), 1)

    def test_copies_and_pickles(self):
        model = clprune.convert_(nn.Sequential(
            nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.SiLU(), nn.Dropout(0.1)))
        x = torch.randn(IMAGES)
        model(x)
        for twin in copy.deepcopy(model), pickle.loads(pickle.dumps(model)):
            self.assertEqual([type(m) for m in twin], [type(m) for m in model])
            self.assertTrue(torch.equal(run(twin, x)[0], run(copy.deepcopy(model), x)[0]))
            self.assertEqual(list(twin.state_dict()), list(model.state_dict()))

    def test_a_pickle_of_a_registered_class(self):
        """It can be read where the class was not registered."""
        clprune.register(Cube, like=nn.GELU)
        text = pickle.dumps(clprune.convert_(Cube()))
        del clprune_kinds._registered[Cube]
        twin = pickle.loads(text)
        x = torch.randn(4, 8)
        self.assertIsInstance(twin, clprune_modules.Converted)
        self.assert_close(run(twin, x)[1], run(Cube(), x)[1], 0.02)
        self.assertIs(type(clprune.unconvert_(twin)), Cube)

    @unittest.skipUnless(hasattr(torch, "set_default_device"), "PyTorch 2.0 has set_default_device")
    def test_another_default_device(self):
        for name, (layers, shape) in KINDS.items():
            model, x = clprune.convert_(nn.Sequential(*copy.deepcopy(layers))), torch.randn(shape)
            results = []
            for device in "cpu", "meta":
                torch.set_default_device(device)
                try:
                    torch.manual_seed(3)
                    model.zero_grad()
                    model(x).square().sum().backward()
                finally:
                    torch.set_default_device(None)
                results.append([p.grad.clone() for p in model.parameters()])
            self.assert_same(*results)

    def test_data_parallel(self):
        model = clprune.convert_(nn.Sequential(nn.Linear(8, 8), nn.SiLU()), form="dense")
        x = torch.randn(4, 8)
        self.assert_close(run(nn.DataParallel(model), x)[1], run(model, x)[1], 0)


class Refusals(Case):
    def test_second_derivatives(self):
        """Wrong gradients without a word would be the worst."""
        x = torch.randn(8, 3, 8, 8)
        for module in (nn.Linear(8, 8), nn.ReLU(), nn.GELU(), nn.LayerNorm(8), nn.BatchNorm2d(3),
                       nn.GroupNorm(1, 3),
                       nn.Conv2d(3, 3, 1), nn.Dropout(0.5), nn.MaxPool2d(2), nn.AvgPool2d(2)):
            clprune.convert_(module, form="dense")
            leaf = x.clone().requires_grad_()
            inputs = [leaf, *module.parameters()]
            for again in (lambda loss: loss.backward(), lambda loss: loss.backward(inputs=inputs),
                          *(lambda loss, p=p: torch.autograd.grad(loss, p) for p in inputs)):
                # Differentiated where dy needs a gradient, and where it does not.
                for y in (module(leaf * 1).pow(2), module(leaf * 1)):
                    dx, = torch.autograd.grad(y.sum(), leaf, create_graph=True)
                    self.assertTrue(dx.requires_grad)
                    with self.assertRaisesRegex(clprune.Error, "clprune.*no second derivatives"):
                        again(dx.square().sum() + sum(p.sum() for p in inputs))
            dx, = torch.autograd.grad(module(leaf * 1).sum(), leaf)
            self.assertFalse(dx.requires_grad)

    def test_a_gradient_penalty(self):
        critic = clprune.convert_(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)))
        x = torch.randn(16, 32, requires_grad=True)
        slope, = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
        with self.assertRaisesRegex(clprune.Error, "unconvert_"):
            (critic(x).mean() + (slope.norm(dim=1) - 1).pow(2).mean()).backward()
        clprune.unconvert_(critic)
        slope, = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
        (critic(x).mean() + (slope.norm(dim=1) - 1).pow(2).mean()).backward()

    def test_functions_of_second_derivatives(self):
        model = clprune.convert_(nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 1)))
        x, of = torch.randn(8), torch.autograd.functional

        def value(a):
            return model(a).sum()

        def maml():
            names, weights = zip(*model.named_parameters())
            slopes = torch.autograd.grad(value(x) ** 2, weights, create_graph=True)
            fast = {name: w - slope for name, w, slope in zip(names, weights, slopes)}
            torch.autograd.grad(torch.func.functional_call(model, fast, (x,)).sum(), weights)

        for second in (maml, lambda: of.hessian(value, x), lambda: of.hvp(value, x, x),
                       lambda: of.vhp(value, x, x), lambda: of.hessian(value, x, vectorize=True),
                       lambda: of.jacobian(lambda a: of.jacobian(value, a, create_graph=True), x)):
            with self.assertRaisesRegex(clprune.Error, "no second derivatives"):
                second()

    def test_a_module_made_by_its_class(self):
        """As peft does for adapters of convolutions."""
        for module, args, x in ((nn.Conv2d(3, 8, 3), (3, 8, 3), torch.randn(1, 3, 8, 8)),
                                (nn.Linear(4, 4), (4, 4), torch.randn(2, 4)),
                                (nn.LayerNorm(4), (4,), torch.randn(2, 4)),
                                (nn.GELU(), (), torch.randn(2, 4))):
            made = type(clprune.convert_(module))(*args)
            made.load_state_dict(module.state_dict())
            self.assert_close([made(x).detach()], [module(x).detach()], 0)
            self.assertIn(type(module).__name__, repr(made))

    def test_create_graph_without_a_second_pass(self):
        layer, plain = clprune.convert_(nn.Linear(8, 8), form="dense"), None
        plain = clprune.unconvert_(copy.deepcopy(layer))
        x = torch.randn(4, 8)
        got, want = (torch.autograd.grad(m(x).square().sum(), m.weight, create_graph=True)[0]
                     for m in (layer, plain))
        self.assert_close([got.detach()], [want.detach()], 2e-6)

    def other_inputs(self):
        def nested(m):
            parts = [torch.randn(3, 32), torch.randn(5, 32)]
            m(torch.nested.nested_tensor(parts, layout=torch.jagged)).values().sum().backward()

        def func_grad(m):
            from torch.func import functional_call, grad
            grad(lambda p: functional_call(m, p, (torch.randn(4, 32),)).sum())(
                dict(m.named_parameters()))

        def vmap(m):
            from torch.func import functional_call, grad, vmap
            vmap(grad(lambda p, x: functional_call(m, p, (x[None],)).sum()), (None, 0))(
                dict(m.named_parameters()), torch.randn(4, 32))

        def forward_mode(m):
            import torch.autograd.forward_ad as forward_ad
            with forward_ad.dual_level():
                x = forward_ad.make_dual(torch.randn(4, 32), torch.ones(4, 32))
                got = forward_ad.unpack_dual(m(x)).tangent
            self.assert_close([got], [m.weight.sum(1).expand(4, 4)], 1e-6)

        yield "forward-mode differentiation", forward_mode
        yield "sparse", lambda m: m(torch.eye(32).to_sparse()).sum().backward()
        if hasattr(torch, "jagged"):
            yield "nested", nested
        if hasattr(torch, "func"):
            yield "torch.func", func_grad
            yield "torch.func", vmap

    def test_inputs_that_only_pytorch_takes(self):
        for what, use in self.other_inputs():
            clprune_modules._told.clear()
            with self.subTest(what), warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                use(clprune.convert_(nn.Linear(32, 4)))
                self.assertTrue([w for w in seen if "clprune: converted modules do not support"
                                 in str(w.message) and what in str(w.message)], what)

    def test_hooks_of_saved_tensors_that_are_disabled(self):
        from torch.autograd.graph import disable_saved_tensors_hooks
        for form in "dense", "quantised":
            model = clprune.convert_(nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.LayerNorm(8)), form=form)
            x = torch.randn(4, 8)
            want = run(model, x)[1]
            with disable_saved_tensors_hooks("disabled"):
                self.assert_same(run(model, x)[1], want)

    def test_inputs_that_have_no_gradient(self):
        for x in torch.arange(-4, 4), torch.tensor([True, False]), torch.randn(4).to(torch.cfloat):
            for module in nn.ReLU(), nn.Dropout(0.0), nn.Tanh():
                results = []
                for made in module, clprune.convert_(copy.deepcopy(module)):
                    try:
                        results.append(made(x))
                    except RuntimeError as error:  # PyTorch's own
                        results.append(str(error))
                if isinstance(results[0], str):
                    self.assertEqual(*results)
                else:
                    self.assertTrue(torch.equal(*results))

    def test_traces_of_models_in_training(self):
        model = clprune.convert_(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.SiLU(),
                                               nn.Flatten(), nn.Linear(288, 8), nn.LayerNorm(8)))
        x = torch.randn(4, 3, 8, 8)
        graph = torch.fx.symbolic_trace(model)
        self.assert_same(run(graph, x)[1], run(model, x)[1])
        self.assertEqual(clprune.summary(graph).converted, clprune.summary(model).converted)
        clprune.unconvert_(model)
        self.assertEqual([key for m in model for key in vars(m) if "module__" in key], [])
        model = clprune.convert_(nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.LayerNorm(8)))
        x = torch.randn(4, 8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is deprecated
            warnings.simplefilter("error", torch.jit.TracerWarning)
            traced = torch.jit.trace(model, x)
        self.assertTrue(torch.equal(traced(x), model(x)))

    def test_jit_and_compile(self):
        model = clprune.convert_(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU())).eval()
        x = torch.randn(4, 8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with self.assertRaisesRegex(clprune.Error, "jit.script .*clprune.unconvert_"):
                torch.jit.script(model)
            if torch.__version__ >= "2.6":
                compiled = torch.compile(model, backend="eager", fullgraph=True)
                self.assertTrue(torch.equal(compiled(x), model(x)))
                torch._dynamo.reset()
                with self.assertRaisesRegex(Exception, "clprune: converted modules train uncompil"):
                    torch.compile(model.train(), backend="eager", fullgraph=True)(x)


class Draws(Case):
    def test_the_generator_of_pytorch_is_left_alone(self):
        model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.Linear(64, 4), nn.Dropout(0.2))
        x = torch.randn(4, 64)
        want = run(model, x)[0]
        for how in dict(), dict(form="dense"), dict(sparsity=0.5):
            converted = clprune.convert_(copy.deepcopy(model), **how)
            self.assertTrue(torch.equal(run(converted, x)[0], want))
        layer = clprune.convert_(nn.Linear(64, 8))
        state = torch.get_rng_state()
        layer(x)
        self.assertTrue(torch.equal(torch.get_rng_state(), state))

    def test_draws_differ_where_anything_does(self):
        layer, x = clprune.convert_(nn.Linear(64, 8), bits=2), torch.randn(16, 64)

        def weight_gradient(seed=1):
            return run(layer, x, seed)[1][1]

        first = weight_gradient()
        self.assertTrue(torch.equal(weight_gradient(), first))
        self.assertFalse(torch.equal(weight_gradient(seed=2), first))
        with torch.no_grad():
            layer.weight.mul_(1.001)  # the next step
        again = weight_gradient()
        self.assertGreater(float((again - first).norm() / first.norm()), 0.05)


class Vectors(Case):
    def test_an_input_without_a_batch(self):
        model = nn.Sequential(nn.Linear(64, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 3))
        for x in torch.randn(64), torch.randn(64, 2)[:, 0], torch.randn(1).expand(64):
            want = torch.autograd.grad(loss_of(model(x)), list(model.parameters()))
            for how, bound in (dict(form="dense"), 1e-5), (dict(bits=8), 0.05):
                converted = clprune.convert_(copy.deepcopy(model), **how)
                got = torch.autograd.grad(loss_of(converted(x)), list(converted.parameters()))
                self.assert_close(got, want, bound)


class Promises(Case):
    def test_attributes_of_their_own_stay(self):
        class Own(nn.Linear):
            def __init__(self, *sizes):
                super().__init__(*sizes)
                self.register_buffer("last", torch.zeros(3))
                self.keep = 0.9

        model = nn.Sequential(Own(64, 64))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clprune.convert_(model)
        self.assertEqual(model[0].keep, 0.9)
        self.assertIn("0.last", model.state_dict())

    def test_a_weight_that_backward_does_not_read_may_change(self):
        layer = clprune.convert_(nn.Linear(64, 8))
        y = layer(torch.ones(32, 64)).sum()
        with torch.no_grad():
            layer.weight.clamp_(-0.01, 0.01)
        y.backward()
        self.assertLess(float((layer.weight.grad - 32).abs().max()), 0.5)

    def test_batched_gradients(self):
        model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 3))
        x = torch.randn(4, 64)
        want = torch.autograd.functional.jacobian(model, x)
        got = torch.autograd.functional.jacobian(clprune.convert_(model), x, vectorize=True)
        self.assertLess(float((got - want).norm() / want.norm()), 0.02)

    def test_a_deleted_model_is_freed(self):
        class Held:
            pass

        model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 4))
        held = Held()
        model[1].register_forward_hook(lambda *_, held=held: None)
        alive = weakref.ref(held), weakref.ref(model[1].weight)
        clprune.convert_(model, form="dense")
        model(torch.randn(8, 64)).sum().backward()
        del model, held
        gc.collect()
        self.assertEqual([ref() for ref in alive], [None, None])


if __name__ == "__main__":
    unittest.main()
