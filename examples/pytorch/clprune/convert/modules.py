"""Modules that keep less: a kind for each sort of module, which clprune.convert_ puts before a
module's own class.

Converting a module changes its class alone: parameters, buffers, hooks and state_dict stay as they
are. Outside of training (module.eval(), torch.no_grad()) the module runs its own code. In training,
too, the output is that of its own code; what differs is what is kept for the backward pass.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Type

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad

from clprune.convert.compressed import beneath_views, in_compressed, transformed
from clprune.convert.functions import (
    ActivationFunction, AgainFunction, AvgPoolFunction, ConvFunction, DropoutFunction,
    LinearFunction, MaxPoolFunction, NormFunction, ReLUFunction, autocast_dtype, cast)
from clprune.convert.layout import Layout, Part, layout_of, seed_of
from clprune.convert.sources import ALIKE, Affine, Kept, Masked, Raw, Source, in_checkpoint, keep_flat, keep_rows, sources
from clprune.library import Error, Keep


def not_compiled(function: Callable) -> Callable:
    """torch.compile runs it uncompiled; with fullgraph=True this is an error with the reason."""
    disable = getattr(getattr(torch, "compiler", None), "disable", None)
    if disable is None:
        return function
    try:
        return disable(function, reason="clprune: converted modules train uncompiled, so "
                       "fullgraph=True is not supported; in eval() they compile")
    except TypeError:  # before PyTorch 2.7
        return disable(function)


# Before PyTorch 2.1 it is not known, and True.
_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: True)


def some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


class Calls:
    """Which converted modules of a model were not called yet, and whether they have weights."""

    def __init__(self, waiting: Dict[str, bool]) -> None:
        self.waiting = waiting
        self.called: Dict[str, None] = {}
        self.checked = False

    def note(self, name: str) -> None:
        if self.waiting.pop(name, None) is not None:
            self.called[name] = None

    def check(self) -> None:
        """In the first backward pass: warns of modules with weights that were not called though others
        of the same block were."""
        if self.checked:
            return
        self.checked = True
        blocks = {name.rsplit(".", i)[0] for name in self.called
                  for i in range(1, name.count(".") + 1)}
        missed = [name for name, weighs in self.waiting.items()
                  if weighs and name.count(".") > 1 and name.rsplit(".", 2)[0] in blocks]
        if missed:
            warnings.warn(
                f"clprune: the model did not call {len(missed)} of its converted modules: "
                f"{some(missed)}. It may compute F.linear(x, module.weight) itself: "
                "clprune.compressed keeps as codes what that saves")


class Converted:
    """The common part of converted modules: what comes before a module's own class."""

    keep: Keep
    last: Optional[Tuple[int, int]]  # bytes of the last input or output: dense, and as it was kept
    clprune_name: str  # in the model that was converted
    clprune_calls: Optional[Calls] = None  # None: made by its class, as peft does; it runs its own code
    clprune_unchecked: bool  # of a registered class: whether its first call is still to come
    own_class: Type[nn.Module]  # of each class, and its kind, which is a class of this file
    clprune_kind: type
    parameter_names: Tuple[str, ...] = ("weight", "bias")  # those that get a gradient
    kept_as = ""  # for repr, where `keep` does not say it

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.training and self.clprune_calls is not None:
            return self._train(*args, **kwargs)
        if self.clprune_calls is not None and not _is_compiling():  # as a frozen batch norm in training
            self.clprune_calls.note(self.clprune_name)
        return super().forward(*args, **kwargs)

    def _original(self, *args: Any, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs)

    @not_compiled
    def _train(self, *args: Any, **kwargs: Any) -> Any:
        calls = self.clprune_calls
        calls.note(self.clprune_name)
        x = next(iter((*args, *kwargs.values())), None)
        one = len(args) + len(kwargs) == 1 and isinstance(x, Tensor) and x.is_floating_point()
        if torch.jit.is_tracing() or not (
                torch.is_grad_enabled() and one and x.numel() and self._understands(x)):
            return self._original(*args, **kwargs)
        problem = self._differs(x) if self.clprune_unchecked else ""
        if problem:
            y = self._original(x)
            self._give_up(problem)
            return y
        made: List[Any] = []
        y = self._keep_and_run(x, made)
        if made:
            self.last = (x.numel() * x.element_size(), sum(
                t.numel() * t.element_size() for t in made[-1]))
            if not calls.checked and y.requires_grad:
                y.register_hook(lambda _: calls.check())
        return y

    def _expected(self, x: Tensor) -> Tensor:
        """What the module is taken to compute, by another way than its own code."""
        raise NotImplementedError

    def _buffers_again(self) -> Dict[str, Optional[Tensor]]:
        """The buffers with which `Again` runs the module's own code."""
        return self._buffers

    def _differs(self, x: Tensor) -> str:
        """Compares the first call of a class that was registered with what it is taken for. Where they
        differ, says how; the module runs its own code from now on."""
        self.clprune_unchecked = False
        with torch.no_grad():
            own = x.clone()
            got = self._original(own)
            self.inplace = got is own or getattr(self, "inplace", False)
            try:
                expected = self._expected(x)
            except (AttributeError, RuntimeError, TypeError):  # no such parameter, or of another shape
                expected = None
        if not isinstance(got, Tensor) or expected is None or got.shape != expected.shape or (
                not torch.allclose(got.float(), expected.float(), rtol=1e-2,
                                   atol=1e-3 * float(got.abs().max()))):
            return "computes something else than what it was registered for"
        known = {"parametrizations", *(name + end for name in self.parameter_names
                                       for end in ("", "_g", "_v", "_orig"))}  # of torch.nn.utils
        others = [name for name, p in self.named_parameters()
                  if p.requires_grad and name.split(".")[0] not in known]
        return f"has other parameters ({some(others)}), which would get no gradient" if others else ""

    def _give_up(self, problem: str) -> None:
        name, own = self.clprune_name, self.own_class.__name__
        warnings.warn(f"clprune: {name or 'a module'} of class {own} {problem}; it is left alone")
        restore_class(self)

    def _understands(self, x: Tensor) -> bool:
        """Whether x can be kept. If not, the module's own code runs, with a warning; a type that a
        whole model must not have is an error."""
        what = None
        if transformed():
            what = "transformations of torch.func"
        elif getattr(forward_ad, "_current_level", -1) >= 0:
            what = "forward-mode differentiation"
        elif x.is_nested:
            what = "nested tensors"
        elif x.layout is not torch.strided:
            what = "sparse tensors"
        elif type(x) not in (Tensor, nn.Parameter):
            what = f"tensors of class {type(x).__name__}"
        if what is not None:
            if what not in _told:
                _told.add(what)
                warnings.warn(f"clprune: converted modules do not support {what}; "
                              "PyTorch's own code runs and keeps its input dense")
            return False
        for problem, seen, expected in (
                (x.device.type != "cpu", x.device, "the CPU; move the model, or clprune.unconvert_ "
                 "it"),
                (x.dtype not in (torch.float32, torch.bfloat16, torch.float16), x.dtype,
                 "float32, bfloat16 or float16; kept values have the precision of float32")):
            if problem:
                raise TypeError(f"clprune.{self.own_class.__name__}: the input is {seen}, "
                                f"expected {expected}")
        return True

    def extra_repr(self) -> str:
        if self.clprune_calls is None:
            return super().extra_repr()
        kept = self.kept_as or _describe(self.keep)
        return ", ".join(text for text in (super().extra_repr(), kept) if text)

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return (new_converted, (self.own_class, self.clprune_kind), *super().__reduce_ex__(protocol)[2:])

    def __prepare_scriptable__(self) -> nn.Module:
        raise Error("clprune: torch.jit.script does not support converted modules; script "
                    "clprune.unconvert_(copy.deepcopy(model))")


_classes: Dict[Tuple[type, type], type] = {}


def converted_class(own: Type[nn.Module], kind: type) -> type:
    """The class of a converted module: `kind` before its own class. A class that a parametrisation
    has made stays on top, where torch.nn.utils.parametrize expects it."""
    if (own, kind) not in _classes:
        if _is_parametrized(own):
            made = _with_base(own, converted_class(own.__bases__[0], kind))
        else:
            made = type(own.__name__, (kind, own), {
                "own_class": own, "clprune_kind": kind, "__module__": "clprune"})
        _classes[own, kind] = made
    return _classes[own, kind]


def _is_parametrized(cls: type) -> bool:
    return cls.__name__.startswith("Parametrized") and len(cls.__bases__) == 1 and any(
        isinstance(value, property) for value in vars(cls).values())


def _with_base(cls: type, base: type) -> type:
    return type(cls.__name__, (base,), {
        name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")})


def own_class(module: nn.Module) -> Type[nn.Module]:
    """The class of a module without clprune's part, also where a parametrisation came later."""
    cls = type(module)
    if not issubclass(cls, Converted):
        return cls
    return _with_base(cls, cls.__bases__[0].own_class) if _is_parametrized(cls) else cls.own_class


def restore_class(module: nn.Module) -> None:
    module.__class__ = own_class(module)
    for name in ("keep", "last", "warned", "clprune_name", "clprune_calls", "clprune_unchecked",
                 "__module__"):
        module.__dict__.pop(name, None)


def new_converted(own: Type[nn.Module], kind: type) -> nn.Module:
    """An empty module of a converted class, for copies and pickles."""
    cls = converted_class(own, kind)
    return cls.__new__(cls)


_told: set = set()


def _describe(keep: Keep) -> str:
    read = {"pruned": ("sparsity", "block", "criterion", "values"),
            "quantised": ("bits", "group", "rounding", "rotate"), "pooled": ("cell", "grid")}
    return ", ".join([f"keep={keep.form}"] + [
        f"{name}={getattr(keep, name)}" for name in read.get(keep.form, ())])


class LayerKind(Converted):
    """The common part of layers with weights: the input is kept."""

    def _kept(self, x: Tensor, weight: Tensor, rows: bool
              ) -> Tuple[Source, Tuple[Tensor, ...], bool]:
        """What is kept of x: what is there already, else what `keep` says; and whether those are
        its rows, or else its elements in memory order."""
        keep, plain = self.keep, self.keep.form in ("dense", "quantised")
        label = keep, x.shape, x.stride()
        kept = sources.find(x, label) if rows else None
        if kept is not None:
            return (*kept, True)
        kept = sources.find(x, ALIKE) if plain else None
        if kept is None and not in_compressed() and not in_checkpoint() and self._is_kept_anyway(x):
            kept = Raw(), (x,)
        if kept is not None:
            return (*kept, x.is_contiguous())
        if rows:
            kept = keep_rows(keep, x, seed_of(x, weight))
            sources.note(x, label, kept)
        else:
            kept = keep_flat(keep, x, seed_of(x, weight))
        if plain and keep.bits >= 4 and (x.is_contiguous() or not rows):
            sources.note(x, ALIKE, kept)
        return (*kept, rows)

    def _is_kept_anyway(self, x: Tensor) -> bool:
        """Whether the operation that made x keeps it dense: then so does this module, which takes
        no memory. Warns once."""
        node = beneath_views(x.grad_fn)
        if node is None or not hasattr(type(node), "_saved_result"):
            return False
        if not getattr(self, "warned", False):
            self.warned = True
            warnings.warn(
                f"clprune: the input of {self.clprune_name or self} is the result of "
                f"{type(node).__name__}, which keeps it dense for its own backward pass, so it stays "
                "dense; clprune.compressed keeps such results as codes, too", stacklevel=3)
        return True


class LinearKind(LayerKind):
    """nn.Linear, and what computes the same."""

    def _weight(self) -> Tensor:
        return self.weight

    def _expected(self, x: Tensor) -> Tensor:
        return F.linear(*cast(autocast_dtype(), x, self._weight(), self.bias))

    def _keep_and_run(self, x: Tensor, made: List[Any]) -> Tensor:
        weight, bias = self._weight(), self.bias  # once: a parametrisation computes it
        if not weight.requires_grad:
            return F.linear(x, weight, bias)
        source, tensors, in_rows = self._kept(x, weight, True)
        made.append(tensors[:1])
        layout = None if in_rows else layout_of(x)
        return LinearFunction.apply(x, weight, bias, source, layout, *tensors)


class Conv1DKind(LinearKind):
    """Conv1D of transformers: a linear layer with a transposed weight."""

    def _weight(self) -> Tensor:
        return self.weight.t()


class ConvKind(LayerKind):
    """nn.Conv1d, nn.Conv2d and nn.Conv3d."""

    def _padding(self) -> Optional[List[int]]:
        """On both sides of each axis; None if they differ, or if it is not of zeros."""
        if self.padding_mode != "zeros":
            return None
        if self.padding == "valid":
            return [0] * len(self.kernel_size)
        if self.padding == "same":
            total = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size)]
            return None if any(t % 2 for t in total) else [t // 2 for t in total]
        return list(self.padding)

    def _expected(self, x: Tensor) -> Tensor:
        return self._conv_forward(x, self.weight, self.bias)

    def _keep_and_run(self, x: Tensor, made: List[Any]) -> Tensor:
        padding = self._padding()
        if padding is None or x.dim() != 2 + len(self.kernel_size):
            return self._original(x)
        weight, bias = self.weight, self.bias
        if not weight.requires_grad:
            return self._conv_forward(x, weight, bias)
        source, tensors, _ = self._kept(x, weight, False)
        made.append(tensors[:1])
        how = list(self.stride), padding, list(self.dilation), self.groups
        return ConvFunction.apply(x, weight, bias, how, source, layout_of(x), *tensors)


@functools.lru_cache(maxsize=None)
def _default_eps(dtype: torch.dtype) -> float:
    """What nn.RMSNorm(eps=None) adds: the eps of the input's type or, in later versions of PyTorch, that
    of float32 for narrower types, too."""
    x = torch.full((1, 4), 1e-3, dtype=dtype, device="cpu")
    square, y = x.double().square()[0, 0], F.rms_norm(x, (4,)).double()[0, 0]
    added = float(square / y.square() - square)
    return min((torch.finfo(t).eps for t in (dtype, torch.float32)), key=lambda e: abs(e - added))


class NormKind(Converted):
    """The common part of norms: the normalised value is kept, and stands for what the norm wrote
    in the layer that reads it."""

    centred = True

    def _eps(self, x: Tensor) -> float:
        eps = getattr(self, "eps", getattr(self, "variance_epsilon", None))
        return _default_eps(x.dtype) if eps is None else eps

    def keep_normalised(self, x: Tensor, layout: Layout, parts: List[Part],
                        make: Callable[[Part], Tensor]) -> Kept:
        """Keeps what `make` makes of x, part by part."""
        in_rows = self._axis(x) == x.dim() - 1 and layout == layout_of(
            torch.empty(x.shape, device="meta"))
        seed = seed_of(x) if self.keep.draws else 0
        return (keep_rows if in_rows else keep_flat)(self.keep, x, seed, layout, parts, make)

    def _sides(self, x: Tensor) -> List[int]:
        """The shape with which the weight is multiplied."""
        sides = [1] * x.dim()
        sides[self._axis(x)] = x.shape[self._axis(x)]
        return sides

    def _split(self, x: Tensor) -> Tensor:
        """A view of x with axes of their own for what is normalised together."""
        return x

    def _dims(self, x: Tensor) -> List[int]:
        """The axes of _split(x) of which mean and variance are taken."""
        return [self._axis(x)]

    def _axis(self, x: Tensor) -> int:
        return x.dim() - 1

    def _expected(self, x: Tensor) -> Tensor:
        wide, dims = x.float(), self._dims(x)
        n = wide - wide.mean(dims, keepdim=True) if self.centred else wide
        n = n * torch.rsqrt(n.square().mean(dims, keepdim=True) + self._eps(x))
        for name, combine in ("weight", torch.mul), ("bias", torch.add):
            parameter = getattr(self, name, None)
            if parameter is not None:
                n = combine(n, parameter.float().view(self._sides(x)))
        return n

    def _keep_and_run(self, x: Tensor, made: List[Any]) -> Tensor:
        weight, bias = getattr(self, "weight", None), getattr(self, "bias", None)
        if not (x.requires_grad or weight is not None and weight.requires_grad):
            return self._original(x)
        names = [name for name in ("weight", "bias") if getattr(self, name, None) is not None]
        if self.keep.form == "dense" and not hasattr(self, "parametrizations"):
            y = AgainFunction.apply(x, self, names, made, *(getattr(self, name) for name in names))
            sources.note(y, ALIKE, (made[0], made[1]))
            return y
        y = NormFunction.apply(x, weight, bias, self, made)
        source, tensors, layout = made[-3:]
        if weight is None:
            sources.note(y, ALIKE, (source, tensors))
        elif weight.dim() == 1:
            own = (weight,) if bias is None else (weight, bias)
            affine = Affine(source, layout, self._axis(x), bias is not None)
            sources.note(y, ALIKE, (affine, (*tensors, *own)))
        made.append(tensors)
        return y


class LayerNormKind(NormKind):
    """nn.LayerNorm."""

    def _dims(self, x: Tensor) -> List[int]:
        return list(range(x.dim() - len(self.normalized_shape), x.dim()))

    def _sides(self, x: Tensor) -> List[int]:
        return [1] * (x.dim() - len(self.normalized_shape)) + list(self.normalized_shape)


class ChannelNormKind(NormKind):
    """LayerNorm2d of timm and torchvision: nn.LayerNorm along the channels of images."""

    def _axis(self, x: Tensor) -> int:
        return 1


class RMSNormKind(NormKind):
    """nn.RMSNorm, and those of transformers and timm."""

    centred = False

    def _dims(self, x: Tensor) -> List[int]:
        dims = len(self.weight.shape) if getattr(self, "weight", None) is not None else len(
            getattr(self, "normalized_shape", (0,)))
        return list(range(x.dim() - dims, x.dim()))

    def _sides(self, x: Tensor) -> List[int]:
        dims = self._dims(x)
        return [1] * dims[0] + list(x.shape[dims[0]:])


class BatchNormKind(NormKind):
    """nn.BatchNorm1d, nn.BatchNorm2d and nn.BatchNorm3d."""

    def _buffers_again(self) -> Dict[str, Optional[Tensor]]:
        return dict.fromkeys(self._buffers)  # the running statistics were updated already

    def _axis(self, x: Tensor) -> int:
        return 1

    def _dims(self, x: Tensor) -> List[int]:
        return [i for i in range(x.dim()) if i != 1]


class GroupNormKind(NormKind):
    """nn.GroupNorm."""

    def _axis(self, x: Tensor) -> int:
        return 1

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(1, (self.num_groups, x.shape[1] // self.num_groups))

    def _dims(self, x: Tensor) -> List[int]:
        return list(range(2, x.dim() + 1))


class ReLUKind(Converted):
    """nn.ReLU: a bit an element."""

    parameter_names = ()

    def _keep_and_run(self, x: Tensor, made: List[Any]) -> Tensor:
        if not x.requires_grad:
            return self._original(x)
        # y has each element of an expanded x several times, and what is kept of x has it once.
        expanded = any(stride == 0 and size > 1 for size, stride in zip(x.shape, x.stride()))
        read = None if expanded else sources.find(x, ALIKE)
        y = ReLUFunction.apply(x, self, made)
        source, tensors = made[-2:]
        if read is not None:
            sources.note(y, ALIKE, (Masked(read[0], source), (*read[1], *tensors)))
        return y


class ActivationKind(Converted):
    """An activation function of one argument, such as nn.GELU: its derivative is kept."""

    parameter_names = ()

    def _expected(self, x: Tensor) -> Tensor:  # the same of each element alone
        return self._original(x.reshape(-1, 1).clone()).view(x.shape)

    def _keep_and_run(self, x: Tensor, made: List[Any]) -> Tensor:
        if not x.requires_grad:
            return self._original(x)
        if self.keep.form == "dense":
            return AgainFunction.apply(x, self, (), made)
        return ActivationFunction.apply(x, self, made)


class DropoutKind(Converted):
    """nn.Dropout: a bit an element."""

    def _keep_and_run(self, x: Tensor, made: List[Any]) -> Tensor:
        if not x.requires_grad or not 0 < self.p < 1 or self.inplace:
            return self._original(x)
        return DropoutFunction.apply(x, self.p, made)


class MaxPoolKind(Converted):
    """nn.MaxPool2d: a byte for each element of the output."""

    kept_as = "keep=byte"

    def _keep_and_run(self, x: Tensor, made: List[Any]) -> Tensor:
        stride = self.kernel_size if self.stride is None else self.stride
        window = tuple((v, v) if isinstance(v, int) else tuple(v) for v in (
            self.kernel_size, stride, self.padding, self.dilation))
        if not x.requires_grad or self.return_indices or window[0][0] * window[0][1] > 256:
            return self._original(x)
        return MaxPoolFunction.apply(x, window, self.ceil_mode, made)


class AvgPoolKind(Converted):
    """nn.AvgPool2d and nn.AdaptiveAvgPool2d: nothing."""

    kept_as = "keep=nothing"

    def _keep_and_run(self, x: Tensor, made: List[Any]) -> Tensor:
        if not x.requires_grad:
            return self._original(x)
        backward, how = torch.ops.aten._adaptive_avg_pool2d_backward, ()
        if hasattr(self, "kernel_size"):
            stride = self.kernel_size if self.stride is None else self.stride
            window = [[v, v] if isinstance(v, int) else list(v)
                      for v in (self.kernel_size, stride, self.padding)]
            backward, how = torch.ops.aten.avg_pool2d_backward, (
                *window, self.ceil_mode, self.count_include_pad, self.divisor_override)
        elif self.output_size in (1, (1, 1), [1, 1]):  # PyTorch's mean, which keeps nothing since 2.0
            return self._original(x)
        made.append(())
        return AvgPoolFunction.apply(x, self, backward, how)
