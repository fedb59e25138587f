#!/usr/bin/env python3
"""Fits the polynomials of cl/prelude/nn.clh and measures them as the kernels evaluate them.

    python3 tools/fit_erf.py     needs NumPy; prints coefficients, highest power first, and errors

Upper tail of the normal distribution, t >= 0:
    Q(t) = 1 - Phi(t) = exp(-t^2 / 2) * u * P(1 - 2 u),   u = A / (A + t)
P is fitted on t in [0, CLAMP]. Its argument is in [-1, 1), where a polynomial is well conditioned.

Exponential, |r| <= ln(2) / 2:
    exp(r) = 1 + r + r^2 * E(r)

Both fits minimise the largest relative error (Lawson's reweighted least squares on Chebyshev
nodes). Then the coefficients are rounded to fp32 one by one, from the highest power down; after
each, the remaining ones are fitted again."""

import math

import numpy as np

A = 3.0  # the pole of u; found by trying
CLAMP = 15.0
P_DEGREE = 9
E_DEGREE = 4
F = np.float32


def lawson(basis, target, weight):
    """Coefficients c that minimise max |weight * (basis c - target)|."""
    lawson_weight = np.ones(len(target))
    best, best_error = None, math.inf
    for _ in range(300):
        scale = np.sqrt(lawson_weight) * weight
        c, *_ = np.linalg.lstsq(basis * scale[:, None], target * scale, rcond=None)
        error = np.abs(weight * (basis @ c - target))
        if error.max() < best_error:
            best, best_error = c, error.max()
        lawson_weight *= error / error.max() + 1e-3
        lawson_weight /= lawson_weight.mean()
    return best, best_error


def fit_rounded(x, target, weight, degree):
    """fp32 coefficients, lowest power first, and their largest relative error."""
    rounded = {}
    error = math.inf
    for k in range(degree, -1, -1):
        basis = np.stack([x**i for i in range(k + 1)], axis=1)
        left = target - sum((float(c) * x**i for i, c in rounded.items()), np.zeros_like(x))
        c, error = lawson(basis, left, weight)
        rounded[k] = F(c[k])
    value = sum(float(c) * x**i for i, c in rounded.items())
    return [rounded[i] for i in range(degree + 1)], np.abs(weight * (value - target)).max()


def fma(a, b, c):
    """One rounding, except for rare double roundings."""
    return (np.float64(a) * np.float64(b) + np.float64(c)).astype(F)


def horner(coefficients, x):
    value = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        value = fma(value, x, F(c))
    return value


def exp_low(x, low, e):
    """exp(x + low) as the kernels compute it."""
    magic = F(12582912.0)
    n = fma(x, F(1.44269504), magic) - magic
    r = fma(n, F(-0.693145752), x)  # exact: the constant has trailing zeros
    r = fma(n, F(-1.42860677e-6), r) + low
    value = fma(r * r, horner(e, r), r) + F(1)
    return (np.float64(value) * 2.0 ** np.float64(n)).astype(F)


def tail(t, p, e):
    """(Q(t), exp(-t^2 / 2)) as the kernels compute them."""
    square = t * t
    low = fma(t, t, -square)
    gauss = exp_low(F(-0.5) * square, F(-0.5) * low, e)
    u = F(A) / (F(A) + t)
    return gauss * (u * horner(p, fma(F(-2), u, F(1)))), gauss


def report(name, coefficients, error):
    print(f"{name}: fitted to {error:.2e}")
    for c in reversed(coefficients):
        print(f"    {float(c):.9g}f")


def report_error(name, unit, error):
    print(f"{name}: {np.max(error) * 2.0**24:.2f} * 2^-24 {unit}")


def main():
    nodes = np.cos(np.pi * (np.arange(2000) + 0.5) / 2000)
    q_low = 1 - 2 * A / (A + CLAMP)
    q = -1 + (nodes + 1) / 2 * (q_low + 1)
    u = (1 - q) / 2
    t = A / u - A
    target = np.array([0.5 * math.exp(v * v / 2) * math.erfc(v / math.sqrt(2)) for v in t]) / u
    p, p_error = fit_rounded(q, target, 1 / target, P_DEGREE)
    report("P", p, p_error)

    r = nodes * math.log(2) / 2
    r = r[np.abs(r) > 1e-4]
    e, e_error = fit_rounded(r, (np.expm1(r) - r) / r**2, r**2 / np.exp(r), E_DEGREE)
    report("E", e, e_error)

    h = np.concatenate([np.linspace(-13, 13, 400001), np.linspace(-1, 1, 100001)]).astype(F)
    wide = h.astype(np.float64)
    exact = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in wide])
    density = np.exp(-wide * wide / 2) / math.sqrt(2 * math.pi)
    upper, gauss = tail(np.abs(h), p, e)
    phi = np.where(h < 0, upper, F(1) - upper)
    slope = fma(h * F(0.398942280), gauss, phi)
    forward = np.abs(h * phi - wide * exact)
    backward = np.abs(slope - (exact + wide * density))
    normal = np.abs(exact) > 1e-36  # below, fp32 runs out of bits
    true = np.abs(wide * exact)
    report_error("g ", "relative", (forward / true.clip(1e-300))[normal])
    report_error("g ", "* |h|", forward / np.abs(wide).clip(1e-30))
    report_error("g'", "absolute", backward)
    report_error("g'", "* (Phi + |h| phi)", backward / (exact + np.abs(wide) * density))
    x = np.linspace(-87, 88, 400001).astype(F)
    true = np.exp(x.astype(np.float64))
    report_error("exp", "relative", np.abs(exp_low(x, F(0), e) - true) / true)


if __name__ == "__main__":
    main()
