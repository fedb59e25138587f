"""The graph of a model's operations by torch.fx, which runs each with an example, for clprune_trace.py."""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
from torch import Tensor, fx, nn

from clprune import Error

__all__ = ["fails", "graph_of"]


class _Proxy(fx.Proxy):
    """What a model's code sees of a tensor or a size. Where Python wants to know a size, it is that of the example."""

    @property
    def known(self) -> Any:
        return self.tracer.known[self.node]

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.known, name)
        if callable(value):
            return super().__getattr__(name)
        if isinstance(value, (Tensor, torch.Size)):  # of other samples, others
            return self.tracer.create_proxy("call_function", getattr, (self, name), {})
        return value

    def __len__(self) -> int:
        return len(self.known)

    def __index__(self) -> int:
        return operator.index(self.known)

    def __int__(self) -> int:
        return int(self.known)

    def __float__(self) -> float:
        return float(self.known)


class _Graph(fx.Tracer):
    """Runs each operation with an example, for conditions and loops that depend on sizes. Does not look into modules
    that are known as a whole, such as those that clprune.convert_ has changed."""

    proxy_buffer_attributes = True  # a mask may be cut to a size that is known later

    def __init__(self, example: Tensor, known: Callable[[nn.Module], Any]) -> None:
        super().__init__()
        self.example, self.whole = example, known
        self.known: Dict[fx.Node, Any] = {}
        self.runs = False  # an operation, in which nothing is traced
        self.failed: Optional[Exception] = None

    def proxy(self, node: fx.Node) -> _Proxy:
        return _Proxy(node, self)

    def create_proxy(self, kind: str, target: Any, args: tuple, kwargs: Dict[str, Any], *more: Any, **others: Any) -> Any:
        made = super().create_proxy(kind, target, args, kwargs, *more, **others)
        args, kwargs = fx.node.map_aggregate((args, kwargs), lambda a: a.known if isinstance(a, fx.Proxy) else a)
        self.runs = True
        try:
            self.known[made.node] = self._run(kind, target, args, kwargs)
        except Exception as error:
            self.failed = error
            raise
        finally:
            self.runs = False
        return made

    def _run(self, kind: str, target: Any, args: tuple, kwargs: Dict[str, Any]) -> Any:
        if kind == "placeholder":
            return self.example if not self.known else (args or (None,))[0]
        if kind == "get_attr":
            return operator.attrgetter(target)(self.root)
        if kind == "call_module":
            return self.root.get_submodule(target)(*args, **kwargs)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        return target(*args, **kwargs) if kind == "call_function" else None

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: tuple, kwargs: Dict[str, Any]) -> Any:
        try:
            return forward(*args, **kwargs) if self.runs else super().call_module(m, forward, args, kwargs)
        except NameError:  # it is no part of the model: what it calls is
            if any(m is part for part in self.root.modules()):
                raise
            return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: Dict[str, Any]) -> Any:
        return attr_val if self.runs else super().getattr(attr, attr_val, parameter_proxy_cache)

    def to_bool(self, obj: Any) -> bool:
        if isinstance(obj.known, Tensor) and obj.known.numel() != 0:
            return super().to_bool(obj)  # what depends on numbers is no graph
        return bool(obj.known)

    def iter(self, obj: Any) -> Iterator[Any]:
        return (obj[i] for i in range(len(obj.known)))

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return self.whole(module) is not None or super().is_leaf_module(module, name)


@contextlib.contextmanager
def _recorded(graph: _Graph, model: nn.Module) -> Iterator[None]:
    """While it is traced, a call of these functions is a node: of PyTorch, those that only sizes tell to be traced; of
    transformers, those that are known as a whole."""
    places = {sys.modules.get(type(module).__module__) for module in model.modules()
              if type(module).__module__.startswith("transformers.")}
    places.add(sys.modules.get("transformers.integrations.sdpa_attention"))
    functions = [(torch, name) for name in ("ones", "zeros", "full", "empty")]
    functions += [(place, name) for place in places for name in ("apply_rotary_pos_emb", "repeat_kv") if hasattr(place, name)]

    def node_of(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            found: List[fx.Proxy] = []
            fx.node.map_aggregate((args, kwargs), lambda a: found.append(a) if isinstance(a, fx.Proxy) else None)
            if graph.runs or not found:
                return function(*args, **kwargs)
            return graph.create_proxy("call_function", function, args, kwargs)
        return call

    originals = [(place, name, getattr(place, name)) for place, name in functions]
    for place, name, function in originals:
        setattr(place, name, node_of(function))
    try:
        yield
    finally:
        for place, name, function in originals:
            setattr(place, name, function)


def fails(samples: int, error: Exception) -> Error:
    return Error(f"the model fails with {samples} samples: {(str(error) or type(error).__name__).splitlines()[0]}")


def graph_of(model: nn.Module, example: Tensor, known: Callable[[nn.Module], Any]) -> fx.GraphModule:
    """known: what a module becomes as a whole; None for those whose operations are nodes."""
    graph = _Graph(example, known)
    try:
        with _recorded(graph, model):
            return fx.GraphModule(model, graph.trace(model))
    except Exception as error:  # whatever the model's code raises when it is given proxies
        if error is graph.failed:
            raise fails(2, error) from error
        raise Error(f"torch.fx cannot trace the model: {type(error).__name__}: {error}") from error
