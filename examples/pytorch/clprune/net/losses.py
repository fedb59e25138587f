"""The losses of a net that have names, and outputs as a net stores them: rows first, then features."""

from __future__ import annotations

from typing import Optional

from torch import Tensor

from clprune.tracing.views import Value

LOSSES = {"cross_entropy": "net_cross_entropy", "mse": "net_mean_squared_error", "smooth_l1": "net_smooth_l1",
           "bce": "net_binary_cross_entropy", "soft_cross_entropy": "net_cross_entropy", None: "net_custom_loss"}
WITH_TARGETS = ("mse", "smooth_l1", "bce", "soft_cross_entropy")  # of the output's shape
OF_CLASSES = ("cross_entropy", "soft_cross_entropy")


def _axes_of(out: Value) -> str:
    """The axes of the output, with those of size 1 that the model has squeezed at the end."""
    axes = "".join(out.axes)
    return axes + "".join(axis for axis in out.stored if axis not in axes)


def to_stored(y: Tensor, out: Value) -> Tensor:
    """A tensor of the output's shape as the net stores it: rows first, then features."""
    axes = _axes_of(out)
    y = y.reshape(y.shape[0], *(out.sizes[axis] for axis in axes))
    return y.permute(0, *(1 + axes.index(axis) for axis in out.stored))


def row_of(name: str, weights: Tensor, out: Value, loss: Optional[str]) -> Tensor:
    """Weights of a loss as the net takes them: of classes, or of the columns of what it stores."""
    of_classes = loss in OF_CLASSES
    shape = (out.sizes["C"],) if of_classes else out.shape
    try:
        rows = weights.expand(shape)
    except RuntimeError:
        rows = None
    if of_classes and weights.shape != shape:
        rows = None
    if rows is not None and not of_classes:
        cols = out.size(out.axes[0]) if len(out.axes) == 1 else out.sizes["C"]
        rows = to_stored(rows[None], out).reshape(-1, cols)
        rows = rows[0] if bool((rows == rows[0]).all()) else None
    if rows is None:
        raise ValueError(f"{name} is {tuple(weights.shape)}, expected {tuple(shape)}" + (
            "" if of_classes else ", or what has as many axes, and one number for each feature"))
    return rows.contiguous()


def from_stored(values: Tensor, out: Value) -> Tensor:
    values = values.permute(0, *(1 + out.stored.index(axis) for axis in _axes_of(out)))
    return values.reshape(values.shape[0], *out.shape).contiguous()
