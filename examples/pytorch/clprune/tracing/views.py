"""Tensors of a traced model by the axes of the net's values: Value, what a layer computes; View, such a value whose samples,
rows and parts of features are dimensions in any order; Heads, Cut and Scores, of attention; Matrix, of an image's axis.
Nothing here adds a layer."""

from __future__ import annotations

import dataclasses
import math
import string
from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

__all__ = ["Angles", "Bias", "Constant", "Cut", "Heads", "Matrix", "NotSupported", "Order", "Scores", "Value", "View", "arranged",
           "check_applied", "first_part", "hides_later", "matrices_of", "permuted", "picked", "reshaped", "settled", "swapped",
           "theta_of", "view_of"]


_ROWS = "BHWXYT"  # axes of a value's rows, in the order of memory


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
    then: Tuple[Tuple[str, tuple], ...] = ()  # methods that are then called, and their arguments

    def after(self, method: str, *args: Any) -> "Constant":
        return dataclasses.replace(self, value=getattr(self.value, method)(*args), then=(*self.then, (method, args)))


@dataclasses.dataclass(frozen=True)
class Value:
    """What a layer computes, and how the tensor of PyTorch lays it out.

    axes   a string for each dimension after the batch. Letters are axes of the net's value: C, its
           features; H and W, and perhaps X and Y, or T, its rows. ("C", "H", "W") is an image, ("T", "C") are tokens,
           ("CHW",) is a flattened image, "" has size 1. The batch's dimension has the samples, and
           of each its windows if there is a B
    factor set if the value is still to be multiplied by a parameter: a following addition makes
           both a LayerScale
    """

    layer: int
    axes: Tuple[str, ...]
    sizes: Dict[str, int]
    factor: Optional[Constant] = None

    @property
    def rows(self) -> str:
        return "".join(axis for axis in _ROWS if axis in self.sizes)

    @property
    def windows(self) -> int:
        return self.sizes.get("B", 1)

    def size(self, group: str) -> int:
        return math.prod(self.sizes[axis] for axis in group)

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(self.size(group) for group in self.axes)

    @property
    def layout(self) -> tuple:
        """Values of the same layout can be added."""
        rows = self.rows
        return self.windows, self.shape, tuple(
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

    groups    the axes of each dimension: N, the samples; those of `rows` and of `features`
    rows      the axes of the rows in the order of memory: upper case
    features  the axes of the features in the order of memory: "C", or lower case, parts of it
    picked    the indices in the first of them, which are no dimensions any more
    scale     what it is still to be multiplied by
    theta     of rotary positions that are still to be applied, to heads of attention; or other angles
    turned    the features of a head that they turn, the first ones; 0: there are none
    adjacent  in pairs of neighbours, not of halves
    repeats   how often each head of keys and values is used
    """

    layer: int
    groups: Tuple[str, ...]
    sizes: Dict[str, int]
    rows: str
    features: str
    picked: Tuple[int, ...] = ()
    scale: float = 1.0
    theta: Union[float, "Angles"] = 0.0
    turned: int = 0
    adjacent: bool = False
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


@dataclasses.dataclass(frozen=True)
class Order:
    """clprune_permute_desc."""

    extents: Tuple[int, ...]
    order: Tuple[int, ...]


def view_of(x: Value, batch: int) -> View:
    return View(x.layer, ("NB" if "B" in x.sizes else "N", *x.axes), {**x.sizes, "N": batch}, x.rows, "C")


def permuted(x: View, dims: Sequence[int]) -> View:
    return dataclasses.replace(x, groups=tuple(x.groups[d] for d in dims))


def swapped(x: View) -> View:
    """With its last two dimensions the other way round."""
    return permuted(x, [*range(len(x.groups) - 2), len(x.groups) - 1, len(x.groups) - 2])


def picked(x: View, dim: int, index: int) -> View:
    """x[..., index, ...]: of the first axis of its features (first_part)."""
    axis = x.groups[dim]
    groups = (*x.groups[:dim], *x.groups[dim + 1:])
    return dataclasses.replace(x, groups=groups, picked=(*x.picked, index % x.sizes[axis]))


def first_part(x: View, dim: int) -> Optional[Tuple[Order, View]]:
    """If a dimension is one part of the features, but not the first one: the order of the value that makes it so, and the view
    of that."""
    axis = x.groups[dim]
    if len(axis) != 1 or axis not in x.left or len(x.left) == 1:
        raise NotSupported(f"an index into dimension {dim}, which is not a part of the features")
    if axis == x.left[0]:
        return None
    if x.picked:
        raise NotSupported(f"an index into dimension {dim}, after one into another part of the features")
    features = axis + x.left.replace(axis, "")
    extents = (math.prod(x.sizes[a] for a in x.rows), *(x.sizes[a] for a in x.left))
    return Order(extents, (0, *(1 + x.left.index(a) for a in features))), dataclasses.replace(x, features=features)


def reshaped(x: View, shape: Sequence[int]) -> View:
    """The axes one by one, dealt out again by the sizes, and split where it must be."""
    left, sizes, rows, features, groups = list("".join(x.groups)), dict(x.sizes), x.rows, x.features, []
    small = (letter for letter in string.ascii_lowercase if letter not in sizes)
    large = (letter for letter in string.ascii_uppercase if letter not in sizes and letter not in "CN" + _ROWS)
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
                if axis == "N" or sizes[axis] % most != 0:
                    raise whole
                letters = large if axis in rows else small
                outer, inner = next(letters), next(letters)
                sizes[outer], sizes[inner] = most, sizes[axis] // most
                rows, features = rows.replace(axis, outer + inner), features.replace(axis, outer + inner)
                left[:1] = [outer, inner]
            group += left.pop(0)
        if total(group) != size:
            raise whole
        groups.append(group)
    if left and (total("".join(left)) != 1 or not groups):
        raise whole
    if left:
        groups[-1] += "".join(left)
    if rows == "B" and groups[0] == "N":  # no windows any more
        rows, sizes["T"] = "T", sizes.pop("B")
        groups = [group.replace("B", "T") for group in groups]
    return dataclasses.replace(x, groups=tuple(groups), sizes=sizes, rows=rows, features=features)


def check_applied(x: View) -> None:
    if x.turned > 0 or x.repeats > 1:
        raise NotSupported("rotary positions or repeated heads in another place than attention")


def settled(x: View) -> Tuple[Tuple[str, ...], int]:
    """The axes of the value that a view is, and the groups by which its features are shuffled; 1: they are in order."""
    check_applied(x)
    orders = [(x.left, 1)] + ([(x.left[::-1], x.sizes[x.left[0]])] if len(x.left) == 2 else [])
    for order, groups in orders:
        axes = tuple(group.replace(order, "C") for group in x.groups)
        rest = "".join(axes[1:])
        if axes[0] == "NB"[:1 + x.rows.count("B")] and rest.count("C") == 1 and \
                all(axis in "C" + _ROWS for axis in rest) and ("X" not in rest or all(dim in x.rows + "C" for dim in axes[1:])):
            return axes[1:], groups
    raise NotSupported(f"a tensor of {tuple(map(x.size, x.groups))} with parts of the features in other dimensions")


def arranged(x: View) -> Tuple[Order, Value]:
    """The order in which the elements of a value are those of a view, and that value, whose features are the dimension of
    the first part of the features."""
    check_applied(x)
    wrong = NotSupported(f"a tensor of {tuple(map(x.size, x.groups))} in this order")
    outer, dims = x.groups[0][1:], x.groups[1:]
    last = next((dim for dim in dims if x.left[:1] in dim and x.left != ""), None)
    others = [dim for dim in dims if dim is not last and dim != ""]
    if x.groups[0][:1] != "N" or any(axis not in x.rows for axis in outer) or last is None or len(others) > 4:
        raise wrong
    new, old = outer + "".join(others) + last, x.rows + x.left
    if sorted(new) != sorted(old):
        raise wrong
    names = dict(zip(others, "T" if len(others) == 1 else "HWXY"))
    axes = tuple("C" if dim is last else names.get(dim, "") for dim in dims)
    sizes = {**({"B": x.size(outer)} if x.size(outer) > 1 else {}), **{names[dim]: x.size(dim) for dim in others},
             "C": x.size(last)}
    order = Order(tuple(x.sizes[axis] for axis in old), tuple(old.index(axis) for axis in new))
    return order, Value(x.layer, axes, sizes)


# ---------------------------------------------------------------------------------------------
# Attention
# ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Heads:
    """Queries, keys or values: a view whose last two dimensions are all rows, or those of a window, and the features of a
    head."""

    view: View
    count: int
    features: int
    rows: int
    windows: int

    @staticmethod
    def of(x: View, transposed: bool = False) -> "Heads":
        """transposed: its last two dimensions are the other way round."""
        if len(x.groups) < 3:
            raise NotSupported("a product of matrices that are not those of samples")
        if transposed:
            x = swapped(x)
        *outer, rows, features = x.groups
        left = x.left if len(x.left) == 2 else f"-{x.left}"
        windows = x.rows[:len(x.rows) - len(rows)]
        if "".join(outer) != "N" + windows + left[0].strip("-") or windows + rows != x.rows or rows == "" != x.rows or \
                features != left[1:]:
            raise NotSupported("a product of two tensors that are not queries, keys or values of heads")
        return Heads(x, x.sizes.get(left[0], 1), x.sizes[features], x.size(rows), x.size(windows))

    @property
    def all(self) -> int:
        return self.count * self.features

    def serves(self, q: "Heads") -> bool:
        """Whether these are keys or values for such queries: of the same windows, or of all other rows of a sample."""
        return q.count % self.count == 0 and self.view.repeats in (1, q.count // self.count) and \
            q.features == self.features <= 512 and q.windows == self.windows and (q.rows == self.rows or q.windows == 1)


@dataclasses.dataclass(frozen=True, eq=False)
class Cut:
    """Some features of each head, on the way to rotary positions: x cos + (-x2, x1) sin, with the halves x1 and x2 of x.

    view     whose last dimension is the features of a head; with its theta if they are turned
    first    the first feature of a head, and how many there are
    sign     -1: negated
    swapped  the halves: (-x2, x1)
    factor   a table of rows and features by which they are multiplied
    """

    view: View
    first: int
    count: int
    sign: int = 1
    swapped: bool = False
    factor: Optional[Tensor] = None

    @staticmethod
    def of(x: View) -> "Cut":
        if len(x.groups) < 3 or len(x.groups[-1]) != 1 or x.groups[-1] != x.left[-1:] or x.groups[-2] not in (x.rows, x.left[0]):
            raise NotSupported("a part of features that is not one of each head")
        return Cut(x, 0, x.size(x.groups[-1]))

    @property
    def plain(self) -> bool:
        return not self.swapped and self.factor is None

    def narrow(self, first: int, count: int) -> "Cut":
        if not self.plain or self.sign < 0:
            raise NotSupported("a part of rotary positions")
        return dataclasses.replace(self, first=self.first + first, count=count)

    def times(self, factor: Tensor) -> "Cut":
        of_rows, rows = self.view.groups[-2] == self.view.rows, self.view.size(self.view.rows)
        if not of_rows and factor.dim() > 2 and factor.shape[-2] == 1:
            factor, of_rows = factor.squeeze(-2), True
        if self.factor is not None or self.sign < 0 or factor.dim() < 2 or factor.shape[-1] != self.count or \
                factor.shape[-2] != 1 and (not of_rows or factor.shape[-2] != rows):
            raise NotSupported("rotary positions by a table of another shape")
        return dataclasses.replace(self, factor=factor.expand(*factor.shape[:-2], rows, self.count))

    def joined(self, other: "Cut") -> "Cut":
        """The features of both, one behind the other: two halves that are swapped, or what is turned and what is not."""
        plain = self.plain and other.plain and dataclasses.replace(self.view, theta=0.0, turned=0, adjacent=False) == other.view
        if plain and (self.sign, other.sign) == (-1, 1) and self.view.turned == 0 and self.count == other.count and \
                self.first == other.first + other.count:
            return Cut(self.view, other.first, 2 * self.count, swapped=True)
        if plain and (self.sign, other.sign) == (1, 1) and other.first == self.first + self.count and \
                (self.view.turned == 0 or (self.first, self.count) == (0, self.view.turned)):
            return Cut(self.view, self.first, self.count + other.count)
        raise NotSupported("features of heads in another order than that of rotary positions")

    def turned(self, theta: Union[float, "Angles"], adjacent: bool = False) -> "Cut":
        if not self.plain or self.sign < 0 or self.view.turned > 0 or self.first > 0:
            raise NotSupported("rotary positions of other features than the first ones of a head")
        return Cut(dataclasses.replace(self.view, theta=theta, turned=self.count, adjacent=adjacent), 0, self.count)

    def plus(self, other: "Cut") -> "Cut":
        cos, sin = (other, self) if self.swapped else (self, other)
        if cos.factor is None or sin.factor is None or cos.swapped or not sin.swapped or cos.view != sin.view or \
                (cos.first, cos.count, cos.sign) != (sin.first, sin.count, 1):
            raise NotSupported("a sum of features of heads that is not rotary positions")
        first, second = zip(*(x.chunk(2, -1) for x in (cos.factor, sin.factor)))
        if not all(map(torch.equal, first, second)):
            raise NotSupported("rotary positions that turn the elements of a pair by two angles")
        return dataclasses.replace(cos, factor=None).turned(theta_of(*first))

    @property
    def whole(self) -> Any:
        """The view, if these are all its features."""
        all_of = self.plain and self.sign > 0 and (self.first, self.count) == (0, self.view.size(self.view.groups[-1]))
        return self.view if all_of else self


@dataclasses.dataclass(frozen=True)
class Scores:
    """Products of queries and keys, and then the probabilities. cap: the scores are cap * tanh(scale * products). draw: the
    operation that drops some by `rate`."""

    q: Heads
    k: Heads
    scale: float
    cap: float = 0.0
    causal: bool = False
    soft: bool = False
    rate: float = 0.0
    draw: str = ""
    masked: bool = False  # by the samples' lengths
    biases: Tuple[Constant, ...] = ()  # what else is added
    gain: Optional[Constant] = None  # by which products are multiplied, one for each head

    @staticmethod
    def of(q: Heads, k: Heads, scale: float) -> "Scores":
        if not k.serves(q) or \
                (q.view.theta, q.view.turned, q.view.adjacent) != (k.view.theta, k.view.turned, k.view.adjacent):
            raise NotSupported("attention with other heads, windows or positions of queries than of keys")
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


@dataclasses.dataclass(frozen=True, eq=False)
class Angles:
    """clprune_net_angles: rotary positions by other angles than a theta's.

    radians  of each pair, by which each row turns further than the one before; or rows x pairs
    factor   of what is turned
    """

    radians: Tensor
    factor: float
    adjacent: bool = False

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Angles) and torch.equal(self.radians, other.radians) and \
            (self.factor, self.adjacent) == (other.factor, other.adjacent)

    @staticmethod
    def of(cos: Tensor, sin: Tensor) -> "Angles":
        """Of tables, samples x rows x pairs."""
        size = (cos.square() + sin.square()).sqrt()
        factor = float(size[0].mean().float()) if size.numel() > 0 else 0.0  # the same for any number of samples
        if not factor > 0 or bool((size - factor).abs().max() > 1e-4 * factor) or not bool((cos == cos[:1]).all()) or \
                not bool((sin == sin[:1]).all()):
            raise NotSupported("rotary positions of other angles than those of rows, with one factor")
        angles = torch.atan2(sin[0], cos[0])
        rows, turn, step = len(angles), 2 * math.pi, 1
        further = angles[min(1, rows - 1)]
        while step < rows:  # of later rows it is more exact
            missed = angles[step] - step * further
            further = further + (missed - turn * (missed / turn).round()) / step
            step *= 2
        missed = angles - torch.arange(rows).double()[:, None] * further
        linear = rows > 1 and bool((missed - turn * (missed / turn).round()).abs().max() < 1e-4)
        return Angles(further if linear else angles, factor)


def theta_of(cos: Tensor, sin: Tensor) -> Union[float, Angles]:
    """Theta of tables of rotary positions, (..., rows, pairs of features of a head); clprune/rotary.h. Else their angles."""
    cos, sin = (x.reshape(-1, *x.shape[-2:]).double() for x in (cos, sin))
    rows, half = cos.shape[1:]
    if rows > 1 and half > 0:  # of one pair the angle is the row, whatever theta is
        found = float(torch.atan2(sin[0, 1, 1], cos[0, 1, 1])) ** -half if half > 1 else 1e4
        for theta in (float(f"{found:.3g}"), found):
            turns = torch.arange(rows).double()[:, None] * theta ** (-torch.arange(half).double() / half)
            if theta > 1 and all(bool((x - want).abs().max() < 1e-4) for x, want in ((cos, turns.cos()), (sin, turns.sin()))):
                return theta
    return Angles.of(cos, sin)


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
        if value.dim() == 5 and value.shape[1] in (1, windows):
            value = value.expand(-1, windows, -1, -1, -1).flatten(0, 1)
        if value.dim() > 4 or value.dim() < 2:
            raise wrong
        if value.dim() == 3 and value.shape[0] == samples * windows * heads > heads:
            value = value.reshape(-1, heads, *value.shape[1:])
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
        """Where element ids[window, head, query, key] of a table of this shape is added, beside `plain`; and whether heads
        are the first axis of the table, or the last one."""
        windows, heads, rows, _ = ids.shape
        of_heads, entries = torch.arange(heads)[:, None, None], math.prod(shape) // heads
        for transposed in (False, True):
            if shape[0 if transposed else -1] != heads:
                continue
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
