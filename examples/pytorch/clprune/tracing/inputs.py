"""What a batch of a Net's inputs is: a tensor; that and a mask of its samples' lengths; several tensors; or what a tokenizer
gives. And what a model returns: a tensor, or several, which a net has side by side."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, fx, nn

from clprune.library import Error
from clprune.tracing.graph import unchanged

__all__ = ["Batch", "Input", "batch_of", "check_inputs", "has_types", "join", "lengths_of", "lines", "model_of", "split"]

Input = Union[Tensor, Tuple[Tensor, ...], "Mapping[str, Tensor]"]

# Of transformers' models. A mask is that of the first one.
_INPUTS = ("input_ids", "pixel_values", "inputs_embeds", "input_features", "decoder_input_ids", "decoder_inputs_embeds")


class Batch(NamedTuple):
    inputs: Tuple[Tensor, ...]
    mask: Optional[Tensor] = None  # of the lengths of the first input's samples

    @property
    def parts(self) -> Tuple[Tensor, ...]:
        """What a model takes."""
        return (*self.inputs, *(() if self.mask is None else (self.mask,)))


def _names_of(batch: "Mapping[str, Tensor]") -> List[str]:
    names = [name for name in _INPUTS if name in batch]
    if not names:
        raise ValueError(f"the batch has {', '.join(map(str, batch)) or 'nothing'}; expected one or more of {', '.join(_INPUTS)}")
    return names


def batch_of(x: Input, types: bool = True, several: bool = False) -> Batch:
    """types: a model with a table of token types has those of 0 without being told. several: a tuple has no mask."""
    if isinstance(x, (tuple, list)):
        if several or _are_several(x):
            return Batch(_checked(x))
        return Batch((x[0],), *x[1:2])
    if not isinstance(x, Mapping):
        return Batch((x,))
    names = _names_of(x)
    for name, value in x.items():
        taken = name in names or name == "attention_mask"
        if taken and not isinstance(value, Tensor):
            raise ValueError(f"{name} of the batch is a {type(value).__name__}, expected a tensor (return_tensors=\"pt\")")
        plain = value is None or types and name == "token_type_ids" and isinstance(value, Tensor) and not bool(value.any())
        if not taken and not plain:
            raise ValueError(f"the batch has {name}, which a Net does not take for this model; labels are the second argument")
    inputs = tuple(x[name] for name in names)
    return Batch(_checked(inputs) if len(inputs) > 1 else inputs, x.get("attention_mask"))


def _are_several(x: Sequence[Any]) -> bool:
    """Of two, the second one is a mask if it may be meant as one: zeros and ones, beside tokens or rows."""
    if len(x) < 2 or len(x) == 2 and x[1] is None:
        return False
    first, second = x[:2]
    if len(x) > 2 or not isinstance(first, Tensor) or first.dim() != (3 if first.is_floating_point() else 2):
        return True
    if not isinstance(second, Tensor):
        return False
    return second.dim() != 2 or not bool(((second == 0) | (second == 1)).all())


def _checked(x: Sequence[Any]) -> Tuple[Tensor, ...]:
    for part in x:
        dims = {torch.float32: (2, 3, 4), torch.int64: (2,), torch.int32: (2,)}
        if not isinstance(part, Tensor) or part.dim() not in dims.get(part.dtype, ()) or len(part) != len(x[0]):
            what = f"{part.dtype} of {tuple(part.shape)}" if isinstance(part, Tensor) else f"a {type(part).__name__}"
            raise ValueError(f"of several inputs one is {what}, expected float32 of (N, C, H, W), (N, T, C) or (N, C), or "
                             "integers of (N, T), with one N")
    return tuple(x)


def check_inputs(batch: Batch, shapes: Sequence[Tuple[int, ...]]) -> None:
    """shapes: of the samples of several inputs, or none."""
    got = [tuple(part.shape[1:]) for part in batch.inputs] if len(batch.inputs) > 1 else []
    if got != list(shapes):
        raise ValueError(f"the inputs are of {got or 'one tensor'} a sample, expected {list(shapes) or 'one tensor'}")


def join(outputs: Any, found: List[Any]) -> Any:
    """The tensors in what a model returns, side by side as lines; `found` gets what split takes. One tensor, or a dict with it
    as "out", stays."""
    if isinstance(outputs, (Tensor, fx.Proxy)) or isinstance(outputs, Mapping) and "out" in outputs:
        return outputs
    lines: List[Any] = []

    def shape_of(y: Any) -> Any:
        if y is None:
            return None
        if isinstance(y, Mapping):
            return {key: shape_of(value) for key, value in y.items()}
        if isinstance(y, (tuple, list)):
            return tuple(map(shape_of, y))
        if not isinstance(y, (Tensor, fx.Proxy)):
            raise Error(f"the model returns a {type(y).__name__} among its outputs, expected tensors")
        shape = tuple((y.known if isinstance(y, fx.Proxy) else y).shape[1:])
        lines.append(y if len(shape) == 1 else y.flatten(1))
        return _Shape(shape)

    found[:] = [shape_of(outputs)]
    if not lines:
        raise Error("the model returns no tensor")
    return torch.cat(lines, 1) if len(lines) > 1 else lines[0]


class _Shape(tuple):
    """Of a sample of an output."""


def split(y: Tensor, shapes: Any) -> Any:
    """What a model returns, of a matrix of lines. shapes: those of join()."""
    first = 0

    def part(of: Any) -> Any:
        nonlocal first
        if isinstance(of, _Shape):
            count = of_shape(of)
            first += count
            return y[:, first - count:first].reshape(len(y), *of)
        if isinstance(of, dict):
            return {key: part(value) for key, value in of.items()}
        return None if of is None else tuple(map(part, of))

    return part(shapes)


def of_shape(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def lines(dys: Sequence[Optional[Tensor]], shapes: Any, batch: int) -> Tensor:
    """The gradients of several outputs, in their order, as a matrix of lines; None: zeros."""
    of: List[_Shape] = []

    def note(shape: Any) -> None:
        if isinstance(shape, _Shape):
            of.append(shape)
        elif shape is not None:
            for inner in shape.values() if isinstance(shape, dict) else shape:
                note(inner)

    note(shapes)
    if len(dys) != len(of) or any(dy is not None and tuple(dy.shape) != (batch, *shape) for dy, shape in zip(dys, of)):
        raise ValueError(f"the gradients are of {[None if dy is None else tuple(dy.shape) for dy in dys]}, expected those of the "
                         f"outputs, {[(batch, *shape) for shape in of]}")
    return torch.cat([torch.zeros(batch, of_shape(shape), dtype=torch.float32) if dy is None else
                      dy.detach().to("cpu", torch.float32).reshape(batch, -1) for dy, shape in zip(dys, of)], 1)


def has_types(model: nn.Module) -> bool:
    return getattr(getattr(model, "config", None), "type_vocab_size", 0) > 0


def lengths_of(mask: Tensor, x: Tensor) -> Tensor:
    """How many rows of each sample count."""
    if not isinstance(mask, Tensor) or mask.shape != x.shape[:2]:
        what = f"a {type(mask).__name__}" if not isinstance(mask, Tensor) else tuple(mask.shape)
        raise ValueError(f"the mask is {what}, expected a tensor of {tuple(x.shape[:2])}, a number for each row")
    lengths = (mask != 0).sum(1)
    seen = torch.arange(mask.shape[1], device=mask.device) < lengths[:, None]
    if not torch.equal(mask, seen.to(mask.dtype)) or not bool((lengths > 0).all()):
        raise ValueError("the mask is not 1 for the first rows of each sample, at least one, and 0 behind them: pad on the right")
    return lengths


class _Logits:
    """Of a model that takes inputs by name and returns several outputs: one of tensors that returns the logits."""

    def _run(self, *parts: Tensor) -> Tensor:
        run, named = super().forward, dict(zip((*self.input_names, "attention_mask"), parts))
        if getattr(getattr(self, "config", None), "use_cache", False) and (
                "use_cache" in inspect.signature(run).parameters or self.can_generate()):
            named["use_cache"] = False  # of keys and values, for sampling
        out = run(**named)
        out = getattr(out, "logits", out)
        if not isinstance(out, (Tensor, fx.Proxy)):
            raise Error(f"the model returns a {type(out).__name__} without logits; expected one tensor")
        return out


class _Several:
    """Of a model of several inputs or outputs: one that returns these side by side."""

    def _run(self, *parts: Tensor) -> Any:
        return join(super().forward(*parts), self.several_outputs)


def _returns_several(model: nn.Module, batch: Batch) -> bool:
    """What two samples tell."""
    try:
        with unchanged(model), torch.no_grad(), torch.random.fork_rng(devices=[]):
            y = model.train()(*(part[torch.arange(2) % len(part)] for part in batch.parts))
    except Exception:  # which the trace will report
        return False
    return not isinstance(y, Tensor) and not (isinstance(y, Mapping) and "out" in y)


def model_of(model: nn.Module, x: Input) -> nn.Module:
    """The model as one that takes the parts of such batches, with the attributes of the model itself."""
    name = getattr(model, "main_input_name", None) if hasattr(model, "config") else None  # a model of transformers
    if not isinstance(x, Mapping) and not isinstance(name, str):
        batch = batch_of(x)
        if len(batch.inputs) == 1 and not _returns_several(model, batch):
            return model
        return _whole(model, _Several, len(batch.parts), {"several_outputs": []})
    batch = batch_of(x, has_types(model))
    if not isinstance(x, Mapping) and len(batch.inputs) > 1:
        raise Error("a model of transformers takes a dict of inputs, not several tensors")
    names = tuple(_names_of(x)) if isinstance(x, Mapping) else (name,)
    return _whole(model, _Logits, len(batch.parts), {"input_names": names})


def _whole(model: nn.Module, kind: type, count: int, names: dict) -> nn.Module:
    """The model with another forward, that of `kind`, of so many tensors."""
    if "forward" in vars(model):
        raise Error("the model has a forward of its own, in place of its class's, as hooks of other libraries give it")
    given, space = ", ".join(f"input_{i}" for i in range(count)), {}
    exec(f"def forward(self, {given}): return self._run({given})", space)  # torch.fx counts its arguments
    names = {**names, "forward": space["forward"], "__module__": type(model).__module__}
    whole = nn.Module.__new__(type(type(model).__name__, (kind, type(model)), names))
    object.__setattr__(whole, "__dict__", model.__dict__)
    return whole
