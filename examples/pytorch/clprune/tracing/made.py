"""Parameters of a net that the model computes from its own ones, such as standardised weights: PyTorch computes them before a
pass, and their gradients' way back after it."""

from __future__ import annotations

import copy
import dataclasses
import operator
from typing import Any, Dict, Mapping, Sequence, Tuple

import torch
from torch import Tensor, fx, nn

from clprune.tracing.graph import hooks_of
from clprune.tracing.views import Constant, NotSupported

__all__ = ["Made", "Maker"]


@dataclasses.dataclass(frozen=True, eq=False)
class Made:
    """code    a function of tensors of the model's state, which are no longer in it
    sources  the attribute of the code that each is, and its name in the model"""

    code: fx.GraphModule
    sources: Tuple[Tuple[str, str], ...]

    @property
    def names(self) -> Sequence[str]:
        return list(dict.fromkeys(name for _, name in self.sources))

    def value(self, state: Mapping[str, Tensor]) -> Tensor:
        return torch.func.functional_call(self.code, {path: state[name] for path, name in self.sources}, ())

    def random(self, tensors: Mapping[str, Tensor]) -> Dict[str, Tensor]:
        """Other values of the model's tensors; integers as they are."""
        draw = torch.Generator().manual_seed(1)
        return {name: torch.randn(tensors[name].shape, generator=draw).to(tensors[name].dtype)
                if tensors[name].is_floating_point() else tensors[name] for name in self.names}

    def gradients(self, state: Mapping[str, Tensor], dy: Tensor) -> Dict[str, Tensor]:
        """state: those that have a gradient require it."""
        wanted = {name: state[name] for name in self.names if state[name].requires_grad}
        nothing = torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)  # not those around it
        with torch.enable_grad(), nothing:
            value = self.value(state)
            got = torch.autograd.grad(value, list(wanted.values()), dy.reshape(value.shape), allow_unused=True)
        return {name: grad for name, grad in zip(wanted, got) if grad is not None}


class Maker:
    """Of a tracer: takes the nodes by which a constant is computed out of its graph."""

    def made(self, constant: Constant) -> Made:
        graph, root, sources, done = fx.Graph(), {}, {}, {}

        def take(path: str, tensor: Tensor) -> None:
            name = self.names_of.get(id(tensor), path)
            if name in self.named or name in self.state:
                sources[path] = name
            elif tensor.requires_grad:
                raise NotSupported("its parameters are computed from others, of which one is none of the model's")

        def attribute(path: str) -> fx.Node:
            root[path] = self.fetch_attr(path)
            take(path, root[path])
            return graph.get_attr(path)

        def module_of(path: str) -> None:
            module = self.fetch_attr(path)
            if any(True for _ in module.buffers()) or any(map(hooks_of, module.modules())):
                raise NotSupported("its parameters are computed from others by a module with buffers or hooks")
            root[path] = module
            for name, tensor in module.named_parameters():
                take(f"{path}.{name}", tensor)

        places = {n: i for i, n in enumerate(self.module.graph.nodes)}

        def read_by(n: fx.Node, reader: fx.Node) -> Any:
            """n for an operation that comes before one that changes it, or is that; or for one behind."""
            by = getattr(self.noted.get(n), "node", None)
            if self.in_place.get(by) is not n or places[by] < places[reader]:
                return node_of(n)
            if ("old", n) not in done:
                done["old", n] = computed(n)
            return graph.call_method("clone", (done["old", n],)) if reader is by else done["old", n]

        def computed(n: fx.Node) -> fx.Node:
            if n.op == "call_module":
                module_of(str(n.target))
            args, kwargs = (fx.node.map_arg(part, lambda i: read_by(i, n)) for part in (n.args, n.kwargs))
            return graph.create_node(n.op, n.target, args, kwargs)

        def node_of(n: fx.Node) -> Any:
            if n in done:
                return done[n]
            noted = self.noted.get(n)
            changes = n.target is operator.setitem or n.op == "call_method" and str(n.target).endswith("_")
            if changes and n not in self.in_place:
                raise NotSupported("its parameters are computed from others that are changed in place")
            if n.op == "get_attr":
                if n in self.noted and getattr(noted, "node", None) is not n:
                    raise NotSupported("its parameters are computed from others that are changed in place")
                done[n] = attribute(str(n.target))
            elif isinstance(noted, Constant) and noted.node is None and noted.name is None:
                raise NotSupported("its parameters are computed from others that are changed in place")
            elif isinstance(noted, Constant) and noted.node not in (None, n):
                done[n] = node_of(noted.node)
            elif not isinstance(noted, Constant):
                if n.op == "placeholder" or n not in self.plain:
                    raise NotSupported("a constant that depends on the input")
                done[n] = self.plain[n]
            elif noted.mask or n.op == "placeholder":
                raise NotSupported("its parameters are computed from the input")
            else:
                done[n] = computed(n)
            return done[n]

        if constant.rows is not None or constant.node is None and constant.name is None:
            raise NotSupported("its parameters are computed from others that are changed in place, or rows of one")
        y = attribute(constant.name) if constant.node is None else node_of(constant.node)
        root = {path: copy.deepcopy(part) if isinstance(part, nn.Module) else part for path, part in root.items()}
        made = Made(self._code(root, graph, y), tuple(sources.items()))
        value, steps = made.value(made.random(self.tensors)), constant.then
        if value.dim() > 0 and len(value) == self.batch and bool((value == value[:1]).all()):
            one = made.value(made.random(self.tensors))[:1]  # the same for each sample
            for name, args in steps:
                one = getattr(one, name)(*args)
            if one.numel() == constant.value.numel():
                y = graph.call_method("narrow", (y, 0, 0, 1))
        for name, args in steps:
            y = graph.call_method(name, (y, *args))
        made = dataclasses.replace(made, code=self._code(root, graph, y))
        if made.value(made.random(self.tensors)).numel() != constant.value.numel():
            raise NotSupported("its parameters are computed from others, another one for each sample")
        code = made.code
        for path in sources:  # values come from elsewhere
            parent, _, leaf = path.rpartition(".")
            of = code.get_submodule(parent)
            for tensors in (of._parameters, of._buffers):
                if tensors.get(leaf) is not None:
                    empty = torch.empty_like(tensors[leaf], device="meta")
                    tensors[leaf] = nn.Parameter(empty, False) if tensors is of._parameters else empty
        return made

    @staticmethod
    def _code(root: Dict[str, Any], graph: fx.Graph, y: fx.Node) -> fx.GraphModule:
        """What computes y."""
        for n in graph.nodes:
            if n.op == "output":
                graph.erase_node(n)
        graph.output(y)
        return fx.GraphModule(root, graph)
