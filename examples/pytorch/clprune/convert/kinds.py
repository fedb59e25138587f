"""Which classes of modules can be converted, and their kinds."""

from __future__ import annotations

from typing import Dict, Optional, Tuple, Type

from torch import nn

from clprune.convert.modules import (
    ActivationKind, AvgPoolKind, BatchNormKind, ChannelNormKind, Conv1DKind, ConvKind, DropoutKind, GroupNormKind,
    LayerNormKind, LinearKind, MaxPoolKind, ReLUKind, RMSNormKind)

Kind = Tuple[type, type]  # the kind, and the class of torch.nn that stands for it in `kinds`

_LAYERS: Dict[type, type] = {
    nn.Linear: LinearKind, nn.Conv1d: ConvKind, nn.Conv2d: ConvKind, nn.Conv3d: ConvKind,
    nn.LayerNorm: LayerNormKind, nn.BatchNorm1d: BatchNormKind, nn.BatchNorm2d: BatchNormKind,
    nn.BatchNorm3d: BatchNormKind, nn.GroupNorm: GroupNormKind, nn.ReLU: ReLUKind,
    nn.Dropout: DropoutKind, nn.MaxPool2d: MaxPoolKind, nn.AvgPool2d: AvgPoolKind,
    nn.AdaptiveAvgPool2d: AvgPoolKind}
if hasattr(nn, "RMSNorm"):  # since PyTorch 2.4
    _LAYERS[nn.RMSNorm] = RMSNormKind
_RMSNORM = getattr(nn, "RMSNorm", nn.LayerNorm)
# Activation functions that keep their input; those that keep their output.
_OF_INPUT = (nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.Hardsigmoid, nn.ReLU6, nn.Hardtanh,
             nn.ELU, nn.CELU, nn.SELU, nn.LeakyReLU, nn.Softplus, nn.Softsign, nn.LogSigmoid)
_OF_OUTPUT = (nn.ReLU, nn.Sigmoid, nn.Tanh)

# Classes of other packages, by module and name: importing them here would take seconds.
_GELUS = ("GELUActivation", "NewGELUActivation", "GELUTanh", "PytorchGELUTanh",
          "FastGELUActivation", "QuickGELUActivation", "AccurateGELUActivation",
          "ClippedGELUActivation", "GELU", "QuickGELU")
_SILUS = ("SiLUActivation", "Swish", "MishActivation", "Mish", "HardSwish", "HardMish")
_NAMED: Dict[Tuple[str, str], Kind] = {
    **{(module, name): (ActivationKind, like)
       for module in ("transformers.activations", "timm.layers.activations")
       for names, like in ((_GELUS, nn.GELU), (_SILUS, nn.SiLU)) for name in names},
    ("transformers.pytorch_utils", "Conv1D"): (Conv1DKind, nn.Linear),
    ("timm.layers.linear", "Linear"): (LinearKind, nn.Linear),
    ("timm.layers.norm", "LayerNorm"): (LayerNormKind, nn.LayerNorm),
    ("timm.layers.norm", "LayerNorm2d"): (ChannelNormKind, nn.LayerNorm),
    **{("timm.layers.norm", name): (GroupNormKind, nn.GroupNorm) for name in (
        "GroupNorm", "GroupNorm1")},
    ("torchvision.models.convnext", "LayerNorm2d"): (ChannelNormKind, nn.LayerNorm),
    ("timm.layers.norm", "RmsNorm"): (RMSNormKind, _RMSNORM)}

_registered: Dict[type, Kind] = {}


def register(cls: Type[nn.Module], like: Type[nn.Module]) -> None:
    """Makes a class of modules known to convert_: its forward pass takes one tensor and computes
    what `like` does, from parameters of the same names.

    like  nn.Linear, nn.Conv2d, nn.LayerNorm, nn.RMSNorm or nn.ReLU; nn.GELU stands for all functions
          that are computed element by element

    The first training call compares the output with what `like` computes; a module that differs or
    has other parameters, which would get no gradient, is left alone, with a warning.
    """
    kind = kind_of(like)
    if kind is None or kind[0] in (
            DropoutKind, MaxPoolKind, AvgPoolKind, BatchNormKind, GroupNormKind):
        raise ValueError(f"like is {like.__name__}, expected nn.Linear, nn.Conv2d, nn.LayerNorm, "
                         "nn.RMSNorm, nn.ReLU or nn.GELU")
    _registered[cls] = kind


def is_registered(cls: type) -> bool:
    """Whether the first call of a module is compared: its class was registered, or its name alone
    says what it is."""
    return cls in _registered or kind_of(cls) is not None and kind_of(cls)[0] is RMSNormKind and (
        cls is not _RMSNORM)


def kind_of(cls: type) -> Optional[Kind]:
    """How modules of a class are converted; None if they are not."""
    if cls in _registered:
        return _registered[cls]
    for base in cls.__mro__:
        kind = _known(base)
        if kind is not None:
            same = all(getattr(cls, name, None) is getattr(base, name, None)
                       for name in ("forward", "_conv_forward"))
            return kind if same else None
    if cls.__module__.startswith("transformers.") and cls.__name__.endswith(
            ("RMSNorm", "T5LayerNorm")):
        return RMSNormKind, _RMSNORM
    return None


def _known(cls: type) -> Optional[Kind]:
    if cls in _LAYERS:
        return _LAYERS[cls], cls
    if cls in _OF_INPUT or cls in _OF_OUTPUT:
        return ActivationKind, cls
    return _NAMED.get((cls.__module__, cls.__name__))


def keeps_output(module: nn.Module) -> bool:
    """Whether PyTorch's own code keeps its output, which the next layer may keep as well."""
    return isinstance(module, _OF_OUTPUT)
