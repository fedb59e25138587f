"""Where a tensor's elements lie in memory, and parts of them: what is coded, and decoded, at a time."""

from __future__ import annotations

import ctypes
import hashlib
import math
from typing import Any, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from clprune.library import Shape

PART = 1 << 19  # elements that are coded, or decoded and used, at a time


class Layout(NamedTuple):
    """Shape and strides of a tensor whose elements lie without gaps, and the same in memory order."""

    size: Tuple[int, ...]
    stride: Tuple[int, ...]

    def shape(self, flat: Tensor) -> Tensor:
        """The tensor of elements in memory order."""
        return flat.as_strided(self.size, self.stride)

    def _outer(self) -> Tuple[int, int, int]:
        """The outermost axis in memory, its stride and its size."""
        axis = max(range(len(self.size)), default=0,
                   key=lambda i: self.stride[i] if self.size[i] > 1 else 0)
        if not self.size or self.size[axis] < 2 or not self.stride[axis]:
            return 0, int(0 not in self.size), 1
        return axis, self.stride[axis], self.size[axis]

    def _part(self, first: int, last: int) -> "Part":
        axis, step, size = self._outer()
        if last - first == size:
            return Part(self, axis, 0, 0, step * size)
        sizes = (*self.size[:axis], last - first, *self.size[axis + 1:])
        return Part(self._replace(size=sizes), axis, first, step * first, step * last)

    def whole(self) -> "Part":
        return self._part(0, self._outer()[2])

    def covering(self, start: int, stop: int) -> "Part":
        """The smallest part with elements start to stop."""
        _, step, _ = self._outer()
        return self._part(start // step, -(-stop // step))

    def parts(self, axis: Optional[int] = None) -> List["Part"]:
        """Parts of about PART elements along the outermost axis, which begin at samples of flat_shape; a
        single one if `axis` is another."""
        outer, step, size = self._outer()
        if step * size <= PART or axis not in (None, outer):
            return [self.whole()]
        cols = flat_shape(step * size).cols
        unit = cols // math.gcd(cols, step)
        count = max(PART // (unit * step), 1) * unit
        return [self._part(first, min(first + count, size)) for first in range(0, size, count)]


class Part(NamedTuple):
    """Some of a tensor: its layout, its first index along `axis`, its range of elements in memory order."""

    layout: Layout
    axis: int
    first: int
    start: int
    stop: int

    def of(self, x: Tensor) -> Tensor:
        """That part of a tensor of the whole's size, or of size 1 along the axis."""
        if self.layout.size and x.dim() and x.shape[self.axis] > self.layout.size[self.axis]:
            return x.narrow(self.axis, self.first, self.layout.size[self.axis])
        return x

    def flat(self, x: Tensor) -> Tensor:
        """The elements of a tensor of this part's size in its memory order, as float32 without gaps."""
        if all(size == 1 or stride == own for size, stride, own in zip(
                self.layout.size, x.stride(), self.layout.stride)):
            return in_memory_order(x)
        flat = torch.empty(self.stop - self.start, dtype=torch.float32, device="cpu")
        self.layout.shape(flat).copy_(x)
        return flat


class Place(NamedTuple):
    """Where the elements of a tensor are: two tensors with the same Place have the same elements."""

    storage: int
    version: int
    offset: int
    axes: Tuple[Tuple[int, int], ...]  # strides and sizes in memory order, merged where possible


def axes_of(x: Tensor) -> Optional[List[Tuple[int, int, int]]]:
    """Stride, size and number of the axes, from the outermost in memory. None if they overlap."""
    axes = sorted(((stride, size, i) for i, (size, stride) in enumerate(zip(x.shape, x.stride()))
                   if size > 1 and stride > 0), reverse=True)
    for (outer, _, _), (inner, size, _) in zip(axes, axes[1:]):
        if outer < inner * size:
            return None
    return axes


def layout_of(x: Tensor) -> Layout:
    """How x lies in its distinct elements in memory order."""
    axes = axes_of(x)
    if axes is None:  # as a contiguous copy
        x = torch.empty(x.shape, device="meta")
        axes = axes_of(x) or []
    strides, step = [0 if stride == 0 else 1 for stride in x.stride()], 1
    for _, size, i in reversed(axes):
        strides[i] = step
        step *= size
    return Layout(tuple(x.shape), tuple(strides))


def in_memory_order(x: Tensor) -> Tensor:
    """The distinct elements of x as they lie in memory, as float32 without gaps."""
    axes = axes_of(x)
    if axes is None or not x.numel():
        x = x.detach().reshape(-1)
    else:
        x = x.detach().as_strided([size for _, size, _ in axes], [stride for stride, _, _ in axes])
    return x.to(torch.float32).contiguous().view(-1)


def storage_of(x: Tensor) -> Any:
    """The storage of a tensor."""
    if hasattr(x, "untyped_storage"):
        return x.untyped_storage()
    return x.storage()._storage if hasattr(x.storage(), "_storage") else x.storage()  # before 2.0


def version_of(x: Tensor) -> int:
    return -1 if x.is_inference() else x._version


def storage_bytes(x: Tensor) -> Tuple[int, int]:
    """The address and the bytes of a tensor's storage."""
    storage = storage_of(x)
    return storage.data_ptr(), storage.nbytes()


def seed_of(*tensors: Optional[Tensor]) -> int:
    """A seed from the state of PyTorch's generator and 64 elements of each tensor.

    PyTorch's generator stays as it is, so dropout draws what it draws without clprune. The same
    state, data and weights give the same seed: also when a checkpoint runs the forward pass again."""
    digest = hashlib.blake2b(digest_size=8)
    for tensor in (torch.get_rng_state(), *tensors):
        if tensor is None or not tensor.numel():
            continue
        tensor = tensor.detach()
        if tensor.dtype != torch.uint8:
            axes = axes_of(tensor)
            count = math.prod(size for _, size, _ in axes) if axes else 0  # distinct elements
            dense = axes and axes[0][0] * axes[0][1] == count
            flat = tensor.as_strided((count,), (1,)) if dense else tensor.reshape(-1)
            tensor = flat[::max(1, flat.numel() // 64)].to(torch.float32).contiguous()
        digest.update(ctypes.string_at(
            tensor.data_ptr(), tensor.numel() * tensor.element_size()))
    return int.from_bytes(digest.digest(), "little")


def flat_shape(numel: int) -> Shape:
    """Samples for elements without a shape of their own: a multiple of 64 of them, so that no group of
    codes is cut."""
    cols = 1024
    while cols > 64 and numel % cols:
        cols //= 2
    return Shape(-(-numel // cols), 1, cols)
