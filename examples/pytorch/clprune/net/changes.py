"""What a model is made of, and what has changed since: a net is of the model as it was."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from torch import nn

from clprune.convert.modules import own_class
from clprune.tracing.graph import hooks_of


def names_of(model: nn.Module, mine: Sequence[Optional[str]]) -> Dict[str, Any]:
    """Of each name in the model's state: the name that the net has its tensor under, which is
    another one if parameters are tied, or the tensor itself."""
    state = model.state_dict(keep_vars=True)
    first = {id(state[name]): name for name in mine if name in state}
    return {name: first.get(id(tensor), tensor.detach().cpu().clone())
            for name, tensor in state.items()}


def structure_of(model: nn.Module, training: bool = True) -> Dict[str, tuple]:
    """What of a model makes its net: of modules class, settings and hooks, of parameters the shape and,
    with `training`, whether they are trained, and hooks."""
    found: Dict[str, tuple] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        settings = {key: value for key, value in (
            (key, getattr(module, key, None)) for key in getattr(module, "__constants__", ()))
            if isinstance(value, (int, float, str, tuple))}
        found[name] = own_class(module).__qualname__, settings, hooks_of(module)
    for name, p in model.named_parameters(remove_duplicate=False):
        found["." + name] = tuple(p.shape), *((p.requires_grad, hooks_of(p)) if training else ())
    return found


def changes(before: Dict[str, tuple], after: Dict[str, tuple]) -> List[str]:
    """Texts of what differs."""
    texts = []
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        name, whats = key.lstrip(".") or "the model", (
            ("shape", "requires_grad", "hooks") if key.startswith(".") else ("class", "settings", "hooks"))
        if old is None or new is None:
            texts.append(f"{name} is {'new' if old is None else 'gone'}")
            continue
        for what, was, now in zip(whats, old, new):
            if isinstance(was, dict) and isinstance(now, dict):
                texts += [f"{key} of {name} is {now.get(key)}, and was {value}"
                          for key, value in was.items() if now.get(key) != value]
            elif was != now:
                texts.append(f"{what} of {name} is {now}, and was {was}")
    return texts
