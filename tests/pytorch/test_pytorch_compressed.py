"""Tests of clprune.compressed: what autograd saves, kept as codes. CLPRUNE_LIBRARY is the library.
Run by test_pytorch.sh."""

import contextlib
import copy
import threading
import unittest
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import checkpoint

from pytorch_case import Case, error

import clprune
from clprune.convert.layout import storage_of
import clprune.library as clprune_library


class Attention(nn.Module):
    """Self-attention by functions, and a perceptron by functions."""

    def __init__(self, width=64, heads=4, drop=0.0):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = F.linear(F.layer_norm(x, (width,)), self.qkv.weight, self.qkv.bias).view(
            batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        weights = F.dropout((q @ k.transpose(2, 3) * (width // self.heads) ** -0.5).softmax(-1),
                            self.drop)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(F.layer_norm(x, (width,)))))


def step(model, x, around=None, seed=3):
    """The loss and all gradients."""
    torch.manual_seed(seed)
    model.zero_grad()
    leaf = x.clone().requires_grad_()
    if around is None:
        loss = model(leaf * 1).square().mean()
    else:
        with around:
            loss = model(leaf * 1).square().mean()
    loss.backward()
    return loss.detach(), torch.cat([leaf.grad.flatten()] + [
        p.grad.flatten() for p in model.parameters()])


class Gradients(Case):
    def test_near_those_of_pytorch_in_a_quarter_of_the_memory(self):
        model, x = Attention(), torch.randn(4, 48, 64)
        want = step(model, x)
        for bits, tolerance, share in (8, 0.01, 0.37), (4, 0.2, 0.26), (16, 0.005, 0.65):
            got = step(model, x, clprune.compressed(bits=bits))
            self.assertTrue(torch.equal(got[0], want[0]))
            self.assertLess(error(got[1], want[1]), tolerance)
            self.assertGreater(error(got[1], want[1]), tolerance / 100)
            with clprune.saved_bytes(model, x) as before:
                y = model(x * 1)
            with clprune.saved_bytes(model, x) as after, clprune.compressed(bits=bits):
                y = model(x * 1)
            with clprune.compressed(bits=bits), clprune.saved_bytes(model, x) as inner:
                y = model(x * 1)
            self.assertLess(after.total, share * before.total)
            self.assertEqual(inner.total, after.total)
            del y

    def test_unbiased_where_the_use_is_linear(self):
        """The mean of draws nears the gradient of a product as 1 / sqrt(draws)."""
        a, b = (torch.randn(64, 64, requires_grad=True) for _ in range(2))

        def draw(seed):
            torch.manual_seed(seed)
            with clprune.compressed(bits=2):
                y = (a * 1) @ (b * 1) * (a * 2)
            return torch.cat([g.flatten() for g in torch.autograd.grad(
                y.sum(), (a, b))]).double()

        want = torch.cat([g.flatten() for g in torch.autograd.grad(
            ((a * 1) @ (b * 1) * (a * 2)).sum(), (a, b))]).double()
        draws = torch.stack([draw(seed) for seed in range(64)])
        one = float(((draws - want) ** 2).sum(1).mean().sqrt())
        self.assertGreater(one, 0.1)
        self.assertLess(float((draws.mean(0) - want).norm()), 1.5 * one / 8)

    def test_views_of_all_strides(self):
        x = torch.randn(6, 8, 10, 32)
        views = {
            "as it is": lambda x: x, "permuted": lambda x: x.permute(3, 1, 0, 2),
            "expanded": lambda x: x[:, :1].expand(6, 8, 10, 32), "strided": lambda x: x[:, ::2, :, 1::3],
            "narrowed": lambda x: x[1:5, :, 3:7], "channels_last": lambda x: x.to(
                memory_format=torch.channels_last), "overlapping": lambda x: x.flatten().unfold(
                    0, 64, 16), "reversed": lambda x: x.flip(0), "of one axis": lambda x: x.flatten(),
            "of a new axis": lambda x: x[None, :, None]}
        for name, view in views.items():
            with self.subTest(name):
                leaf = x.clone().requires_grad_()
                v = view(leaf * 1)
                with clprune.compressed(bits=16):
                    y = v * v
                got, = torch.autograd.grad(y.sum(), leaf, retain_graph=True)
                with torch.no_grad():
                    kept = y.grad_fn._saved_self
                self.assertEqual(kept.shape, v.shape)
                torch.testing.assert_close(kept, v.detach(), rtol=4e-3, atol=0)
                want, = torch.autograd.grad((view(leaf * 1) ** 2).sum(), leaf)
                torch.testing.assert_close(got, want, rtol=1e-2, atol=1e-3)

    def test_narrow_types(self):
        for dtype in torch.bfloat16, torch.float16:
            x = torch.randn(64, 64, dtype=dtype, requires_grad=True)
            with clprune.compressed(bits=8):
                y = x * 1
                z = y * y
            self.assertEqual(z.grad_fn._saved_self.dtype, dtype)
            self.assertLess(error(torch.autograd.grad(z.sum(), x)[0], 2 * x.detach()), 0.02)


class Left(Case):
    """What stays as it is."""

    def saved(self, f, *tensors):
        with clprune.compressed(bits=2):
            y = f(*tensors)
        return y

    def test_parameters_and_small_tensors(self):
        w, x = nn.Parameter(torch.randn(64, 64)), torch.randn(32, 64, requires_grad=True)
        y = self.saved(lambda: (x * 1) @ w.t())
        self.assertTrue(torch.equal(y.grad_fn._saved_mat2, w.t()))
        self.assertEqual(y.grad_fn._saved_mat2.data_ptr(), w.data_ptr())
        small = torch.randn(1000, requires_grad=True)
        y = self.saved(lambda: (small * 1) * (small * 1))
        self.assertTrue(torch.equal(y.grad_fn._saved_self, small))

    def test_a_parameter_that_changed_is_noticed(self):
        w, x = nn.Parameter(torch.randn(64, 64)), torch.randn(32, 64, requires_grad=True)
        for dtype in None, torch.bfloat16:
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype is not None):
                y = self.saved(lambda: F.linear(x * 1, w))
            with torch.no_grad():
                w.add_(1)
            with self.assertRaisesRegex(RuntimeError, "inplace operation"):
                y.float().sum().backward()

    def test_what_autocast_has_cast(self):
        conv = nn.Conv2d(64, 64, 3)
        x = torch.randn(1, 64, 4, 4, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16):
            want = torch.autograd.grad(conv(x * 1).float().sum(), x)[0]
            with clprune.saved_bytes(conv, x) as saved, clprune.compressed():
                y = conv(x * 1)
        self.assertLess(saved.total, 2000)  # no copy of the weight
        self.assertLess(error(torch.autograd.grad(y.float().sum(), x)[0], want), 1e-6)

    def test_data_statistics_and_integers(self):
        x = torch.randn(64, 64)
        w = torch.randn(64, 64, requires_grad=True)
        y = self.saved(lambda: (w * 1) * x)
        self.assertTrue(torch.equal(y.grad_fn._saved_other, x))
        wide = torch.randn(2048, 4, requires_grad=True)
        y = self.saved(lambda: F.layer_norm(wide * 1, (4,)))
        mean = wide.detach().mean(1, keepdim=True)
        torch.testing.assert_close(y.grad_fn._saved_result1, mean)
        index = torch.randint(64, (64, 64))
        y = self.saved(lambda: (w * 1).gather(1, index))
        self.assertTrue(torch.equal(y.grad_fn._saved_index, index))

    def test_infinite_values(self):
        x = torch.randn(64, 64, requires_grad=True)
        mask = torch.arange(64) > 40
        y = self.saved(lambda: (x * 1).masked_fill(mask, float("-inf")).log_softmax(-1))
        want, = torch.autograd.grad(
            (x * 1).masked_fill(mask, float("-inf")).log_softmax(-1)[:, 3].sum(), x)
        self.assertTrue(torch.equal(torch.autograd.grad(y[:, 3].sum(), x)[0], want))

    def test_what_is_compared_with_the_result(self):
        """The gradient goes to the elements that are the result: codes would have none."""
        x, index = torch.randn(64, 32, 8, requires_grad=True), torch.randint(16, (64, 32, 8))
        infinity = float("inf")
        functions = [lambda h: h.amax(-1), lambda h: h.amin((0, 1)),
                     lambda h: (h - h.amax(-1, keepdim=True)).square(), lambda h: h.max(),
                     lambda h: h.min(), lambda h: h.median(), lambda h: h.norm(infinity, -1),
                     lambda h: torch.linalg.vector_norm(h, infinity),
                     lambda h: torch.dist(h, 2 * h, infinity)]
        if torch.__version__ >= "2":
            functions += [
                lambda h: h.aminmax(dim=-1)[1],
                lambda h: torch.zeros(16, 32, 8).scatter_reduce(0, index, h, "amax")]
        for f in functions:
            want, = torch.autograd.grad(f(x * 1).sum(), x)
            y = self.saved(lambda: f(x * 1).sum())
            self.assertLess(error(torch.autograd.grad(y, x)[0], want), 0.6)
        with clprune.saved_bytes(nn.Module(), x) as saved, clprune.compressed(bits=2):
            y = (x * 1).norm(2, -1)  # this does not compare
        self.assertLess(saved.total, 64 * 32 * 8)
        y.sum().backward()

    def test_statistics_of_groups(self):
        x = torch.randn(64, 64, 4, 4, requires_grad=True)
        y = self.saved(lambda: F.group_norm(x * 1, 32))
        torch.testing.assert_close(y.grad_fn._saved_result1, x.detach().view(64, 32, -1).mean(-1))

    def test_what_was_cast_and_changed(self):
        w, x = nn.Parameter(torch.randn(64, 64)), torch.randn(32, 64, requires_grad=True)
        h = w.to(torch.bfloat16)
        with torch.no_grad():
            h.zero_()
        y = self.saved(lambda: (x * 1).bfloat16() @ h)
        self.assertEqual(float(torch.autograd.grad(y.float().sum(), x)[0].abs().max()), 0)

    def test_masks_of_dropout_are_bits(self):
        x = torch.randn(64, 64, requires_grad=True)
        for p in 0.1, 0.5:
            torch.manual_seed(2)
            want, = torch.autograd.grad(F.dropout(x.clone(), p).sum(), x)
            torch.manual_seed(2)
            with clprune.saved_bytes(nn.Module(), x) as saved, clprune.compressed():
                y = F.dropout(x.clone(), p)
            self.assertEqual(saved.total, 64 * 64 // 8)
            self.assertTrue(torch.equal(torch.autograd.grad(y.sum(), x)[0], want))


class Checkpointed(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False)


class Checkpoints(Case):
    def test_inputs_are_codes(self):
        model, x = Attention(drop=0.1), torch.randn(4, 48, 64)

        def parts(x, reentrant):
            for _ in range(3):
                x = checkpoint(model, x, use_reentrant=reentrant)
            return x

        class Parts(nn.Module):
            def __init__(self, reentrant):
                super().__init__()
                self.model, self.reentrant = model, reentrant

            def forward(self, x):
                return parts(x, self.reentrant)

        for reentrant in True, False:
            want = step(Parts(reentrant), x)
            for convert in False, True:
                if convert:
                    clprune.convert_(model, kinds=[nn.Linear])
                for rest in True, False:
                    got = step(Parts(reentrant), x, clprune.compressed(rest=rest))
                    self.assertTrue(torch.equal(got[0], want[0]))
                    self.assertLess(error(got[1], want[1]), 0.15 if convert else 0.03)
                    with clprune.saved_bytes(model, x) as before:
                        y = parts((x * 1).requires_grad_() * 1, reentrant)
                    with clprune.saved_bytes(model, x) as after, clprune.compressed(rest=rest):
                        y = parts((x * 1).requires_grad_() * 1, reentrant)
                    if reentrant or torch.__version__ >= "2.1":  # before, it kept them itself
                        self.assertGreater(before.total, 0)
                        self.assertLess(after.total, 0.4 * before.total)
            clprune.unconvert_(model)
            del y

    def test_an_input_that_an_operation_of_two_slopes_reads(self):
        """Checkpoints once got its bits in place of their input."""
        for name, slopes in {"leaky_relu": lambda x: F.leaky_relu(x, 0.1), "relu6": F.relu6, "relu": F.relu,
                             "clamp": lambda x: x.clamp(-1, 2), "abs": torch.abs}.items():
            def block(x):
                return (slopes(x) @ x.t()) @ x

            z, grads = 3 * torch.randn(32, 64), []
            for reentrant, rest in ((None, None), (True, True), (True, False), (False, True), (False, False)):
                leaf = z.clone().requires_grad_()
                with contextlib.nullcontext() if rest is None else clprune.compressed(bits=8, rest=rest):
                    x = leaf * 1
                    y = block(x) if rest is None else checkpoint(block, x, use_reentrant=reentrant)
                    (y.square().sum() + slopes(x).sum()).backward()
                grads.append(leaf.grad)
            for got in grads[1:]:
                self.assertLess(error(got, grads[0]), 0.1, name)

    def test_rest_false_leaves_all_else(self):
        model, x = Attention(), torch.randn(4, 48, 64)
        want = step(model, x)
        got = step(model, x, clprune.compressed(rest=False))
        self.assertTrue(torch.equal(got[1], want[1]))

    def test_a_block_saves_as_much_when_it_runs_again(self):
        """Outside of the block in the backward pass nothing is compressed."""

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.a, self.b = nn.LayerNorm(64), nn.Linear(64, 64), nn.Linear(64, 64)

            def forward(self, x):
                return self.b(F.relu(self.a(self.norm(x))))

        block, x = clprune.convert_(Block()), torch.randn(4, 48, 64)
        warnings.simplefilter("ignore")  # before PyTorch 2.1: F.relu keeps its result
        for around in None, clprune.compressed():
            got = step(torch.nn.Sequential(Checkpointed(block), Checkpointed(block)), x, around)
            self.assertTrue(torch.isfinite(got[1]).all())

    def test_converted_blocks_that_share_what_they_keep(self):
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.layers = nn.LayerNorm(64), nn.ModuleList(
                    nn.Linear(64, 64) for _ in range(2))

            def forward(self, x):
                y = self.norm(x)
                return x + self.layers[0](y) + self.layers[1](y)

        block, x = clprune.convert_(Block()), torch.randn(4, 48, 64)
        for around in None, clprune.compressed():
            torch.manual_seed(3)
            leaf = (x * 1).requires_grad_()
            y = block.norm(leaf)  # kept before the part that is computed again
            beside = block.layers[0](y)
            if around:
                with around:
                    z = checkpoint(block, y, use_reentrant=False)
            else:
                z = checkpoint(block, y, use_reentrant=False)
            (z + beside).sum().backward()
            self.assertTrue(torch.isfinite(leaf.grad).all())


class Memory(Case):
    def test_it_is_freed(self):
        blobs, store = [], clprune_library._Library.store

        def spy(library, *arguments):
            blob = store(library, *arguments)
            blobs.append(StorageWeakRef(storage_of(blob)))
            return blob

        clprune_library._Library.store = spy
        self.addCleanup(setattr, clprune_library._Library, "store", store)
        model, x = Attention(), torch.randn(4, 48, 64)
        for backward in True, False:
            with clprune.compressed():
                y = model(x * 1).square().mean()
            self.assertGreater(len([0 for blob in blobs if not blob.expired()]), 3)
            if backward:
                y.backward()
            else:
                del y  # frees them without a search for cycles
            self.assertEqual(len([0 for blob in blobs if not blob.expired()]), 0)

    def test_memory_that_is_used_again_shares_nothing(self):
        """Another tensor at the same address, and one that was changed in place."""
        w = torch.randn(64, 64, requires_grad=True)
        for _ in range(20):
            x = torch.randn(64, 64) + w * 0
            with clprune.compressed(bits=16):
                y = x * x
                x.add_(1)
                z = x * x
            torch.testing.assert_close(y.grad_fn._saved_self, x.detach() - 1, rtol=1e-2, atol=1e-2)
            torch.testing.assert_close(z.grad_fn._saved_self, x.detach(), rtol=1e-2, atol=1e-2)

    def test_hooks_nest(self):
        model, x = Attention(), torch.randn(2, 48, 64)
        with clprune.compressed(bits=2):
            with clprune.compressed(bits=16):
                inner = step(model, x)[1]
            outer = step(model, x)[1]
        want = step(model, x)[1]
        self.assertLess(error(inner, want), 0.005)
        self.assertGreater(error(outer, want), 0.05)

    def test_threads(self):
        model, x = Attention(), torch.randn(2, 48, 64)
        want = step(model, x)[1]
        results = {}

        def work(i):
            twin = copy.deepcopy(model)
            results[i] = step(twin, x, clprune.compressed() if i % 2 else None)[1]

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i in range(4):
            self.assertLess(error(results[i], want), 0.01 if i % 2 else 1e-6)

    def test_second_derivatives(self):
        """Those of PyTorch's own modules stay, near PyTorch's."""
        model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
        x = torch.randn(64, 64)
        results = []
        for around in None, clprune.compressed():
            leaf = x.clone().requires_grad_()
            if around:
                with around:
                    y = model(leaf).square().sum()
            else:
                y = model(leaf).square().sum()
            slope, = torch.autograd.grad(y, leaf, create_graph=True)
            results.append(torch.autograd.grad(slope.square().sum(), model[0].weight)[0])
        self.assertLess(error(*results), 0.05)


class Formats(Case):
    def test_a_parameter_cast_to_another_memory_format(self):
        w = nn.Parameter(torch.randn(16, 16, 3, 3))
        x = torch.randn(2, 16, 8, 8, requires_grad=True)

        def gradient():
            y = F.conv2d(x, w.to(memory_format=torch.channels_last))
            return (y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum()

        want, = torch.autograd.grad(gradient(), x)
        with clprune.compressed(bits=16):
            loss = gradient()
        got, = torch.autograd.grad(loss, x)
        self.assertLess(error(got, want), 0.02)

    def test_zeros_and_infinities_are_no_mask(self):
        x = torch.rand(64, 64).add(1).requires_grad_()
        bound = torch.where(torch.rand(64, 64) < 0.5, 0.0, float("inf"))
        with clprune.compressed():
            y = torch.minimum(x, bound).sum()
        y.backward()
        self.assertTrue(torch.equal(x.grad, (bound > 2).float()))


if __name__ == "__main__":
    unittest.main()
