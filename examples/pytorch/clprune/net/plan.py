"""What a model would take to train in each way, before it is trained, and without a device."""

from __future__ import annotations

import dataclasses
import inspect
from ctypes import byref, c_void_p
from typing import Any, Optional, Sequence, Tuple, Union

from torch import nn

from clprune.library import Keep, _library, _number
from clprune.net.net import Net, traced
from clprune.net.run import CATEGORIES, PRECISIONS, dry_run, settings_of
from clprune.net.structures import FUNCTIONS_OF_NETS, _Options
from clprune.tracing.inputs import Input, batch_of

__all__ = ["Plan", "plan"]

WAYS = (("dense", 0), ("exact", 0), ("compact", 0), ("compact", 33), ("least", 0))


@dataclasses.dataclass(frozen=True)
class Row:
    """saved: bytes that are kept for the backward pass, Net's saved_bytes. memory: all bytes of the net with its optimizer and
    a batch; a process takes more, for PyTorch and the driver."""

    keep: Union[str, Keep]
    extra_work: int
    saved: int
    memory: int


@dataclasses.dataclass(frozen=True)
class Plan:
    parameters: int  # numbers
    batch: int
    rows: Tuple[Row, ...]

    def __str__(self) -> str:
        lines = [f"{self.parameters} parameters, a batch of {self.batch}", f"{'':32}{'kept MiB':>10}{'all MiB':>10}"]
        for row in self.rows:
            name = str(row.keep) + (f", extra_work={row.extra_work}" if row.extra_work else "")
            lines.append(f"{name:32}{row.saved / 2**20:10.1f}{row.memory / 2**20:10.1f}")
        return "\n".join(lines)


def plan(model: nn.Module, example: Input, ways: Sequence[Tuple[Union[str, Keep], int]] = WAYS, *,
         batch: Optional[int] = None, **how: Any) -> Plan:
    """Plans Net(model, example, keep=..., extra_work=..., **how) for each of the ways, pairs of keep and
    extra_work, for a CPU of this machine's processors. batch: samples; None: the example's. Nothing of the net
    is run, and no device opened; the model's code runs with three samples of the example.

        print(clprune.plan(model, images, batch=256, optimizer="sgd"))
    """
    usual = {name: parameter.default for name, parameter in inspect.signature(Net.__init__).parameters.items()
             if parameter.kind is parameter.KEYWORD_ONLY}
    wrong = set(how) - set(usual) | set(how) & {"keep", "extra_work", "shares", "device"}
    if wrong:
        raise TypeError(f"plan() takes no {', '.join(sorted(wrong))}")
    how = {**usual, **how}
    _library().declare(FUNCTIONS_OF_NETS)
    program, rows = traced(model, example)[1], []
    batch = batch_of(example).inputs[0].shape[0] if batch is None else batch
    options = _Options(precision=_number(PRECISIONS, "precision", how["precision"]) if how["precision"] else 0)
    for keep, extra_work in ways:
        settings = settings_of(batch, {**how, "keep": keep, "extra_work": extra_work})
        with dry_run(program, settings, {}, None, options) as run:
            planned = c_void_p()
            run.call("plan_create", run.context, byref(planned))
            try:
                sizes = run.call("plan_sizes", planned)
                saved = run.call("memory_query", run.context, CATEGORIES["activations"]).live
            finally:
                run.call("plan_destroy", planned)
        rows.append(Row(keep, extra_work, saved, sizes.arena_bytes + sizes.other_bytes))
    return Plan(sum(p.numel() for p in model.parameters()), batch, tuple(rows))
