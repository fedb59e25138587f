"""The graph of a model's operations by torch.fx, which runs each with an example, for trace.py."""

from __future__ import annotations

import contextlib
import functools
import operator
import random
import sys
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from clprune.library import Error

__all__ = ["MASKS", "fails", "graph_of", "hooks_of", "unchanged"]


MASKS = ("create_causal_mask", "create_bidirectional_mask")  # functions of transformers

_NO_NUMBERS = "the model's code asks for a number in a tensor, which changes from step to step"
_NUMBERS = ("item", "tolist", "numpy", "equal", "allclose", "is_nonzero")  # of functions and methods

# Arguments of these types torch.fx leaves as they are.
_WHOLE = {of: type(f"_{of.__name__}", (of,), {}) for of in (dict, list, tuple)}


def _all_of(kind: type, *arguments: Any) -> list:
    """What is of a type in arguments of a call."""
    found: List[Any] = []
    fx.node.map_aggregate(arguments, lambda a: found.append(a) if isinstance(a, kind) else None)
    return found


class _Proxy(fx.Proxy):
    """What a model's code sees of a tensor or a size. Where Python wants to know a size, it is that of the example."""

    known: Any = None  # what the operation gives with the example

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.known, name)
        if name in ("register_hook", "retain_grad", "requires_grad_", "backward"):
            raise Error(f"{self.node.name}: {name} of a tensor is not supported")
        if callable(value):
            return super().__getattr__(name)
        if isinstance(value, (Tensor, torch.Size)):  # of other samples, others
            return self.tracer.create_proxy("call_function", getattr, (self, name), {})
        return value

    def __setitem__(self, at: Any, value: Any) -> None:
        self.tracer.create_proxy("call_function", operator.setitem, (self, at, value), {})

    def __len__(self) -> int:
        return len(self.known)

    def number(self) -> Any:
        if isinstance(self.known, Tensor):
            raise Error(_NO_NUMBERS)
        return self.known

    def __index__(self) -> int:
        return operator.index(self.number())

    def __int__(self) -> int:
        return int(self.number())

    def __float__(self) -> float:
        return float(self.number())


def _known(args: tuple, kwargs: Dict[str, Any]) -> Any:
    """Both with the example's values of proxies."""
    return fx.node.map_aggregate((args, kwargs), lambda a: a.known if isinstance(a, fx.Proxy) else a)


# Modules of PyTorch that are traced into.
_OPEN = (nn.Transformer, nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.TransformerDecoder, nn.TransformerDecoderLayer)


class _Graph(fx.Tracer):
    """Runs each operation with an example, for conditions and loops that depend on sizes. Does not look into modules
    that are known as a whole, such as those that clprune.convert_ has changed."""

    proxy_buffer_attributes = True  # a mask may be cut to a size that is known later

    def __init__(self, examples: Sequence[Tensor], known: Callable[[nn.Module], Any]) -> None:
        super().__init__()
        self.examples, self.whole = list(examples), known
        self.runs = False  # an operation, in which nothing is traced
        self.failed: Optional[Exception] = None
        self.thread = threading.get_ident()  # others run the model as it is

    def proxy(self, node: fx.Node) -> _Proxy:
        return _Proxy(node, self)

    def create_proxy(self, kind: str, target: Any, args: tuple, kwargs: Dict[str, Any], *more: Any, **others: Any) -> Any:
        if kind == "placeholder" and not self.examples:  # an argument that is not given
            if not args and not target.startswith("*"):
                raise Error(f"the model needs another input, {target}")
            value = {} if target.startswith("**") else args[0] if args else ()
            return _WHOLE[type(value)](value) if type(value) in _WHOLE else value
        made = super().create_proxy(kind, target, args, kwargs, *more, **others)
        args, kwargs = _known(args, kwargs)
        given = _all_of(Tensor, args, kwargs)
        called = {"call_method": target, "call_function": getattr(target, "__name__", "")}.get(kind)
        if given and called in _NUMBERS:
            raise Error(_NO_NUMBERS)
        if kind == "call_module":
            given += self.root.get_submodule(target).parameters()
        if not torch.is_grad_enabled() and any(a.requires_grad for a in given):
            raise Error(f"{made.node.name}: the model computes without gradients, as in torch.no_grad()")
        drawn, self.runs = torch.get_rng_state(), True
        try:
            made.known = self._run(kind, target, args, kwargs)
        except Exception as error:
            self.failed = error
            raise
        finally:
            self.runs = False
            torch.set_rng_state(drawn)
        return made

    def _run(self, kind: str, target: Any, args: tuple, kwargs: Dict[str, Any]) -> Any:
        if kind == "placeholder":
            return self.examples.pop(0)
        if kind == "get_attr":
            return operator.attrgetter(target)(self.root)
        if kind == "call_module":
            return self.root.get_submodule(target)(*args, **kwargs)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        return target(*args, **kwargs) if kind == "call_function" else None

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: tuple, kwargs: Dict[str, Any]) -> Any:
        try:
            if self.passes():
                return forward(*args, **kwargs)
            return super().call_module(m, forward, args, kwargs)
        except NameError:  # it is no part of the model: what it calls is
            if any(m is part for part in self.root.modules()):
                raise
            return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: Dict[str, Any]) -> Any:
        return attr_val if self.passes() else super().getattr(attr, attr_val, parameter_proxy_cache)

    def passes(self) -> bool:
        """Whether modules are called as they are: by an operation that runs, or by another thread."""
        return self.runs or threading.get_ident() != self.thread

    def to_bool(self, obj: Any) -> bool:
        if isinstance(obj.known, Tensor) and obj.known.numel() != 0:
            return super().to_bool(obj)  # what depends on numbers is no graph
        return bool(obj.known)

    def iter(self, obj: Any) -> Iterator[Any]:
        return (obj[i] for i in range(len(obj.known)))

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return self.whole(module) is not None or type(module) not in _OPEN and super().is_leaf_module(module, name)


@contextlib.contextmanager
def _recorded(graph: _Graph, model: nn.Module) -> Iterator[None]:
    """While it is traced, a call of these functions is a node: of PyTorch, those that only sizes tell to be traced; of
    transformers, those that are known as a whole."""
    types = {type(module) for module in model.modules() if type(module).__module__.startswith("transformers.")}
    places = {sys.modules.get(of.__module__) for of in types} | {sys.modules.get("transformers.integrations.sdpa_attention")}
    places |= {base for of in types for base in of.__mro__}
    known = ("apply_rotary_pos_emb", "repeat_kv", "create_position_ids_from_input_ids", *MASKS)
    functions = [(torch, name) for name in ("ones", "zeros", "full", "empty", "tensor")]
    functions += [(place, name) for place in places if place is not None for name in known if name in vars(place)]

    def node_of(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if graph.runs or not _all_of(fx.Proxy, args, kwargs):
                return function(*args, **kwargs)
            if function.__name__ not in MASKS:
                return graph.create_proxy("call_function", function, args, kwargs)
            if not isinstance(kwargs.get("attention_mask"), fx.Proxy):
                return function(*args, **kwargs)
            proxies = {name: value for name, value in kwargs.items() if isinstance(value, fx.Proxy)}
            others = {name: value for name, value in kwargs.items() if name not in proxies}
            # caches are empty now; later they have what the trace put there
            others.update(dict.fromkeys({"cache", "past_key_values"} & set(others)))

            @functools.wraps(function)
            def of_mask(**kwargs: Any) -> Any:  # a configuration can be no argument of a node
                return function(*args, **others, **kwargs)
            made = graph.create_proxy("call_function", of_mask, (), proxies)
            if made.known is not None:
                return made
            graph.graph.erase_node(made.node)  # of a mask that hides nothing; the model asks for causal attention by a flag
            return None
        return call

    def apply(cls: type, *args: Any, **kwargs: Any) -> Any:
        if _all_of(fx.Proxy, args, kwargs):
            raise Error(f"{cls.__name__} has a backward pass of its own, an autograd.Function")
        return applied.__get__(None, cls)(*args, **kwargs)

    def asked(function: Callable[..., Any]) -> Callable[..., Any]:
        """Of the example's tensors, about which it tells something that all samples share."""
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = _known(args, kwargs)
            outer, graph.runs = graph.runs, True
            try:
                return function(*args, **kwargs)
            finally:
                graph.runs = outer
        return call

    questions = [(F, "_none_or_dtype"), (nn.modules.transformer, "_detect_is_causal_mask")]
    originals = [(place, name, vars(place)[name]) for place, name in (*functions, *questions) if name in vars(place)]
    applied = vars(torch.autograd.Function)["apply"]
    for place, name, function in originals:
        node = (asked if (place, name) in questions else node_of)(getattr(place, name))
        setattr(place, name, staticmethod(node) if isinstance(function, staticmethod) else node)
    torch.autograd.Function.apply = classmethod(apply)
    try:
        yield
    finally:
        torch.autograd.Function.apply = applied
        for place, name, function in originals:
            setattr(place, name, function)


def _drawn() -> tuple:
    """How far generators of random numbers are."""
    return torch.get_rng_state().numpy().tobytes(), random.getstate()


def hooks_of(x: Union[Tensor, nn.Module]) -> int:
    """How many hooks a parameter or a module has that may compute something."""
    return sum(len(getattr(x, name, None) or ()) for name in (
        "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
        "_post_accumulate_grad_hooks"))


@contextlib.contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """For code that runs the model: modes, attributes and buffers are as before."""
    modules = list(model.modules())
    attributes = [dict(vars(module)) for module in modules]
    parts = [{name: dict(vars(module)[name]) for name in ("_parameters", "_buffers", "_modules")} for module in modules]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for module, its, inner in zip(modules, attributes, parts):
            vars(module).clear()
            vars(module).update(its)
            for name, values in inner.items():
                vars(module)[name].clear()
                vars(module)[name].update(values)
        with torch.no_grad():
            for buffer, value in buffers:
                if not torch.equal(buffer, value):  # a write would stop an earlier graph's backward pass
                    buffer.copy_(value)


def fails(samples: int, error: Exception) -> Error:
    return Error(f"the model fails with {samples} samples: {(str(error) or type(error).__name__).splitlines()[0]}")


def graph_of(model: nn.Module, examples: Sequence[Tensor], known: Callable[[nn.Module], Any]) -> fx.GraphModule:
    """examples: of the first inputs. known: what a module becomes as a whole; None for those whose operations are nodes."""
    graph = _Graph(examples, known)
    try:
        with _recorded(graph, model):
            drawn = _drawn()
            traced = fx.GraphModule(model, graph.trace(model))
        if _drawn() != drawn:
            raise Error("the model draws random numbers itself, which a net does not")
        return traced
    except Error:
        raise
    except Exception as error:  # whatever the model's code raises when it is given proxies
        if error is graph.failed:
            raise fails(2, error) from error
        raise Error(f"torch.fx cannot trace the model: {type(error).__name__}: {error}") from error
