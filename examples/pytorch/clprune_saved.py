"""What is kept of a tensor between the forward and the backward pass, and who shares it; `compressed`,
which keeps as codes what other modules save, and `saved_bytes`, which counts.

A kept tensor is a Source and its tensors. The tensors are bytes and parameters, which autograd saves
like any others; the Source says how to restore the values from them. `sources` finds what is already
kept of a tensor: layers that read the same tensor (q, k and v of attention) keep it once, and so does
a layer that reads what a norm wrote.
"""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import math
import sys
import threading
import types
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import checkpoint as _checkpoint_module

from clprune_library import Keep, Shape, _library

SMALL = 1024  # elements; `compressed` leaves smaller tensors alone
MASK = Keep(form="mask")


# ---------------------------------------------------------------------------------------------
# Memory
# ---------------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """Shape and strides of a tensor whose elements lie without gaps, and the same in memory order."""

    size: Tuple[int, ...]
    stride: Tuple[int, ...]

    def shape(self, flat: Tensor) -> Tensor:
        """The tensor of elements in memory order."""
        return flat.as_strided(self.size, self.stride)


class Place(NamedTuple):
    """Where the elements of a tensor are: two tensors with the same Place have the same elements."""

    storage: int
    version: int
    offset: int
    axes: Tuple[Tuple[int, int], ...]  # strides and sizes in memory order, merged where possible


def _axes(x: Tensor) -> Optional[List[Tuple[int, int, int]]]:
    """Stride, size and number of the axes, from the outermost in memory. None if they overlap."""
    axes = sorted(((stride, size, i) for i, (size, stride) in enumerate(zip(x.shape, x.stride()))
                   if size > 1 and stride > 0), reverse=True)
    for (outer, _, _), (inner, size, _) in zip(axes, axes[1:]):
        if outer < inner * size:
            return None
    return axes


def layout_of(x: Tensor) -> Layout:
    """How x lies in its distinct elements in memory order."""
    axes = _axes(x)
    if axes is None:  # as a contiguous copy
        x = torch.empty(x.shape, device="meta")
        axes = _axes(x) or []
    strides, step = [0 if stride == 0 else 1 for stride in x.stride()], 1
    for _, size, i in reversed(axes):
        strides[i] = step
        step *= size
    return Layout(tuple(x.shape), tuple(strides))


def in_memory_order(x: Tensor) -> Tensor:
    """The distinct elements of x as they lie in memory, as float32 without gaps."""
    axes = _axes(x)
    if axes is None or not x.numel():
        x = x.detach().reshape(-1)
    else:
        x = x.detach().as_strided([size for _, size, _ in axes], [stride for stride, _, _ in axes])
    return x.to(torch.float32).contiguous().view(-1)


def _storage(x: Tensor) -> Any:
    """The storage of a tensor."""
    if hasattr(x, "untyped_storage"):
        return x.untyped_storage()
    return x.storage()._storage if hasattr(x.storage(), "_storage") else x.storage()  # before 2.0


def _version_of(x: Tensor) -> int:
    return -1 if x.is_inference() else x._version


def storage_bytes(x: Tensor) -> Tuple[int, int]:
    """The address and the bytes of a tensor's storage."""
    storage = _storage(x)
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
            flat = tensor.as_strided((tensor.numel(),), (1,)) if tensor.is_contiguous() else (
                tensor.reshape(-1))
            tensor = flat[::max(1, flat.numel() // 64)].to(torch.float32).contiguous()
        digest.update(ctypes.string_at(
            tensor.data_ptr(), tensor.numel() * tensor.element_size()))
    return int.from_bytes(digest.digest(), "little")


# ---------------------------------------------------------------------------------------------
# Sources
# ---------------------------------------------------------------------------------------------


def is_batched(x: Tensor) -> bool:
    """Whether x stands for several (is_grads_batched, vectorize=True): it has no memory of its own."""
    try:
        x.data_ptr()
    except RuntimeError:
        return True
    return False


class Source:
    """How to restore a tensor, as float32 in memory order, from the tensors that are kept of it."""

    def restore(self, tensors: Sequence[Tensor]) -> Tensor:
        raise NotImplementedError

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

    def restore(self, tensors: Sequence[Tensor]) -> Tensor:
        return _library().restore(self.keep, self.kept, tensors[0])[:self.numel]

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

    def restore(self, tensors: Sequence[Tensor]) -> Tensor:
        flat = self.x.restore(tensors[:-self.own])
        y, sides = self.layout.shape(flat), [1] * len(self.layout.size)
        sides[self.axis] = -1
        weight, *bias = (tensor.view(sides) for tensor in tensors[-self.own:])
        y.mul_(weight)
        for b in bias:
            y.add_(b)
        return flat

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
        self.x, self.mask = x, mask

    def restore(self, tensors: Sequence[Tensor]) -> Tensor:
        return self.x.restore(tensors[:-1]).mul_(self.mask.restore(tensors[-1:]))


Kept = Tuple[Source, Tuple[Tensor, ...]]


def flat_shape(numel: int) -> Shape:
    """Rows for elements without a shape of their own: a multiple of 64 of them, so that no group of
    codes is cut."""
    cols = 1024
    while cols > 64 and numel % cols:
        cols //= 2
    return Shape(1, -(-numel // cols), cols)


def keep_flat(keep: Keep, flat: Tensor, seed: Optional[int] = None) -> Kept:
    """Keeps elements in memory order. flat: float32, contiguous."""
    shape = flat_shape(flat.numel())
    source = Codes(keep, shape, flat.numel(), False)
    missing = shape.rows * shape.cols - flat.numel()
    if seed is None:
        seed = seed_of(flat) if keep.draws else 0
    if missing:  # the last value again: it widens no group
        flat = torch.cat([flat, flat[-1:].expand(missing)])
    return source, (_library().store(keep, shape, flat, seed),)


def keep_rows(keep: Keep, x: Tensor, shape: Shape, seed: int) -> Kept:
    """Keeps samples, for products with their rows. x: float32, contiguous."""
    return Codes(keep, shape, x.numel(), True), (_library().store(keep, shape, x, seed),)


# ---------------------------------------------------------------------------------------------
# What is kept already
# ---------------------------------------------------------------------------------------------


_TOP = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)  # since PyTorch 2.1

# Label of what may stand for a tensor wherever it is read; others name what Keep made the bytes.
ALIKE = "values"


def in_checkpoint() -> bool:
    """Whether a part of torch.utils.checkpoint (use_reentrant=False) runs. It must save as many
    tensors when it runs again, though what was kept meanwhile is gone: there nothing stands for
    another tensor. Before PyTorch 2.1 this is not known, and False."""
    top = _TOP(True) if _TOP is not None else None
    return top is not None and getattr(top[0], "__module__", "") == _checkpoint_module.__name__


class _Weak:
    """A tensor as long as its memory is alive. Hooks of saved tensors may hold other objects of
    the same memory, so a weak reference to the object alone would not do."""

    def __init__(self, tensor: Tensor) -> None:
        self._object = weakref.ref(tensor)
        self._parts = tensor.dtype, tensor.storage_offset(), tensor.size(), tensor.stride()
        self._version = _version_of(tensor)
        self.storage = StorageWeakRef(_storage(tensor))

    def __call__(self) -> Optional[Tensor]:
        tensor = self._object()
        if tensor is not None and _version_of(tensor) != self._version:
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
        axes = _axes(x)
        if axes is None:
            return None
        merged: List[Tuple[int, int]] = []
        for stride, size, _ in axes:
            if merged and merged[-1][0] == stride * size:
                merged[-1] = stride, merged[-1][1] * size
            else:
                merged.append((stride, size))
        storage = _storage(x)
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
        if found is None or label is ALIKE and (_TOP is None or in_checkpoint()):
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
        if found is None or label is ALIKE and (_TOP is None or in_checkpoint()):
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


# ---------------------------------------------------------------------------------------------
# Everything else that autograd saves
# ---------------------------------------------------------------------------------------------


class _Left(NamedTuple):
    """A saved tensor as it is; with `dtype` one that is cast again when it is needed."""

    tensor: Tensor
    version: int
    dtype: Optional[torch.dtype] = None
    layout: Optional[Layout] = None

    def unpack(self) -> Tensor:
        if self.version >= 0 and self.tensor._version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: a tensor of shape {list(self.tensor.shape)} is at version "
                f"{self.tensor._version}, expected {self.version}")
        if self.dtype is None:
            return self.tensor
        return self.layout.shape(self.tensor.to(self.dtype))


@dataclasses.dataclass(eq=False)
class _Coded:
    """A saved tensor as codes."""

    source: Source
    tensors: Tuple[Tensor, ...]
    layout: Layout
    dtype: torch.dtype
    scale: Optional[float] = None  # of a tensor of 0 and one other value
    left: Optional[_Left] = None  # in place of the codes

    def unpack(self) -> Tensor:
        if self.left is not None:
            return self.left.unpack()
        flat = self.source.restore(self.tensors)
        if self.scale is not None:
            flat = flat.mul_(self.scale)
        return self.layout.shape(flat.to(self.dtype))


def _left(x: Tensor) -> _Left:
    return _Left(x.detach(), _version_of(x))


_VIEWS = ("View", "Reshape", "Transpose", "Permute", "Expand", "Squeeze", "Unsqueeze", "Alias",
          "TBackward", "AsStrided")


def beneath_views(node: Any) -> Any:
    """The operation that made a tensor, beneath views of it."""
    while node is not None and any(view in type(node).__name__ for view in _VIEWS):
        node = node.next_functions[0][0] if node.next_functions else None
    return node


def _parameter_of_cast(x: Tensor) -> Optional[Tensor]:
    """The parameter that autocast has cast to x or to a tensor that x is a view of."""
    node = beneath_views(x.grad_fn)
    if node is None or x._version or not type(node).__name__.startswith("ToCopy"):
        return None
    node = node.next_functions[0][0]
    parameter = getattr(node, "variable", None)  # of AccumulateGrad
    made = x if x._base is None else x._base  # by the cast, which may change the memory format
    if parameter is None or parameter.numel() != x.numel() or not (
            parameter.is_contiguous() and made.is_contiguous()):
        return None
    return parameter


_COMPARING = ("Amax", "Amin", "Aminmax", "MaxBackward1", "MinBackward1", "Median", "Nanmedian", "NormB",
              "LinalgVectorNorm", "DistB", "Cdist", "ScatterReduce", "IndexReduce")


def _compares(node: Any) -> bool:
    """Whether the backward pass looks for the result in what it saved, as that of amax: without the
    exact values it would find none, and divide 0 by 0."""
    if not type(node).__name__.startswith(_COMPARING):
        return False
    order = getattr(node, "_saved_ord", getattr(node, "_saved_p", math.inf))
    return order in (math.inf, -math.inf) and getattr(node, "_saved_reduce", "amax") in (
        "amax", "amin")


def _saves_input_of_checkpoint() -> bool:
    """Whether torch.utils.checkpoint saves its arguments now."""
    frame: Optional[types.FrameType] = sys._getframe(2)
    for _ in range(6):
        if frame is None:
            return False
        if frame.f_code.co_filename == _checkpoint_module.__file__:
            return True
        frame = frame.f_back
    return False


class _State(threading.local):
    def __init__(self) -> None:
        self.compressed: List["compressed"] = []
        self.counters: List["saved_bytes"] = []
        self.latest: List[Tuple[Any, Any]] = []  # weak references


_state = _State()


def in_compressed() -> bool:
    return bool(_state.compressed)


def transformed() -> bool:
    """Whether torch.func.grad, vmap or another transformation runs now."""
    peek = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)
    return peek is not None and peek() is not None


class compressed:
    """In a `with` block, autograd keeps as codes what it saves for the backward pass.

        with clprune.compressed(bits=8):
            loss = criterion(model(images), labels)
        loss.backward()

    bits  of an element: 2, 4, 8, or 16 for bf16, rounded stochastically in groups of `group`
    rest  False: only the arguments of torch.utils.checkpoint, which are all it keeps

    The gradient stays unbiased where an operation's backward pass is linear in what it saved: matrix
    products, convolutions, products of elements. It is not where it uses it otherwise, as softmax,
    log_softmax and what a checkpoint computes again; the error is that of the rounded values.

    Left as they are: tensors on other devices than the CPU and of other types than float32, float16
    and bfloat16; parameters, and what autocast has cast of them, which is cast again; tensors that
    need no gradient, as a batch and the statistics of a norm, but for those of zeros and one other
    value, as the masks of F.dropout: they take a bit an element, without an error; tensors of less
    than 1024 elements; tensors with Inf or NaN; what amax, amin, max(), min(), median() and the
    infinity norm save, where they look for their result.
    """

    def __init__(self, bits: int = 8, rest: bool = True, *, group: int = 64) -> None:
        self.keep = Keep(form="quantised", bits=bits, group=group)
        self.rest = rest
        self._hooks: List[Any] = []

    def __enter__(self) -> "compressed":
        hooks = torch.autograd.graph.saved_tensors_hooks(self._pack_and_count, _unpack)
        hooks.__enter__()
        self._hooks.append(hooks)
        _state.compressed.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _state.compressed.pop()
        self._hooks.pop().__exit__(*error)

    def _pack_and_count(self, x: Tensor) -> Any:
        packed = self.pack(x)
        for counter in _state.counters:
            counter.add(packed)
        return packed

    def pack(self, x: Tensor) -> Any:
        if _state.latest and _compares(x.grad_fn):
            self._leave_operands(x.grad_fn)
        if (type(x) not in (Tensor, nn.Parameter) or x.layout is not torch.strided
                or x.device.type != "cpu" or x.numel() < SMALL or transformed()
                or x.dtype not in (torch.float32, torch.bfloat16, torch.float16)):
            return _left(x)
        base = x if x._base is None else x._base
        if base.is_leaf and base.requires_grad or not self.rest and not _saves_input_of_checkpoint():
            return _left(x)
        if not x.requires_grad:
            return self._mask(x) or _left(x)
        if _compares(x.grad_fn):
            return _left(x)
        parameter = _parameter_of_cast(x)
        if parameter is not None:
            return _Left(parameter.detach().view(-1), parameter._version, x.dtype, layout_of(x))
        if x.shape[-1:] == (1,) or x.output_nr and "Norm" in type(x.grad_fn).__name__:
            return _left(x)  # a statistic of rows or of groups
        kept = sources.find(x, ALIKE)
        if kept is None:
            flat = in_memory_order(x)
            if not bool(torch.isfinite(flat.sum())):
                return _left(x)
            kept = keep_flat(self.keep, flat)
            sources.note(x, ALIKE, kept)
        packed = _Coded(*kept, layout_of(x), x.dtype)
        _state.latest = [*_state.latest[-1:], (weakref.ref(x), weakref.ref(packed))]
        return packed

    def _leave_operands(self, node: Any) -> None:
        """What `node` has saved just now stays as it is."""
        above = [operand for operand, _ in node.next_functions]
        for made, packed in _state.latest:
            x, packed = made(), packed()
            if x is not None and packed is not None and any(x.grad_fn is operand for operand in above):
                packed.left, packed.tensors = _left(x), ()
                for counter in _state.counters:
                    counter.add(packed.left)
        _state.latest = []

    def _mask(self, x: Tensor) -> Optional[_Coded]:
        """x as bits, if all its elements are 0 or one other, positive value."""
        kept = sources.find(x, MASK)
        largest = float(x.max())
        if kept is None:
            if (not 0 < largest < math.inf or float(x.min()) < 0
                    or not bool(((x == 0) | (x == largest)).all())):
                return None
            kept = keep_flat(MASK, in_memory_order(x))
            sources.note(x, MASK, kept)
        return _Coded(*kept, layout_of(x), x.dtype, largest)


def _unpack(packed: Any) -> Tensor:
    return packed.unpack()


class saved_bytes:
    """Counts what autograd saves in a `with` block: the bytes of distinct storages.

        with clprune.saved_bytes(model, images) as saved:
            loss = criterion(model(images), labels)
        print(saved.total)

    The parameters and buffers of `model` and the tensors in `held`, which are in memory anyway, do
    not count. Of what `compressed` keeps, its codes count.
    """

    def __init__(self, model: nn.Module, *held: Tensor) -> None:
        tensors = [*model.parameters(), *model.buffers(), *held]
        self._held = {storage_bytes(tensor)[0] for tensor in tensors}
        self.storages: Dict[int, int] = {}  # address: bytes
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack)

    @property
    def total(self) -> int:
        return sum(self.storages.values())

    def add(self, packed: Any) -> None:
        for tensor in packed.tensors if isinstance(packed, _Coded) else (packed.tensor,):
            if tensor.layout is torch.strided:
                address, size = storage_bytes(tensor)
                if address not in self._held:
                    self.storages[address] = size

    def _pack(self, x: Tensor) -> Any:
        packed = _state.compressed[-1].pack(x) if _state.compressed else _left(x)
        self.add(packed)
        return packed

    def __enter__(self) -> "saved_bytes":
        _state.counters.append(self)
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.__exit__(*error)
        _state.counters.remove(self)


class plain_bytes(saved_bytes):
    """The same where `compressed` has no effect."""

    def _pack(self, x: Tensor) -> Any:
        packed = _left(x)
        self.add(packed)
        return packed
