"""Tensors of a model that are its net's, too."""

from __future__ import annotations

import weakref
from typing import Callable, Dict, List, Optional, Sequence

import torch
from torch import Tensor, nn

from clprune.library import Error
from clprune.tracing.program import Param, Program

ALIGN = 64  # CLPRUNE_WRAP_ALIGN


def write_count(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


class Shared:
    """Tensors of a model that are a net's, too: in place where they can be, else copied. Fails if the model
    has other ones since.

    memory  of the model's names: tensors of 32-bit floats in the net's order, at aligned addresses
    """

    def __init__(self, model: nn.Module, program: Program) -> None:
        self.model, self.tensors = weakref.ref(model), _tensors_of(model)
        self.memory: Dict[str, Tensor] = {}
        self.moved: List[Tensor] = []
        for param in (*program.params, *program.states):
            tensor = self.tensors.get(param.theirs)
            if tensor is None or (tensor.dtype, tensor.device.type, tensor.layout) != (
                    torch.float32, "cpu", torch.strided) or tensor.numel() == 0:
                continue
            values = param.to_net(tensor.detach())
            if not values.is_contiguous() or values.data_ptr() != tensor.data_ptr():
                if param.split != param.shape:  # no view of the net's order has this shape
                    continue
                values = values.contiguous()
                tensor.data = values.permute([param.order.index(axis) for axis in range(values.dim())])
                self.moved.append(tensor)
            elif values.data_ptr() % ALIGN:
                tensor.data = values = values.clone()
            self.memory[param.theirs] = values
        self.versions = {name: -1 for name in self.tensors}

    def changed(self, param: Param) -> Optional[Tensor]:
        """A copied tensor if it has new values; fails if one in place has other memory."""
        name = param.theirs
        if name is None:
            return None
        tensor, memory = self.tensors[name], self.memory.get(name)
        if memory is not None and (tensor.data_ptr() != memory.data_ptr()
                                   or tensor.untyped_storage().nbytes() < 4 * memory.numel()
                                   or tuple(tensor.shape) != param.shape or tensor.dtype != memory.dtype
                                   or param.to_net(tensor.detach()).stride() != memory.stride()):
            raise Error(f"{name} has other memory than when the Net was made; with shares=True expected new "
                        "values in it, as by copy_ or load_state_dict, or a new Net")
        return tensor if memory is None and write_count(tensor) != self.versions[name] else None

    def check(self) -> None:
        """Fails if the model has another tensor under a name."""
        model = self.model()
        now = self.tensors if model is None else _tensors_of(model)
        for name in self.memory:
            if now.get(name) is not self.tensors[name]:
                raise Error(f"{name} is another tensor than when the Net was made, which has shares=True; "
                            "expected new values in it, as by copy_ or load_state_dict, or a new Net")

    def changes(self, param: Param, read: Callable[[], Tensor]) -> None:
        """A tensor has new values: in place, or as `read` returns them."""
        if param.theirs is None:
            return
        tensor = self.tensors[param.theirs]
        if param.theirs in self.memory:
            if not tensor.is_inference() and hasattr(torch.autograd.graph, "increment_version"):
                torch.autograd.graph.increment_version(tensor)
            return
        with torch.no_grad():
            tensor.copy_(read())
        self.versions[param.theirs] = write_count(tensor)

    def count(self, counters: Sequence[str]) -> None:
        """Of a forward pass in training: num_batches_tracked."""
        for name in counters:
            if self.tensors.get(name) is not None:
                self.tensors[name].add_(1)

    def take(self, name: str, value: Tensor) -> None:
        """A value of a tensor that the net does not have."""
        if name in self.tensors:
            with torch.no_grad():
                self.tensors[name].copy_(value)

    def undo(self) -> None:
        """Weights of convolutions in PyTorch's order again."""
        for tensor in self.moved:
            tensor.data = tensor.data.contiguous()


def _tensors_of(model: nn.Module) -> Dict[str, Tensor]:
    return {**dict(model.named_parameters(remove_duplicate=False)),
            **dict(model.named_buffers(remove_duplicate=False))}
