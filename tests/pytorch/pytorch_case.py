"""What the tests of examples/pytorch share."""

import os
import sys
import unittest
import warnings

_HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.abspath(os.path.join(_HERE, "..", "..", "examples", "pytorch"))
sys.path.insert(0, EXAMPLE)

import torch


def error(got, want):
    """||got - want|| / ||want||."""
    got, want = got.detach().double(), want.detach().double()
    return float((got - want).norm() / want.norm())


def loss_of(y):
    """A loss that weighs all outputs differently."""
    weights = torch.linspace(-1, 1, y.numel(), dtype=torch.float32).view(y.shape)
    return (y.float() * weights + 0.1 * y.float() ** 2).sum()


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        warnings.simplefilter("error", UserWarning)

    def assert_close(self, got, want, tolerance, least=0.0):
        """Relative to the norm of each tensor, or to `least` times the largest norm: gradients that
        are 0 without rounding need that."""
        self.assertEqual(len(got), len(want))
        norms = [float(w.double().norm()) for w in want]
        for i, (g, w) in enumerate(zip(got, want)):
            self.assertEqual(g.dtype, w.dtype)
            off, norm = float((g.double() - w.double()).norm()), max(norms[i], least * max(norms))
            self.assertLessEqual(off, tolerance * norm, f"tensor {i}: {off / norm if norm else off}")

    def assert_same(self, got, want):
        self.assertEqual(len(got), len(want))
        for i, (g, w) in enumerate(zip(got, want)):
            self.assertTrue(torch.equal(g, w), f"tensor {i}")
