"""`compressed`, which keeps as codes what other modules save, and `saved_bytes`, which counts."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import threading
import types
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils import checkpoint as _checkpoint_module

from clprune.convert.layout import Layout, layout_of, storage_bytes, version_of
from clprune.convert.sources import ALIKE, MASK, Source, keep_flat, sources
from clprune.library import Keep

SMALL = 1024  # elements; `compressed` leaves smaller tensors alone


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
    scale: Optional[float] = None  # of a tensor of two values, `least` and scale above it
    least: float = 0.0
    left: Optional[_Left] = None  # in place of the codes

    def leave(self, x: Tensor) -> None:
        if self.left is None:
            self.left, self.tensors = _left(x), ()

    def unpack(self) -> Tensor:
        if _state.met is not None:
            _state.met.append(self)
        if self.left is not None:
            return self.left.unpack()
        parts = [self.layout.whole()] if self.dtype is torch.float32 else self.layout.parts()
        whole = torch.empty(0 if len(parts) == 1 else parts[-1].stop, dtype=self.dtype, device="cpu")
        for part in parts:
            flat = self.source.part(self.tensors, part.start, part.stop)
            if self.scale is not None:
                flat = flat.mul_(self.scale).add_(self.least)
            if len(parts) == 1:
                return self.layout.shape(flat.to(self.dtype))
            whole[part.start:part.stop] = flat
        return self.layout.shape(whole)


def _left(x: Tensor) -> _Left:
    return _Left(x.detach(), version_of(x))


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


# Operations whose backward pass is linear in what they save: the error of the codes is that of the gradient.
_LINEAR = frozenset((
    "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "addr", "linear", "convolution",
    "_convolution", "mkldnn_linear", "mkldnn_convolution", "mul", "addcmul", "lerp", "linalg_cross",
    "native_dropout", "embedding", "_trilinear", "view", "clone", "nll_loss_forward"))

# The largest error of a gradient, relative to its norm, where an operation is not linear in codes of so many bits.
_LIMITS = {2: 0.9, 4: 0.25, 8: 0.02, 16: 0.02}


_TWO_SLOPES = frozenset(("relu", "leaky_relu", "abs", "threshold", "hardtanh", "hardsigmoid", "hardshrink",
                         "softshrink", "clamp", "clamp_min", "clamp_max"))


def _pieces(name: str, x: Tensor, args: Sequence[Any]) -> Optional[Tuple[Tensor, float, float]]:
    """Of an operation whose slope at x is one of two: where it is that of `high`, `low` and `high`, which
    the backward pass takes for x."""
    if name == "relu":
        return x > 0, 0.0, 1.0
    if name in ("leaky_relu", "abs"):
        return None if name == "abs" and bool((x == 0).any()) else (x > 0, -1.0, 1.0)
    if name == "threshold":
        return x > args[1], args[1], args[1] + 1 + abs(args[1])
    if name == "hardtanh":
        least, most = (*args[1:], *(-1.0, 1.0)[len(args) - 1:])
        return (x > least) & (x < most), most, (least + most) / 2
    if name == "hardsigmoid":
        return (x > -3) & (x < 3), 3.0, 0.0
    if name in ("hardshrink", "softshrink"):
        most = args[1] if len(args) > 1 else 0.5
        return abs(x) > most, 0.0, 2 * most + 1
    if name in ("clamp", "clamp_min", "clamp_max"):
        bounds = [None, *args[1:]] if name == "clamp_max" else [*args[1:], None]
        least, most = (math.copysign(math.inf, i - 1) if bound is None else bound
                       for i, bound in enumerate((*bounds, None)[:2]))
        if not all(isinstance(bound, (int, float)) for bound in (least, most)):
            return None
        if bool(((x == least) | (x == most)).any()):
            return None
        if math.isfinite(least) and math.isfinite(most):
            return (x > least) & (x < most), most + 1 + abs(most), (least + most) / 2
        end, away = (least, 1) if math.isfinite(least) else (most, -1)
        return (x > least) & (x < most), end - away * (1 + abs(end)), end + away * (1 + abs(end))
    return None


def _noise(like: Tensor) -> Tensor:
    """A gradient to try: normal values, without PyTorch's generator."""
    if _state.noise is None:
        _state.noise = torch.randn(4099, generator=torch.Generator().manual_seed(5))
    count = like.numel()
    return _state.noise.repeat(-(-count // 4099))[:count].view(like.shape).to(like.dtype)


def _apart(got: Tensor, want: Tensor) -> float:
    """The error of a gradient, relative to its norm, or of the roots of its magnitudes, which the largest
    values do not hide. Infinite where one is not finite."""
    got, want = got.float(), want.float()
    off = (got - want).abs_()
    error = float(off.norm()) / max(float(want.norm()), 1e-30) if float(off.max()) else 0.0
    if not error < math.inf:
        return math.inf
    roots = float(off.sqrt_().sum()) / max(float(want.abs().sqrt_().sum()), 1e-30)
    return max(error, roots ** 2 if error else 0.0)


def _slope(want: Tensor, dy: Tensor) -> Optional[Tensor]:
    """The magnitude of the slope of a function of one element that rises or falls everywhere, as sigmoid."""
    if want.shape != dy.shape:
        return None
    slope = want.float() / dy
    return None if bool((slope > 0).any()) and bool((slope < 0).any()) else slope.abs_()


def _slope_apart(got: Tensor, want: Tensor, slope: Tensor, dy: Tensor) -> float:
    """The relative error of such a slope, down to a thousandth of the largest. A gradient like 1 / slope,
    as that of a logarithm of it, makes it the error of the product."""
    least = max(1e-3 * float(slope.max()), 1e-30)
    off = (got.float() - want.float()).div_(slope.clamp(min=least))
    return float(off.norm()) / float(dy.norm())


_ELEMENTS = frozenset(("mul", "pow", "square", "exp", "sigmoid", "div", "addcmul", "tanh", "_softmax", "sin"))
_OF_ELEMENTS = ("Mul", "Addcmul", "Tanh", "Softmax", "Sin", "Clamp", "Pow", "Add", "Sub", "Neg", "Exp", "Abs", "Sigmoid", "Div", *_VIEWS)


def _leave_above(node: Any, depth: int = 4) -> None:
    """Leaves what operations of elements above have saved, as that of z * z in log(z * z + eps): the gradient
    that comes to them is largest where their own is smallest, and would magnify the error there."""
    if node is None or not depth or not type(node).__name__.startswith(_OF_ELEMENTS):
        return
    met, _state.met = _state.met, []
    try:
        for name in ("_saved_self", "_saved_other", "_saved_exponent", "_saved_result"):
            getattr(node, name, None)
        for saving in _state.recent:
            if any(saving.packed is packed for packed in _state.met):
                saving.packed.leave(saving.x)
                saving.settle()
    finally:
        _state.met = met
    for above, _ in node.next_functions:
        _leave_above(above, depth - 1)


@dataclasses.dataclass(eq=False)
class _Saving:
    """A tensor that autograd has saved as codes, and who counts it when it is settled."""

    x: Tensor
    node: Any  # that made x
    packed: "_Coded"
    counters: List["saved_bytes"]
    is_argument: bool = False  # of a checkpoint

    def settle(self) -> None:
        for counter in self.counters:
            counter.add(self.packed.left or self.packed)


class _Call:
    """An operation with what it has saved: its operands before, and results after it has run."""

    def __init__(self, function: Any, args: tuple, kwargs: dict, savings: List[_Saving]) -> None:
        self.function, self.args, self.kwargs, self.savings = function, args, kwargs, savings
        self.name = function._schema.name.partition("::")[2]
        self.in_place = function._schema.is_mutable
        self.name = self.name[:-1] if self.in_place and self.name.endswith("_") else self.name
        self.results: List[Tuple[int, torch.Size]] = []
        self.has_saved = False  # its result, before any other operation does
        self.own: Optional[_Saving] = None  # of this, if as codes
        self.steep = False  # whether its slope is far larger at some elements

    def made(self, x: Tensor) -> bool:
        return (x.data_ptr(), x.shape) in self.results

    def settle(self, bits: int) -> None:
        """Leaves what it saved as it is, unless its gradient survives the codes."""
        savings, self.savings = self.savings, []
        if savings and self.name not in _LINEAR:
            own = self._saved_itself(savings)
            rest = [saving for saving in savings if saving is not own or not self._as_pieces(saving)]
            survives = not rest or self._survives(rest, bits)
            for saving in rest:
                if not survives:
                    saving.packed.leave(saving.x)
                if not survives or self.steep:
                    nodes = saving.node.next_functions if self.made(saving.x) else ((saving.node, 0),)
                    for node, _ in nodes:
                        _leave_above(node)
        if savings and self.name in _ELEMENTS:
            _state.recent = [*_state.recent, *savings][-4:]
        for saving in savings:
            if saving not in _state.savings:
                saving.settle()

    def saves_result(self, node: Any) -> bool:
        """Whether an operation of two slopes, which has made `node`, saves its result."""
        return self.name in _TWO_SLOPES and hasattr(type(node), "_saved_result")

    def _saved_itself(self, savings: List[_Saving]) -> Optional[_Saving]:
        """What an operation of two slopes has saved: its result, or what it has read, which is the last one of
        those that others have saved of that."""
        if self.name not in _TWO_SLOPES or self.has_saved or not self.args[0].requires_grad:
            return self.own
        x = self.args[0]
        return next((saving for saving in savings[::-1] if not self.made(saving.x) and not saving.is_argument and (
            type(saving.node).__name__.startswith("Clone") if self.in_place else
            saving.x.data_ptr() == x.data_ptr() and saving.x.shape == x.shape)), None)

    def _as_pieces(self, saving: _Saving) -> bool:
        """Keeps a bit in place of the codes, if that is all that is read."""
        x = saving.x
        pieces = _pieces(self.name, x, self.args)
        if pieces is None:
            return False
        chosen, low, high = pieces
        kept = keep_flat(MASK, chosen)
        packed = saving.packed
        packed.source, packed.tensors = kept
        packed.layout, packed.scale, packed.least = layout_of(x), high - low, low
        return True

    def _survives(self, savings: List[_Saving], bits: int) -> bool:
        limit, levels = _LIMITS[bits], 2 ** bits - 1
        if self.name.startswith("_scaled_dot_product"):
            return self._logits_survive(savings, limit, levels)
        if self.name == "native_layer_norm":
            return True  # relative to the range of its rows
        if self.name in ("gelu", "silu", "mish") and (  # the second derivative is at most 1.2
                float(savings[0].x.abs().max()) <= limit * levels):
            return True
        if torch.Tag.nondeterministic_seeded in self.function.tags or self.in_place and any(
                self.made(saving.x) for saving in savings):
            return False
        try:
            return self._gradients_survive(savings, limit)
        except (RuntimeError, NotImplementedError, AttributeError, TypeError):
            return False  # it cannot run again

    def _gradients_survive(self, savings: List[_Saving], limit: float) -> bool:
        """Runs the operation again, and its backward pass with the values and with the codes."""
        function, args, kwargs = self.function, list(self.args), self.kwargs
        if self.in_place:  # it saved a copy of what it changed
            name, overload = self.name, function._overloadname
            function = getattr(getattr(torch.ops.aten, name), overload)
            args[0] = savings[0].x.detach().requires_grad_()
        leaves: List[Tensor] = []

        def leaf(x: Any) -> Any:
            if isinstance(x, Tensor) and x.is_floating_point():
                needs = x.requires_grad
                x = x.detach()
                if needs:
                    leaves.append(x.requires_grad_())
            elif isinstance(x, (list, tuple)):
                x = type(x)(map(leaf, x))
            return x

        again: Dict[Tuple[int, torch.Size], _Coded] = {
            (saving.x.data_ptr(), saving.x.shape): saving.packed for saving in savings}
        decoded = [False]
        results = [saving for saving in savings if self.made(saving.x)]

        def pack(x: Tensor) -> Any:
            coded = again.get((x.data_ptr(), x.shape))
            if coded is None and x.grad_fn is not None:  # a result
                coded = next((saving.packed for saving in results if saving.x.shape == x.shape), None)
            return x.detach(), coded

        def unpack(saved: Any) -> Tensor:
            x, coded = saved
            return coded.unpack() if decoded[0] and coded is not None else x

        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            out = function(*map(leaf, args), **kwargs)
            outs = [y for y in (out if isinstance(out, (tuple, list)) else [out])
                    if isinstance(y, Tensor) and y.requires_grad]
            if not leaves or not outs:
                return True
            dy = [_noise(y) for y in outs]
            grads = []
            for decoded[0] in (False, True):
                grads.append(torch.autograd.grad(outs, leaves, dy, retain_graph=not decoded[0],
                                                 allow_unused=True))
        survives = True
        for want, got in zip(*grads):
            slope = _slope(want, dy[0]) if len(outs) == 1 and want is not None else None
            survives = survives and (want is None or got is not None and _apart(got, want) <= limit and (
                slope is None or _slope_apart(got, want, slope, dy[0]) <= limit))
            self.steep = self.steep or slope is not None and (
                float(slope.max()) > 100 * float(slope.sqrt().mean()) ** 2)
        return survives

    def _logits_survive(self, savings: List[_Saving], limit: float, levels: int) -> bool:
        """Attention computes its weights again, so an error of logits is a relative one of weights."""
        q, k = self.args[:2]
        scale = self.kwargs.get("scale") or q.shape[-1] ** -0.5
        coded = {(saving.x.data_ptr(), saving.x.shape) for saving in savings}
        size, off = [], []
        for x in (q, k):  # a code is off by step / sqrt(6), and a step at most the range of a row / levels
            x = x.detach()
            size.append(x.float().square().sum((-2, -1)) / x.shape[-2])
            least, most = x.aminmax(dim=-1)
            spread = (most - least).float().square().mean(-1) * (x.shape[-1] / 6 / levels ** 2)
            off.append(spread if (x.data_ptr(), x.shape) in coded else torch.zeros_like(spread))
        if q.shape[:-2] != k.shape[:-2]:  # grouped queries
            size, off = [x.max() for x in size], [x.max() for x in off]
        error = (off[0] * size[1] + off[1] * size[0]) / q.shape[-1]
        return float(error.max()) ** 0.5 * scale <= 1.5 * limit


class _Uncompiled:
    """While any thread is in it, compiled models run uncompiled: what compiled code saves is not seen
    as tensors of operations. Since PyTorch 2.6."""

    def __init__(self) -> None:
        self._lock, self._count, self._stance = threading.Lock(), 0, None

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            stance = getattr(getattr(torch, "compiler", None), "set_stance", None)
            if self._count == 1 and stance is not None:
                self._stance = stance("force_eager")
                self._stance.__enter__()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._stance is not None:
                self._stance.__exit__(None, None, None)
                self._stance = None


_uncompiled = _Uncompiled()


class _Watch(TorchDispatchMode):
    """Tells what an operation is from which autograd saves something."""

    def __init__(self, owner: "compressed") -> None:
        super().__init__()
        self.owner = owner

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (),
                           kwargs: Optional[dict] = None) -> Any:
        kwargs = kwargs or {}
        if (_state.busy or getattr(function, "is_view", False) or not _state.compressed
                or _state.compressed[-1] is not self.owner):
            return function(*args, **kwargs)
        savings, _state.savings = _state.savings, []
        if _state.call is not None and _state.call.savings:
            _state.calls.append(_state.call)  # here autograd does not run; the next pack settles it
        call = _Call(function, args, kwargs, savings)
        out = function(*args, **kwargs)
        if savings or call.name not in _LINEAR:
            call.results = [(y.data_ptr(), y.shape) for y in (out if isinstance(out, (tuple, list)) else [out])
                            if isinstance(y, Tensor) and y.layout is torch.strided and y.device.type == "cpu"]
            _state.call = call
        else:
            _state.call = None
        return out


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
        self.savings: List[_Saving] = []  # of an operation that has not run yet
        self.call: Optional[_Call] = None  # the latest, which may save results
        self.calls: List[_Call] = []  # those before, about which nothing is decided
        self.recent: List[_Saving] = []  # of operations of elements, with their values
        self.met: Optional[List[_Coded]] = None  # collects what is unpacked
        self.busy = False  # while `compressed` itself computes
        self.noise: Optional[Tensor] = None


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
    log_softmax and what a checkpoint computes again. Of any operation that is not linear the backward
    pass is tried with the codes: where their error in its gradient is above 2 % (4 bits: 25 %)
    of its norm, as of a logarithm, a quotient or attention with large logits, it keeps what it saved as
    it is. Of ReLU and others with two slopes a bit an element is kept, without an error. What an
    autograd.Function of yours saves is not tried: its backward pass should be linear in it.

    Left as they are: tensors on other devices than the CPU and of other types than float32, float16
    and bfloat16; parameters, and what autocast has cast of them, which is cast again; tensors that
    need no gradient, as a batch and the statistics of a norm, but for those of zeros and one other
    value, as the masks of F.dropout: they take a bit an element, without an error; tensors of less
    than 1024 elements; tensors with Inf or NaN. Within it compiled
    models run uncompiled (PyTorch 2.6 or later; before, all that they save stays).
    """

    def __init__(self, bits: int = 8, rest: bool = True, *, group: int = 64) -> None:
        self.keep = Keep(form="quantised", bits=bits, group=group)
        self.rest = rest
        self._hooks: List[Any] = []

    def __enter__(self) -> "compressed":
        hooks = torch.autograd.graph.saved_tensors_hooks(
            lambda x: self.pack_for(x, _state.counters), _unpack)
        hooks.__enter__()
        watch = _Watch(self)
        watch.__enter__()
        _uncompiled.__enter__()
        self._hooks.append((hooks, watch))
        _state.compressed.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        self.settle(True)
        _state.compressed.pop()
        hooks, watch = self._hooks.pop()
        _uncompiled.__exit__(*error)
        watch.__exit__(*error)
        hooks.__exit__(*error)

    def settle(self, all_of_them: bool = False) -> None:
        """Decides about what the latest operations have saved."""
        calls, _state.calls = _state.calls, []
        if all_of_them and _state.call is not None:
            calls.append(_state.call)
            _state.call = None
        if calls:
            with self._apart():
                for call in calls:
                    call.settle(self.keep.bits)
        if all_of_them:
            _state.recent = []
            savings, _state.savings = _state.savings, []
            for saving in savings:
                saving.settle()

    @contextlib.contextmanager
    def _apart(self) -> Iterator[None]:
        """What `compressed` itself computes is not watched."""
        busy, _state.busy = _state.busy, True
        try:
            with _disable_current_modes():
                yield
        finally:
            _state.busy = busy

    def pack_for(self, x: Tensor, counters: Sequence["saved_bytes"]) -> Any:
        """What is kept of x; the counters count it as soon as that is decided."""
        call = _state.call
        made = call is not None and call.made(x)
        result = made and call.saves_result(x.grad_fn)
        first = result and not call.has_saved
        if result:
            call.has_saved = True
        if not made and call is not None:
            _state.calls.append(call)
            _state.call = None
        self.settle()
        with self._apart():
            packed, detached = self.pack(x), x.detach()
        if not isinstance(packed, _Coded) or packed.scale is not None:
            for counter in counters:
                counter.add(packed)
            return packed
        saving = _Saving(detached, x.grad_fn, packed, list(counters))
        if first:
            call.own = saving
        else:  # it is, or may be, an operand of the next operation, or an argument of a checkpoint
            saving.is_argument = _saves_input_of_checkpoint()
            _state.savings.append(saving)
        if first or made and not result:
            call.savings.append(saving)
        return packed

    def pack(self, x: Tensor) -> Any:
        if (type(x) not in (Tensor, nn.Parameter) or x.layout is not torch.strided
                or x.device.type != "cpu" or x.numel() < SMALL or transformed()
                or x.dtype not in (torch.float32, torch.bfloat16, torch.float16)):
            return _left(x)
        base = x if x._base is None else x._base
        if base.is_leaf and base.requires_grad or not self.rest and not _saves_input_of_checkpoint():
            return _left(x)
        if not x.requires_grad:
            return self._mask(x) or _left(x)
        parameter = _parameter_of_cast(x)
        if parameter is not None:
            return _Left(parameter.detach().view(-1), parameter._version, x.dtype, layout_of(x))
        if x.shape[-1:] == (1,) or x.output_nr and "Norm" in type(x.grad_fn).__name__:
            return _left(x)  # a statistic of rows or of groups
        kept = sources.find(x, ALIKE)
        if kept is None:
            if not bool(torch.isfinite(x.sum(dtype=torch.float32))):
                return _left(x)
            kept = keep_flat(self.keep, x)
            sources.note(x, ALIKE, kept)
        return _Coded(*kept, layout_of(x), x.dtype)

    def _mask(self, x: Tensor) -> Optional[_Coded]:
        """x as bits, if all its elements are 0 or one other, positive value."""
        kept = sources.find(x, MASK)
        largest = float(x.max())
        if kept is None:
            if (not 0 < largest < math.inf or float(x.min()) < 0
                    or not bool(((x == 0) | (x == largest)).all())):
                return None
            kept = keep_flat(MASK, x)
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
        if _state.compressed:
            return _state.compressed[-1].pack_for(x, [self])
        packed = _left(x)
        self.add(packed)
        return packed

    def __enter__(self) -> "saved_bytes":
        _state.counters.append(self)
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if _state.compressed:
            _state.compressed[-1].settle(True)
        self._hooks.__exit__(*error)
        _state.counters.remove(self)


class plain_bytes(saved_bytes):
    """The same where `compressed` has no effect."""

    def _pack(self, x: Tensor) -> Any:
        packed = _left(x)
        self.add(packed)
        return packed
