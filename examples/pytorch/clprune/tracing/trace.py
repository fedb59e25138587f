"""From a PyTorch model to a program of layers of clprune/net.h, by torch.fx: the half of clprune.Net
that runs nothing. trace() returns the program; net/net.py makes a net of it."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from clprune.library import Error
from clprune.tracing.attention import Attentions
from clprune.tracing.graph import MASKS, fails, graph_of, hooks_of, unchanged
from clprune.tracing.images import Images
from clprune.tracing.known import known
from clprune.tracing.moves import Moved, Moves
from clprune.tracing.program import FLOATS, INPUTS, Axis, Extent, Failed, Layer, Param, Parts, Pool, Program, Stacked, needed
from clprune.tracing.views import Constant, Cut, NotSupported, Order, Scores, Value, View, first_part, permuted, picked, reshaped

__all__ = ["trace"]

_TRACING = threading.RLock()  # torch.fx patches nn.Module


class _Tracer(Images, Attentions, Moves):
    """Runs a traced model on an example and notes the layer that each operation becomes."""

    # ---- the graph

    def run_node(self, n: fx.Node) -> Any:
        tensors = {i: self.env[i] for i in n.all_input_nodes if isinstance(self.env.get(i), Tensor)}
        versions = {i: tensor._version for i, tensor in tensors.items()}
        drawn = torch.get_rng_state()
        result = super().run_node(n)
        self.drew = not torch.equal(drawn, torch.get_rng_state())
        if not isinstance(result, Tensor):
            self.plain[n] = result
        self.changed = [i for i, tensor in tensors.items() if tensor._version != versions[i]]
        whole = result
        if _is_attention(self, n):  # with its weights
            result = result[0]
        several = isinstance(result, (tuple, list)) and any(isinstance(part, Tensor) for part in result)
        if isinstance(result, Tensor) or several or n.op == "output" or self.changed:
            try:
                self.noted[n] = self._note(n, result)
            except NotSupported as why:
                self._fail(n, str(why))
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as why:  # odd arguments
                self._fail(n, f"this call is not supported: {why}")
        return whole

    def _fail(self, n: fx.Node, why: str) -> None:
        """Notes an operation that is not supported, which stops the model if its output needs the result."""
        self.failed.append(f"{self._where(n)}: {why}")
        self.noted[n] = Failed()
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
            self.inputs -= 1
            return self._input(n, result) if self.inputs >= 0 else Constant(None, result, mask=True)
        if n.op == "get_attr":
            memory = result.untyped_storage().data_ptr() if isinstance(result, Tensor) else None
            if memory in self.written:
                if self.written[memory] is None:
                    raise NotSupported("the model changes this buffer itself")
                return Constant(None, result, node=self.written[memory])
            return Constant(str(n.target), result, node=n)
        given = [self.noted[i] for i in n.all_input_nodes if i in self.noted]
        if n.op == "output":
            self.program.key = "out" if isinstance(args[0], dict) and "out" in args[0] else None
            output = args[0][self.program.key] if self.program.key else args[0]
            output = self.scores(output) if isinstance(output, Scores) else self.placed(output)
            if isinstance(output, (Value, View)):
                self.program.output = value = self._whole(output)
                shape = tuple((result[self.program.key] if self.program.key else result).shape)
                if shape != (self.batch, *value.shape):
                    raise NotSupported(f"(N, {', '.join(map(str, value.shape))}) is expanded to {shape}")
            elif not isinstance(output, Failed):
                raise NotSupported("the output is not one tensor of the model's operations")
            else:
                self.stopped = True
            return output
        if result is None:  # a write by index
            if not all(isinstance(a, Constant) for a in given):
                return self._write(n)
            return self._written(any(a.mask for a in given), n)
        if not any(isinstance(a, (Value, View, Cut, Scores, Moved, Failed, Parts, tuple)) for a in given):
            return self._constant(n, given, args, kwargs, result)
        self.node, self.result = n, result
        if any(isinstance(a, Failed) for a in given):
            if n.op == "call_module":
                self._handler(n)  # or it fails as well, and is listed
            return Failed()
        masked, of_mask = self.masked, any(isinstance(a, Constant) and a.mask for a in given)
        value = self._handled(n)
        read = masked < self.masked or isinstance(value, Scores) and value.masked
        if of_mask and not read and not isinstance(value, Constant):
            raise NotSupported("the mask of lengths is read by another operation than attention")
        if n.all_input_nodes[0] in self.changed:
            self._change(n, result, given[0], value)
        return value

    def _handled(self, n: fx.Node) -> Any:
        """What the operation's handler makes of it; else, if it only moves elements, these in other places."""
        moved = any(isinstance(self.noted.get(i), Moved) for i in n.all_input_nodes)
        value = self.moved_by(n) if moved else None
        if value is not None:
            return value
        before = self.attentions, self.masked
        try:
            args, kwargs = fx.node.map_arg((n.args, n.kwargs), lambda i: self.placed_if(self._argument(i)))
            return self._handler(n)(*args, **kwargs)
        except NotSupported:
            self.attentions, self.masked = before
            value = None if moved else self.moved_by(n)
            value = self._of_rows(n) if value is None else value
            if value is None:
                raise
            return value

    def _of_rows(self, n: fx.Node) -> Optional[Moved]:
        """An operation on the features of each row, of tensors in (T, N, C); None if it is not."""
        module = self.fetch_attr(str(n.target)) if n.op == "call_module" else None
        if not (n.target in _OF_ROWS if module is None else isinstance(module, _ROWS)) or self.result.dim() != 3:
            return None

        result, self.result = self.result, self.result.transpose(0, 1)
        try:
            args, kwargs = fx.node.map_arg((n.args, n.kwargs), lambda i: self.of_one(self.samples_first(self._argument(i))))
            return self.rows_first(self._handler(n)(*args, **kwargs))
        except NotSupported:  # the first reason tells more
            return None
        finally:
            self.result = result

    def samples_first(self, x: Any) -> Any:
        """A tensor of (T, N, C) as one of (N, T, C)."""
        if isinstance(x, Constant) and x.value.dim() == 3:
            return x.after("transpose", 0, 1)
        if not isinstance(x, (Moved, Value, View)):
            return x
        return self.placed(self._changed(x, lambda places: places.transpose(0, 1)), 2)

    def rows_first(self, x: Value) -> Moved:
        return self._changed(x, lambda places: places.transpose(0, 1))

    def _constant(self, n: fx.Node, given: List[Any], args: tuple, kwargs: Dict[str, Any], result: Tensor) -> Constant:
        """What an operation without values of the net gives."""
        masked = any(a.mask for a in given if isinstance(a, Constant))
        if self.drew:
            raise NotSupported("random numbers in what is not computed from the input")
        if not masked and self._is_in_place(n, result):
            self._written(masked, n)
            self.in_place[n] = self.changed[0]
            return Constant(None, result, node=n)
        self._written(masked)
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
        self._read(indices)
        return Constant(table.name, result, tuple(ids[0].tolist()))

    def _is_in_place(self, n: fx.Node, result: Tensor) -> bool:
        """Whether an operation changes its first argument, which nothing has changed before, and which is no tensor of the
        model's: it can be made again of a copy."""
        if len(self.changed) != 1 or n.args[:1] != (self.changed[0],) or not isinstance(result, Tensor):
            return False
        memory, old = result.untyped_storage().data_ptr(), self.env[self.changed[0]]
        return memory == old.untyped_storage().data_ptr() and memory not in self.written and result.shape == old.shape and all(
            x.untyped_storage().data_ptr() != memory for x in self.tensors.values()) and all(
            x is old or not isinstance(x, Tensor) or x.untyped_storage().data_ptr() != memory for x in self.env.values())

    def _written(self, masked: bool, by: Optional[fx.Node] = None) -> None:
        """Constants that an operation changes in place. by: a write by index, of which they are computed then."""
        for i in self.changed:
            memory = self.env[i].untyped_storage().data_ptr()
            self.written[memory] = by
            if any(p.untyped_storage().data_ptr() == memory for p in self.named.values()):
                raise NotSupported("a parameter is changed in place")
            for other, noted in self.noted.items():
                if isinstance(noted, Constant) and noted.value.untyped_storage().data_ptr() == memory:
                    self.noted[other] = Constant(None, noted.value, mask=masked or noted.mask, node=by)

    def _change(self, n: fx.Node, result: Tensor, old: Any, new: Value) -> None:
        """An operation in place: nodes of the same tensor have the new value."""
        memory = result.untyped_storage().data_ptr()
        for other, tensor in self.env.items():
            parts = isinstance(self.noted.get(other), Parts)
            tensor = tensor[0] if parts else tensor
            if not isinstance(tensor, Tensor) or other is n or other not in self.noted:
                continue
            if tensor.untyped_storage().data_ptr() != memory:
                continue
            if parts or self.noted[other] != old:
                raise NotSupported("it changes a tensor in place of which there is another view")
            self.noted[other] = new

    def _write(self, n: fx.Node) -> None:
        """A value that takes the place of elements of another one."""
        target, at, value = n.args
        at = fx.node.map_arg(at, lambda i: self.env[i])

        def put(x: Tensor, part: Any) -> Tensor:
            x[at] = part
            return x

        self.node, self.result, old = n, self.env[target], self.noted[target]
        if not isinstance(value, fx.Node) or isinstance(self.noted.get(value), Constant) or isinstance(old, Constant):
            raise NotSupported("a write by index of others than tensors of the model's operations")
        rest = self._changed(old, lambda t: put(t.clone(), 0))
        part = self._changed(self.noted[value], lambda t: put(torch.zeros(self.result.shape, dtype=t.dtype), t))
        self._change(n, self.result, old, self.add(self.placed(rest), self.placed(part)))

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
        if handler is None or not (isinstance(self.result, Tensor) or handler in (*_IN_PARTS, _Tracer.getitem)):
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

    def scaled_more(self, x: Any, weight: Constant) -> Union[Value, View]:
        """x * (1 + weight)"""
        if isinstance(x, View) and len(x.left) == 2 and x.groups[-1] == x.left[1]:  # of each head, as a row
            rows, heads, features = x.size(x.rows), *(x.sizes[axis] for axis in x.left)
            order, flat = Order((rows, heads, features), (0, 1, 2)), Extent(0, 0)
            layer = self._push("permute", (self._part_of(x),), order, features, flat)
            name = self._name()
            self.program.layers.append(Layer("layerscale", name, (layer, layer)))
            self._param(name, weight)
            layer = self._push("permute", (len(self.program.layers) - 1,), order, heads * features, flat)
            return dataclasses.replace(x, layer=layer, features=x.left, picked=())
        x = self._use(x, True)
        self._per_feature(weight, x)
        name = self._name()
        value = self._add("layerscale", name, (x.layer, x.layer), (), x.axes, x.sizes)
        self._param(name, weight)
        return value

    def linear(self, x: Value, weight: Constant, bias: Optional[Constant] = None, transposed: bool = False) -> Value:
        """transposed: the weight is in x out."""
        if bias is not None and bias.name is None:
            return self._positions(self.linear(x, weight, None, transposed), bias)
        x = self._use(x, True)
        name, out = self._layer_of(weight), weight.value.shape[1 if transposed else 0]
        split: Tuple[int, ...] = ()
        order: Tuple[int, ...] = ()
        if x.axes[-1] not in ("", "C", x.rows) and len(x.axes) > 1:
            x = self.last_features(x)
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
        self._param(f"{name}.bias", bias, torch.zeros(out, **FLOATS))
        return value

    def batch_norm(self, x: Value, mean: Optional[Constant], var: Optional[Constant],
                   weight: Optional[Constant] = None, bias: Optional[Constant] = None,
                   training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Value:
        x = self._use(x, True)
        if not training:
            raise NotSupported("a batch norm that uses running statistics in training")
        if x.axes[0] != "C":
            x = self._use(self.by_features(self._view(x), 1), True)
        if x.axes[0] != "C":
            raise NotSupported("a batch norm over dimension 1, which is not the features")
        if mean is None or momentum is None:
            raise NotSupported("a batch norm without running statistics or momentum is not "
                                "supported")
        if any(state.theirs == mean.name for state in self.program.states):
            raise NotSupported("a batch norm that runs twice")
        name = self._layer_of(weight or mean)
        value = self._add("batch_norm", name, (x.layer,), (), x.axes, x.sizes, eps, momentum)
        self._param(f"{name}.weight", weight, torch.ones(x.sizes["C"], **FLOATS))
        self._param(f"{name}.bias", bias, torch.zeros(x.sizes["C"], **FLOATS))
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
        x = self.last_features(x)
        if len(shape) != 1:
            raise NotSupported("a layer norm over several dimensions")
        name = self._layer_of(weight)
        value = self._add("layer_norm", name, (x.layer,), (), x.axes, x.sizes, eps)
        self._param(f"{name}.weight", weight, torch.ones(x.sizes["C"], **FLOATS))
        self._param(f"{name}.bias", bias, torch.zeros(x.sizes["C"], **FLOATS))
        return value

    def group_norm(self, x: Value, groups: int, weight: Optional[Constant] = None,
                   bias: Optional[Constant] = None, eps: float = 1e-5) -> Value:
        x = self._use(x)
        if x.axes[0] != "C":
            x = self._use(self.by_features(self._view(x), 1))
        if x.axes[0] != "C":
            raise NotSupported("a group norm over dimension 1, which is not the features")
        name = self._layer_of(weight)
        value = self._add("group_norm", name, (x.layer,), (groups,), x.axes, x.sizes, eps)
        self._param(f"{name}.weight", weight, torch.ones(x.sizes["C"], **FLOATS))
        self._param(f"{name}.bias", bias, torch.zeros(x.sizes["C"], **FLOATS))
        return value

    def _positions(self, x: Value, constant: Constant) -> Value:
        """x + a parameter with a value for each row and feature, or for each feature."""
        same = constant.value
        if same.dim() == 1 + len(x.axes) and same.shape[0] == self.batch and bool((same == same[:1]).all()):
            constant = dataclasses.replace(constant, value=same[:1])  # of each sample
        shape, axes = tuple(constant.value.shape), "".join(x.axes)
        if constant.rows is not None:
            return self._rows_of(x, constant)
        if shape not in (x.shape, (1, *x.shape)):
            if constant.name is None and constant.node is not None and constant.node.target in (torch.cat, torch.concat):
                return self._beside(x, [self.noted[i] for i in constant.node.args[0]], constant)
            try:
                per_feature = self._of_features(constant, x)
            except NotSupported:
                if constant.mask:
                    raise
                return self._use(self._plain(self.plus(self._view(x), constant)), True)
            return self._affine(None, per_feature, x)
        if sorted(axes) != sorted(x.stored):
            return self._use(self._plain(self.plus(self._view(x), constant)), True)
        name = self._name(constant.name or self.node.name)
        value = self._add("positions", name, (x.layer,), (), x.axes, x.sizes)
        order = tuple(axes.index(axis) for axis in x.stored)
        in_order = order == tuple(range(len(axes)))
        self._param(name, constant, split=() if in_order else tuple(x.sizes[axis] for axis in axes),
                    order=() if in_order else order)
        return value

    def _beside(self, x: Value, parts: Sequence[Constant], whole: Constant) -> Value:
        """x + joined parameters, one for each part of the features, as biases of queries and values alone."""
        self._per_feature(whole, x)
        if not all(part.value.dim() == 1 for part in parts):
            raise NotSupported("joined parameters other than those of features")
        first, layer = 0, None
        for part in parts:
            count = part.value.numel()
            of = Value(self._push("slice", (x.layer,), Axis.FEATURES, first, count), x.axes, {**x.sizes, "C": count})
            if not self._is_zero(part):
                of = self._affine(None, part, of)
            layer = of.layer if layer is None else self._push("concat", (layer, of.layer), Axis.FEATURES)
            first += count
        return dataclasses.replace(x, layer=layer)

    def _is_zero(self, part: Constant) -> bool:
        """Whether it is 0 with other values of the model's tensors, too, and has no gradient."""
        if part.node is None or part.name in self.named or part.name in self.state or part.value.requires_grad:
            return False
        others = {name: torch.ones_like(self.fetch_attr(name)) for name in self._parameters_of(part, self.state)}
        return not bool(part.value.any()) and not bool(self._computed(part.node, others, {}).any())

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
        if isinstance(tensors, Parts):
            tensors = [self._part(tensors, i) for i in range(len(tensors.sizes))]
        try:
            return self._cat(tensors, dim)
        except NotSupported:
            if dim % self.result.dim() == 0 or any(isinstance(x, Constant) for x in tensors):
                raise
            return self.joined_along(tensors, dim % self.result.dim())

    def _cat(self, tensors: Sequence[Any], dim: int) -> Value:
        """Features or rows behind each other, two values at a time; a list that begins as an earlier one did goes
        on from there, as DenseNet's do."""
        if len(tensors) == 2 and isinstance(tensors[0], Cut) and dim % self.result.dim() == self.result.dim() - 1:
            return tensors[0].joined(self._cut(tensors[1])).whole
        if len(tensors) > 1 and all(isinstance(x, Constant) and x.value.shape[1:2] == (1,) for x in tensors[:-1]):
            x = self._use(tensors[-1])
            for token in reversed(tensors[:-1]):
                x = self._class_token(token, x, dim)
            if x.shape != tuple(self.result.shape[1:]):
                raise NotSupported("class tokens of another size")
            return x
        values = [x if isinstance(x, Constant) else self._use(x) for x in tensors]
        most = max((x for x in values if isinstance(x, Value)), key=lambda x: x.size(x.rows))
        if self.result.dim() == 2 and all(isinstance(x, Value) for x in values) and any(x.axes != ("C",) for x in values):
            values = [x if x.axes == ("C",) else self._use(self.by_features(self._view(x), 1)) for x in values]  # flattened
            most = values[0]
        values = [self._rows_like(x, most, dim) if isinstance(x, Constant) else self._one_row(x, dim) for x in values]
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

    @staticmethod
    def _one_row(x: Value, dim: int) -> Value:
        """x; if it has one row, of this dimension."""
        at = dim % (1 + len(x.axes)) - 1
        if at < 0 or x.rows != "" or x.axes[at] != "" or "C" not in x.axes:
            return x
        return Value(x.layer, (*x.axes[:at], "T", *x.axes[at + 1:]), {"T": 1, "C": x.sizes["C"]})

    def stack(self, tensors: Sequence[Any], dim: int = 0) -> tuple:
        """Values beside each other, of which a sum or a mean follows."""
        return Stacked((self._use(x) for x in tensors), dim % self.result.dim())

    def sum(self, x: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Value:
        if isinstance(x, Stacked) and dim in (x.dim, (x.dim,), [x.dim]) and not keepdim:
            return functools.reduce(self.add, x)
        if dim is None:
            raise NotSupported("a sum of all elements")
        return self.summed(x, dim)

    def max(self, x: Any, dim: Any = None, keepdim: bool = False) -> tuple:
        """Over all rows, 16 at a time, as of an image of one line; without the indices."""
        x = self._use(x)
        if not isinstance(dim, int):
            raise NotSupported("max is supported along a dimension")
        if x.rows == "" or x.axes[dim % (1 + len(x.axes)) - 1] != x.rows or "C" not in x.axes:
            self.result = self.result[0]
            return (self.amax(x, dim),)
        rows, layer = x.size(x.rows), x.layer
        while rows > 1:
            line = self._push("permute", (layer,), Order((rows, x.sizes["C"]), (0, 1)), x.sizes["C"], Extent(1, rows))
            taps = min(rows, 16)
            layer, rows = self._push("max_pool", (line,), Pool((1, taps), (1, taps), (0, 0), True)), -(-rows // taps)
        at = dim % (1 + len(x.axes)) - 1
        axes = tuple(group if group == "C" else "" for d, group in enumerate(x.axes) if keepdim or d != at)
        return (Value(self._push("flatten", (layer,)), axes, {"C": x.sizes["C"]}),)

    def _view(self, x: Any) -> View:
        return super()._view(self._unstacked(x))

    def _use(self, x: Any, windows: bool = False) -> Value:
        return super()._use(self._unstacked(x), windows)

    def _unstacked(self, x: Any) -> Any:
        """Values that were stacked, as one."""
        return self.placed(self.beside(x, x.dim)) if isinstance(x, Stacked) else self.placed(x)

    def _weighted(self, x: Stacked, weights: Any) -> Stacked:
        """Stacked values times a value for each feature of each of them."""
        weights = self._view(weights)
        sizes = list(map(weights.size, weights.groups))
        inner = [d for d, size in enumerate(sizes) if d > 0 and size > 1]
        if len(inner) != 2 or x.dim not in inner or sizes[x.dim] != len(x) or len(sizes) != self.result.dim():
            raise NotSupported("a product of tensors that were stacked with others than a value for each feature of each of them")
        feature, = (d for d in inner if d != x.dim)
        groups = ["C" if d == feature else "" for d in range(1, len(sizes)) if d != x.dim]
        layer = self._part_of(self.by_features(weights, feature))
        found = []
        for i, part in enumerate(x):
            if tuple("C" if group == "C" else "" for group in part.axes) != tuple(groups) or part.sizes["C"] != sizes[feature]:
                raise NotSupported("a product of tensors that were stacked with one of other features")
            weight = self._push("slice", (layer,), Axis.ROWS, i, 1)
            found.append(dataclasses.replace(part, layer=self._push("gate", (part.layer, weight))))
        return Stacked(found, x.dim)

    def _class_token(self, token: Constant, x: Value, dim: int) -> Value:
        """A parameter as a row before the rows."""
        if dim != 1 or len(x.axes) != 2 or x.axes[1] != "C" or token.value.shape[1:] != (1, x.sizes["C"]):
            raise NotSupported("a class token is 1 x 1 x features, before rows of features")
        name = self._name(token.name or self.node.name)
        self.program.layers.append(Layer("class_token", name, (x.layer,)))
        value = Value(len(self.program.layers) - 1, ("T", "C"), {"T": x.size(x.axes[0]) + 1, "C": x.sizes["C"]})
        self._param(name, token)
        return value

    def _rows_like(self, rows: Constant, x: Value, dim: int) -> Value:
        """A parameter as rows of a value like x: 0 times as many rows of x, plus the parameter."""
        shape = tuple(rows.value.shape)
        if dim != 1 or len(shape) != 3 or x.axes != (x.rows, "C") or shape[2] != x.sizes["C"] or shape[1] > x.size(x.rows):
            raise NotSupported("rows of a parameter are 1 x rows x features, with no more rows than those beside them have")
        zeros = self._slice(x, 1, 0, shape[1])
        zeros = dataclasses.replace(zeros, layer=self._push("scale", (zeros.layer,), 0.0))
        name = self._name(rows.name or self.node.name)
        self.program.layers.append(Layer("positions", name, (zeros.layer,)))
        self._param(name, rows)
        return dataclasses.replace(zeros, layer=len(self.program.layers) - 1)

    def split(self, x: Value, _: Any = None, dim: int = 0, **__: Any) -> Parts:
        """Also chunks: the sizes are those of the results."""
        sizes = tuple(part.shape[dim] for part in self.result)
        if isinstance(x, View) and len(set(sizes)) == 1:
            shape, dim = list(map(x.size, x.groups)), dim % len(x.groups)
            shape[dim:dim + 1] = len(sizes), sizes[0]
            return Parts(reshaped(x, shape), dim)
        x = self._use(x, True)
        return Parts(x, dim % (1 + len(x.axes)), sizes)

    def unbind(self, x: Any, dim: int = 0) -> Parts:
        x = self._view(x)
        return Parts(x, dim % len(x.groups))

    def _part(self, parts: Parts, i: int) -> Union[Value, View]:
        if parts.sizes is None:
            return self._plain(self._picked(parts.of, parts.dim, i))
        i %= len(parts.sizes)
        return self._slice(parts.of, parts.dim, sum(parts.sizes[:i]), parts.sizes[i])

    def _slice(self, x: Value, dim: int, first: int, count: int) -> Value:
        x = self._use(x, True)
        if sorted(x.axes) == ["C", "H", "W"] and x.axes[dim - 1] != "C":
            side, = self._sides(x, (dim,), "a part")
            return self._resampled(x, lambda t: t.narrow(side, first, count))
        try:
            axis, _ = self._axis(x, dim, "a part")
        except NotSupported:
            return self.placed(self._changed(x, lambda t: t.narrow(dim, first, count)))
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
                continue
            first, end, _ = index.indices(x.size(x.groups[dim]))
            if end - first < x.size(x.groups[dim]):
                part = x.size(x.left[1:])
                layer = self._push("slice", (x.layer,), Axis.FEATURES, x.first + first * part, (end - first) * part)
                x = dataclasses.replace(x, layer=layer, sizes={**x.sizes, x.left[0]: end - first}, features=x.left, picked=())
            dim += 1
        return self._plain(x)

    def getitem(self, x: Any, at: Any) -> Union[Value, View]:
        """A part along one dimension, one row of each sample, or the output of an attention module."""
        if isinstance(x, Parts):
            return self._part(x, at)
        if isinstance(x, tuple):
            return x[at]
        if isinstance(self.env[self.node.args[0]], tuple):
            if at != 0:
                raise NotSupported("the weights of nn.MultiheadAttention")
            return x
        index = list(at) if isinstance(at, tuple) else [at]
        if isinstance(x, View) and None not in index:
            if Ellipsis in index:
                here = index.index(Ellipsis)
                index[here:here + 1] = [slice(None)] * (1 + len(x.groups) - len(index))
            index = [slice(i[0], i[0] + 1 or None) if isinstance(i, list) and len(i) == 1 else i for i in index]
            parts = x.left[0] if len(x.left) > 1 else None  # of which some may be taken
            if all(isinstance(i, int) or isinstance(i, slice) and (
                    i.indices(x.size(group)) == (0, x.size(group), 1) or group == parts and i.step in (None, 1))
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

    def expand(self, x: Any, *_: Any) -> Value:
        """Of features of a sample, as gates of pixels; what reads it takes it as it is."""
        one = self._vector(self._use(x))
        if one.rows != "" or len(one.axes) + 1 != self.result.dim():
            return self._changed(x, lambda t: t.expand(self.result.shape))
        return one

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

    def erf(self, x: Value) -> Value:
        """A part of GELU, which mul finds: no net has such a layer."""
        return self._elementwise("erf", x)

    def norm(self, x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, *, ord: Any = 2, **more: Any) -> Value:
        """Of each feature over all rows: a part of GRN, norm / (mean of the norms + eps), which div finds."""
        x = self._use(x)
        dims = sorted(d % (1 + len(x.axes)) for d in ([dim] if isinstance(dim, int) else dim or ()))
        over = "".join(x.axes[d - 1] for d in dims if d > 0)
        more = [name for name, value in more.items() if value is not None]
        if p not in (2, "fro") or ord != 2 or more or 0 in dims or x.rows == "" or sorted(over) != sorted(x.rows):
            raise NotSupported("a norm of others than each feature over all rows")
        axes = [group if group == "C" else "" for d, group in enumerate(x.axes, 1) if keepdim or d not in dims]
        return self._add("norm", self._name(), (x.layer,), (), axes, {"C": x.sizes["C"]})

    def _of(self, x: Any, function: str) -> Optional[Layer]:
        """The layer of x, if it is one of this function."""
        of = self.program.layers[x.layer] if isinstance(x, Value) else None
        return of if of is not None and of.function == function else None

    def _gelu_of(self, x: Value, g: Value) -> Optional[Value]:
        """x * g, if that is factor * GELU: x is a number times y, and g is 1 + erf(y / sqrt 2)."""
        (layer, factor), of_erf = self._unscaled(x.layer), self._of(g, "erf")
        if of_erf is None or of_erf.more != (1,) or x.layout != g.layout:
            return None
        other, root = self._unscaled(of_erf.inputs[0])
        if other != layer or abs(root * 2 ** 0.5 - 1) > 1e-6:
            return None
        return self._elementwise("scale", self.gelu(dataclasses.replace(x, layer=layer)), 2 * factor)

    def _unscaled(self, layer: int) -> Tuple[int, float]:
        """The layer that one is a number times, and the number."""
        factor, of = 1.0, self.program.layers[layer]
        while of.function == "scale":
            factor, layer = factor * of.more[0], of.inputs[0]
            of = self.program.layers[layer]
        return layer, factor

    def silu(self, x: Value, inplace: bool = False) -> Value:
        return self._elementwise("silu", x)

    def tanh(self, x: Any) -> Union[Value, Scores]:
        if isinstance(x, Scores) and not (x.cap or x.soft or x.biases or x.causal or x.masked):
            return dataclasses.replace(x, cap=1.0)
        return self._elementwise("tanh", x)

    def dropout(self, x: Value, p: float = 0.5, training: bool = True, inplace: bool = False
                ) -> Value:
        if isinstance(x, Scores) and (p == 0 or not training):
            return x
        if isinstance(x, Scores) and x.soft and x.rate == 0:
            return dataclasses.replace(x, rate=float(p), draw=self.node.name)
        return self._elementwise("dropout", x, float(p)) if p > 0 and training else x

    def dropout_of_features(self, x: Value, p: float, training: bool) -> Value:
        if p > 0 and training:
            raise NotSupported("dropout of whole features")
        return x

    def mean(self, x: Any, dim=None, keepdim: bool = False, **more: Any) -> Value:
        if isinstance(x, Stacked) and dim in (x.dim, (x.dim,), [x.dim]) and not keepdim and not more:
            return self._elementwise("scale", functools.reduce(self.add, x), 1 / len(x))
        of = self._of(x, "norm")
        if of is not None and isinstance(dim, int) and keepdim and x.axes[dim % (1 + len(x.axes)) - 1] == "C":
            return Value(self._push("norms_mean", of.inputs), ("",) * len(x.axes), {"C": 1})
        x = self._use(x)
        dims = [dim] if isinstance(dim, int) else list(dim or ())
        rank = 1 + len(x.axes)
        dims = sorted(d % rank for d in dims)
        over = "".join(x.axes[d - 1] for d in dims if d > 0)
        left = [d for d, group in enumerate(x.axes, 1) if d not in dims and x.size(group) > 1]
        if 0 not in dims and not more and "C" in over and len(left) == 1 and x.windows == 1:
            x = self._use(self.by_features(self._view(x), left[0]))
            over = "".join(x.axes[d - 1] for d in dims if d > 0)
        if not dims or 0 in dims or more:
            raise NotSupported("a mean over other dimensions than those of a sample")
        if sorted(over) != sorted(x.rows) or "C" not in x.axes:
            return self.summed(x, dims, 1 / math.prod(((1, *x.shape)[d]) for d in dims))
        return self._mean(x, [group if group == "C" else ""
                              for d, group in enumerate(x.axes, 1) if keepdim or d not in dims])

    def add(self, a: Any, b: Any, alpha: float = 1, out: None = None) -> Value:
        if isinstance(a, (Constant, int, float)):
            a, b = b, a
        if isinstance(a, Cut) and isinstance(b, Cut) and alpha == 1:
            return a.plus(b).whole
        if isinstance(a, Scores) and isinstance(b, Constant) and alpha == 1 and not a.soft:
            return self._hide_later(a, b)
        a, b = (self._view(x) if isinstance(x, Scores) else x for x in (a, b))
        if isinstance(b, (int, float)) and b == 0:
            return a
        a, b = (self._use(x, True) if isinstance(x, View) else x for x in (a, b))
        means, erf = self._of(a, "norms_mean"), self._of(a, "erf")
        if means is not None and isinstance(b, float) and b > 0 and alpha == 1:
            return self._add("norms_mean", self._name(), means.inputs, (), a.axes, a.sizes, means.eps + b)
        if erf is not None and erf.more == () and b == 1 and alpha == 1:
            return self._add("erf", self._name(), erf.inputs, (1,), a.axes, a.sizes)
        if isinstance(b, (int, float)) and isinstance(a, Value):
            return self.plus_number(a, alpha * b)
        if isinstance(b, Constant) and alpha == 1:
            return self._positions(self._use(a, True), b)
        if alpha != 1 or not isinstance(a, Value) or not isinstance(b, Value):
            raise NotSupported("an addition needs two tensors of the model's operations")
        if a.layout != b.layout:
            a, b = (self._of_one_row(x) for x in (a, b))
            b = self.laid_as(b, a)
            a = a if a.layout == b.layout else self.laid_as(a, b)
        if a.layout != b.layout:
            a, b = self.alike(self._use(a, True), self._use(b, True))
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

    @staticmethod
    def _of_one_row(x: Value) -> Value:
        """x; where its rows are one, without them."""
        if x.windows > 1 or x.size(x.rows) > 1:
            return x
        axes = tuple("".join(axis for axis in group if axis == "C") for group in x.axes)
        return dataclasses.replace(x, axes=axes, sizes={"C": x.sizes["C"]})

    def sub(self, a: Any, b: Any, alpha: float = 1) -> Value:
        if isinstance(b, (int, float)):
            return self.add(a, -alpha * b)
        if isinstance(b, Constant) and not b.mask and alpha == 1:
            return self.add(a, dataclasses.replace(b, value=-b.value, then=(*b.then, ("neg", ()))))
        if not isinstance(b, (Value, View)) or alpha != 1:
            raise NotSupported("a subtraction needs two tensors of the model's operations")
        b = self._use(b, True)
        return self.add(dataclasses.replace(b, layer=self._push("scale", (b.layer,), -1.0)), a)

    def mul(self, a: Any, b: Any, out: None = None) -> Value:
        if not isinstance(a, (Value, View, Cut, Scores, Stacked)):
            a, b = b, a
        if isinstance(a, Stacked) or isinstance(b, Stacked):
            return self._weighted(a, b) if isinstance(a, Stacked) else self._weighted(b, a)
        if isinstance(b, Constant) and (isinstance(a, Cut) or isinstance(a, View) and self._turns(a, b)):
            self.angles_of(b)
            return self._cut(a).times(b.value)
        if isinstance(b, Constant) and b.value.numel() == 1 and not b.mask and self._is_fixed(b):
            b = float(b.value)
        if isinstance(a, Scores):
            number = isinstance(b, (int, float))
            gain = isinstance(b, Constant) and not b.mask and b.value.numel() == a.q.count and (
                a.q.count == 1 or b.value.dim() > 2 and b.value.shape[-3] == a.q.count)
            if a.soft or a.rate > 0 or a.biases or a.causal or a.masked or not number and (a.cap > 0 or a.gain or not gain) or \
                    number and a.cap > 0 and b <= 0:
                a = self._view(a)
            elif not number:
                return dataclasses.replace(a, gain=b)
            elif a.cap > 0:
                return dataclasses.replace(a, cap=a.cap * b)
        b = self._view(b) if isinstance(b, Scores) else b
        if isinstance(a, (View, Scores)) and isinstance(b, (int, float)):
            return dataclasses.replace(a, scale=a.scale * b)
        a, b = (self._use(x, True) if isinstance(x, View) else x for x in (a, b))
        if isinstance(b, (int, float)):
            return self._elementwise("scale", a, float(b))
        if isinstance(b, Value):
            a, b = self._use(a, True), self._use(b, True)
            return self._gelu_of(a, b) or self._gelu_of(b, a) or self._gate(a, b)
        if not isinstance(b, Constant):
            raise NotSupported("a product of two tensors is not supported")
        a = self._use(a, True)
        try:
            b = self._of_features(b, a)
        except NotSupported:
            if b.mask:
                raise
            return self._plain(self.times(self._view(a), b))
        return dataclasses.replace(a, factor=b)

    def _of_features(self, b: Constant, x: Value) -> Constant:
        """With a value for each feature; of one for all, one each."""
        if b.value.numel() == 1 and x.sizes["C"] > 1:
            steps = (("reshape", (1,)), ("expand", (x.sizes["C"],)))
            shape = [x.sizes["C"] if group == "C" else 1 for group in x.axes]
            return dataclasses.replace(b, value=b.value.reshape(1).expand(x.sizes["C"]).reshape(shape), then=(*b.then, *steps))
        self._per_feature(b, x)
        return b

    def _gate(self, x: Value, g: Value) -> Value:
        """A product of two tensors; or the features of each sample times numbers of its own, which have one row."""
        if x.layout == g.layout:
            return self._add("gate", self._name(), (x.layer, g.layer), (), x.axes, x.sizes)
        for one, other in ((x, g), (g, x)):
            as_one = self.laid_as(other, one)
            if as_one is not other:
                return self._add("gate", self._name(), (one.layer, as_one.layer), (), one.axes, one.sizes)
        both = x, g
        if x.rows == "":
            x, g = g, x
        g = self._vector(g)
        if x.windows > 1 or g.windows > 1 or g.rows != "" or g.sizes["C"] != x.sizes["C"] or \
                g.axes != tuple("C" if group == "C" else "" for group in x.axes):
            x, g = self.alike(*both)
        return self._add("gate", self._name(), (x.layer, g.layer), (), x.axes, x.sizes)

    def _vector(self, x: Value) -> Value:
        """x; if all its elements are one dimension, as features of one row."""
        shown, stored = ([axis for axis in axes if x.sizes[axis] > 1] for axes in ("".join(x.axes), x.stored))
        if x.rows == "" or shown != stored or sum(size > 1 for size in x.shape) != 1:
            return x
        axes = tuple("C" if x.size(group) > 1 else "" for group in x.axes)
        return Value(self._push("flatten", (x.layer,)), axes, {"C": math.prod(x.shape)})

    def square(self, x: Any) -> Value:
        x = self._use(x, True)
        return self._gate(x, x)

    def pow(self, x: Any, exponent: Any) -> Value:
        if exponent not in (2, 3):
            raise NotSupported(f"the power {exponent}, only 2 or 3")
        return self.square(x) if exponent == 2 else self._gate(self.square(x), self._use(x, True))

    def div(self, a: Any, b: Any) -> Value:
        norms, means = self._of(a, "norm"), self._of(b, "norms_mean")
        if norms is not None and means is not None and norms.inputs == means.inputs and means.eps > 0:
            return self._add("response", self._name(), norms.inputs, (), a.axes, a.sizes, means.eps)
        if isinstance(b, Constant) and not b.mask:
            return self.mul(a, dataclasses.replace(b, value=1 / b.value, then=(*b.then, ("reciprocal", ()))))
        if not isinstance(b, (int, float)):
            b = self._use(b, True)
            return self.mul(a, dataclasses.replace(b, layer=self._push("reciprocal", (b.layer,))))
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


    # ---- constants that are computed


    # ---- attention from its operations

    def reshape_as(self, x: Any, _: Any) -> Union[Value, View]:
        return self.reshape(x)

    def rms_norm(self, x: Any, weight: Optional[Constant], eps: float) -> Union[Value, View]:
        if isinstance(x, View) and len(x.left) == 2 and x.groups[-1] == x.left[1]:
            return self.head_norm(x, weight, eps)
        x = self.last_features(x)
        name = self._layer_of(weight)
        value = self._add("rms_norm", name, (x.layer,), (), x.axes, x.sizes, eps)
        self._param(f"{name}.weight", weight, torch.ones(x.sizes["C"], **FLOATS))
        return value

    def to(self, x: Any, *_: Any, **__: Any) -> Any:
        if self.result.dtype != torch.float32:
            raise NotSupported(f"a conversion to {self.result.dtype}")
        return x


def _is_attention(t: _Tracer, n: fx.Node) -> bool:
    return n.op == "call_module" and \
        isinstance(t.fetch_attr(str(n.target)), nn.MultiheadAttention)


_FUNCTIONS: Dict[Any, Callable[..., Value]] = {
    F.linear: _Tracer.linear,
    F.conv1d: _Tracer.conv1d,
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
    torch.erf: _Tracer.erf,
    torch.square: _Tracer.square,
    torch.pow: _Tracer.pow,
    operator.pow: _Tracer.pow,
    operator.isub: _Tracer.sub,
    torch.div: _Tracer.div,
    torch.amax: _Tracer.amax,
    F.avg_pool1d: _Tracer.avg_pool1d,
    F.adaptive_max_pool2d: _Tracer.adaptive_max_pool2d,
    torch.norm: _Tracer.norm,
    torch.linalg.vector_norm: _Tracer.norm,
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
    torch.stack: _Tracer.stack,
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
    F.normalize: _Tracer.normalize,
    F.scaled_dot_product_attention: _Tracer.scaled_dot_product_attention,
    torch.chunk: _Tracer.split,
    operator.getitem: _Tracer.getitem,
    F.dropout: _Tracer.dropout,
    F.max_pool2d: _Tracer.max_pool2d,
    F.avg_pool2d: _Tracer.avg_pool2d,
    F.interpolate: _Tracer.upsample,
    F.adaptive_avg_pool2d: _Tracer.adaptive_avg_pool2d,
    torch.mean: _Tracer.mean,
    torch.sum: _Tracer.sum,
    torch.max: _Tracer.max,
    F.unfold: _Tracer.unfold,
    F.fold: _Tracer.fold,
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
    "relu": _Tracer.relu, "relu_": _Tracer.relu, "mean": _Tracer.mean, "sum": _Tracer.sum, "max": _Tracer.max, "add": _Tracer.add,
    "add_": _Tracer.add, "sub": _Tracer.sub, "mul": _Tracer.mul, "mul_": _Tracer.mul, "div": _Tracer.div,
    "neg": _Tracer.neg, "tanh": _Tracer.tanh, "erf": _Tracer.erf, "norm": _Tracer.norm, "square": _Tracer.square,
    "pow": _Tracer.pow, "amax": _Tracer.amax, "reciprocal": lambda t, x: t._elementwise("reciprocal", x), "sub_": _Tracer.sub,
    "div_": _Tracer.div, "sigmoid_": _Tracer.sigmoid,
    "sigmoid": _Tracer.sigmoid,
    "roll": _Tracer.roll, "flip": _Tracer.flip,
    "split": _Tracer.split, "chunk": _Tracer.split,
    "unbind": _Tracer.unbind, "matmul": _Tracer.matmul, "bmm": _Tracer.matmul, "baddbmm": _Tracer.baddbmm,
    "softmax": _Tracer.softmax,
    "masked_fill": _Tracer.masked_fill, "to": _Tracer.to, "float": _Tracer.to, "type": _Tracer.to, "type_as": _Tracer.to,
    "flatten": _Tracer.reshape, "reshape": _Tracer.reshape, "view": _Tracer.reshape, "reshape_as": _Tracer.reshape_as,
    "squeeze": _Tracer.reshape, "unsqueeze": _Tracer.reshape, "permute": _Tracer.permute,
    "transpose": _Tracer.transpose, "swapaxes": _Tracer.transpose, "swapdims": _Tracer.transpose,
    "expand": _Tracer.expand, "expand_as": _Tracer.expand, "contiguous": _Tracer.same, "clone": _Tracer.same,
}

# Functions of layers that no net has: they become a part of another one.
_IN_OTHERS = {"erf": "GELU, x / 2 * (1 + erf(x / sqrt(2)))",
              **dict.fromkeys(("norm", "norms_mean"), "norm / (mean of the norms + eps), as in GRN")}

_OF_ROWS = {F.linear, F.layer_norm, F.dropout, F.relu, F.gelu, F.silu, torch.relu, torch.tanh, torch.add, operator.add}
_ROWS = (nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Dropout, nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh)

_IN_PARTS = (_Tracer.split, _Tracer.unbind, _Tracer.rotary, _Tracer.max)  # whose result is several tensors


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


def trace(model: nn.Module, example: Sequence[Tensor], mask: Optional[Tensor] = None) -> Program:
    """The program of a model. The model is as before: its modes, its running statistics. mask: the example's of lengths, if the
    model's last input is one; the trace makes others of its type, in which each length is another."""
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
        traced = graph_of(model.train(), (*_samples(example, 2), *_masks(mask, 2)), known)
        program, other = (_program_of(model, traced, _samples(example, n), *_masks(mask, n)) for n in (2, 3))
        program.padding_counts = _padding_counts(program)
        program.sources = _sources(model, program)
    if program.layers != other.layers or program.ties != other.ties or not _same_made(model, program, other):
        raise Error("the model's layers depend on the number of samples")
    return program


def _samples(example: Sequence[Tensor], samples: int) -> List[Tensor]:
    return [x[torch.arange(samples) % x.shape[0]] for x in example]


def _masks(mask: Optional[Tensor], samples: int) -> List[Tensor]:
    if mask is None:
        return []
    rows = mask.shape[1]
    lengths = torch.tensor([rows, 1, max(1, rows // 2)])[:samples]
    return [(torch.arange(rows) < lengths[:, None]).to(mask.dtype)]


def _same_made(model: nn.Module, *programs: Program) -> bool:
    """Whether parameters that are computed are the same, with other values of the model's."""
    tensors = {**dict(model.named_buffers(remove_duplicate=False)), **dict(model.named_parameters(remove_duplicate=False))}
    values = [[p.made.value(p.made.random(tensors)) for p in program.params if p.made is not None] for program in programs]
    return len(values[0]) == len(values[1]) and all(torch.equal(a, b) for a, b in zip(*values))


def _sources(model: nn.Module, program: Program) -> List[Param]:
    """Trained parameters that no layer has, from which others are computed, with a gradient."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    tensors = {**dict(model.named_buffers(remove_duplicate=False)), **trained}
    own, found = {p.theirs for p in program.params}, {}
    for p in program.params:
        if p.made is not None and p.ours not in program.frozen:
            state = {name: x.requires_grad_() if name in trained else x for name, x in p.made.random(tensors).items()}
            found.update({name: trained[name] for name in p.made.gradients(state, torch.ones(p.shape)) if name not in own})
    return [Param(f"source {name}", name, tuple(p.shape)) for name, p in found.items()]


# Layers that compute a row of a sample from that row and, in attention, from those of the sample's length.
_BY_ROW = {"tokens", "rows", "embedding", "positions", "positions_of", "rotary", "rotary_by", "linear", "affine", "layer_norm",
           "rms_norm", "head_norm", "layerscale", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "hard_sigmoid", "hard_swish",
           "swiglu", "relu", "relu6", "gate", "add", "attention", "dropout", "scale", "drop_path"}


def _padding_counts(program: Program) -> bool:
    """Whether outputs, those of the same row but for one output a sample, may depend on what is behind the sample's length."""
    counts: List[bool] = []
    for layer in program.layers:
        by_row = layer.function in _BY_ROW or layer.function in ("concat", "slice") and layer.more[0] == Axis.FEATURES or \
            layer.function == "row" and layer.more[0] == 0
        counts.append(not by_row or any(counts[i] for i in layer.inputs))
    return counts[program.output.layer]


def _program_of(model: nn.Module, traced: fx.GraphModule, example: Sequence[Tensor], *mask: Tensor) -> Program:
    tracer = _Tracer(model, traced, len(example), *mask or [None])
    try:
        tracer.run(*example, *mask)
    except Exception as error:  # of the model's own code
        raise fails(example[0].shape[0], error) from error
    if tracer.stopped:
        more = [f"and {len(tracer.failed) - 10} more"] if len(tracer.failed) > 10 else []
        raise Error("\n    ".join(["the model cannot be converted:", *tracer.failed[:10], *more]))
    if mask and not 0 < tracer.masked == tracer.attentions:
        raise Error(f"of {tracer.attentions} layers of attention {tracer.masked} have the mask of lengths, the model's last "
                    "input; expected all")
    tracer.program.lengths = bool(mask)
    program = needed(tracer.program)
    read = sum(layer.function in INPUTS for layer in program.layers)
    if read != len(example):
        raise Error(f"the output depends on {read} of the model's {len(example)} inputs")
    for layer in program.layers:
        if layer.function in _IN_OTHERS:
            raise Error(f"the model cannot be converted:\n    {layer.name}: {layer.function} is supported in "
                        f"{_IN_OTHERS[layer.function]}")
    return program


