"""From a PyTorch model to a program of layers of clprune/net.h, by torch.fx: the half of clprune.Net
that runs nothing. trace() returns the program; net/net.py makes a net of it."""

from __future__ import annotations

import dataclasses
import operator
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from clprune.library import Error
from clprune.tracing.arithmetic import Arithmetic
from clprune.tracing.attention import Attentions
from clprune.tracing.graph import MASKS, fails, graph_of, hooks_of, unchanged
from clprune.tracing.images import Images
from clprune.tracing.known import known
from clprune.tracing.moves import Moved
from clprune.tracing.program import INPUTS, Axis, Failed, Param, Parts, Program, needed
from clprune.tracing.shapes import Shapes
from clprune.tracing.views import Constant, Cut, NotSupported, Scores, Value, View
from clprune.tracing.weights import Weights

__all__ = ["trace"]

_TRACING = threading.RLock()  # torch.fx patches nn.Module


class _Tracer(Images, Attentions, Weights, Arithmetic, Shapes):
    """Runs a traced model on an example and notes the layer that each operation becomes."""

    def run_node(self, n: fx.Node) -> Any:
        tensors = {i: self.env[i] for i in n.all_input_nodes if isinstance(self.env.get(i), Tensor)}
        versions = {i: tensor._version for i, tensor in tensors.items()}
        learning = [i for i, tensor in tensors.items() if tensor.requires_grad]  # before detach_, which changes no version
        drawn = torch.get_rng_state()
        result = super().run_node(n)
        self.drew = not torch.equal(drawn, torch.get_rng_state())
        if not isinstance(result, Tensor):
            self.plain[n] = result
        self.changed = [i for i, tensor in tensors.items() if
                        tensor._version != versions[i] or i in learning and not tensor.requires_grad]
        self.stops = bool(learning) and isinstance(result, Tensor) and result.is_floating_point() and not result.requires_grad
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
