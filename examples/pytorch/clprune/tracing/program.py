"""A program: what trace() makes of a model, layers of clprune/net.h with their parameters. Nothing here knows torch.fx."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from clprune.library import Error
from clprune.tracing.made import Made
from clprune.tracing.views import Bias, Value, View

__all__ = ["Attention", "Axis", "Conv", "Extent", "FLOATS", "INPUTS", "Failed", "Layer", "Param", "Parts", "Places", "Pool",
           "Product", "Program", "Stacked", "check_read", "needed", "pair"]

INPUTS = ("pixels", "rows", "tokens")  # the functions of inputs' layers
FLOATS = {"dtype": torch.float32, "device": "cpu"}


@dataclasses.dataclass(frozen=True)
class Layer:
    """A call of clprune_net_<function>(net, name, *inputs, *more). inputs: indices of earlier
    layers."""

    function: str
    name: Optional[str]
    inputs: Tuple[int, ...]
    more: tuple = ()
    eps: float = 0.0
    momentum: float = 0.1


@dataclasses.dataclass(frozen=True)
class Conv:
    out: int
    kernel: Tuple[int, int]
    stride: Tuple[int, int]
    padding: Tuple[int, int]
    dilation: Tuple[int, int]
    groups: int
    bias: bool
    output_padding: Tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True)
class Pool:
    kernel: Tuple[int, int]
    stride: Tuple[int, int]
    padding: Tuple[int, int]
    ceil: bool


class Axis(enum.IntEnum):
    """clprune_axis."""

    FEATURES = 0
    ROWS = 1


@dataclasses.dataclass(frozen=True)
class Attention:
    heads: int
    rate: float
    causal: bool
    kv_heads: int = 0
    window: int = 0
    cap: float = 0.0
    bias: Optional[Bias] = None


@dataclasses.dataclass(frozen=True)
class Product:
    """clprune_net_products."""

    parts: int
    heads: int
    transpose_a: bool
    transpose_b: bool
    a_below: bool
    b_below: bool
    y_below: bool
    factor: float


@dataclasses.dataclass(frozen=True)
class Recurrent:
    """clprune_recurrent_desc."""

    cell: int
    steps: int
    reverse: bool


@dataclasses.dataclass(frozen=True)
class Extent:
    """clprune_extent."""

    height: int
    width: int


@dataclasses.dataclass(frozen=True, eq=False)
class Places:
    """clprune_net_places. of: rows x cols, int32; -1: nowhere."""

    rows: int
    cols: int
    grid: Extent
    of: Tensor

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Places) and self.grid == other.grid and torch.equal(self.of, other.of)


@dataclasses.dataclass(frozen=True)
class Param:
    """A parameter or state of the net.

    theirs  its name in the model; None: it always has `value`, or is `made` of others
    shape   of the model's tensor
    split   this shape with the axes apart that `order` permutes; () if the net has the same order
    """

    ours: str
    theirs: Optional[str]
    shape: Tuple[int, ...]
    split: Tuple[int, ...] = ()
    order: Tuple[int, ...] = ()
    value: Optional[Tensor] = None
    made: Optional[Made] = None

    @property
    def key(self) -> Optional[str]:
        """Its name among the model's; of one that is made, one that the model has not."""
        return self.theirs if self.made is None else f"made {self.ours}"

    def to_net(self, value: Tensor) -> Tensor:
        return value.reshape(self.split).permute(self.order) if self.split else value

    def from_net(self, value: Tensor) -> Tensor:
        if self.split:
            back = [self.order.index(axis) for axis in range(len(self.order))]
            value = value.view([self.split[axis] for axis in self.order]).permute(back)
        return value.reshape(self.shape).contiguous()


@dataclasses.dataclass
class Program:
    layers: List[Layer] = dataclasses.field(default_factory=list)
    params: List[Param] = dataclasses.field(default_factory=list)
    states: List[Param] = dataclasses.field(default_factory=list)
    sources: List[Param] = dataclasses.field(default_factory=list)  # trained ones that no layer has, of which others are made
    counters: List[str] = dataclasses.field(default_factory=list)  # num_batches_tracked
    frozen: List[str] = dataclasses.field(default_factory=list)
    ties: List[Tuple[str, str]] = dataclasses.field(default_factory=list)
    paddings: List[int] = dataclasses.field(default_factory=list)  # tokens whose embeddings are not trained
    pads_positions: bool = False  # and that shift the positions of others
    output: Optional[Value] = None
    key: Optional[str] = None  # that the output has in the model's, a dict
    inputs: List[Tuple[int, ...]] = dataclasses.field(default_factory=list)  # shapes of samples of several
    outputs: Any = None  # the same of several outputs (inputs.join)
    lengths: bool = False  # the last input is the mask of samples' lengths
    token_types: bool = False  # a model of transformers with a table of them
    read: Dict[str, Tensor] = dataclasses.field(default_factory=dict)  # buffers of its state that layers have as numbers
    padding_counts: bool = True  # outputs depend on rows behind the length of their sample


class Failed:
    """The value of an operation that is not supported."""


class Stacked(tuple):
    """Values beside each other, along a new dimension."""

    def __new__(cls, values: Iterable[Value], dim: int) -> "Stacked":
        made = super().__new__(cls, values)
        made.dim = dim
        return made


@dataclasses.dataclass(frozen=True)
class Parts:
    """Parts of a value along a dimension, of which those that are used become layers."""

    of: Union[Value, View]
    dim: int
    sizes: Optional[Tuple[int, ...]] = None  # None: one each, without the dimension


def pair(value: Union[int, Sequence[int]]) -> Tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[-1])


def check_read(program: Program, state: Mapping[str, Tensor]) -> None:
    """Fails if a tensor has other values than those that a layer has."""
    for name, value in program.read.items():
        if name in state and not torch.equal(state[name].detach().to(value), value):
            raise Error(f"{name} has other values than when the Net was made, which has them as constants; make a new one")


def needed(program: Program) -> Program:
    """Without layers that the output does not depend on, such as a pooler that nobody reads."""
    used = {program.output.layer}
    for i in range(len(program.layers) - 1, -1, -1):
        if i in used:
            used.update(program.layers[i].inputs)
    names = {layer.name for i, layer in enumerate(program.layers) if i not in used and layer.name is not None}

    def kept(ours: str) -> bool:
        return ours not in names and ours.rpartition(".")[0] not in names

    for other in (layer for i, layer in enumerate(program.layers) if i not in used):
        if other.function == "batch_norm":
            raise Error(f"nothing reads the batch norm {other.name}, whose running statistics the model changes")
    for ours, other in program.ties:
        if kept(ours) and not kept(other):
            raise Error(f"{ours} is tied to {other}, which nothing reads")
    index = {old: new for new, old in enumerate(sorted(used))}
    layers = [dataclasses.replace(program.layers[i], inputs=tuple(index[k] for k in program.layers[i].inputs))
              for i in sorted(used)]
    return dataclasses.replace(
        program, layers=layers, output=dataclasses.replace(program.output, layer=index[program.output.layer]),
        params=[p for p in program.params if kept(p.ours)], frozen=[name for name in program.frozen if kept(name)],
        ties=[tie for tie in program.ties if kept(tie[0])])
