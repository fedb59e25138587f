"""What a batch of a Net's inputs is: a tensor; that and a mask of its samples' lengths; or what a tokenizer gives."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Optional, Tuple, Union

import torch
from torch import Tensor, fx, nn

from clprune import Error

__all__ = ["Input", "has_types", "lengths_of", "model_of", "parts_of"]

Input = Union[Tensor, Tuple[Tensor, Tensor], "Mapping[str, Tensor]"]

_INPUTS = ("input_ids", "pixel_values", "inputs_embeds")


def _name_of(batch: "Mapping[str, Tensor]") -> str:
    names = [name for name in _INPUTS if name in batch]
    if len(names) != 1:
        raise ValueError(f"the batch has {', '.join(map(str, batch)) or 'nothing'}; expected one of {', '.join(_INPUTS)}")
    return names[0]


def parts_of(x: Input, types: bool = True) -> Tuple[Tensor, Optional[Tensor]]:
    """The tensor, and the mask if there is one. types: a model with a table of token types has those of 0 without being told."""
    if isinstance(x, (tuple, list)) and len(x) == 2:
        return x[0], x[1]
    if not isinstance(x, Mapping):
        return x, None
    first = _name_of(x)
    for name, value in x.items():
        if name in (first, "attention_mask") and not isinstance(value, Tensor):
            raise ValueError(f"{name} of the batch is a {type(value).__name__}, expected a tensor (return_tensors=\"pt\")")
        plain = value is None or types and name == "token_type_ids" and isinstance(value, Tensor) and not bool(value.any())
        if name not in (first, "attention_mask") and not plain:
            raise ValueError(f"the batch has {name}, which a Net does not take for this model; labels are the second argument")
    return x[first], x.get("attention_mask")


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
    """Of a model that takes inputs by name and returns several outputs: one of a tensor that returns the logits."""

    def _logits(self, **inputs: Tensor) -> Tensor:
        run = super().forward
        if getattr(getattr(self, "config", None), "use_cache", False) and (
                "use_cache" in inspect.signature(run).parameters or self.can_generate()):
            inputs["use_cache"] = False  # of keys and values, for sampling
        out = run(**inputs)
        out = getattr(out, "logits", out)
        if not isinstance(out, (Tensor, fx.Proxy)):
            raise Error(f"the model returns a {type(out).__name__} without logits; expected one tensor")
        return out

    def forward(self, x: Tensor) -> Tensor:
        return self._logits(**{self.input_name: x})


class _MaskedLogits(_Logits):
    """The same, of a tensor and a mask."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self._logits(**{self.input_name: x, "attention_mask": mask})


def model_of(model: nn.Module, x: Input) -> nn.Module:
    """The model as one that takes the parts of such batches, with the attributes of the model itself."""
    name = getattr(model, "main_input_name", None) if hasattr(model, "config") else None  # a model of transformers
    if not isinstance(x, Mapping) and not isinstance(name, str):
        return model
    if "forward" in vars(model):
        raise Error("the model has a forward of its own, in place of its class's, as hooks of other libraries give it")
    kind = _Logits if parts_of(x, has_types(model))[1] is None else _MaskedLogits
    names = {"input_name": _name_of(x) if isinstance(x, Mapping) else name, "__module__": type(model).__module__}
    whole = nn.Module.__new__(type(type(model).__name__, (kind, type(model)), names))
    object.__setattr__(whole, "__dict__", model.__dict__)
    return whole
