#!/usr/bin/env python3
"""Finds the levels of the GELU-derivative codes, cl/layers/gelu_code.clh, and measures them.

    python3 tools/fit_gelu_code.py > cl/layers/gelu_code.clh     needs NumPy; the errors go to stderr

The slope s(h) = Phi(h) + h phi(h) of GELU is kept as the number of one of L = 4, 16 or 256 levels.
The levels minimise the mean square of s - level over h ~ N(0, sigma^2), log sigma uniform over
[log 1/2, log 2]: inputs of GELU have deviations around 1, and no single sigma fits all. The slope
itself is quantised. It is not a monotonous function of h, so cells are intervals of s.

Method: the exact optimum over 3000 bins of s by dynamic programming (the density of s has poles at
its extremes, h = +-sqrt 2, and masses at 0 and 1, so an iteration alone would stop at a poor local
optimum), then Lloyd's iteration on the distribution itself: levels are means of cells, borders the
midpoints between levels. Because s(-h) = 1 - s(h), half of the levels are found for h < 0, where s
is at most 1/2; the others mirror them."""

import math
import sys

import numpy as np

SIGMA_LOW, SIGMA_HIGH, SIGMAS = 0.5, 2.0, 129
H_END, H_POINTS = 16.0, 1600001
BINS = 3000


def slope(h):
    erfc = np.frompyfunc(math.erfc, 1, 1)
    phi = np.exp(-h * h / 2) / math.sqrt(2 * math.pi)
    return 0.5 * erfc(-h / math.sqrt(2)).astype(np.float64) + h * phi


def density(h, sigmas):
    """The mean of the normal densities, ends of the range at half weight (trapezoidal in log sigma)."""
    total = np.zeros_like(h)
    for i, sigma in enumerate(sigmas):
        weight = 0.5 if len(sigmas) > 1 and i in (0, len(sigmas) - 1) else 1.0
        total += weight * np.exp(-((h / sigma) ** 2) / 2) / sigma
    return total / total.sum()


class Distribution:
    """Of s: sorted values with running sums of the moments 0, 1, 2. A sum ends in the middle of its
    value's share and is linear in between: otherwise a small bias would shift all levels."""

    def __init__(self, s, weight):
        order = np.argsort(s)
        self.s, weight = s[order], weight[order]
        moments = [weight * self.s**k for k in range(3)]
        self.sums = [np.cumsum(moment) - moment / 2 for moment in moments]
        self.totals = [moment.sum() for moment in moments]

    def cells(self, borders):
        """Moments of the cells between the borders."""
        at = np.clip(np.searchsorted(self.s, borders), 1, len(self.s) - 1)
        part = (borders - self.s[at - 1]) / (self.s[at] - self.s[at - 1])
        cut = [total[at - 1] + part * (total[at] - total[at - 1]) for total in self.sums]
        ends = [np.concatenate([[0], c, [total]]) for c, total in zip(cut, self.totals)]
        return [np.diff(end) for end in ends]

    def error(self, levels):
        """Mean square and largest error."""
        middles = (levels[1:] + levels[:-1]) / 2
        m0, m1, m2 = self.cells(middles)
        ends = np.concatenate([[self.s[0]], middles, [self.s[-1]]])
        largest = np.maximum(levels - ends[:-1], ends[1:] - levels).max()
        return (m2 - 2 * levels * m1 + levels**2 * m0).sum(), largest


def best_of_bins(distribution, count):
    """The exact optimum of cells that consist of whole bins. The bins have equal width in the running
    sum of density^(1/3), so they are fine near the levels."""
    fine = np.linspace(distribution.s[0], distribution.s[-1], 40001)
    mass = np.diff(np.interp(fine, distribution.s, distribution.sums[0]))
    place = np.concatenate([[0], np.cumsum(mass ** (1 / 3) + 1e-9)])
    edges = np.interp(np.linspace(0, place[-1], BINS + 1), place, fine)[1:-1]
    m0, m1, m2 = [np.concatenate([[0], np.cumsum(m)]) for m in distribution.cells(edges)]
    d0 = np.maximum(m0[None, :] - m0[:, None], 1e-300)  # [from][to]
    cost = (m2[None, :] - m2[:, None]) - (m1[None, :] - m1[:, None]) ** 2 / d0
    cost[np.tril_indices(BINS + 1)] = 0
    cost = np.maximum(cost, 0)
    cost[np.tril_indices(BINS + 1, -1)] = np.inf
    best, back = cost[0].copy(), []
    for _ in range(count - 1):
        total = best[:, None] + cost
        back.append(total.argmin(axis=0))
        best = total[back[-1], np.arange(BINS + 1)]
    cut = [BINS]
    for choice in reversed(back):
        cut.append(choice[cut[-1]])
    return edges[np.clip(np.array(cut[:0:-1]) - 1, 0, BINS - 2)]


def lloyd_max(h, s, sigmas, bits):
    """The levels, and the mean square of s - level."""
    distribution = Distribution(s[h < 0], density(h, sigmas)[h < 0])
    borders = best_of_bins(distribution, 1 << (bits - 1))
    levels = None
    for _ in range(20000):
        m0, m1, _ = distribution.cells(borders)
        new = m1 / m0
        borders = (new[1:] + new[:-1]) / 2
        if levels is not None and np.abs(new - levels).max() < 1e-11:
            break
        levels = new
    new = new.round(7)  # as printed
    levels = np.concatenate([new, 1 - new[::-1]])
    return levels, Distribution(s, density(h, sigmas)).error(levels)[0]


def report(bits, levels, error, h, s):
    normal = Distribution(s, density(h, [1.0]))
    square, largest = normal.error(levels)
    _, own = lloyd_max(h, s, [1.0], bits)
    text = f"{bits} bits: mean square {error:.4e}; N(0, 1): mean square {square:.3e} (best for it alone {own:.3e}), "
    text += f"root {math.sqrt(square):.5f}, largest {largest:.5f}; by sigma:"
    for sigma in (0.25, 0.5, 0.7, 1.4, 2.0, 4.0):
        square, _ = Distribution(s, density(h, [sigma])).error(levels)
        text += f" {sigma}: {square:.2e}"
    print(text, file=sys.stderr)


def main():
    h = np.linspace(-H_END, H_END, H_POINTS)
    s = slope(h)
    sigmas = np.geomspace(SIGMA_LOW, SIGMA_HIGH, SIGMAS)
    print("/* Levels of the GELU-derivative codes, written by tools/fit_gelu_code.py: the mean square of")
    print(" * slope - level is least for inputs h ~ N(0, sigma^2), log sigma uniform from log 1/2 to log 2. */")
    for bits in (2, 4, 8):
        levels, error = lloyd_max(h, s, sigmas, bits)
        report(bits, levels, error, h, s)
        print(f"{'#if' if bits == 2 else '#elif'} BITS == {bits}")
        print(f"constant float gelu_levels[{1 << bits}] = {{")
        numbers = [f"{v:.7f}f" for v in levels]
        for i in range(0, len(numbers), 7):
            print("    " + ", ".join(numbers[i : i + 7]) + ("," if i + 7 < len(numbers) else "};"))
    print("#else")
    print('#error "BITS must be 2, 4 or 8"')
    print("#endif")


if __name__ == "__main__":
    main()
