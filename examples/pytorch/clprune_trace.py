"""From a PyTorch model to a program of layers of clprune/net.h, by torch.fx: the half of clprune.Net
that runs nothing. trace() returns the program; clprune_net.py makes a net of it."""

from __future__ import annotations

import dataclasses
import enum
import math
import operator
import threading
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from clprune import Error
from clprune_graph import MASKS, fails, graph_of, unchanged
from clprune_known import known
from clprune_views import (Bias, Constant, Cut, Heads, NotSupported, Order, Scores, Value, View, arranged, first_part, hides_later,
                           matrices_of, permuted, picked, reshaped, settled, theta_of, view_of)

__all__ = ["Layer", "Param", "Program", "Value", "trace"]

# ---------------------------------------------------------------------------------------------


_TRACING = threading.RLock()  # torch.fx patches nn.Module
_FLOATS = {"dtype": torch.float32, "device": "cpu"}


@dataclasses.dataclass(frozen=True)
class Layer:
    """A call of clprune_net_<function>(net, name, *inputs, *more). inputs: indices of earlier
    layers."""

    function: str
    name: Optional[str]
    inputs: Tuple[int, ...]
    more: tuple = ()
    eps: float = 0.0
    momentum: float = 0.1


@dataclasses.dataclass(frozen=True)
class Conv:
    out: int
    kernel: Tuple[int, int]
    stride: Tuple[int, int]
    padding: Tuple[int, int]
    dilation: Tuple[int, int]
    groups: int
    bias: bool
    output_padding: Tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True)
class Pool:
    kernel: Tuple[int, int]
    stride: Tuple[int, int]
    padding: Tuple[int, int]
    ceil: bool


class Axis(enum.IntEnum):
    """clprune_axis."""

    FEATURES = 0
    ROWS = 1


@dataclasses.dataclass(frozen=True)
class Attention:
    heads: int
    rate: float
    causal: bool
    kv_heads: int = 0
    window: int = 0
    bias: Optional[Bias] = None


@dataclasses.dataclass(frozen=True)
class Extent:
    """clprune_extent."""

    height: int
    width: int


@dataclasses.dataclass(frozen=True)
class Param:
    """A parameter or state of the net.

    theirs  its name in the model; None: it always has `value`
    shape   of the model's tensor
    split   this shape with the axes apart that `order` permutes; () if the net has the same order
    """

    ours: str
    theirs: Optional[str]
    shape: Tuple[int, ...]
    split: Tuple[int, ...] = ()
    order: Tuple[int, ...] = ()
    value: Optional[Tensor] = None

    def to_net(self, value: Tensor) -> Tensor:
        return value.reshape(self.split).permute(self.order) if self.split else value

    def from_net(self, value: Tensor) -> Tensor:
        if self.split:
            back = [self.order.index(axis) for axis in range(len(self.order))]
            value = value.view([self.split[axis] for axis in self.order]).permute(back)
        return value.reshape(self.shape).contiguous()


@dataclasses.dataclass
class Program:
    layers: List[Layer] = dataclasses.field(default_factory=list)
    params: List[Param] = dataclasses.field(default_factory=list)
    states: List[Param] = dataclasses.field(default_factory=list)
    counters: List[str] = dataclasses.field(default_factory=list)  # num_batches_tracked
    frozen: List[str] = dataclasses.field(default_factory=list)
    ties: List[Tuple[str, str]] = dataclasses.field(default_factory=list)
    paddings: List[int] = dataclasses.field(default_factory=list)  # tokens whose embeddings are not trained
    pads_positions: bool = False  # and that shift the positions of others
    output: Optional[Value] = None
    lengths: bool = False  # a second input is the mask of samples' lengths
    token_types: bool = False  # a model of transformers with a table of them
    padding_counts: bool = True  # outputs depend on rows behind the length of their sample


class _Failed:
    """The value of an operation that is not supported."""


@dataclasses.dataclass(frozen=True)
class _Parts:
    """Parts of a value along a dimension, of which those that are used become layers."""

    of: Union[Value, View]
    dim: int
    sizes: Optional[Tuple[int, ...]] = None  # None: one each, without the dimension


def hooks_of(x: Union[Tensor, nn.Module]) -> int:
    """How many hooks a parameter or a module has that may compute something."""
    return sum(len(getattr(x, name, None) or ()) for name in (
        "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
        "_post_accumulate_grad_hooks"))


def _pair(value: Union[int, Sequence[int]]) -> Tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[-1])


class _Tracer(fx.Interpreter):
    """Runs a traced model on an example and notes the layer that each operation becomes."""

    def __init__(self, model: nn.Module, traced: fx.GraphModule, mask: Optional[Tensor]) -> None:
        super().__init__(traced)
        self.lengths = None if mask is None else mask.sum(1)
        self.masked = self.attentions = 0  # how many there are with the mask, and all
        self.written: set = set()  # memory of tensors that are changed in place
        self.program = Program()
        self.noted: Dict[fx.Node, Any] = {}
        self.failed: List[str] = []
        self.stopped = False
        self.names: set = set()
        self.first: Dict[int, tuple] = {}  # of a parameter's id: the net's name, split, order
        self.state = set(model.state_dict())
        self.named = dict(model.named_parameters(remove_duplicate=False))
        self.names_of = {id(tensor): name for name, tensor in model.named_parameters()}  # the first of each
        self.batch = 0
        self.joined: Dict[tuple, int] = {}  # layers of an axis, and the layer that has them all
        self.ordered: Dict[tuple, int] = {}  # a layer and an order of its elements, and the layer that has it
        self.plain: Dict[fx.Node, Any] = {}  # results that are no tensors

    # ---- the graph

    def run_node(self, n: fx.Node) -> Any:
        tensors = {i: self.env[i] for i in n.all_input_nodes if isinstance(self.env.get(i), Tensor)}
        versions = {i: tensor._version for i, tensor in tensors.items()}
        result = super().run_node(n)
        if not isinstance(result, Tensor):
            self.plain[n] = result
        self.changed = [i for i, tensor in tensors.items() if tensor._version != versions[i]]
        if _is_attention(self, n):  # with its weights, which the model must not use
            result = result[0]
        several = isinstance(result, (tuple, list)) and any(isinstance(part, Tensor) for part in result)
        if isinstance(result, Tensor) or several or n.op == "output":
            try:
                self.noted[n] = self._note(n, result)
            except NotSupported as why:
                self._fail(n, str(why))
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as why:  # odd arguments
                self._fail(n, f"this call is not supported: {why}")
        return (result, None) if _is_attention(self, n) else result

    def _fail(self, n: fx.Node, why: str) -> None:
        """Notes an operation that is not supported, which stops the model if its output needs the result."""
        self.failed.append(f"{self._where(n)}: {why}")
        self.noted[n] = _Failed()
        self.stopped = self.stopped or n.op == "output" or bool(self.changed)

    def _where(self, n: fx.Node) -> str:
        stack = n.meta.get("nn_module_stack")
        if n.op == "call_module":
            return str(n.target)
        inside = list(stack.keys())[-1] if stack else ""
        return f"{inside} ({n.name})" if inside else n.name

    def _note(self, n: fx.Node, result: Any) -> Any:
        args, kwargs = fx.node.map_arg((n.args, n.kwargs), self._argument)
        if n.op == "placeholder":
            return Constant(None, result, mask=True) if self.program.layers else self._input(n, result)
        if n.op == "get_attr":
            if isinstance(result, Tensor) and result.untyped_storage().data_ptr() in self.written:
                raise NotSupported("the model changes this buffer itself")
            return Constant(str(n.target), result, node=n)
        given = [self.noted[i] for i in n.all_input_nodes if i in self.noted]
        if n.op == "output":
            if isinstance(args[0], (Value, View)):
                self.program.output = self._whole(args[0])
            elif not isinstance(args[0], _Failed):
                raise NotSupported("the output is not one tensor of the model's operations")
            else:
                self.stopped = True
            return args[0]
        if not any(isinstance(a, (Value, View, Cut, Scores, _Failed, _Parts, tuple)) for a in given):
            return self._constant(n, given, args, kwargs, result)
        self.node, self.result = n, result
        handler = self._handler(n)
        if any(isinstance(a, _Failed) for a in given):
            return _Failed()
        masked, of_mask = self.masked, any(isinstance(a, Constant) and a.mask for a in given)
        value = handler(*args, **kwargs)
        read = masked < self.masked or isinstance(value, Scores) and value.masked
        if of_mask and not read and not isinstance(value, Constant):
            raise NotSupported("the mask of lengths is read by another operation than attention")
        if n.all_input_nodes[0] in self.changed:
            self._change(n, result, given[0], value)
        return value

    def _constant(self, n: fx.Node, given: List[Any], args: tuple, kwargs: Dict[str, Any], result: Tensor) -> Constant:
        """What an operation without values of the net gives."""
        masked = any(a.mask for a in given if isinstance(a, Constant))
        for i in self.changed:
            memory = self.env[i].untyped_storage().data_ptr()
            self.written.add(memory)
            if any(p.untyped_storage().data_ptr() == memory for p in self.named.values()):
                raise NotSupported("a parameter is changed in place")
            for other, noted in self.noted.items():
                if isinstance(noted, Constant) and noted.value.untyped_storage().data_ptr() == memory:
                    self.noted[other] = Constant(None, noted.value, mask=masked or noted.mask)
        if self.changed or masked:
            return Constant(None, result, mask=masked)
        copies = _listed(n) in (_Tracer.reshape, _Tracer.same, _Tracer.expand, _Tracer.to)
        if len(given) == 1 and copies and result.dtype == given[0].value.dtype:
            return dataclasses.replace(given[0], value=result, node=n)
        module = self.fetch_attr(str(n.target)) if n.op == "call_module" else None
        if type(module) is nn.Embedding:
            if hooks_of(module):
                raise NotSupported("it has hooks, which may compute anything")
            more = [module.padding_idx, module.max_norm, module.scale_grad_by_freq, module.sparse]
            args = (*args, Constant(f"{n.target}.weight", module.weight))
        elif n.target is F.embedding:
            named = dict(zip(("", "", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"), args), **kwargs)
            args = args if len(args) > 1 else (*args, kwargs["weight"])
            more = [named.get(name) for name in ("padding_idx", "max_norm", "scale_grad_by_freq", "sparse")]
        else:
            return Constant(None, result, node=n)
        indices, table = args[:2]
        if any(more[1:]) or more[0] is not None and bool((indices.value == more[0]).any()):
            raise NotSupported("an embedding with more than a table, or of its row of padding")
        ids = indices.value.reshape(-1, indices.value.shape[-1])
        if table.name is None or table.value.dim() != 2 or not bool((ids == ids[0]).all()):
            return Constant(None, result, node=n)
        return Constant(table.name, result, tuple(ids[0].tolist()))

    def _change(self, n: fx.Node, result: Tensor, old: Any, new: Value) -> None:
        """An operation in place: nodes of the same tensor have the new value."""
        memory = result.untyped_storage().data_ptr()
        for other, tensor in self.env.items():
            parts = isinstance(self.noted.get(other), _Parts)
            tensor = tensor[0] if parts else tensor
            if not isinstance(tensor, Tensor) or other is n or other not in self.noted:
                continue
            if tensor.untyped_storage().data_ptr() != memory:
                continue
            if parts or self.noted[other] != old:
                raise NotSupported("it changes a tensor in place of which there is another view")
            self.noted[other] = new

    def _argument(self, n: fx.Node) -> Any:
        """What is noted of a tensor; another value, such as a size, as it is."""
        return self.noted[n] if n in self.noted else self.env[n]

    def _handler(self, n: fx.Node) -> Callable[..., Value]:
        if n.op == "call_module":
            module = self.fetch_attr(str(n.target))
            handler = known(module)
            if handler is None:
                raise NotSupported(f"{type(module).__name__} is not supported")
            if any(map(hooks_of, module.modules())):
                raise NotSupported("it has hooks, which may compute anything")
            return lambda *args, **kwargs: handler(self, module, *args, **kwargs)
        handler = _listed(n)
        if handler is None or not (isinstance(self.result, Tensor) or handler in _IN_PARTS):
            raise NotSupported(f"{getattr(n.target, '__name__', n.target)} is not supported")
        return lambda *args, **kwargs: handler(self, *args, **kwargs)

    def _input(self, n: fx.Node, x: Tensor) -> Value:
        self.batch, shape = x.shape[0] if x.dim() > 0 else 0, tuple(x.shape[1:])
        if x.dtype in (torch.int64, torch.int32) and len(shape) == 1:
            return self._add("tokens", None, (), shape, ("T",), {"T": shape[0]})
        if x.dtype != torch.float32 or not 1 <= len(shape) <= 3:
            raise NotSupported(f"the input is {x.dtype} of {tuple(x.shape)}, expected float32 of "
                                "(N, C, H, W), (N, T, C) or (N, C)")
        axes = {1: ("C",), 2: ("T", "C"), 3: ("C", "H", "W")}[len(shape)]
        sizes = dict(zip(axes, shape))
        if len(shape) == 3:
            return self._add("pixels", None, (), shape, axes, sizes)
        return self._add("rows", None, (), (sizes.get("T", 1), sizes["C"]), axes, sizes)

    # ---- layers

    def _add(self, function: str, name: Optional[str], inputs: Tuple[int, ...], more: tuple,
             axes: Tuple[str, ...], sizes: Dict[str, int], eps: float = 0.0,
             momentum: float = 0.1) -> Value:
        self.program.layers.append(Layer(function, name, inputs, more, eps, momentum))
        value = Value(len(self.program.layers) - 1, tuple(axes), dict(sizes))
        if function not in ("pixels", "rows", "tokens") and value.shape != tuple(self.result.shape[1:]):
            raise NotSupported(f"its result is {tuple(self.result.shape)}, and {value.shape} a "
                                "sample as a layer of a net")
        return value

    def _name(self, like: Optional[str] = None) -> str:
        """A name for a layer that no other has: the module's path, else the node's."""
        if like is None:
            like = str(self.node.target) if self.node.op == "call_module" else self.node.name
        name, number = like, 1
        while name in self.names:
            name, number = f"{like}_{number}", number + 1
        self.names.add(name)
        return name

    def _layer_of(self, weight: Optional[Constant]) -> str:
        if weight is None or weight.name is None or self.node.op == "call_module":
            return self._name()
        return self._name(weight.name.rpartition(".")[0] or weight.name)

    def _param(self, ours: str, constant: Optional[Constant], value: Optional[Tensor] = None,
               split: Tuple[int, ...] = (), order: Tuple[int, ...] = ()) -> None:
        """A parameter of the last layer. constant: None for one that always has `value`."""
        if constant is not None and constant.name is not None and constant.name not in self.state \
                and constant.name not in self.named:
            constant, value = None, constant.value
        if constant is None:
            self.program.params.append(Param(ours, None, tuple(value.shape), split, order, value))
            self.program.frozen.append(ours)
            return
        if constant.name is None:
            raise NotSupported("its parameters are computed from others")
        tensor = self.named.get(constant.name, constant.value)
        if constant.rows is not None or constant.value.numel() not in (tensor.numel(), tensor.numel() * self.batch):
            raise NotSupported(f"a part of {constant.name}, or one that is repeated")
        if id(tensor) in self.first:
            other, *as_there = self.first[id(tensor)]
            if as_there != [split, order]:
                raise NotSupported(f"{constant.name} has two uses that order its elements "
                                    "differently")
            self.program.ties.append((ours, other))
            return
        self.first[id(tensor)] = (ours, split, order)
        self.program.params.append(Param(ours, self.names_of.get(id(tensor), constant.name), tuple(tensor.shape), split,
                                         order))
        if not tensor.requires_grad:
            self.program.frozen.append(ours)

    def _view(self, x: Union[Value, View]) -> View:
        return x if isinstance(x, View) else view_of(self._use(x, True), self.batch)

    def _plain(self, x: View) -> Union[Value, View]:
        """The value that a view is, if that needs no layer."""
        try:
            axes, groups = settled(x)
        except NotSupported:
            return x
        return x if groups > 1 or x.picked or x.scale != 1 else self._value(x, x.layer, axes)

    def _value(self, x: View, layer: int, axes: Sequence[str]) -> Value:
        return Value(layer, tuple(axes), {**{axis: x.sizes[axis] for axis in x.rows}, "C": x.size(x.left)})

    def _settle(self, x: View) -> Value:
        layer = self._part_of(x)
        if x.scale != 1:
            layer = self._push("scale", (layer,), x.scale)
        try:
            axes, groups = settled(x)
        except NotSupported:
            order, value = arranged(x)
            grid = Extent(value.sizes["H"], value.sizes["W"]) if value.rows == "HW" else Extent(0, 0)
            return dataclasses.replace(value, layer=self._push("permute", (layer,), order, value.sizes["C"], grid))
        if groups > 1:
            rows, features = x.size(x.rows), x.size(x.left)
            grid = Extent(x.sizes["H"], x.sizes["W"]) if x.rows == "HW" else Extent(0, 0)
            layer = self._push("permute", (layer,), Order((rows, groups, features // groups), (0, 2, 1)), features, grid)
        return self._value(x, layer, axes)

    def _part_of(self, x: View) -> int:
        """The layer that has the features of a view, and no others."""
        count = x.size(x.left)
        return self._push("slice", (x.layer,), Axis.FEATURES, x.first, count) if x.picked else x.layer

    def _push(self, function: str, inputs: Tuple[int, ...], *more: Any) -> int:
        self.program.layers.append(Layer(function, self._name(), inputs, more))
        return len(self.program.layers) - 1

    def _use(self, x: Any, windows: bool = False) -> Value:
        """x, multiplied by its factor if it has one. windows: the operation may be one of windows, of each row by itself."""
        if isinstance(x, View):
            x = self._settle(x)
        if isinstance(x, Value) and x.windows > 1 and not windows:
            raise NotSupported("an operation on windows that is not one of each row")
        if isinstance(x, Value) and "C" not in x.sizes:
            raise NotSupported("an operation on the tokens other than an embedding")
        if not isinstance(x, Value):
            raise NotSupported("an argument is a parameter or a number where a tensor is expected")
        return x if x.factor is None else self._affine(x.factor, None, x)

    def _affine(self, alpha: Optional[Constant], beta: Optional[Constant], x: Value) -> Value:
        plain = dataclasses.replace(x, factor=None)
        for constant in (alpha, beta):
            if constant is not None:
                self._per_feature(constant, plain)
        name = self._layer_of(alpha or beta)
        self.program.layers.append(Layer("affine", name, (x.layer,)))
        features = x.sizes["C"]
        self._param(f"{name}.alpha", alpha, torch.ones(features, **_FLOATS))
        self._param(f"{name}.beta", beta, torch.zeros(features, **_FLOATS))
        return dataclasses.replace(plain, layer=len(self.program.layers) - 1)

    def scaled_more(self, x: Any, weight: Constant) -> Value:
        """x * (1 + weight)"""
        x = self._use(x, True)
        self._per_feature(weight, x)
        name = self._name()
        value = self._add("layerscale", name, (x.layer, x.layer), (), x.axes, x.sizes)
        self._param(name, weight)
        return value

    def _per_feature(self, constant: Constant, x: Value) -> None:
        """Fails unless the constant, as it is broadcast to x, has a value for each feature."""
        shape = (1,) * (1 + len(x.axes) - constant.value.dim()) + tuple(constant.value.shape)
        want = (1, *(x.sizes["C"] if group == "C" else 1 for group in x.axes))
        if "C" not in x.axes or shape != want:
            raise NotSupported(
                f"{constant.name} of {tuple(constant.value.shape)} with a tensor of "
                f"(N, {', '.join(map(str, x.shape))}): a parameter needs one value per feature, or per "
                "row and feature")

    def _features_last(self, x: Value, what: str) -> None:
        if x.axes[-1] != "C":
            raise NotSupported(f"{what} over dimension -1, which is not the features")

    def same(self, x: Value, *_: Any, **__: Any) -> Value:
        return x

    def linear(self, x: Value, weight: Constant, bias: Optional[Constant] = None, transposed: bool = False) -> Value:
        """transposed: the weight is in x out."""
        x = self._use(x, True)
        name, out = self._layer_of(weight), weight.value.shape[1 if transposed else 0]
        split: Tuple[int, ...] = ()
        order: Tuple[int, ...] = ()
        group = x.axes[-1]
        if group == "C" or len(x.axes) == 1:
            sizes = {"C": out}
            axes = (*x.axes[:-1], "C")
            if len(x.axes) > 1 or x.windows > 1:
                sizes.update((axis, x.sizes[axis]) for axis in x.rows)
            elif group != x.stored:  # the net's value has features last
                split = (out, *(x.sizes[axis] for axis in group))
                order = (0, *(1 + group.index(axis) for axis in x.stored))
            value = self._add("linear", name, (x.layer,), (out,), axes, sizes)
        elif group != "" and group == x.rows and "C" in x.axes:
            sizes = {"C": x.sizes["C"], "T": out}
            axes = (*x.axes[:-1], "T")
            value = self._add("linear_rows", name, (x.layer,), (out,), axes, sizes)
        else:
            raise NotSupported("a linear layer over a dimension that is neither the features nor "
                                "all rows")
        if transposed:
            if split:
                raise NotSupported("a transposed linear layer of a flattened image")
            split, order = tuple(weight.value.shape), (1, 0)
        self._param(f"{name}.weight", weight, split=split, order=order)
        self._param(f"{name}.bias", bias, torch.zeros(out, **_FLOATS))
        return value

    def conv2d(self, x: Value, weight: Constant, bias: Optional[Constant] = None, stride=1,
               padding=0, dilation=1, groups: int = 1) -> Value:
        x = self._use(x)
        if x.axes == ("C", "", "") and tuple(weight.value.shape[2:]) == (1, 1) and groups == 1:
            return self._linear_of_pixel(x, weight, bias)
        if x.axes != ("C", "H", "W"):
            raise NotSupported("a convolution of a tensor that is not an image")
        if isinstance(padding, str):
            reach = [d * (k - 1) for d, k in zip(_pair(dilation), weight.value.shape[2:])]
            if padding == "same" and any(r % 2 for r in reach):  # one more at the end
                x = self._resampled(x, lambda t: F.pad(t, [side for r in reversed(reach) for side in (r // 2, r - r // 2)]))
                padding = "valid"
            padding = 0 if padding == "valid" else tuple(r // 2 for r in reach)
        name, (out, channels, *kernel) = self._layer_of(weight), weight.value.shape
        conv = Conv(out, tuple(kernel), _pair(stride), _pair(padding), _pair(dilation),
                    groups, bias is not None)
        sizes = {"C": out, "H": self.result.shape[2], "W": self.result.shape[3]}
        value = self._add("conv2d", name, (x.layer,), (conv,), x.axes, sizes)
        self._param(f"{name}.weight", weight, split=(out, channels, *kernel),
                    order=(0, 2, 3, 1))
        if bias is not None:
            self._param(f"{name}.bias", bias)
        return value

    def conv_transpose2d(self, x: Value, weight: Constant, bias: Optional[Constant] = None, stride=1, padding=0,
                         output_padding=0, groups: int = 1, dilation=1) -> Value:
        x = self._use(x)
        if x.axes != ("C", "H", "W"):
            raise NotSupported("a transposed convolution of a tensor that is not an image")
        name, (channels, out, *kernel) = self._layer_of(weight), weight.value.shape
        conv = Conv(out * groups, tuple(kernel), _pair(stride), _pair(padding), _pair(dilation), groups, bias is not None,
                    _pair(output_padding))
        sizes = {"C": out * groups, "H": self.result.shape[2], "W": self.result.shape[3]}
        value = self._add("conv_transpose2d", name, (x.layer,), (conv,), x.axes, sizes)
        self._param(f"{name}.weight", weight, split=(channels, out, *kernel), order=(0, 2, 3, 1))
        if bias is not None:
            self._param(f"{name}.bias", bias)
        return value

    def _linear_of_pixel(self, x: Value, weight: Constant, bias: Optional[Constant]) -> Value:
        """A 1 x 1 convolution of a pooled image."""
        name, (out, channels, *_) = self._layer_of(weight), weight.value.shape
        value = self._add("linear", name, (x.layer,), (out,), x.axes, {"C": out})
        self._param(f"{name}.weight", weight, split=(out, channels), order=(0, 1))
        self._param(f"{name}.bias", bias, torch.zeros(out, **_FLOATS))
        return value

    def batch_norm(self, x: Value, mean: Optional[Constant], var: Optional[Constant],
                   weight: Optional[Constant] = None, bias: Optional[Constant] = None,
                   training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Value:
        x = self._use(x)
        if not training:
            raise NotSupported("a batch norm that uses running statistics in training")
        if x.axes[0] != "C":
            raise NotSupported("a batch norm over dimension 1, which is not the features")
        if mean is None or momentum is None:
            raise NotSupported("a batch norm without running statistics or momentum is not "
                                "supported")
        if any(state.theirs == mean.name for state in self.program.states):
            raise NotSupported("a batch norm that runs twice")
        name = self._layer_of(weight or mean)
        value = self._add("batch_norm", name, (x.layer,), (), x.axes, x.sizes, eps, momentum)
        self._param(f"{name}.weight", weight, torch.ones(x.sizes["C"], **_FLOATS))
        self._param(f"{name}.bias", bias, torch.zeros(x.sizes["C"], **_FLOATS))
        for ours, constant in (("running_mean", mean), ("running_var", var)):
            self.program.states.append(Param(f"{name}.{ours}", constant.name,
                                             tuple(constant.value.shape)))
        self.program.counters.append(mean.name.rpartition(".")[0] + ".num_batches_tracked")
        return value

    def embedding(self, x: Any, weight: Constant, padding_idx: Optional[int] = None, max_norm: Optional[float] = None,
                  norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Value:
        if not isinstance(x, Value) or "C" in x.sizes or max_norm is not None or scale_grad_by_freq or sparse:
            raise NotSupported("an embedding of others than the tokens, or with more than a table")
        if padding_idx is not None:
            self.program.paddings.append(padding_idx % weight.value.shape[0])
        name, (vocabulary, features) = self._layer_of(weight), weight.value.shape
        value = self._add("embedding", name, (x.layer,), (vocabulary, features), ("T", "C"), {**x.sizes, "C": features})
        self._param(f"{name}.weight", weight)
        return value

    def position_ids(self, ids: Any, padding: int, past: int = 0) -> Constant:
        """RoBERTa's, of tokens without padding: those behind the index of padding."""
        if not isinstance(ids, Value) or past != 0:
            raise NotSupported("positions of others than the tokens")
        self.program.paddings.append(padding)
        self.program.pads_positions = True
        return Constant(None, torch.arange(padding + 1, padding + 1 + ids.sizes["T"]).expand(self.batch, -1))

    def layer_norm(self, x: Value, shape: Sequence[int], weight: Optional[Constant] = None,
                   bias: Optional[Constant] = None, eps: float = 1e-5) -> Value:
        x = self._use(x, True)
        self._features_last(x, "a layer norm")
        if len(shape) != 1:
            raise NotSupported("a layer norm over several dimensions")
        name = self._layer_of(weight)
        value = self._add("layer_norm", name, (x.layer,), (), x.axes, x.sizes, eps)
        self._param(f"{name}.weight", weight, torch.ones(x.sizes["C"], **_FLOATS))
        self._param(f"{name}.bias", bias, torch.zeros(x.sizes["C"], **_FLOATS))
        return value

    def group_norm(self, x: Value, groups: int, weight: Optional[Constant] = None,
                   bias: Optional[Constant] = None, eps: float = 1e-5) -> Value:
        x = self._use(x)
        if x.axes[0] != "C":
            raise NotSupported("a group norm over dimension 1, which is not the features")
        name = self._layer_of(weight)
        value = self._add("group_norm", name, (x.layer,), (groups,), x.axes, x.sizes, eps)
        self._param(f"{name}.weight", weight, torch.ones(x.sizes["C"], **_FLOATS))
        self._param(f"{name}.bias", bias, torch.zeros(x.sizes["C"], **_FLOATS))
        return value

    def attention(self, x: Value, qkv: Sequence[Optional[Constant]],
                  proj: Sequence[Optional[Constant]], heads: int, rate: float,
                  causal: bool = False, masked: bool = False, window: int = 0,
                  biases: Sequence[Constant] = ()) -> Value:
        """Self-attention with its linear layers: (weight, bias) each."""
        x = self._use(x, True)
        self._features_last(x, "attention")
        if len(x.axes) != 2:
            raise NotSupported("attention over a tensor that is not (N, T, C)")
        window = x.size(x.axes[0]) if x.windows > 1 else window
        base, layers = self._name(), self.program.layers
        for name, (weight, bias) in (("qkv", qkv), ("proj", proj)):
            full, out = self._name(f"{base}.{name}"), weight.value.shape[0]
            layers.append(Layer("linear", full, (x.layer,), (out,)))
            x = dataclasses.replace(x, layer=len(layers) - 1, sizes={**x.sizes, "C": out})
            self._param(f"{full}.weight", weight)
            self._param(f"{full}.bias", bias, torch.zeros(out, **_FLOATS))
            if name == "qkv":
                self.attentions += 1
                self.masked += masked
                layer = self._core(x.layer, Attention(heads, rate, causal, window=window), x.size(x.rows), biases)
                x = dataclasses.replace(x, layer=layer, sizes={**x.sizes, "C": out // 3})
        return x

    def shifted_window_attention(
            self, x: Value, qkv_weight: Constant, proj_weight: Constant, relative_position_bias: Constant,
            window_size: Sequence[int], num_heads: int, shift_size: Sequence[int], attention_dropout: float = 0.0,
            dropout: float = 0.0, qkv_bias: Optional[Constant] = None, proj_bias: Optional[Constant] = None,
            logit_scale: Optional[Constant] = None, training: bool = True) -> Value:
        """torchvision's: padded to whole windows, rolled, cut into windows, and back."""
        x = self._use(x)
        if x.axes != ("H", "W", "C") or logit_scale is not None:
            raise NotSupported("attention in windows of (N, C, H, W), or of cosines")
        sides = x.sizes["H"], x.sizes["W"]
        (tall, wide), counts = window_size, [-(-side // window) for side, window in zip(sides, window_size)]
        height, width = tall * counts[0], wide * counts[1]
        shifts = [0 if window >= padded else shift for shift, window, padded in zip(shift_size, window_size, (height, width))]
        if (height, width) != sides or any(shifts):
            x = self._resampled(x, lambda t: F.pad(t, (0, width - sides[1], 0, height - sides[0])).roll(
                [-shift for shift in shifts], (2, 3)))
        biases = [relative_position_bias]
        if any(shifts):
            lines = [sum((torch.arange(n) >= n - edge).int() for edge in (window, shift)) if shift else torch.zeros(n).int()
                     for n, window, shift in zip((height, width), window_size, shifts)]
            part = (3 * lines[0][:, None] + lines[1]).view(counts[0], tall, counts[1], wide).permute(0, 2, 1, 3)
            part = part.reshape(-1, 1, tall * wide)
            biases.append(Constant(None, torch.where(part == part.transpose(1, 2), 0.0, -100.0)[:, None]))
        layer = self._push("permute", (x.layer,), Order((counts[0], tall, counts[1], wide, x.sizes["C"]), (0, 2, 1, 3, 4)),
                           x.sizes["C"], Extent(0, 0))
        y = self.attention(Value(layer, ("T", "C"), {"T": height * width, "C": x.sizes["C"]}), (qkv_weight, qkv_bias),
                           (proj_weight, proj_bias), num_heads, attention_dropout if training else 0.0,
                           window=tall * wide, biases=biases)
        layer = self._push("permute", (y.layer,), Order((*counts, tall, wide, y.sizes["C"]), (0, 2, 1, 3, 4)), y.sizes["C"],
                           Extent(height, width))
        x = dataclasses.replace(x, layer=layer, sizes={"H": height, "W": width, "C": y.sizes["C"]})
        if (height, width) != sides or any(shifts):
            x = self._resampled(x, lambda t: t.roll(shifts, (2, 3))[:, :, :sides[0], :sides[1]])
        return self.dropout(x, dropout, training)

    def patch_merging(self, x: Value) -> Value:
        """torchvision's: the features of 2 x 2 pixels beside each other, column by column."""
        x = self._use(x)
        if x.axes != ("H", "W", "C"):
            raise NotSupported("merged patches of (N, C, H, W)")
        height, width, features = (x.sizes[axis] for axis in x.axes)
        if height % 2 or width % 2:
            x = self._resampled(x, lambda t: F.pad(t, (0, width % 2, 0, height % 2)))
        height, width = -(-height // 2), -(-width // 2)
        layer = self._push("permute", (x.layer,), Order((height, 2, width, 2, features), (0, 2, 3, 1, 4)), 4 * features,
                           Extent(height, width))
        return Value(layer, x.axes, {"H": height, "W": width, "C": 4 * features})

    def _positions(self, x: Value, constant: Constant) -> Value:
        """x + a parameter with a value for each row and feature, or for each feature."""
        shape, axes = tuple(constant.value.shape), "".join(x.axes)
        if constant.rows is not None:
            return self._rows_of(x, constant)
        if shape not in (x.shape, (1, *x.shape)):
            return self._affine(None, constant, x)
        if sorted(axes) != sorted(x.stored):
            raise NotSupported(f"{constant.name} of {shape} added to a tensor that is laid out differently")
        name = self._name(constant.name or self.node.name)
        value = self._add("positions", name, (x.layer,), (), x.axes, x.sizes)
        order = tuple(axes.index(axis) for axis in x.stored)
        in_order = order == tuple(range(len(axes)))
        self._param(name, constant, split=() if in_order else tuple(x.sizes[axis] for axis in axes),
                    order=() if in_order else order)
        return value

    def _rows_of(self, x: Value, constant: Constant) -> Value:
        """x + rows of a table, one for each row, or one for all."""
        rows, first, table = len(constant.rows), constant.rows[0], self.named[constant.name]
        count = 1 if set(constant.rows) == {first} else rows
        if x.axes != (x.rows, "C") or x.windows > 1 or rows not in (1, x.size(x.rows)) or table.shape[1] != x.sizes["C"] \
                or count > 1 and constant.rows != tuple(range(first, first + rows)):
            raise NotSupported(f"rows of {constant.name} other than one behind the other, for each row of the tensor")
        name = self._name(constant.name)
        value = self._add("positions_of", name, (x.layer,), (first, count, table.shape[0]), x.axes, x.sizes)
        self._param(name, Constant(constant.name, table))
        return value

    def cat(self, tensors: Sequence[Any], dim: int = 0) -> Value:
        """Features or rows behind each other, two values at a time; a list that begins as an earlier one did goes
        on from there, as DenseNet's do."""
        if isinstance(tensors, _Parts):
            tensors = [self._part(tensors, i) for i in range(len(tensors.sizes))]
        if len(tensors) == 2 and isinstance(tensors[0], Cut) and dim % self.result.dim() == self.result.dim() - 1:
            return tensors[0].joined(self._cut(tensors[1])).whole
        if len(tensors) > 1 and all(isinstance(x, Constant) for x in tensors[:-1]):
            x = self._use(tensors[-1])
            for token in reversed(tensors[:-1]):
                x = self._class_token(token, x, dim)
            if x.shape != tuple(self.result.shape[1:]):
                raise NotSupported("class tokens of another size")
            return x
        values = [self._use(x) for x in tensors]
        axis, group = self._axis(values[0], dim % (1 + len(values[0].axes)), "torch.cat")
        at = values[0].axes.index(group)
        whole = values[0]
        for x in values[1:]:
            others = [(y.shape[:at], y.shape[at + 1:], self._axis(y, 1 + at, "torch.cat")[0]) if len(y.axes) > at
                      else None for y in (values[0], x)]
            if others[0] != others[1] or x.axes.index("C") != values[0].axes.index("C"):
                raise NotSupported("torch.cat of tensors that are laid out differently")
        layers = tuple(x.layer for x in values)
        done = max((i for i in range(2, 1 + len(layers)) if (axis, layers[:i]) in self.joined), default=1)
        layer, size = self.joined.get((axis, layers[:done]), layers[0]), sum(x.shape[at] for x in values)
        for i in range(done, len(layers)):
            layer = self._push("concat", (layer, layers[i]), axis)
            self.joined[axis, layers[:i + 1]] = layer
        return self._resized(whole, layer, at, axis, size)

    def _axis(self, x: Value, dim: int, what: str) -> Tuple[Axis, str]:
        """The axis of the net's value that a dimension of the tensor is."""
        group = x.axes[dim - 1] if dim > 0 else ""
        if group == "C":
            return Axis.FEATURES, group
        if group != "" and group == x.rows and "C" in x.axes:
            return Axis.ROWS, group
        raise NotSupported(f"{what} along dimension {dim}, which is neither the features nor all rows")

    def _resized(self, x: Value, layer: int, at: int, axis: Axis, size: int) -> Value:
        """x with another size of an axis, as a layer gives it."""
        if axis == Axis.FEATURES:
            return Value(layer, x.axes, {**x.sizes, "C": size})
        return Value(layer, (*x.axes[:at], "T", *x.axes[at + 1:]), {"T": size, "C": x.sizes["C"]})

    def _class_token(self, token: Constant, x: Value, dim: int) -> Value:
        """A parameter as a row before the rows."""
        if dim != 1 or len(x.axes) != 2 or x.axes[1] != "C" or token.value.shape[1:] != (1, x.sizes["C"]):
            raise NotSupported("a class token is 1 x 1 x features, before rows of features")
        name = self._name(token.name or self.node.name)
        self.program.layers.append(Layer("class_token", name, (x.layer,)))
        value = Value(len(self.program.layers) - 1, ("T", "C"), {"T": x.size(x.axes[0]) + 1, "C": x.sizes["C"]})
        self._param(name, token)
        return value

    def split(self, x: Value, _: Any = None, dim: int = 0, **__: Any) -> _Parts:
        """Also chunks: the sizes are those of the results."""
        sizes = tuple(part.shape[dim] for part in self.result)
        if isinstance(x, View) and len(set(sizes)) == 1:
            shape, dim = list(map(x.size, x.groups)), dim % len(x.groups)
            shape[dim:dim + 1] = len(sizes), sizes[0]
            return _Parts(reshaped(x, shape), dim)
        x = self._use(x, True)
        return _Parts(x, dim % (1 + len(x.axes)), sizes)

    def unbind(self, x: Any, dim: int = 0) -> _Parts:
        x = self._view(x)
        return _Parts(x, dim % len(x.groups))

    def _part(self, parts: _Parts, i: int) -> Union[Value, View]:
        if parts.sizes is None:
            return self._plain(self._picked(parts.of, parts.dim, i))
        i %= len(parts.sizes)
        return self._slice(parts.of, parts.dim, sum(parts.sizes[:i]), parts.sizes[i])

    def _slice(self, x: Value, dim: int, first: int, count: int) -> Value:
        x = self._use(x, True)
        if sorted(x.axes) == ["C", "H", "W"] and x.axes[dim - 1] != "C":
            side, = self._sides(x, (dim,), "a part")
            return self._resampled(x, lambda t: t.narrow(side, first, count))
        axis, _ = self._axis(x, dim, "a part")
        if count == x.shape[dim - 1]:
            return x
        return self._resized(x, self._push("slice", (x.layer,), axis, first, count), dim - 1, axis, count)

    def _picked(self, x: View, dim: int, index: int) -> View:
        """x[..., index, ...]: of a part of the features."""
        other = first_part(x, dim)
        if other is not None:
            order, x = other
            features = math.prod(order.extents[1:])
            key = x.layer, order
            if key not in self.ordered:
                self.ordered[key] = self._push("permute", (x.layer,), order, features, Extent(0, 0))
            x = dataclasses.replace(x, layer=self.ordered[key])
        return picked(x, dim, index)

    def _index(self, x: View, at: Sequence[Any]) -> Union[Value, View]:
        """Some of the parts of the features."""
        dim = 0
        for index in at:
            if isinstance(index, int):
                x = self._picked(x, dim, index)
            else:
                dim += 1
        return self._plain(x)

    def getitem(self, x: Any, at: Any) -> Union[Value, View]:
        """A part along one dimension, one row of each sample, or the output of an attention module."""
        if isinstance(x, _Parts):
            return self._part(x, at)
        if isinstance(x, tuple):
            return x[at]
        if isinstance(self.env[self.node.args[0]], tuple):
            return x
        index = list(at) if isinstance(at, tuple) else [at]
        if isinstance(x, View) and None not in index:
            if Ellipsis in index:
                here = index.index(Ellipsis)
                index[here:here + 1] = [slice(None)] * (1 + len(x.groups) - len(index))
            if all(isinstance(i, int) or isinstance(i, slice) and i.indices(x.size(group)) == (0, x.size(group), 1)
                   for i, group in zip(index, x.groups)):
                return self._index(x, index)
        cut = self._cut_of(x, index)
        if cut is not None:
            return cut
        x = self._use(x)
        if None in index:
            if any(i is not None and i is not Ellipsis and i != slice(None) for i in index):
                raise NotSupported(f"[{at}] of parts and new dimensions at once")
            return self.reshape(x)
        if Ellipsis in index:
            here = index.index(Ellipsis)
            index[here:here + 1] = [slice(None)] * (2 + len(x.axes) - len(index))
        sizes = (self.batch, *x.shape)
        parts = [(dim, *i.indices(size)) if isinstance(i, slice) else (dim, i, i, 0)
                 for dim, (i, size) in enumerate(zip(index, sizes))
                 if i != slice(None) and (not isinstance(i, slice) or i.indices(size) != (0, size, 1))]
        if not parts:
            return x
        if sorted(x.axes) == ["C", "H", "W"] and all(dim > 0 and x.axes[dim - 1] != "C" and isinstance(index[dim], slice)
                                                     for dim, *_ in parts):
            of = {x.axes[dim - 1]: index[dim] for dim, *_ in parts}
            return self._resampled(x, lambda t: t[:, :, of.get("H", slice(None)), of.get("W", slice(None))])
        (dim, first, end, step), *others = parts
        if not others and step == 0 and dim == 1 and isinstance(first, int) and len(x.axes) == 2 and x.axes[1] == "C":
            return self._add("row", self._name(), (x.layer,), (first % sizes[1],), ("C",), {"C": x.sizes["C"]})
        if others or step != 1 or dim == 0:
            raise NotSupported(f"[{at}] is supported as a part along one dimension, or [:, row] of (N, T, C)")
        return self._slice(x, dim, first, end - first)

    def _cut(self, x: Any) -> Cut:
        return x if isinstance(x, Cut) else Cut.of(self._view(x))

    def _cut_of(self, x: Any, index: Sequence[Any]) -> Optional[Cut]:
        """Some features of each head, where the last dimension is those of a head."""
        *others, last = index
        if not isinstance(x, (View, Cut)) or not isinstance(last, slice) or \
                not all(i in (Ellipsis, slice(None)) for i in others) or Ellipsis not in others and len(index) != self.result.dim():
            return None
        try:
            x = self._cut(x)
        except NotSupported:
            return None
        first, end, step = last.indices(x.count)
        if step != 1:
            raise NotSupported("rotary positions other than Llama's")
        return x.narrow(first, end - first)

    def neg(self, x: Any) -> Union[Cut, Value]:
        return dataclasses.replace(x, sign=-x.sign) if isinstance(x, Cut) else self.mul(x, -1)

    def expand(self, x: Value, *_: Any) -> Value:
        raise NotSupported("expand is supported for parameters")

    def _elementwise(self, function: str, x: Value, *more: Any) -> Value:
        x = self._use(x, True)
        return self._add(function, self._name(), (x.layer,), more, x.axes, x.sizes)

    def relu(self, x: Value, inplace: bool = False) -> Value:
        return self._elementwise("relu", x)

    def relu6(self, x: Value, inplace: bool = False) -> Value:
        return self._elementwise("relu6", x)

    def hardtanh(self, x: Value, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
                 ) -> Value:
        if (min_val, max_val) != (0, 6):
            raise NotSupported(f"hardtanh from {min_val} to {max_val}, only from 0 to 6, ReLU6")
        return self._elementwise("relu6", x)

    def leaky_relu(self, x: Value, negative_slope: float = 0.01, inplace: bool = False) -> Value:
        """slope * x + (1 - slope) * relu(x)"""
        x = self._use(x)
        steep = self._elementwise("scale", self.relu(x), 1 - negative_slope)
        return self.add(self._elementwise("scale", x, float(negative_slope)), steep)

    def sigmoid(self, x: Value) -> Value:
        return self._elementwise("sigmoid", x)

    def hard_sigmoid(self, x: Value, inplace: bool = False) -> Value:
        return self._elementwise("hard_sigmoid", x)

    def hard_swish(self, x: Value, inplace: bool = False) -> Value:
        return self._elementwise("hard_swish", x)

    def stochastic_depth(self, x: Value, p: float, mode: str, training: bool = True) -> Value:
        if p <= 0 or not training:
            return x
        if mode != "row" or p >= 1:
            raise NotSupported(f"stochastic depth of {p} and mode {mode!r}, only below 1 and of rows")
        return self._elementwise("drop_path", x, float(p))

    def gelu(self, x: Value, approximate: str = "none") -> Value:
        return self._elementwise("gelu_tanh" if approximate == "tanh" else "gelu", x)

    def silu(self, x: Value, inplace: bool = False) -> Value:
        return self._elementwise("silu", x)

    def tanh(self, x: Value) -> Value:
        return self._elementwise("tanh", x)

    def dropout(self, x: Value, p: float = 0.5, training: bool = True, inplace: bool = False
                ) -> Value:
        if isinstance(x, Scores) and p > 0 and training:
            if not x.soft or x.rate > 0:
                raise NotSupported("dropout in attention other than one of the probabilities")
            return dataclasses.replace(x, rate=float(p))
        return self._elementwise("dropout", x, float(p)) if p > 0 and training else x

    def max_pool2d(self, x: Value, kernel_size, stride=None, padding=0, dilation=1,
                   ceil_mode: bool = False, return_indices: bool = False) -> Value:
        x = self._use(x)
        if x.axes != ("C", "H", "W") or _pair(dilation) != (1, 1) or return_indices:
            raise NotSupported("max pooling needs an image, dilation 1 and no indices")
        kernel = _pair(kernel_size)
        pool = Pool(kernel, _pair(stride) if stride else kernel, _pair(padding), ceil_mode)
        sizes = {"C": x.sizes["C"], "H": self.result.shape[2], "W": self.result.shape[3]}
        return self._add("max_pool", self._name(), (x.layer,), (pool,), x.axes, sizes)

    def avg_pool2d(self, x: Value, kernel_size, stride=None, padding=0, ceil_mode: bool = False,
                   count_include_pad: bool = True, divisor_override: Optional[int] = None) -> Value:
        """A depthwise convolution with equal weights that are not trained."""
        x = self._use(x)
        kernel, padding = _pair(kernel_size), _pair(padding)
        if x.axes != ("C", "H", "W"):
            raise NotSupported("average pooling of a tensor that is not an image")
        if kernel == (x.sizes["H"], x.sizes["W"]) and padding == (0, 0) and not divisor_override:
            return self._mean(x, ("C", "", ""))
        steps, sides = _pair(stride) if stride else kernel, tuple(self.result.shape[2:])
        whole = sides == tuple((x.sizes[axis] + 2 * p - k) // s + 1
                               for axis, p, k, s in zip("HW", padding, kernel, steps))
        if not whole or padding != (0, 0) and not count_include_pad or max(kernel) > 8:
            return self._resampled(x, lambda t: F.avg_pool2d(t, kernel, steps, padding, ceil_mode, count_include_pad,
                                                             divisor_override))
        name, channels = self._name(), x.sizes["C"]
        conv = Conv(channels, kernel, steps, padding, (1, 1), channels, False)
        sizes = {"C": channels, "H": sides[0], "W": sides[1]}
        value = self._add("conv2d", name, (x.layer,), (conv,), x.axes, sizes)
        shape = (channels, 1, *kernel)
        weight = torch.full(shape, 1 / (divisor_override or kernel[0] * kernel[1]), **_FLOATS)
        self._param(f"{name}.weight", None, weight, split=shape, order=(0, 2, 3, 1))
        return value

    def _resampled(self, x: Any, change: Callable[[Tensor], Tensor]) -> Value:
        """A linear function of each axis of an image, whose matrices are found by trial."""
        x = self._use(x)
        if sorted(x.axes) != ["C", "H", "W"]:
            raise NotSupported("a change of images of a tensor that is not an image")
        sides = change(torch.zeros(1, 1, x.sizes["H"], x.sizes["W"])).shape[2:]
        layer = self._push("resample", (x.layer,), *matrices_of(change, x.sizes["H"], x.sizes["W"]))
        return Value(layer, x.axes, {"C": x.sizes["C"], "H": sides[0], "W": sides[1]})

    def pad(self, x: Any, pad: Sequence[int], mode: str = "constant", value: Optional[float] = None) -> Value:
        if not any(pad):
            return x
        x, rank = self._use(x), self.result.dim()
        sides = {rank - 1 - i // 2: list(pad[i:i + 2]) for i in range(0, len(pad), 2) if any(pad[i:i + 2])}
        of = dict(zip(self._sides(x, sides, "padding"), sides.values()))
        return self._resampled(x, lambda t: F.pad(t, [*of.get(3, (0, 0)), *of.get(2, (0, 0))], mode, value))

    def _sides(self, x: Value, dims: Iterable[int], what: str) -> List[int]:
        """The dimensions of (N, C, H, W) that some of the tensor's are, which must be H and W."""
        groups = [x.axes[d % self.result.dim() - 1] if d % self.result.dim() > 0 else "" for d in dims]
        if not groups or any(group not in ("H", "W") for group in groups):
            raise NotSupported(f"{what} of other axes than those of an image")
        return ["CHW".index(group) + 1 for group in groups]

    def roll(self, x: Any, shifts: Any, dims: Any = None) -> Value:
        x = self._use(x)
        sides = self._sides(x, (dims,) if isinstance(dims, int) else dims or (), "roll")
        return self._resampled(x, lambda t: torch.roll(t, shifts, sides))

    def flip(self, x: Any, *dims: Any) -> Value:
        x = self._use(x)
        sides = self._sides(x, dims[0] if isinstance(dims[0], (tuple, list)) else dims, "flip")
        return self._resampled(x, lambda t: torch.flip(t, sides))

    def upsample(self, x: Value, size=None, scale_factor=None, mode: str = "nearest", *more: Any,
                 **others: Any) -> Value:
        x = self._use(x)
        sides = tuple(self.result.shape[2:])
        if x.axes == ("C", "", ""):  # one pixel
            layer = self._push("permute", (x.layer,), Order((x.sizes["C"],), (0,)), x.sizes["C"], Extent(1, 1))
            x = Value(layer, ("C", "H", "W"), {"C": x.sizes["C"], "H": 1, "W": 1})
        if x.axes != ("C", "H", "W"):
            raise NotSupported("upsampling needs an image")
        factor = sides[0] // x.sizes["H"]
        if mode != "nearest" or sides != (factor * x.sizes["H"], factor * x.sizes["W"]):
            return self._resampled(x, lambda t: F.interpolate(t, size, scale_factor, mode, *more, **others))
        sizes = {"C": x.sizes["C"], "H": sides[0], "W": sides[1]}
        return self._add("upsample", self._name(), (x.layer,), (factor,), x.axes, sizes)

    def adaptive_avg_pool2d(self, x: Value, output_size) -> Value:
        x = self._use(x)
        sides = tuple(self.result.shape[2:])
        if x.axes == ("C", "H", "W") and sides not in ((1, 1), (x.sizes["H"], x.sizes["W"])):
            return self._resampled(x, lambda t: F.adaptive_avg_pool2d(t, output_size))
        if x.axes != ("C", "H", "W"):
            raise NotSupported("average pooling of a tensor that is not an image")
        return x if sides != (1, 1) else self._mean(x, ("C", "", ""))

    def mean(self, x: Value, dim=None, keepdim: bool = False, **more: Any) -> Value:
        x = self._use(x)
        dims = [dim] if isinstance(dim, int) else list(dim or ())
        rank = 1 + len(x.axes)
        dims = sorted(d % rank for d in dims)
        over = "".join(x.axes[d - 1] for d in dims if d > 0)
        if not dims or 0 in dims or sorted(over) != sorted(x.rows) or "C" not in x.axes or more:
            raise NotSupported("a mean over other dimensions than all rows of a sample")
        return self._mean(x, [group if group == "C" else ""
                              for d, group in enumerate(x.axes, 1) if keepdim or d not in dims])

    def _mean(self, x: Value, axes: Sequence[str]) -> Value:
        sizes = {"C": x.sizes["C"]}
        if x.rows == "":  # one row
            return Value(x.layer, tuple(axes), sizes)
        return self._add("mean", self._name(), (x.layer,), (), axes, sizes)

    def add(self, a: Any, b: Any, alpha: float = 1, out: None = None) -> Value:
        if isinstance(a, (Constant, int, float)):
            a, b = b, a
        if isinstance(a, Cut) and isinstance(b, Cut) and alpha == 1:
            return a.plus(b).whole
        if isinstance(a, Scores):
            return self._hide_later(a, b if isinstance(b, Constant) and alpha == 1 else None)
        if isinstance(b, (int, float)) and b == 0:
            return a
        a, b = (self._use(x, True) if isinstance(x, View) else x for x in (a, b))
        if isinstance(b, Constant) and alpha == 1:
            return self._positions(self._use(a, True), b)
        if alpha != 1 or not isinstance(a, Value) or not isinstance(b, Value):
            raise NotSupported("an addition needs two tensors of the model's operations")
        if a.layout != b.layout:
            raise NotSupported(f"an addition of (N, {', '.join(map(str, a.shape))}) and "
                                f"(N, {', '.join(map(str, b.shape))}), which are laid out "
                                "differently")
        if b.factor is None and a.factor is not None:
            a, b = b, a
        a = self._use(a, True)
        if b.factor is None or len(b.axes) == 1:
            b = self._use(b, True)
            return self._add("add", self._name(), (a.layer, b.layer), (), a.axes, a.sizes)
        name = self._name(b.factor.name or self.node.name)
        value = self._add("layerscale", name, (a.layer, b.layer), (), a.axes, a.sizes)
        self._param(name, b.factor)
        return value

    def sub(self, a: Any, b: Any, alpha: float = 1) -> Value:
        if not isinstance(a, (Value, View)) or not isinstance(b, (Value, View)) or alpha != 1:
            raise NotSupported("a subtraction needs two tensors of the model's operations")
        return self.add(a, self._elementwise("scale", b, -1.0))

    def mul(self, a: Any, b: Any, out: None = None) -> Value:
        if not isinstance(a, (Value, View, Cut, Scores)):
            a, b = b, a
        if isinstance(b, Constant) and (isinstance(a, Cut) or isinstance(a, View) and self._turns(a, b)):
            return self._cut(a).times(b.value)
        if isinstance(a, Scores) and (a.soft or a.rate > 0):
            raise NotSupported("probabilities of attention that are scaled")
        if isinstance(a, (View, Scores)) and isinstance(b, (int, float)):
            return dataclasses.replace(a, scale=a.scale * b)
        a, b = (self._use(x, True) if isinstance(x, View) else x for x in (a, b))
        if isinstance(b, Constant) and b.value.numel() == 1 and b.name not in self.state and not b.mask and \
                not self._parameters_of(b):
            b = float(b.value)
        if isinstance(b, (int, float)):
            return self._elementwise("scale", a, float(b))
        if isinstance(b, Value):
            return self._gate(self._use(a, True), self._use(b, True))
        if not isinstance(b, Constant):
            raise NotSupported("a product of two tensors is not supported")
        a = self._use(a, True)
        self._per_feature(b, a)
        return dataclasses.replace(a, factor=b)

    def _turns(self, x: View, table: Constant) -> bool:
        """Whether it has a number for each row and feature of a head."""
        shape, last = tuple(table.value.shape), x.groups[-2:]
        if last not in ((x.rows, x.left[1:]), (x.left[:1], x.left[1:])) or x.theta > 0 or self._parameters_of(table):
            return False
        rows = x.size(x.rows)
        return shape[-2:] == (rows, x.size(last[1])) if last[0] == x.rows else shape[-3:] == (rows, 1, x.size(last[1]))

    def _gate(self, x: Value, g: Value) -> Value:
        """A product of two tensors; or the features of each sample times numbers of its own, which have one row."""
        if x.layout == g.layout:
            return self._add("gate", self._name(), (x.layer, g.layer), (), x.axes, x.sizes)
        if x.windows > 1 or g.windows > 1:
            raise NotSupported("a product of windows and others")
        if x.rows == "":
            x, g = g, x
        if g.rows != "" or g.axes != tuple("C" if group == "C" else "" for group in x.axes):
            raise NotSupported("a product of two tensors is not supported, unless they have the same shape, or "
                                "one of them has a value for each feature of a sample")
        return self._add("gate", self._name(), (x.layer, g.layer), (), x.axes, x.sizes)

    def div(self, a: Any, b: Any) -> Value:
        if not isinstance(b, (int, float)):
            raise NotSupported("a division by a tensor is not supported")
        return self.mul(a, 1 / b)

    def addcmul(self, beta: Any, a: Any, b: Any, value: float = 1) -> Value:
        if not isinstance(b, Value):
            a, b = b, a
        if value != 1 or not isinstance(beta, Constant) or not isinstance(a, Constant):
            raise NotSupported("addcmul needs a parameter + a parameter * a tensor")
        return self._affine(a, beta, self._use(b))

    # ---- shapes

    def permute(self, x: Any, *dims: Any) -> Union[Value, View]:
        x = x if isinstance(x, View) else self._use(x, True)
        rank = len(x.groups) if isinstance(x, View) else 1 + len(x.axes)
        dims = [d % rank for d in (dims[0] if isinstance(dims[0], (tuple, list)) else dims)]
        if isinstance(x, View) or dims[0] != 0:
            return self._plain(permuted(self._view(x), dims))
        return dataclasses.replace(x, axes=tuple(x.axes[d - 1] for d in dims[1:]))

    def transpose(self, x: Any, dim0: int, dim1: int) -> Union[Value, View]:
        dims = list(range(self.result.dim()))
        dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
        return self.permute(x, dims)

    def reshape(self, x: Any, *_: Any, **__: Any) -> Union[Value, View]:
        """Joins and splits dimensions."""
        if isinstance(x, Scores) and self.result.shape[-2:] == (x.q.rows, x.q.rows):  # samples, windows and heads
            return x
        if isinstance(x, View):
            try:
                return self._plain(reshaped(x, self.result.shape))
            except NotSupported:  # its axes, in the order of memory, may be split elsewhere
                x = self._use(x, True)
        if isinstance(x, Value) and self.result.shape == (self.batch * x.windows, *x.shape):
            return x
        x = self._use(x, True)
        try:
            return self._dealt(x)
        except NotSupported:
            if len(x.axes) == 1 and x.rows != "" and x.windows == 1:
                raise
            return self._plain(reshaped(self._view(x), self.result.shape))

    def _dealt(self, x: Value) -> Value:
        """The axes one by one, dealt out again by the sizes."""
        shape = tuple(self.result.shape[1:])
        left = [axis for group in x.axes for axis in group]
        axes = []
        for size in shape:
            group = ""
            while left and x.size(group) < size:
                group += left.pop(0)
            axes.append(group)
        if left and axes and x.size("".join(left)) == 1:
            axes[-1] += "".join(left)
        value = dataclasses.replace(x, axes=tuple(axes))
        if len(x.axes) == 1 and x.rows != "" and value.axes != x.axes and x.windows == 1:
            raise NotSupported("a flattened tensor cannot be split again")
        apart = "X" in x.rows and any(group not in x.rows + "C" for group in axes)
        if value.shape != shape or self.result.shape[0] != self.batch or x.windows > 1 or apart:
            raise NotSupported(f"a tensor of (N, {', '.join(map(str, x.shape))}) as "
                               f"{tuple(self.result.shape)}")
        return self._whole(value)

    def _whole(self, x: Union[Value, View]) -> Value:
        """x; if it has one dimension of several axes, the net's value gets one row, too."""
        x = self._use(x)
        if len(x.axes) != 1 or x.rows == "" or self.program.layers[x.layer].function == "flatten":
            return x
        if x.size(x.rows) == 1:
            return dataclasses.replace(x, axes=("C",), sizes={"C": x.sizes["C"]})
        return dataclasses.replace(x, layer=self._push("flatten", (x.layer,)))

    # ---- constants that are computed

    def _computed(self, n: fx.Node, given: Dict[str, Tensor], done: Dict[fx.Node, Any]) -> Any:
        """What a node without values of the net computes, with other parameters; `done`: those that are known."""
        if n in done:
            return done[n]
        if n.op == "placeholder" or str(n.target).endswith("_") or n.target is operator.setitem:
            raise NotSupported("a bias of attention that depends on the input, or is changed in place")
        if n.op == "get_attr":
            done[n] = given.get(str(n.target), self.fetch_attr(str(n.target)))
            return done[n]
        if not isinstance(self.noted.get(n), Constant):
            if n not in self.plain:
                raise NotSupported("a bias of attention that depends on the input")
            return self.plain[n]
        args, kwargs = fx.node.map_arg((n.args, n.kwargs), lambda i: self._computed(i, given, done))
        if n.op == "call_method":
            done[n] = getattr(args[0], str(n.target))(*args[1:], **kwargs)
        elif n.op == "call_function":
            done[n] = n.target(*args, **kwargs)
        else:
            module = self.fetch_attr(str(n.target))
            weights = {name: given.get(f"{n.target}.{name}", p) for name, p in module.named_parameters()}
            done[n] = torch.func.functional_call(module, weights, args, kwargs)
        return done[n]

    def _parameters_of(self, constant: Constant) -> List[str]:
        """The model's parameters of which it is computed."""
        found: Dict[str, None] = {}
        left = [constant.node] if constant.node is not None else []
        seen = set(left)
        while left:
            i = left.pop()
            if i.op == "get_attr" and str(i.target) in self.named:
                found[str(i.target)] = None
            if i.op == "call_module":
                found.update({f"{i.target}.{name}": None for name, _ in self.fetch_attr(str(i.target)).named_parameters()})
            for j in i.all_input_nodes:
                if j not in seen and isinstance(self.noted.get(j), Constant):
                    seen.add(j)
                    left.append(j)
        return list(found)

    def _bias(self, constants: Sequence[Constant], heads: int, rows: int, windows: int
              ) -> Tuple[Bias, Optional[Constant], bool]:
        """What is added to scores; its table, if any, and whether heads are the first axis of that."""
        plain, table = torch.zeros(windows, heads, rows, rows, dtype=torch.float64), None
        for constant in constants:
            names = self._parameters_of(constant)
            if constant.mask or len(names) > 1 or names and table is not None:
                raise NotSupported("a bias of attention that is computed from several parameters, or another one for each sample")
            if names:
                table = constant, names[0]
            else:
                plain = plain + Bias.shaped(constant.value, heads, rows, windows, self.batch)
        if table is None:
            bias, numbers = Bias.of_numbers(plain)
            return bias, None if numbers is None else Constant(None, numbers), False
        constant, name = table
        tensor = self.named[name].detach()

        def with_table(values: Tensor) -> Tensor:
            return Bias.shaped(self._computed(constant.node, {name: values}, {}), heads, rows, windows, self.batch)

        with torch.no_grad():
            numbers = torch.arange(tensor.numel(), dtype=torch.float64).view(tensor.shape)
            zero = with_table(torch.zeros_like(numbers))
            ids = (with_table(numbers) - zero).round().long()
            if int(ids.min()) < 0 or int(ids.max()) >= tensor.numel() or \
                    not torch.allclose(tensor.double().flatten()[ids] + zero, with_table(tensor.double()), atol=1e-4):
                raise NotSupported(f"a bias of attention that is not an entry of {name} for each query and key")
        bias, transposed = Bias.of_table(ids, plain + zero, tensor.shape)
        return bias, Constant(name, self.named[name]), transposed

    def _core(self, layer: int, attention: Attention, rows: int, biases: Sequence[Constant]) -> int:
        """The layer of attention itself, over `rows` rows of a sample."""
        table = None
        if biases:
            of = attention.window or rows
            bias, table, transposed = self._bias(biases, attention.heads, of, rows // of)
            attention = dataclasses.replace(attention, bias=bias)
        layer = self._push("attention", (layer,), attention)
        if table is not None:
            ours, heads = f"{self.program.layers[layer].name}.table", attention.heads
            shape = (heads, attention.bias.entries) if transposed else (attention.bias.entries, heads)
            self._param(ours, table if table.name else None, table.value, shape, (1, 0) if transposed else (0, 1))
        return layer

    # ---- attention from its operations

    def matmul(self, a: Any, b: Any) -> Any:
        if isinstance(a, Scores):
            return self._attend(a, Heads.of(self._view(b)))
        if isinstance(a, (Value, View)) and isinstance(b, Constant) and b.value.dim() == 2:
            return self._of_matrix(a, b)
        return Scores.of(Heads.of(self._view(a)), Heads.of(self._view(b), True), 1.0)

    def _of_matrix(self, x: Any, b: Constant) -> Value:
        """A product with a parameter, or with one that is transposed."""
        for name in self._parameters_of(b):
            p = self.named[name]
            for transposed in (False, True):
                if p.dim() == 2 and torch.equal(p if transposed else p.t(), b.value):
                    return self.linear(x, Constant(name, p), None, transposed)
        raise NotSupported("a product with a matrix that is no parameter")

    def baddbmm(self, input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Scores:
        if not isinstance(input, Constant) or beta != 1:
            raise NotSupported("baddbmm is supported for scores of attention and what is added to them")
        return self._hide_later(dataclasses.replace(self.matmul(batch1, batch2), scale=float(alpha)), input)

    def einsum(self, equation: str, a: Any, b: Any) -> Any:
        """As a product of matrices: ...id,...jd->...ij or ...ij,...jd->...id."""
        terms, _, out = equation.replace(" ", "").replace(".", "").partition("->")
        first, _, second = terms.partition(",")
        if min(map(len, (first, second, out))) >= 3 and first[:-2] == second[:-2] == out[:-2] and out[-2] == first[-2]:
            if (first[-1], out[-1]) == (second[-2], second[-1]) and isinstance(a, Scores):
                return self.matmul(a, b)
            if (first[-1], out[-1]) == (second[-1], second[-2]):
                return Scores.of(Heads.of(self._view(a)), Heads.of(self._view(b)), 1.0)
        raise NotSupported(f"einsum of {equation!r}, unless it is a product in attention")

    def reshape_as(self, x: Any, _: Any) -> Union[Value, View]:
        return self.reshape(x)

    def softmax(self, x: Any, dim: Optional[int] = None, **_: Any) -> Scores:
        if not isinstance(x, Scores) or dim is None or dim % self.result.dim() != self.result.dim() - 1:
            raise NotSupported("softmax is supported over the scores of attention")
        return dataclasses.replace(x, soft=True)

    def masked_fill(self, x: Any, mask: Any, value: float) -> Scores:
        if not isinstance(x, Scores) or not isinstance(mask, Constant) or value > -1e4:
            raise NotSupported("masked_fill is supported for scores of attention, with -inf")
        return self._hide_later(x, dataclasses.replace(mask, value=~mask.value.bool()))

    def where(self, mask: Any, x: Any, other: Any) -> Scores:
        if isinstance(other, Scores) and isinstance(mask, Constant):
            mask, x, other = dataclasses.replace(mask, value=~mask.value), other, x
        value = float(other.value) if isinstance(other, Constant) and other.value.numel() == 1 else other
        if not isinstance(x, Scores) or not isinstance(mask, Constant) or not isinstance(value, (int, float)) or value > -1e4:
            raise NotSupported("where is supported for scores of attention and a mask, with -inf")
        return self._hide_later(x, mask)

    def _hide_later(self, x: Scores, mask: Optional[Constant]) -> Scores:
        if x.soft or mask is None:
            raise NotSupported("a mask of attention that is not added to scores")
        if self._parameters_of(mask):
            return dataclasses.replace(x, biases=(*x.biases, mask))
        try:
            causal = self.hides(mask, x.q.rows)
        except NotSupported:
            if mask.mask:
                raise
            return dataclasses.replace(x, biases=(*x.biases, mask))
        return dataclasses.replace(x, causal=causal or x.causal, masked=mask.mask or x.masked)

    def hides(self, mask: Constant, rows: int) -> bool:
        """Of a mask of attention: whether it hides later rows."""
        if isinstance(self.result, Tensor) and self.result.dim() == 3 == mask.value.dim():  # one head, without a dimension
            mask = dataclasses.replace(mask, value=mask.value[:, None])
        return hides_later(mask, rows, self.lengths)

    def scaled_dot_product_attention(
            self, q: Any, k: Any, v: Any, attn_mask: Optional[Constant] = None, dropout_p: float = 0.0,
            is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False) -> Union[Value, View]:
        of = [Heads.of(self._view(x)) for x in (q, k, v)]
        scores = Scores.of(of[0], of[1], of[0].features ** -0.5 if scale is None else scale)
        if attn_mask is not None and not isinstance(attn_mask, Constant):
            raise NotSupported("a mask of attention that the net computes")
        if attn_mask is not None:
            scores = self._hide_later(scores, attn_mask)
        return self._attend(dataclasses.replace(scores, causal=is_causal or scores.causal, soft=True, rate=dropout_p), of[2])

    def _attend(self, scores: Scores, v: Heads) -> Union[Value, View]:
        q, k, of = scores.q, scores.k, (scores.q, scores.k, v)
        if not scores.soft or not v.serves(q) or (v.count, v.rows) != (k.count, k.rows) or v.view.theta > 0:
            raise NotSupported("a product with scores that is not attention's")
        if v.view.scale != 1:
            raise NotSupported("values of attention that are scaled")
        scale = scores.scale * q.features ** 0.5
        if k.rows != q.rows:
            return self._plain(dataclasses.replace(q.view, layer=self._cross(scores, v, scale), features=q.view.left, picked=(),
                                                   scale=1.0))
        beside = all(x.view.layer == q.view.layer and x.view.first == first
                     for x, first in zip(of, (0, q.all, q.all + k.all)))
        if beside and q.view.size(q.view.features) == q.all + 2 * k.all and abs(scale - 1) < 1e-6:
            layer = q.view.layer
        else:
            layers = [self._part_of(x.view) for x in of]
            if abs(scale - 1) >= 1e-6:
                layers[0] = self._push("scale", (layers[0],), scale)
            layer = layers[0]
            for other in layers[1:]:
                layer = self._push("concat", (layer, other), Axis.FEATURES)
        if q.view.theta > 0:
            layer = self._push("rotary", (layer,), q.count, k.count, q.view.turned, q.view.theta)
        self.attentions += 1
        self.masked += scores.masked
        window = 0 if q.windows == 1 else q.rows
        layer = self._core(layer, Attention(q.count, scores.rate, scores.causal, k.count, window), q.rows * q.windows,
                           scores.biases)
        like = next((x for x in (q.view, v.view) if tuple(map(x.size, x.groups)) == tuple(self.result.shape)), q.view)
        return self._plain(dataclasses.replace(like, layer=layer, features=like.left, picked=(), scale=1.0, theta=0.0,
                                               turned=0, repeats=1))

    def _cross(self, scores: Scores, v: Heads, scale: float) -> int:
        """Attention to the rows of another value."""
        q, k = scores.q, scores.k
        if scores.causal or scores.masked or scores.biases or q.view.theta > 0:
            raise NotSupported("a mask, a bias or rotary positions in attention to other rows")
        layer, kv = self._part_of(q.view), k.view.layer
        if abs(scale - 1) >= 1e-6:
            layer = self._push("scale", (layer,), scale)
        if v.view.layer != kv or (k.view.first, v.view.first) != (0, k.all) or k.view.size(k.view.features) != 2 * k.all:
            kv = self._push("concat", (self._part_of(k.view), self._part_of(v.view)), Axis.FEATURES)
        self.attentions += 1
        return self._push("cross_attention", (layer, kv), q.count, k.count, scores.rate)

    def rotary(self, q: Any, k: Any, cos: Constant, sin: Constant, *_: Any, **__: Any) -> Tuple[View, View]:
        """apply_rotary_pos_emb of transformers."""
        theta, turned, parts = theta_of(cos.value, sin.value), cos.value.shape[-1], []
        for x, node, result in zip((q, k), self.node.args, self.result):  # others of this name pair neighbours
            x, value = self._cut(x), self.env[node]
            first, second = value[..., :turned].chunk(2, -1)
            want = value[..., :turned] * cos.value.unsqueeze(1) + torch.cat([-second, first], -1) * sin.value.unsqueeze(1)
            if result.shape != value.shape or not torch.allclose(result[..., :turned], want, atol=1e-4) or \
                    not torch.equal(result[..., turned:], value[..., turned:]):
                raise NotSupported("rotary positions other than Llama's")
            part = x.narrow(0, turned).turned(theta)
            parts.append((part if turned == x.count else part.joined(x.narrow(turned, x.count - turned))).whole)
        return tuple(parts)

    def mask_of(self, **_: Any) -> Constant:
        """A mask that a function of transformers makes of that of the samples' lengths."""
        return Constant(None, self.result, mask=True)

    def repeat_kv(self, x: Any, repeats: int) -> View:
        return dataclasses.replace(self._view(x), repeats=repeats)

    def rms_norm(self, x: Any, weight: Optional[Constant], eps: float) -> Union[Value, View]:
        if isinstance(x, View) and len(x.left) == 2 and x.groups[-1] == x.left[1]:
            return self._head_norm(x, weight, eps)
        x = self._use(x, True)
        self._features_last(x, "an RMS norm")
        name = self._layer_of(weight)
        value = self._add("rms_norm", name, (x.layer,), (), x.axes, x.sizes, eps)
        self._param(f"{name}.weight", weight, torch.ones(x.sizes["C"], **_FLOATS))
        return value

    def _head_norm(self, x: View, weight: Optional[Constant], eps: float) -> View:
        """Of the features of each head."""
        if x.theta > 0 or x.repeats > 1 or x.scale != 1:
            raise NotSupported("a norm of heads behind rotary positions or a scale")
        layer, name = self._part_of(x), self._layer_of(weight)
        heads, features = (x.sizes[axis] for axis in x.left)
        self.program.layers.append(Layer("head_norm", name, (layer,), (0, heads, features), eps))
        self._param(f"{name}.weight", weight, torch.ones(features, **_FLOATS))
        return dataclasses.replace(x, layer=len(self.program.layers) - 1, features=x.left, picked=())

    def to(self, x: Any, *_: Any, **__: Any) -> Any:
        if self.result.dtype != torch.float32:
            raise NotSupported(f"a conversion to {self.result.dtype}")
        return x


def _is_attention(t: _Tracer, n: fx.Node) -> bool:
    return n.op == "call_module" and \
        isinstance(t.fetch_attr(str(n.target)), nn.MultiheadAttention)


_FUNCTIONS: Dict[Any, Callable[..., Value]] = {
    F.linear: _Tracer.linear,
    F.conv2d: _Tracer.conv2d,
    torch.conv2d: _Tracer.conv2d,
    F.conv_transpose2d: _Tracer.conv_transpose2d,
    F.batch_norm: _Tracer.batch_norm,
    F.embedding: _Tracer.embedding,
    F.layer_norm: _Tracer.layer_norm,
    F.group_norm: _Tracer.group_norm,
    F.relu: _Tracer.relu,
    F.relu_: _Tracer.relu,
    torch.relu: _Tracer.relu,
    torch.relu_: _Tracer.relu,
    F.gelu: _Tracer.gelu,
    F.silu: _Tracer.silu,
    torch.tanh: _Tracer.tanh,
    F.relu6: _Tracer.relu6,
    F.hardtanh: _Tracer.hardtanh,
    F.leaky_relu: _Tracer.leaky_relu,
    torch.sub: _Tracer.sub,
    operator.sub: _Tracer.sub,
    torch.sigmoid: _Tracer.sigmoid,
    F.sigmoid: _Tracer.sigmoid,
    F.hardsigmoid: _Tracer.hard_sigmoid,
    F.hardswish: _Tracer.hard_swish,
    F.pad: _Tracer.pad,
    torch.roll: _Tracer.roll,
    torch.flip: _Tracer.flip,
    torch.cat: _Tracer.cat,
    torch.concat: _Tracer.cat,
    torch.split: _Tracer.split,
    torch.unbind: _Tracer.unbind,
    torch.matmul: _Tracer.matmul,
    torch.bmm: _Tracer.matmul,
    torch.baddbmm: _Tracer.baddbmm,
    torch.einsum: _Tracer.einsum,
    operator.matmul: _Tracer.matmul,
    torch.softmax: _Tracer.softmax,
    torch.where: _Tracer.where,
    F.softmax: _Tracer.softmax,
    F.scaled_dot_product_attention: _Tracer.scaled_dot_product_attention,
    torch.chunk: _Tracer.split,
    operator.getitem: _Tracer.getitem,
    F.dropout: _Tracer.dropout,
    F.max_pool2d: _Tracer.max_pool2d,
    F.avg_pool2d: _Tracer.avg_pool2d,
    F.interpolate: _Tracer.upsample,
    F.adaptive_avg_pool2d: _Tracer.adaptive_avg_pool2d,
    torch.mean: _Tracer.mean,
    torch.add: _Tracer.add,
    operator.add: _Tracer.add,
    operator.iadd: _Tracer.add,
    torch.mul: _Tracer.mul,
    operator.mul: _Tracer.mul,
    operator.imul: _Tracer.mul,
    operator.truediv: _Tracer.div,
    operator.neg: _Tracer.neg,
    torch.neg: _Tracer.neg,
    torch.addcmul: _Tracer.addcmul,
    torch.flatten: _Tracer.reshape,
    torch.reshape: _Tracer.reshape,
    torch.squeeze: _Tracer.reshape,
    torch.unsqueeze: _Tracer.reshape,
    torch.permute: _Tracer.permute,
    torch.transpose: _Tracer.transpose,
    torch.swapaxes: _Tracer.transpose,
    torch.swapdims: _Tracer.transpose,
}

_METHODS: Dict[str, Callable[..., Value]] = {
    "relu": _Tracer.relu, "relu_": _Tracer.relu, "mean": _Tracer.mean, "add": _Tracer.add,
    "add_": _Tracer.add, "sub": _Tracer.sub, "mul": _Tracer.mul, "mul_": _Tracer.mul, "div": _Tracer.div,
    "neg": _Tracer.neg, "sigmoid": _Tracer.sigmoid, "roll": _Tracer.roll, "flip": _Tracer.flip,
    "split": _Tracer.split, "chunk": _Tracer.split,
    "unbind": _Tracer.unbind, "matmul": _Tracer.matmul, "bmm": _Tracer.matmul, "baddbmm": _Tracer.baddbmm,
    "softmax": _Tracer.softmax,
    "masked_fill": _Tracer.masked_fill, "to": _Tracer.to, "float": _Tracer.to, "type": _Tracer.to, "type_as": _Tracer.to,
    "flatten": _Tracer.reshape, "reshape": _Tracer.reshape, "view": _Tracer.reshape, "reshape_as": _Tracer.reshape_as,
    "squeeze": _Tracer.reshape, "unsqueeze": _Tracer.reshape, "permute": _Tracer.permute,
    "transpose": _Tracer.transpose, "swapaxes": _Tracer.transpose, "swapdims": _Tracer.transpose,
    "expand": _Tracer.expand, "contiguous": _Tracer.same, "clone": _Tracer.same,
}

_IN_PARTS = (_Tracer.split, _Tracer.unbind, _Tracer.rotary)  # whose result is several tensors


def _listed(n: fx.Node) -> Optional[Callable[..., Value]]:
    """What a function or method of tensors becomes."""
    if getattr(n.target, "__module__", "").startswith("transformers."):
        return {"apply_rotary_pos_emb": _Tracer.rotary, "repeat_kv": _Tracer.repeat_kv,
                "create_position_ids_from_input_ids": _Tracer.position_ids,
                **dict.fromkeys(MASKS, _Tracer.mask_of)}.get(n.target.__name__)
    if getattr(n.target, "__module__", "").startswith("torchvision.ops."):
        return {"stochastic_depth": _Tracer.stochastic_depth}.get(n.target.__name__)
    if getattr(n.target, "__module__", "") == "torchvision.models.swin_transformer":
        return {"shifted_window_attention": _Tracer.shifted_window_attention,
                "_patch_merging_pad": _Tracer.patch_merging}.get(n.target.__name__)
    return (_METHODS if n.op == "call_method" else _FUNCTIONS).get(n.target)


def trace(model: nn.Module, example: Tensor, mask: Optional[Tensor] = None) -> Program:
    """The program of a model. The model is as before: its modes, its running statistics. mask: the example's of lengths, if the
    model's second input is one; the trace makes others of its type, in which each length is another."""
    if int(torch.__version__.split(".")[0]) < 2:
        raise Error(f"clprune.Net needs PyTorch 2.0 or later, this is {torch.__version__}")
    for kind, attribute in (("DataParallel", "module"), ("OptimizedModule", "_orig_mod")):
        if type(model).__name__.endswith(kind) and hasattr(model, attribute):
            raise Error(f"the model is in a {type(model).__name__}; expected the model itself, its .{attribute}")
    for name, module in model.named_modules():
        if module._backward_hooks or module._backward_pre_hooks or not name and hooks_of(module):
            raise Error(f"{name or 'the model'} has hooks, which a net does not run")
    # with gradients, as in training, for which code may ask; but nothing is kept for a backward pass
    nothing = torch.autograd.graph.saved_tensors_hooks(lambda tensor: None, lambda none: none)
    with _TRACING, unchanged(model), torch.enable_grad(), nothing, torch.random.fork_rng(devices=[]):
        traced = graph_of(model.train(), _inputs(example, mask, 2), known)
        program = _program_of(model, traced, *_inputs(example, mask, 2))
        other = _program_of(model, traced, *_inputs(example, mask, 3))
        program.padding_counts = _padding_counts(program)
    if program.layers != other.layers or program.ties != other.ties:
        raise Error("the model's layers depend on the number of samples")
    return program


def _inputs(example: Tensor, mask: Optional[Tensor], samples: int) -> Tuple[Tensor, ...]:
    x = example[torch.arange(samples) % example.shape[0]]
    if mask is None:
        return x,
    rows = mask.shape[1]
    lengths = torch.tensor([rows, 1, max(1, rows // 2)])[:samples]
    return x, (torch.arange(rows) < lengths[:, None]).to(mask.dtype)


# Layers that compute a row of a sample from that row and, in attention, from those of the sample's length.
_BY_ROW = {"tokens", "rows", "embedding", "positions", "positions_of", "rotary", "linear", "affine", "layer_norm", "rms_norm",
           "head_norm", "layerscale", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "hard_sigmoid", "hard_swish", "swiglu", "relu",
           "relu6", "gate", "add", "attention", "dropout", "scale", "drop_path"}


def _padding_counts(program: Program) -> bool:
    """Whether outputs, those of the same row but for one output a sample, may depend on what is behind the sample's length."""
    counts: List[bool] = []
    for layer in program.layers:
        by_row = layer.function in _BY_ROW or layer.function in ("concat", "slice") and layer.more[0] == Axis.FEATURES or \
            layer.function == "row" and layer.more[0] == 0
        counts.append(not by_row or any(counts[i] for i in layer.inputs))
    return counts[program.output.layer]


def _program_of(model: nn.Module, traced: fx.GraphModule, example: Tensor, *mask: Tensor) -> Program:
    tracer = _Tracer(model, traced, *mask or [None])
    try:
        tracer.run(example, *mask)
    except Exception as error:  # of the model's own code
        raise fails(example.shape[0], error) from error
    if tracer.stopped:
        more = [f"and {len(tracer.failed) - 10} more"] if len(tracer.failed) > 10 else []
        raise Error("\n    ".join(["the model cannot be converted:", *tracer.failed[:10], *more]))
    if mask and not 0 < tracer.masked == tracer.attentions:
        raise Error(f"of {tracer.attentions} layers of attention {tracer.masked} have the mask of lengths, the model's second "
                    "input; expected all")
    tracer.program.lengths = bool(mask)
    return _needed(tracer.program)


def _needed(program: Program) -> Program:
    """Without layers that the output does not depend on, such as a pooler that nobody reads."""
    used = {program.output.layer}
    for i in range(len(program.layers) - 1, -1, -1):
        if i in used:
            used.update(program.layers[i].inputs)
    names = {layer.name for i, layer in enumerate(program.layers) if i not in used and layer.name is not None}

    def kept(ours: str) -> bool:
        return ours not in names and ours.rpartition(".")[0] not in names

    for other in (layer for i, layer in enumerate(program.layers) if i not in used):
        if other.function == "batch_norm":
            raise Error(f"nothing reads the batch norm {other.name}, whose running statistics the model changes")
    for ours, other in program.ties:
        if kept(ours) and not kept(other):
            raise Error(f"{ours} is tied to {other}, which nothing reads")
    index = {old: new for new, old in enumerate(sorted(used))}
    layers = [dataclasses.replace(program.layers[i], inputs=tuple(index[k] for k in program.layers[i].inputs))
              for i in sorted(used)]
    return dataclasses.replace(
        program, layers=layers, output=dataclasses.replace(program.output, layer=index[program.output.layer]),
        params=[p for p in program.params if kept(p.ours)], frozen=[name for name in program.frozen if kept(name)],
        ties=[tie for tie in program.ties if kept(tie[0])])
