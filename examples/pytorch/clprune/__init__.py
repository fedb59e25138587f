"""clprune for PyTorch: train with activations that are kept as codes, on the CPU.

    import clprune

    clprune.convert_(model)                  # changes what its modules keep, in place
    print(clprune.summary(model))            # which, and which not
    with clprune.compressed(bits=8):         # and what autograd keeps besides
        loss = criterion(model(x), y)
    loss.backward()

A linear layer or convolution needs its input in the backward pass, for dw = dy^T * x alone. A
converted one keeps codes of 4 bits, rounded so that the expected dw is the dense one. Norms keep
the normalised value, which serves the next layer, too; ReLU, dropout and pooling a bit or a byte an
element; other activation functions codes of their derivative. The forward pass is PyTorch's own.

It calls the C library through ctypes: $CLPRUNE_LIBRARY, else the one in this package, else the installed libclprune.so. See
README.md for what to expect. Net, which trains whole models on any OpenCL device, is in net/net.py.

What is kept is a uint8 tensor that autograd saves like any other. So hooks of saved tensors, both
kinds of torch.utils.checkpoint, and the release of a graph work as with PyTorch's own tensors.

Threads. All threads of a process share one context of the library, which a lock protects; several
threads may train at once. A process that was forked after its parent used clprune gets a
RuntimeError from it. Workers of a DataLoader that only load data are not affected.
"""

from __future__ import annotations

import copy
import dataclasses
import fnmatch
import warnings
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from clprune.convert.compressed import compressed, plain_bytes, saved_bytes
from clprune.convert.kinds import is_registered, keeps_output, kind_of, register
from clprune.convert.layout import storage_bytes
from clprune.convert.modules import (
    ActivationKind, Calls, Converted, ConvKind, LinearKind, NormKind, ReLUKind, converted_class, own_class,
    restore_class, some)
from clprune.convert.sources import MASK
from clprune.library import Error, Keep, process_memory

__all__ = ["Error", "Keep", "Net", "NetModule", "compressed", "convert_", "plan", "register", "report", "saved_bytes",
           "summary", "unconvert_"]

# The classes of converted modules that have these classes of PyTorch.
Linear = converted_class(nn.Linear, LinearKind)
ReLU = converted_class(nn.ReLU, ReLUKind)
GELU = converted_class(nn.GELU, ActivationKind)


def __getattr__(name: str) -> object:
    """Net, NetModule and plan, which are in files of their own."""
    if name == "Net":
        from clprune.net.net import Net
        return Net
    if name == "NetModule":
        from clprune.net.module import NetModule
        return NetModule
    if name == "plan":
        from clprune.net.plan import plan
        return plan
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# ---------------------------------------------------------------------------------------------
# Converting
# ---------------------------------------------------------------------------------------------

# They keep nothing that is worth a line of the summary.
_KEEP_NOTHING = (nn.Identity, nn.Flatten, nn.Unflatten, nn.Embedding, nn.EmbeddingBag,
                 nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool3d, nn.ZeroPad2d, nn.ConstantPad2d,
                 nn.PixelShuffle, nn.PixelUnshuffle, nn.Upsample, nn.ChannelShuffle, nn.Sequential,
                 nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
# A user expects that these are converted.
_EXPECTED = (nn.Linear, nn.Conv2d, nn.LayerNorm, nn.MultiheadAttention)
_PRUNED = ("block", "criterion", "norm", "values")


@dataclasses.dataclass
class Summary:
    """Which modules convert_ has converted, and why it has left the others."""

    converted: List[str]
    left: Dict[str, str]  # name: reason
    never_called: List[str]

    def __str__(self) -> str:
        total = len(self.converted) + len(self.left)
        text = f"clprune: {len(self.converted)} of {total} modules converted"
        for reason in dict.fromkeys(self.left.values()):
            names = [name or "the model" for name, why in self.left.items() if why == reason]
            text += f"\nleft: {some(names)}: {reason}"
        if self.never_called:
            text += f"\nnot called yet: {some(self.never_called)}"
        return text


def _named(model: nn.Module) -> Dict[nn.Module, List[str]]:
    """The names of each module; a shared one has several."""
    names: Dict[nn.Module, List[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        names.setdefault(module, []).append(name)
    return names


def convert_(model: nn.Module, sparsity: Optional[float] = None, *, gelu_bits: int = 8,
             kinds: Optional[Sequence[type]] = None,
             skip: Union[str, Sequence[str]] = (), **how: Any) -> nn.Module:
    """Converts modules of `model` in place and returns it; summary(model) says which.

    kinds      classes whose modules are converted, as [nn.Linear]. None: linear layers,
               convolutions, LayerNorm, RMSNorm, BatchNorm, GroupNorm, activation functions,
               Dropout, MaxPool2d, AvgPool2d and AdaptiveAvgPool2d, of torch.nn, and those of timm
               and transformers that compute the same
    skip       names of modules that stay as they are, with what is in them, as
               model.named_modules() has them; "*" and "?" match any characters. A name that
               matches none is a warning. One name may be a string
    gelu_bits  of the derivatives of activation functions: 2, 4 or 8
    how        fields of Keep for the inputs of linear layers: form, bits, group, block, ... Without
               any, form="quantised", bits=4. Convolutions and norms keep them so, too, if the form
               is "quantised" or "dense", else as quantised with 4 bits. With "dense" nothing is
               rounded, activation functions included: to compare gradients. Norms and activation
               functions then keep their input and run again in the backward pass
    sparsity   the share of blocks that form "pruned" drops; giving it or another field of "pruned"
               selects that form

    Parameters, state_dict, hooks and isinstance(module, nn.Linear) stay as they are. Modules that
    were converted before get the new settings. Left alone: nn.MultiheadAttention, classes with a
    forward pass of their own, unless they were registered (see `register`), and nn.ReLU, nn.Sigmoid
    and nn.Tanh before a module that keeps their output dense, where converting them would save
    nothing.
    """
    if "form" not in how:
        pruned = sparsity is not None or any(name in how for name in _PRUNED)
        how["form"] = "pruned" if pruned else "quantised"
    if how["form"] == "quantised":
        how.setdefault("bits", 4)
    if sparsity is not None:
        how["sparsity"] = sparsity
    linear = Keep(**how)
    if linear.form in ("gelu_code", "mask"):
        raise ValueError(f"form is {linear.form!r}, which is for activations; expected one of "
                         "dense, pruned, quantised, pooled")
    plain = linear.form in ("dense", "quantised")
    images = linear if plain else Keep(form="quantised", bits=4)
    slopes = linear if linear.form == "dense" else Keep(form="quantised", bits=gelu_bits)

    chosen, left = _choose(model, kinds, [skip] if isinstance(skip, str) else skip)
    calls = Calls({names[0]: bool([*module.parameters()]) for module, (names, _) in chosen.items()})
    for module, (names, kind) in chosen.items():
        own = own_class(module)
        module.__class__ = converted_class(own, kind)
        module.__dict__["__module__"] = own.__module__  # by which torch.fx knows modules of torch.nn
        module.keep = (linear if issubclass(kind, LinearKind) else
                       images if issubclass(kind, (ConvKind, NormKind)) else
                       slopes if issubclass(kind, ActivationKind) else MASK)
        module.last = None
        module.clprune_name, module.clprune_calls = names[0], calls
        module.clprune_unchecked = is_registered(own)
    model.__dict__["_clprune_left"] = left
    return model


def _choose(model: nn.Module, kinds: Optional[Sequence[type]], skip: Sequence[str]
            ) -> Tuple[Dict[nn.Module, Tuple[List[str], type]], Dict[str, str]]:
    """The modules to convert, with their names and kinds, and the names of others, with the
    reasons. Warns of what its user may not expect."""
    named = _named(model)

    def matches(pattern: str, names: Sequence[str]) -> bool:  # a name, or that of a parent
        return any(fnmatch.fnmatchcase(name[:end], pattern) for name in names
                   for end in range(1, len(name) + 1) if name[end:end + 1] in ("", "."))

    unused = [p for p in skip if not any(matches(p, names) for names in named.values())]
    if unused:
        warnings.warn(f"clprune: skip has {', '.join(map(repr, unused))}, which no module's name "
                      "matches", stacklevel=3)
    left: Dict[str, str] = {}
    found: Dict[nn.Module, Tuple[List[str], Optional[type]]] = {}  # in the model's order
    inside: set = set()  # of modules that are seen as a whole
    for module, names in named.items():
        if module in inside:
            continue
        if hasattr(module, "parametrizations"):
            inside.update(module.parametrizations.modules())
        own, name = own_class(module), names[0]
        kind, leaf = kind_of(own), all(child in inside for child in module.children())
        skipping = [pattern for pattern in skip if matches(pattern, names)]
        reason = ""
        if isinstance(module, nn.MultiheadAttention):
            inside.update(module.modules())
            reason = "nn.MultiheadAttention keeps its input, q, k and v itself"
        elif kinds is not None and not (
                issubclass(own, tuple(kinds)) or kind is not None and kind[1] in kinds):
            reason = "it is none of `kinds`" if kind is not None or leaf and not isinstance(
                module, _KEEP_NOTHING) else ""
        elif isinstance(module, nn.modules.lazy.LazyModuleMixin):
            reason = "its shape is not known before its first call"
        elif kind is not None and not isinstance(module, Converted) and (
                hasattr(module, "keep") or hasattr(module, "last")):
            reason = "it has an attribute `keep` or `last` of its own"
        elif kind is None and isinstance(module, _EXPECTED):
            reason = f"{own.__name__} has a forward pass of its own; see clprune.register"
        elif kind is None and leaf and not isinstance(module, _KEEP_NOTHING):
            reason = (f"{own.__name__} is not known (clprune.register); clprune.compressed keeps "
                      "what it saves")
        if reason and not skipping and isinstance(module, _EXPECTED) and kinds is None:
            warnings.warn(f"clprune: {name or 'the model'} is left alone: {reason}", stacklevel=3)
        if skipping and (kind is not None or reason):
            reason = f"skip has {skipping[0]!r}"
        if reason and (leaf or isinstance(module, nn.MultiheadAttention)):
            left[name] = reason
        elif kind is None:
            continue
        found[module] = names, None if reason else kind[0]
    order = list(found.items())
    for i, (module, (names, kind)) in enumerate(order):
        reader = next((other for other in order[i + 1:] if not isinstance(
            other[0], (nn.Dropout, nn.Identity))), None)
        if kind and keeps_output(module) and reader and reader[1][1] is None:
            left[names[0]] = f"{reader[1][0][0]}, which is left, keeps its output"
            found[module] = names, None
    return {m: (n, k) for m, (n, k) in found.items() if k is not None}, left


def unconvert_(model: nn.Module) -> nn.Module:
    """Gives converted modules of `model` their own classes back, in place, and returns it."""
    for module in model.modules():
        if isinstance(module, Converted):
            restore_class(module)
        module.__dict__.pop("_clprune_left", None)
    return model


def summary(model: nn.Module) -> Summary:
    """What convert_ did; print it."""
    converted, left, waiting = [], {}, []
    for name, module in model.named_modules():
        for inner, reason in module.__dict__.get("_clprune_left", {}).items():
            left[".".join(part for part in (name, inner) if part)] = reason
        if isinstance(module, Converted):
            converted.append(name)
            if module.clprune_name in module.clprune_calls.waiting:
                waiting.append(name)
    if len(waiting) == len(converted):  # no step was made
        waiting = []
    return Summary(converted, {n: r for n, r in left.items() if n not in converted}, waiting)


# ---------------------------------------------------------------------------------------------
# What is kept
# ---------------------------------------------------------------------------------------------


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in arguments."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def report(model: nn.Module, *inputs: Any, **named: Any) -> str:
    """A table of what the converted modules of `model` keep, as text.

    Runs model(*inputs, **named) on a copy of the model as it is, then on one with all modules
    PyTorch's own. The last line has what autograd saves in each, without parameters and inputs; in
    a `with compressed()` block the first includes its codes. Layers that share an input have a line
    each, but keep it once. Below it, on Linux, is the memory of the whole process.
    """
    seen: List[Tuple[str, nn.Module, Tensor, Optional[Tuple[int, int]]]] = []

    def note(name: str, module: nn.Module, args: tuple) -> None:
        seen.append((name, module, args[0] if args else None, module.last))
        module.last = None  # a module that is called again has a line for each call

    given = list(_tensors([inputs, named]))
    totals, skipped, storages = [], [], set()
    for back in False, True:
        made = copy.deepcopy(model).train()
        if back:
            unconvert_(made)
        for name, module in made.named_modules():
            if isinstance(module, Converted):
                module.last = None
                module.register_forward_hook(
                    lambda module, args, _, name=name: note(name, module, args))
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            with (plain_bytes if back else saved_bytes)(made, *given) as saved:
                held = made(*inputs, **named)
        if not back:
            called = {name for name, *_ in seen}
            skipped = [name for name, module in made.named_modules()
                       if isinstance(module, Converted) and name not in called]
            storages = set(saved.storages)
        totals.append(saved.total)
        del made, held

    def line(name: str, before: int, after: int, note: str = "") -> str:
        return f"{name:32} {before / 2**20:10.3f} {after / 2**20:10.3f}  {note}".rstrip()

    held = {storage_bytes(tensor)[0] for tensor in given}
    lines = [f"{'module':32} {'dense MiB':>10} {'kept MiB':>10}"]
    for name, module, x, last in seen:
        if last is None:  # nothing was kept
            continue
        address = storage_bytes(x)[0] if isinstance(
            module, (LinearKind, ConvKind)) and isinstance(x, Tensor) else None
        where = ("its input is kept dense by another operation too" if address in storages else
                 "its input is the model's, which the caller holds anyway" if address in held
                 else "")
        lines.append(line(name, *last, where))
    if skipped:
        lines.append(f"never called: {some(skipped)}")
    lines.append(line("all that autograd saves", totals[1], totals[0]))
    process = process_memory()
    if process:
        lines.append("the process has {process:.0f} MiB, and at its peak had {process_peak:.0f}".format(
            **{name: size / 2**20 for name, size in process.items()}))
    return "\n".join(lines)
