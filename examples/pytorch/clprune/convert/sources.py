"""What is kept of a tensor between the forward and the backward pass, and who shares it.

A kept tensor is a Source and its tensors. The tensors are bytes and parameters, which autograd saves
like any others; the Source says how to restore the values from them. `sources` finds what is already
kept of a tensor: layers that read the same tensor (q, k and v of attention) keep it once, and so does
a layer that reads what a norm wrote.
"""

from __future__ import annotations

import math
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import checkpoint as _checkpoint_module

from clprune.convert.layout import Layout, Part, Place, axes_of, flat_shape, in_memory_order, layout_of, seed_of, storage_of, version_of
from clprune.library import Keep, Shape, _library

MASK = Keep(form="mask")


def is_batched(x: Tensor) -> bool:
    """Whether x stands for several (is_grads_batched, vectorize=True): it has no memory of its own."""
    try:
        x.data_ptr()
    except RuntimeError:
        return True
    return False


class Source:
    """How to restore a tensor, as float32 in memory order, from the tensors that are kept of it."""

    coded = False  # whether what it restores is rounded

    def restore(self, tensors: Sequence[Tensor]) -> Tensor:
        raise NotImplementedError

    def part(self, tensors: Sequence[Tensor], start: int, stop: int) -> Tensor:
        """Elements start to stop of it."""
        return self.restore(tensors)[start:stop]

    def product_tn(self, tensors: Sequence[Tensor], dy: Tensor) -> Tensor:
        """dy^T * x, of an x without gaps as a matrix of dy's rows. dy: float32, contiguous."""
        return dy.t() @ self.restore(tensors).view(dy.shape[0], -1)


class Raw(Source):
    """The tensor itself, which another operation keeps anyway."""

    def restore(self, tensors: Sequence[Tensor]) -> Tensor:
        return in_memory_order(tensors[0])


class Codes(Source):
    """A blob of the library. in_rows: of the rows of a matrix, not of elements in memory order."""

    def __init__(self, keep: Keep, shape: Shape, numel: int, in_rows: bool) -> None:
        self.keep, self.kept, self.numel, self.in_rows = keep, shape, numel, in_rows
        self.coded = keep.form != "dense"

    def restore(self, tensors: Sequence[Tensor]) -> Tensor:
        return self.part(tensors, 0, self.numel)

    def part(self, tensors: Sequence[Tensor], start: int, stop: int) -> Tensor:
        size = max(self.kept.rows * self.kept.cols, 1)  # of a sample
        first, last = start // size, -(-stop // size)
        flat = _library().restore(self.keep, self.kept, tensors[0], first, last - first)
        return flat[start - first * size:stop - first * size]

    def product_tn(self, tensors: Sequence[Tensor], dy: Tensor) -> Tensor:
        # PyTorch's product of dense values has the bits of its own gradients.
        if (not self.in_rows or self.keep.form == "dense" or is_batched(dy)
                or self.kept.batch * self.kept.rows != dy.shape[0]):
            return super().product_tn(tensors, dy)
        return _library().product_tn(self.keep, self.kept, tensors[0], dy)


class Affine(Source):
    """y = weight * x + bias along an axis of y, of a kept x: what a norm wrote. Tensors: those of x,
    then weight and, if `biased`, bias."""

    def __init__(self, x: Source, layout: Layout, axis: int, biased: bool) -> None:
        self.x, self.layout, self.axis, self.own = x, layout, axis, 1 + biased
        self.coded = x.coded

    def restore(self, tensors: Sequence[Tensor]) -> Tensor:
        return self.part(tensors, 0, math.prod(self.layout.size))

    def part(self, tensors: Sequence[Tensor], start: int, stop: int) -> Tensor:
        part, sides = self.layout.covering(start, stop), [1] * len(self.layout.size)
        flat = self.x.part(tensors[:-self.own], part.start, part.stop)
        y = part.layout.shape(flat)
        sides[self.axis] = -1
        weight, *bias = (part.of(tensor.view(sides)) for tensor in tensors[-self.own:])
        y.mul_(weight)
        for b in bias:
            y.add_(b)
        return flat[start - part.start:stop - part.start]

    def product_tn(self, tensors: Sequence[Tensor], dy: Tensor) -> Tensor:
        weight, *bias = (tensor.float() for tensor in tensors[-self.own:])
        if self.layout.stride[self.axis] != 1 or (
                math.prod(self.layout.size) != dy.shape[0] * weight.numel()):
            return super().product_tn(tensors, dy)
        # dy^T * (x * diag(weight) + 1 * bias^T)
        dw = self.x.product_tn(tensors[:-self.own], dy).mul_(weight)
        for b in bias:
            dw.addr_(dy.sum(0), b)
        return dw


class Masked(Source):
    """y = x where y is positive, else 0, of a kept x: what ReLU wrote. The last tensor is the mask."""

    def __init__(self, x: Source, mask: Codes) -> None:
        self.x, self.mask, self.coded = x, mask, x.coded

    def restore(self, tensors: Sequence[Tensor]) -> Tensor:
        return self.part(tensors, 0, self.mask.numel)

    def part(self, tensors: Sequence[Tensor], start: int, stop: int) -> Tensor:
        return self.x.part(tensors[:-1], start, stop).mul_(self.mask.part(tensors[-1:], start, stop))


Kept = Tuple[Source, Tuple[Tensor, ...]]


def keep_flat(keep: Keep, x: Tensor, seed: Optional[int] = None, layout: Optional[Layout] = None,
              parts: Optional[List[Part]] = None, make: Optional[Callable[[Part], Tensor]] = None) -> Kept:
    """Keeps the distinct elements of x in memory order; or in the order of `layout`, what `make` makes of
    its parts."""
    if layout is None:
        layout = layout_of(x)
        x = x.detach() if axes_of(x) is not None else x.detach().contiguous()
    numel = layout.whole().stop
    shape = flat_shape(numel)
    if seed is None:
        seed = seed_of(x) if keep.draws else 0

    def samples() -> Iterator[Tensor]:
        for part in parts or layout.parts():
            flat = part.flat(make(part)) if make else in_memory_order(part.of(x))
            missing = -flat.numel() % shape.cols
            if missing:  # the last value again: it widens no group
                flat = torch.cat([flat, flat[-1:].expand(missing)])
            yield flat

    return Codes(keep, shape, numel, False), (_library().store(keep, shape, samples(), seed),)


def keep_rows(keep: Keep, x: Tensor, seed: int, layout: Optional[Layout] = None,
              parts: Optional[List[Part]] = None, make: Optional[Callable[[Part], Tensor]] = None) -> Kept:
    """Keeps samples, for products with their rows: those of x, or of what `make` makes of its parts."""
    layout, x = layout or layout_of(torch.empty(x.shape, device="meta")), x.detach()
    parts = parts or layout.parts(0)
    if parts[0].axis > max(x.dim() - 3, 0):  # within a sample
        parts = [layout.whole()]
    flats = (part.flat(make(part) if make else part.of(x)) for part in parts)
    return Codes(keep, Shape.of(x), x.numel(), True), (_library().store(keep, Shape.of(x), flats, seed),)


TOP_HOOKS = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)  # since PyTorch 2.1

# Label of what may stand for a tensor wherever it is read; others name what Keep made the bytes.
ALIKE = "values"


def in_checkpoint() -> bool:
    """Whether a part of torch.utils.checkpoint (use_reentrant=False) runs. It must save as many
    tensors when it runs again, though what was kept meanwhile is gone: there nothing stands for
    another tensor. Before PyTorch 2.1 this is not known, and False."""
    top = TOP_HOOKS(True) if TOP_HOOKS is not None else None
    return top is not None and getattr(top[0], "__module__", "") == _checkpoint_module.__name__


class _Weak:
    """A tensor as long as its memory is alive. Hooks of saved tensors may hold other objects of
    the same memory, so a weak reference to the object alone would not do."""

    def __init__(self, tensor: Tensor) -> None:
        self._object = weakref.ref(tensor)
        self._parts = tensor.dtype, tensor.storage_offset(), tensor.size(), tensor.stride()
        self._version = version_of(tensor)
        self.storage = StorageWeakRef(storage_of(tensor))

    def __call__(self) -> Optional[Tensor]:
        tensor = self._object()
        if tensor is not None and version_of(tensor) != self._version:
            return None  # a parameter that was changed
        if tensor is None and self._parts[0] is torch.uint8:  # bytes, which have no gradient
            storage = torch.UntypedStorage._new_with_weak_ptr(self.storage.cdata)
            if storage is not None:
                tensor = torch.empty(0, dtype=torch.uint8, device="cpu").set_(
                    storage, *self._parts[1:])
        return tensor


class _Entry(NamedTuple):
    source: Source
    tensors: Tuple[_Weak, ...]
    sample: Tensor


class Sources:
    """What is kept of tensors, as long as their storage and what is kept are alive."""

    def __init__(self) -> None:
        self._of: Dict[int, Tuple[Any, Dict[tuple, _Entry]]] = {}  # of a storage
        self._purge_at = 64
        self._lock = threading.RLock()

    def _place(self, x: Tensor) -> Optional[Tuple[Any, Place]]:
        if x.is_inference():
            return None
        axes = axes_of(x)
        if axes is None:
            return None
        merged: List[Tuple[int, int]] = []
        for stride, size, _ in axes:
            if merged and merged[-1][0] == stride * size:
                merged[-1] = stride, merged[-1][1] * size
            else:
                merged.append((stride, size))
        storage = storage_of(x)
        return storage, Place(storage._cdata, x._version, x.storage_offset(), tuple(merged))

    @staticmethod
    def _sample(x: Tensor, place: Place) -> Tensor:
        """Some elements: NumPy and `.data` change a tensor without a new version."""
        span = 1 + sum(stride * (size - 1) for stride, size in place.axes)
        step = -(-span // 64)
        return x.detach().as_strided((-(-span // step),), (step,)).clone()

    def find(self, x: Tensor, label: object) -> Optional[Kept]:
        """What is kept of x under a label."""
        found = self._place(x)
        if found is None or label is ALIKE and (TOP_HOOKS is None or in_checkpoint()):
            return None
        with self._lock:
            known = self._of.get(found[1].storage)
            entry = known[1].get((found[1], label)) if known and not known[0].expired() else None
        if entry is None or not torch.equal(self._sample(x, found[1]), entry.sample):
            return None
        tensors = tuple(tensor() for tensor in entry.tensors)
        return (entry.source, tensors) if all(t is not None for t in tensors) else None

    def note(self, x: Tensor, label: object, kept: Kept) -> None:
        found = self._place(x)
        if found is None or label is ALIKE and (TOP_HOOKS is None or in_checkpoint()):
            return
        storage, place = found
        with self._lock:
            known = self._of.get(place.storage)
            if known is None or known[0].expired():
                known = self._of[place.storage] = StorageWeakRef(storage), {}
            for key in [key for key in known[1] if key[0].version != place.version]:
                del known[1][key]
            known[1][place, label] = _Entry(
                kept[0], tuple(map(_Weak, kept[1])), self._sample(x, place))
            if len(self._of) > self._purge_at:
                self._of = {k: v for k, v in self._of.items() if not v[0].expired()}
                self._purge_at = 64 + 2 * len(self._of)


sources = Sources()
