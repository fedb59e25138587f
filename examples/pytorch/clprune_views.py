"""Tensors of a traced model by the axes of the net's values: Value, what a layer computes; View, such a value whose samples,
rows and parts of features are dimensions in any order; Heads and Scores, of attention; Matrix, of an image's axis. Nothing
here adds a layer."""

from __future__ import annotations

import dataclasses
import math
import string
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import torch
from torch import Tensor

__all__ = ["Bias", "Constant", "Heads", "Matrix", "Order", "NotSupported", "Scores", "Value", "View", "hides_later", "matrices_of",
           "permuted", "picked", "reshaped", "settled", "theta_of", "view_of"]


class NotSupported(Exception):
    """An operation that a net does not have; the text says what it is."""


@dataclasses.dataclass(frozen=True)
class Constant:
    """A parameter or buffer of the model, perhaps of another shape; without a name, a tensor that
    the model computes from some, which cannot be trained."""

    name: Optional[str]
    value: Tensor
    rows: Optional[Tuple[int, ...]] = None  # those of the parameter that it has, as an embedding picks them
    mask: bool = False  # computed from the mask of samples' lengths, an input
    node: Any = None  # of the graph, which computes it


@dataclasses.dataclass(frozen=True)
class Value:
    """What a layer computes, and how the tensor of PyTorch lays it out.

    axes   a string for each dimension after the batch. Letters are axes of the net's value: C, its
           features; H and W, or T, its rows. ("C", "H", "W") is an image, ("T", "C") are tokens,
           ("CHW",) is a flattened image, "" has size 1
    factor set if the value is still to be multiplied by a parameter: a following addition makes
           both a LayerScale
    """

    layer: int
    axes: Tuple[str, ...]
    sizes: Dict[str, int]
    factor: Optional[Constant] = None

    @property
    def rows(self) -> str:
        return "".join(axis for axis in "HWT" if axis in self.sizes)

    def size(self, group: str) -> int:
        return math.prod(self.sizes[axis] for axis in group)

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(self.size(group) for group in self.axes)

    @property
    def layout(self) -> tuple:
        """Values of the same layout can be added."""
        rows = self.rows
        return self.shape, tuple(
            "T" if rows and group == rows else
            (group, *(self.sizes[axis] for axis in group)) if len(group) > 1 else group
            for group in self.axes)

    @property
    def stored(self) -> str:
        """The axes as they are in memory."""
        return self.rows + "C"


@dataclasses.dataclass(frozen=True)
class View:
    """A value whose dimensions are in any order.

    groups    the axes of each dimension: N, the samples; H, W, T, rows; those of `features`
    features  the axes of the features in the order of memory: "C", or lower case, parts of it
    picked    the indices in the first of them, which are no dimensions any more
    scale     what it is still to be multiplied by
    theta     of rotary positions that are still to be applied, to heads of attention; 0: none
    repeats   how often each head of keys and values is used
    """

    layer: int
    groups: Tuple[str, ...]
    sizes: Dict[str, int]
    features: str
    picked: Tuple[int, ...] = ()
    scale: float = 1.0
    theta: float = 0.0
    repeats: int = 1

    def size(self, group: str) -> int:
        return math.prod(self.sizes[axis] for axis in group)

    @property
    def left(self) -> str:
        """The features that dimensions have."""
        return self.features[len(self.picked):]

    @property
    def first(self) -> int:
        """The first of its features in the value."""
        first = 0
        for axis, index in zip(self.features, (*self.picked, *[0] * len(self.left))):
            first = first * self.sizes[axis] + index
        return first

    @property
    def rows(self) -> str:
        return "".join(axis for axis in "HWT" if axis in self.sizes)


def view_of(x: Value, batch: int) -> View:
    return View(x.layer, ("N", *x.axes), {**x.sizes, "N": batch}, "C")


def permuted(x: View, dims: Sequence[int]) -> View:
    return dataclasses.replace(x, groups=tuple(x.groups[d] for d in dims))


def picked(x: View, dim: int, index: int) -> View:
    """x[..., index, ...]: of the first axis of its features."""
    axis = x.groups[dim]
    if len(axis) != 1 or axis != x.left[:1] or len(x.left) == 1:
        raise NotSupported(f"an index into dimension {dim}, which is not the first part of the features")
    groups = (*x.groups[:dim], *x.groups[dim + 1:])
    return dataclasses.replace(x, groups=groups, picked=(*x.picked, index % x.sizes[axis]))


def reshaped(x: View, shape: Sequence[int]) -> View:
    """The axes one by one, dealt out again by the sizes; those of features are split where it must be."""
    left, sizes, features, groups = list("".join(x.groups)), dict(x.sizes), x.features, []
    letters = (letter for letter in string.ascii_lowercase if letter not in sizes)
    whole = NotSupported(f"a tensor of {tuple(map(x.size, x.groups))} as {tuple(shape)}")

    def total(group: str) -> int:
        return math.prod(sizes[axis] for axis in group)

    for size in shape:
        group = ""
        if size == 1 and left and sizes[left[0]] == 1:
            group = left.pop(0)
        while total(group) < size:
            if not left:
                raise whole
            axis, most = left[0], size // total(group)
            if most == 1:
                raise whole
            if sizes[axis] > most:
                if axis not in x.left and axis.isupper() or sizes[axis] % most != 0:
                    raise whole
                outer, inner = next(letters), next(letters)
                sizes[outer], sizes[inner] = most, sizes[axis] // most
                features = features.replace(axis, outer + inner)
                left[:1] = [outer, inner]
            group += left.pop(0)
        if total(group) != size:
            raise whole
        groups.append(group)
    if left and (total("".join(left)) != 1 or not groups):
        raise whole
    if left:
        groups[-1] += "".join(left)
    return dataclasses.replace(x, groups=tuple(groups), sizes=sizes, features=features)


def settled(x: View) -> Tuple[Tuple[str, ...], int]:
    """The axes of the value that a view is, and the groups by which its features are shuffled; 1: they are in order."""
    if x.theta > 0 or x.repeats > 1:
        raise NotSupported("rotary positions or repeated heads in another place than attention")
    orders = [(x.left, 1)] + ([(x.left[::-1], x.sizes[x.left[0]])] if len(x.left) == 2 else [])
    for order, groups in orders:
        axes = tuple(group.replace(order, "C") for group in x.groups)
        rest = "".join(axes[1:])
        if axes[0] == "N" and rest.count("C") == 1 and all(axis in "CHWT" for axis in rest):
            return axes[1:], groups
    raise NotSupported(f"a tensor of {tuple(map(x.size, x.groups))} with parts of the features in other dimensions")


# ---------------------------------------------------------------------------------------------
# Attention
# ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Heads:
    """Queries, keys or values: a view whose last two dimensions are all rows and the features of a head."""

    view: View
    count: int
    features: int

    @staticmethod
    def of(x: View, transposed: bool = False) -> "Heads":
        """transposed: its last two dimensions are the other way round."""
        if len(x.groups) < 3:
            raise NotSupported("a product of matrices that are not those of samples")
        if transposed:
            x = permuted(x, [*range(len(x.groups) - 2), len(x.groups) - 1, len(x.groups) - 2])
        *outer, rows, features = x.groups
        left = x.left if len(x.left) == 2 else f"-{x.left}"
        if "".join(outer) != "N" + left[0].strip("-") or rows != x.rows or rows == "" or features != left[1:]:
            raise NotSupported("a product of two tensors that are not queries, keys or values of heads")
        return Heads(x, x.sizes.get(left[0], 1), x.sizes[features])

    @property
    def all(self) -> int:
        return self.count * self.features

    def serves(self, q: "Heads") -> bool:
        """Whether these are keys or values for such queries."""
        return q.count % self.count == 0 and self.view.repeats in (1, q.count // self.count) and \
            (q.features, q.view.size(q.view.rows)) == (self.features, self.view.size(self.view.rows))


@dataclasses.dataclass(frozen=True)
class Scores:
    """Products of queries and keys, and then the probabilities."""

    q: Heads
    k: Heads
    scale: float
    causal: bool = False
    soft: bool = False
    rate: float = 0.0
    masked: bool = False  # by the samples' lengths
    biases: Tuple[Constant, ...] = ()  # what else is added

    @staticmethod
    def of(q: Heads, k: Heads, scale: float) -> "Scores":
        if not k.serves(q) or q.view.theta != k.view.theta:
            raise NotSupported("attention to others than the rows of the sample, or with fewer keys than queries")
        return Scores(q, k, scale * q.view.scale * k.view.scale)


def hides_later(mask: Constant, rows: int, lengths: Optional[Tensor]) -> bool:
    """Whether a mask, of truth where rows are seen or of numbers that are added, hides what comes after each row. It must hide
    that and, if it is of the samples' lengths, what is behind them; and nothing else."""
    value = mask.value
    seen = value if value.dtype == torch.bool else value > -1e4
    if value.dim() < 2 or value.shape[-1] != rows or value.shape[-2] not in (1, rows) or \
            value.dtype != torch.bool and not bool((value[seen] == 0).all()):
        raise NotSupported("a mask of attention of other numbers than 0 and -inf, or of other rows")
    every = torch.ones(rows, rows, dtype=torch.bool)
    if mask.mask:
        every = every & (torch.arange(rows) < lengths[:, None, None, None])
    for later, want in ((True, every.tril()), (False, every)):
        if bool((seen == want).all()):
            return later
    raise NotSupported("a mask of attention that hides others than later rows, or those behind a sample's length")


def theta_of(cos: Tensor, sin: Tensor) -> float:
    """Theta of a table of rotary positions, (..., rows, features of a head); clprune/rotary.h."""
    cos, sin = (x.reshape(-1, *x.shape[-2:]).double() for x in (cos, sin))
    rows, features = cos.shape[1:]
    half = features // 2
    if rows > 1 and half > 1:
        found = float(torch.atan2(sin[0, 1, 1], cos[0, 1, 1])) ** -half
        for theta in (float(f"{found:.3g}"), found):
            turns = torch.arange(rows).double()[:, None] * theta ** (-torch.arange(half).double() / half)
            turns = torch.cat([turns, turns], 1)
            if theta > 1 and all(bool((x - want).abs().max() < 1e-4) for x, want in ((cos, turns.cos()), (sin, turns.sin()))):
                return theta
    raise NotSupported("rotary positions other than those of Llama, of all features of a head")


@dataclasses.dataclass(frozen=True, eq=False)
class Bias:
    """clprune_net_bias, whose parameter is called "table": an entry for each query and key, and masks.

    index   rows x rows, int32; None: no table
    mask    masks x rows x rows; None: none
    """

    entries: int
    index: Optional[Tensor]
    mask: Optional[Tensor]

    def __eq__(self, other: Any) -> bool:
        def same(a: Optional[Tensor], b: Optional[Tensor]) -> bool:
            return a is b or a is not None and b is not None and torch.equal(a, b)

        return isinstance(other, Bias) and self.entries == other.entries and same(self.index, other.index) and \
            same(self.mask, other.mask)

    @staticmethod
    def shaped(value: Tensor, heads: int, rows: int, windows: int, samples: int) -> Tensor:
        """What is added to scores, as windows x heads x rows x rows; it must be the same for each sample."""
        wrong = NotSupported(f"a bias of attention of {tuple(value.shape)}")
        value = torch.where(value, 0.0, -1e4) if value.dtype == torch.bool else value.double().clamp(min=-1e4)
        if value.dim() > 4 or value.dim() < 2:
            raise wrong
        value = value[(None,) * (4 - value.dim())]
        if value.shape[0] not in (1, windows, samples * windows):
            raise wrong
        if value.shape[0] == samples * windows > windows:
            value = value.reshape(samples, windows, *value.shape[1:])
            if not bool((value == value[:1]).all()):
                raise NotSupported("a bias of attention that is another one for each sample")
            value = value[0]
        try:
            return value.expand(windows, heads, rows, rows).double()
        except RuntimeError:
            raise wrong from None

    @staticmethod
    def of_numbers(value: Tensor) -> Tuple["Bias", Optional[Tensor]]:
        """Of windows x heads x rows x rows; and its table, if heads differ."""
        windows, heads, rows, _ = value.shape
        if bool((value == value[:, :1]).all()):
            mask = value[:, 0]
            return Bias(0, None, mask[:1] if bool((mask == mask[:1]).all()) else mask), None
        if not bool((value == value[:1]).all()) or value[0].numel() > 2**24:
            raise NotSupported("a bias of attention of other numbers for each head and window")
        index = torch.arange(rows * rows, dtype=torch.int32).view(rows, rows)
        return Bias(rows * rows, index, None), value[0].reshape(heads, -1).t().float().contiguous()

    @staticmethod
    def of_table(ids: Tensor, plain: Tensor, shape: Sequence[int]) -> Tuple["Bias", bool]:
        """Where element ids[window, head, query, key] of a table of this shape is added, beside `plain`; and whether the
        table is heads x entries."""
        windows, heads, rows, _ = ids.shape
        of_heads = torch.arange(heads)[:, None, None]
        for transposed in (False, True):
            if len(shape) != 2 or shape[0 if transposed else 1] != heads:
                continue
            entries = shape[1 if transposed else 0]
            first = of_heads * (entries if transposed else 1)
            ids = torch.where(plain <= -1e4, first, ids)
            index = (ids - first) // (1 if transposed else heads)
            if bool((index == index[:1, :1]).all()) and \
                    bool((first + index * (1 if transposed else heads) == ids).all()):
                rest = None if not bool(plain.any()) else Bias.of_numbers(plain)[0]
                if rest is None or rest.index is None:
                    return Bias(entries, index[0, 0].int().contiguous(), rest and rest.mask), transposed
        raise NotSupported("a bias of attention that is not an entry of a table for each head")


# ---------------------------------------------------------------------------------------------
# Elements in another order
# ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Order:
    """clprune_permute_desc."""

    extents: Tuple[int, ...]
    order: Tuple[int, ...]


# ---------------------------------------------------------------------------------------------
# Images of other sizes
# ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Matrix:
    """clprune_net_axis: row i has the entries first[i] to first[i + 1]."""

    out: int
    first: Tuple[int, ...]
    of: Tuple[int, ...]
    weight: Tuple[float, ...]

    @staticmethod
    def of_dense(dense: Tensor) -> "Matrix":
        rows, columns = torch.nonzero(dense.abs() > 1e-9, as_tuple=True)
        first = torch.zeros(1 + len(dense), dtype=torch.int64)
        first[1:] = torch.bincount(rows, minlength=len(dense)).cumsum(0)
        return Matrix(len(dense), tuple(first.tolist()), tuple(columns.tolist()), tuple(dense[rows, columns].tolist()))


def matrices_of(change: Callable[[Tensor], Tensor], height: int, width: int) -> Tuple[Matrix, Matrix]:
    """The matrices A and B of a function that makes A x B^T of each image x, from what it makes of lines."""
    def changed(images: Tensor) -> Tensor:
        return change(images[:, None])[:, 0].double()

    plain = changed(torch.ones(1, height, width))[0]
    top, left = divmod(int(plain.abs().argmax()), plain.shape[1])
    if plain[top, left] == 0 or bool(changed(torch.zeros(1, height, width)).any()):
        raise NotSupported("a change of images that is not linear")
    tall = [changed(torch.eye(height)[part, :, None].expand(-1, -1, width).contiguous())[:, :, left]
            for part in torch.arange(height).split(32)]
    wide = [changed(torch.eye(width)[part, None, :].expand(-1, height, -1).contiguous())[:, top]
            for part in torch.arange(width).split(32)]
    a, b = torch.cat(tall).t() / plain[top, left], torch.cat(wide).t()
    image = torch.rand(1, height, width, generator=torch.Generator().manual_seed(0))
    if not torch.allclose(changed(image)[0], a @ image[0].double() @ b.t(), atol=1e-5):
        raise NotSupported("a change of images that is not one of each axis")
    return Matrix.of_dense(a), Matrix.of_dense(b)
