"""What all operations add layers and parameters of a program with: for trace.py, which knows the operations."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any, Callable, Container, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, fx, nn

from clprune.tracing.made import Maker
from clprune.tracing.program import FLOATS, INPUTS, Axis, Extent, Layer, Param, Places, Program
from clprune.tracing.views import Constant, NotSupported, Order, Scores, Value, View, arranged, settled, view_of

__all__ = ["Layers"]


class Layers(fx.Interpreter, Maker):
    """A program that grows. node and result: the operation that is being noted, and what it gives."""

    def __init__(self, model: nn.Module, traced: fx.GraphModule, inputs: int, mask: Optional[Tensor]) -> None:
        super().__init__(traced)
        self.inputs = inputs  # how many are left to come; then a mask may
        self.lengths = None if mask is None else mask.sum(1)
        self.masked = self.attentions = 0  # how many there are with the mask, and all
        self.written: Dict[int, Optional[fx.Node]] = {}  # memory of tensors that are changed in place; the write by index
        self.in_place: Dict[fx.Node, fx.Node] = {}  # operations that change an argument, which is made anew for them
        self.program = Program()
        self.noted: Dict[fx.Node, Any] = {}
        self.failed: List[str] = []
        self.stopped = False
        self.names = {name + last for name in INPUTS for last in ("", *(f".{i}" for i in range(inputs)))}
        self.first: Dict[int, tuple] = {}  # of a parameter's id: the net's name, split, order
        self.state = set(model.state_dict())
        self.tensors = {**dict(model.named_buffers(remove_duplicate=False)),
                        **dict(model.named_parameters(remove_duplicate=False))}
        self.named = dict(model.named_parameters(remove_duplicate=False))
        self.names_of = {id(tensor): name for name, tensor in model.named_parameters()}  # the first of each
        self.batch = 0
        self.joined: Dict[tuple, int] = {}  # layers of an axis, and the layer that has them all
        self.ordered: Dict[tuple, int] = {}  # a layer and an order of its elements, and the layer that has it
        self.repeated: Dict[int, tuple] = {}  # values that are a parameter for each sample, by the id of its tensor
        self.gathered: Dict[int, tuple] = {}  # values of elements in other places, by the id of these
        self.plain: Dict[fx.Node, Any] = {}  # results that are no tensors
        self.dropped: Dict[str, Any] = {}  # probabilities by the draw that drops some, as a tensor, or None inside a layer

    def _add(self, function: str, name: Optional[str], inputs: Tuple[int, ...], more: tuple,
             axes: Tuple[str, ...], sizes: Dict[str, int], eps: float = 0.0,
             momentum: float = 0.1) -> Value:
        self.program.layers.append(Layer(function, name, inputs, more, eps, momentum))
        value = Value(len(self.program.layers) - 1, tuple(axes), dict(sizes))
        if function not in INPUTS and value.shape != tuple(self.result.shape[1:]):
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

    def _linear_of(self, name: str, layer: int, weight: Constant, bias: Optional[Constant]) -> int:
        """A linear layer, with a bias of zeros if it has none."""
        out = weight.value.shape[0]
        made = self._push_named("linear", name, (layer,), out)
        self._param(f"{name}.weight", weight)
        self._param(f"{name}.bias", bias, torch.zeros(out, **FLOATS))
        return made

    def _param(self, ours: str, constant: Optional[Constant], value: Optional[Tensor] = None,
               split: Tuple[int, ...] = (), order: Tuple[int, ...] = ()) -> None:
        """A parameter of the last layer. constant: None for one that always has `value`."""
        if constant is not None and self._is_fixed(constant):
            constant, value = None, constant.value.float()
        if constant is None:
            self.program.params.append(Param(ours, None, tuple(value.shape), split, order, value))
            self.program.frozen.append(ours)
            return
        if constant.then or constant.name is None or constant.name not in self.state and constant.name not in self.named:
            own = None if constant.then else self._own(constant)
            if own is None:
                self._made(ours, constant, split, order)
                return
            constant = own
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

    def _read(self, *constants: Constant) -> None:
        """Notes the buffers of the state of which constants are computed, whose numbers a layer has."""
        for constant in constants:
            for name in self._parameters_of(constant, self.state):
                if name not in self.named:
                    self.program.read[name] = self.tensors[name].detach().cpu().clone()

    def _is_fixed(self, constant: Constant) -> bool:
        """Whether no tensor of the model's state has it, or makes it."""
        if constant.value.requires_grad:
            return False
        if constant.name is not None:
            return constant.name not in self.state and constant.name not in self.named
        return constant.node is not None and not constant.mask and not self._parameters_of(constant, self.state)

    def _computed(self, n: fx.Node, given: Dict[str, Tensor], done: Dict[fx.Node, Any]) -> Any:
        """What a node without values of the net computes, with other parameters; `done`: those that are known."""
        if n in done:
            return done[n]
        if n.op == "placeholder" or str(n.target).endswith("_") or n.target is operator.setitem:
            raise NotSupported("a constant that depends on the input, or is changed in place")
        if n.op == "get_attr":
            if n in self.noted and getattr(self.noted[n], "node", None) is not n:
                raise NotSupported("a constant that is computed from a tensor that is changed in place")
            done[n] = given.get(str(n.target), self.fetch_attr(str(n.target)))
            return done[n]
        if not isinstance(self.noted.get(n), Constant):
            if n not in self.plain:
                raise NotSupported("a constant that depends on the input")
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

    def _parameters_of(self, constant: Constant, among: Optional[Container[str]] = None) -> List[str]:
        """The model's parameters of which it is computed, or what else there is `among` its tensors."""
        among = self.named if among is None else among
        found: Dict[str, None] = {}
        left = [constant.node] if constant.node is not None else []
        seen = set(left)
        while left:
            i = left.pop()
            if i.op == "get_attr" and str(i.target) in among:
                found[str(i.target)] = None
            if i.op == "call_module":
                module = self.fetch_attr(str(i.target))
                found.update({f"{i.target}.{name}": None for name, _ in module.named_parameters()})
                found.update({f"{i.target}.{name}": None for name, _ in module.named_buffers() if f"{i.target}.{name}" in among})
            inputs = [(j, self.noted[j].node) for j in i.all_input_nodes if isinstance(self.noted.get(j), Constant)]
            more = {j for pair in inputs for j in pair if j is not None} - seen  # with what was written into them
            seen |= more
            left.extend(more)
        return list(found)

    def _made(self, ours: str, constant: Constant, split: Tuple[int, ...], order: Tuple[int, ...]) -> None:
        """A parameter that is computed from others."""
        self.program.params.append(Param(ours, None, tuple(constant.value.shape), split, order, None, self.made(constant)))
        if not constant.value.requires_grad:
            self.program.frozen.append(ours)

    def _own(self, constant: Constant) -> Optional[Constant]:
        """The parameter whose elements it has, one behind the other, as positions that are resampled to the size they have."""
        names, count = self._parameters_of(constant), constant.value.numel()
        p = self.named[names[0]] if len(names) == 1 and self._of_one(constant) else None
        if p is not None and count in (p.numel(), p.numel() * self.batch) and constant.value.requires_grad == p.requires_grad:
            samples = max(1, self._computed(constant.node, {}, {}).numel() // p.numel())  # for which it is repeated
            if self._alike(names[0], lambda values: self._computed(constant.node, {names[0]: values}, {}).flatten(),
                           lambda values: values.flatten().repeat(samples)):
                return Constant(names[0], constant.value)
        return None

    def _of_one(self, constant: Constant) -> bool:
        """Whether no other tensor of the model's state has a part in it, such as a mask of ones that may get zeros later."""
        return len({id(self.tensors[name]) for name in self._parameters_of(constant, self.tensors)
                    if name in self.state or name in self.named}) == 1

    def _alike(self, name: str, made: Callable[[Tensor], Tensor], wanted: Callable[[Tensor], Tensor]) -> bool:
        """Whether two functions of a parameter have the same result and gradient, for its values and for random ones, small and
        large."""
        p, draw = self.named[name], torch.Generator().manual_seed(1)
        for scale in (0, 1e-4, 1, 1e3):
            values = scale * torch.randn(p.shape, generator=draw, dtype=torch.float64) if scale > 0 else p.detach().double()
            most = float(values.abs().max())
            with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):  # not those of trace()
                got, want = (f(values.requires_grad_()).double() for f in (made, wanted))
                weights = torch.randn(want.shape, generator=draw, dtype=torch.float64)
                if got.shape != want.shape or not torch.allclose(got, want, rtol=1e-5, atol=1e-5 * most):
                    return False
                if p.requires_grad:
                    slopes = [torch.autograd.grad((y * weights).sum(), values)[0] for y in (got, want) if y.requires_grad]
                    if len(slopes) < 2 or not torch.allclose(*slopes, rtol=1e-4, atol=1e-4):
                        return False
        return True

    def _view(self, x: Any) -> View:
        x = self.scores(x) if isinstance(x, Scores) else x
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
        return self._push_named(function, self._name(), inputs, *more)

    def _push_named(self, function: str, name: str, inputs: Tuple[int, ...], *more: Any) -> int:
        self.program.layers.append(Layer(function, name, inputs, more))
        return len(self.program.layers) - 1

    def _use(self, x: Any, windows: bool = False) -> Value:
        """x, multiplied by its factor if it has one. windows: the operation may be one of windows, of each row by itself."""
        x = self.scores(x) if isinstance(x, Scores) else x
        if isinstance(x, View):
            x = self._settle(x)
        if isinstance(x, Value) and x.windows > 1 and not windows:
            raise NotSupported("an operation on windows that is not one of each row")
        if isinstance(x, Value) and "C" not in x.sizes:
            raise NotSupported("an operation on the tokens other than an embedding")
        if isinstance(x, Constant):
            x = self._of_each_sample(x)
        if not isinstance(x, Value):
            raise NotSupported("an argument is a parameter or a number where a tensor is expected")
        return x if x.factor is None else self._affine(x.factor, None, x)

    def _of_each_sample(self, x: Constant) -> Any:
        """A parameter that all samples have, such as queries that are learnt, as a value: zeros, to which it is added."""
        shape, floats = x.value.shape, [i for i, layer in enumerate(self.program.layers) if layer.function != "tokens"]
        if not self._are_alike(x) or not floats or not self._parameters_of(x):
            return x
        if id(x.value) not in self.repeated:
            zeros = Places(*shape[1:], Extent(0, 0), torch.full((shape[1] * shape[2],), -1, dtype=torch.int32))
            value = Value(self._push("gather", (floats[-1],), zeros), ("T", "C"), {"T": shape[1], "C": shape[2]})
            result, self.result = self.result, x.value
            try:
                self.repeated[id(x.value)] = self._positions(value, self.of_one(x)), x.value
            finally:
                self.result = result
        return self.repeated[id(x.value)][0]

    def _are_alike(self, x: Constant) -> bool:
        """Whether all samples have the same, also with other values of the parameters, which may all be 0."""
        if x.value.dim() != 3 or x.value.shape[0] != self.batch or not bool((x.value == x.value[:1]).all()):
            return False
        draw = torch.Generator().manual_seed(1)
        others = {name: torch.randn(self.named[name].shape, generator=draw) for name in self._parameters_of(x)}
        with torch.no_grad():
            value = x.value if x.node is None else self._computed(x.node, others, {})
            for name, args in x.then if x.node is not None else ():
                value = getattr(value, name)(*args)
        return bool((value == value[:1]).all())

    def of_one(self, x: Any) -> Any:
        """What a tensor with changes has of the first sample, if all have the same."""
        if not isinstance(x, Constant) or not x.then or not self._are_alike(x):
            return x
        return x.after("narrow", 0, 0, 1)

    def _affine(self, alpha: Optional[Constant], beta: Optional[Constant], x: Value) -> Value:
        plain = dataclasses.replace(x, factor=None)
        for constant in (alpha, beta):
            if constant is not None:
                self._per_feature(constant, plain)
        name = self._layer_of(alpha or beta)
        self.program.layers.append(Layer("affine", name, (x.layer,)))
        features = x.sizes["C"]
        self._param(f"{name}.alpha", alpha, torch.ones(features, **FLOATS))
        self._param(f"{name}.beta", beta, torch.zeros(features, **FLOATS))
        return dataclasses.replace(plain, layer=len(self.program.layers) - 1)

    def _per_feature(self, constant: Constant, x: Value) -> None:
        """Fails unless the constant, as it is broadcast to x, has a value for each feature."""
        shape = (1,) * (1 + len(x.axes) - constant.value.dim()) + tuple(constant.value.shape)
        want = (1, *(x.sizes["C"] if group == "C" else 1 for group in x.axes))
        if "C" not in x.axes or shape != want:
            raise NotSupported(
                f"{constant.name} of {tuple(constant.value.shape)} with a tensor of "
                f"(N, {', '.join(map(str, x.shape))}): a parameter needs one value per feature, or per "
                "row and feature")

    def _of_features(self, b: Constant, x: Value) -> Constant:
        """With a value for each feature; of one for all, one each."""
        if b.value.numel() == 1 and x.sizes["C"] > 1:
            steps = (("reshape", (1,)), ("expand", (x.sizes["C"],)))
            shape = [x.sizes["C"] if group == "C" else 1 for group in x.axes]
            return dataclasses.replace(b, value=b.value.reshape(1).expand(x.sizes["C"]).reshape(shape), then=(*b.then, *steps))
        self._per_feature(b, x)
        return b

    def same(self, x: Value, *_: Any, **__: Any) -> Value:
        return x

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

    def _elementwise(self, function: str, x: Value, *more: Any) -> Value:
        x = self._use(x, True)
        return self._add(function, self._name(), (x.layer,), more, x.axes, x.sizes)

    def _mean(self, x: Value, axes: Sequence[str]) -> Value:
        sizes = {"C": x.sizes["C"]}
        if x.rows == "":  # one row
            return Value(x.layer, tuple(axes), sizes)
        return self._add("mean", self._name(), (x.layer,), (), axes, sizes)

    def _whole(self, x: Union[Value, View]) -> Value:
        """x; if it has one dimension of several axes, the net's value gets one row, too."""
        x = self._use(x)
        if len(x.axes) != 1 or x.rows == "" or self.program.layers[x.layer].function == "flatten":
            return x
        if x.size(x.rows) == 1:
            return dataclasses.replace(x, axes=("C",), sizes={"C": x.sizes["C"]})
        return dataclasses.replace(x, layer=self._push("flatten", (x.layer,)))
