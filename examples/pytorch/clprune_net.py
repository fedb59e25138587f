"""Whole PyTorch models as nets of clprune: training on any OpenCL device, without autograd.

    import clprune

    net = clprune.Net(model, images, keep="compact")
    for images, labels in loader:
        loss = net.step(images, labels)      # forward, backward, AdamW
    model.load_state_dict(net.state_dict())

torch.fx traces the model, and each of its operations becomes a layer of a net (clprune/net.h). The
net decides for each tensor whether to keep it for the backward pass, and how. An operation that it
does not have is an Error that names the module. See README.md for the operations.

This file and clprune_trace.py belong beside clprune.py, which loads them when clprune.Net is first
used.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import dataclasses
import gc
import io
import math
import os
import threading
import warnings
import weakref
from ctypes import (
    POINTER, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_size_t, c_uint, c_uint32, c_uint64,
    c_void_p)
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clprune_graph import hooks_of, unchanged
from clprune_inputs import Batch, Input, batch_of, check_inputs, has_types, lengths_of, lines, model_of, split
from clprune_library import VALUES, Error, Keep, _Keep, _library, _Mat, _number, giving_back, process_memory
from clprune_modules import own_class
from clprune_program import (
    INPUTS, Attention, Axis, Conv, Extent, Layer, Param, Places, Pool, Product, Program, Recurrent, check_read)
from clprune_trace import trace
from clprune_views import Angles, Matrix, Order, Value

__all__ = ["Net"]

PRESETS = {"dense": 0, "exact": 2, "compact": 3, "least": 4}  # 1, inputs: a Keep
PRECISIONS = {"fp32": 1, "tf32": 2, "bf16": 3}
_PART_BYTES = 2**20
_ALIGN = 64  # CLPRUNE_WRAP_ALIGN
CATEGORIES = {"total": 255, "input": 0, "parameters": 1, "gradients": 2, "optimizer": 3,
              "activations": 4, "workspace": 5, "arena": 6}


# ---------------------------------------------------------------------------------------------
# The library
# ---------------------------------------------------------------------------------------------
# Structures as the public headers declare them; tests/pytorch/test_pytorch.py compares the layouts.


def _structure(structure: str, **fields: Any) -> type:
    return type(structure, (ctypes.Structure,), {"_fields_": list(fields.items())})


_Handle = _structure("_Handle", net=c_uint32, id=c_uint32)
_Extent = _structure("_Extent", height=c_size_t, width=c_size_t)
_Conv = _structure(
    "_NetConv", out=c_size_t, kernel=_Extent, stride=_Extent, padding=_Extent, dilation=_Extent,
    groups=c_size_t, bias=c_bool, output_padding=_Extent, reserved=c_uint64 * 4)
_Pool = _structure("_MaxPoolDesc", kernel=_Extent, stride=_Extent, padding=_Extent, ceil=c_bool,
                   reserved=c_uint64 * 4)
_AxisMatrix = _structure("_NetAxis", out=c_size_t, first=POINTER(c_uint32), of=POINTER(c_uint32),
                         weight=POINTER(c_float))
_Attention = _structure("_NetAttn", heads=c_size_t, kv_heads=c_size_t, queries=c_size_t,
                        causal=c_bool, rate=c_float, window=c_size_t, bias=c_void_p, cap=c_float,
                        reserved=c_uint64 * 2)
_Bias = _structure("_NetBias", table=c_char_p, entries=c_size_t, index=c_void_p, masks=c_size_t, mask=c_void_p,
                   reserved=c_uint64 * 2)
_Angles = _structure("_NetAngles", pairs=c_size_t, frequencies=c_void_p, angles=c_void_p, factor=c_float, adjacent=c_bool,
                     reserved=c_uint64 * 2)
_Product = _structure("_NetProducts", parts=c_size_t, heads=c_size_t, transpose_a=c_bool, transpose_b=c_bool, a_below=c_bool,
                      b_below=c_bool, y_below=c_bool, factor=c_float, reserved=c_uint64 * 2)
_Recurrent = _structure("_RecurrentDesc", cell=c_int, steps=c_size_t, reverse=c_bool, reserved=c_uint64 * 2)
_Places = _structure("_NetPlaces", rows=c_size_t, cols=c_size_t, grid=_Extent, of=c_void_p)
_Order = _structure("_PermuteDesc", rank=c_size_t, extents=c_size_t * 8, order=c_size_t * 8)
_Desc = _structure("_NetDesc", batch=c_size_t, adds=c_bool, drops_grads=c_bool, shares_statistics=c_bool, infers=c_bool,
                   weights_of=c_void_p, rows_at_once=c_size_t, reserved=c_uint64 * 2)
_Rule = _structure("_NetRule", pattern=c_char_p, again=c_bool, keep=_Keep)
_NetKeep = _structure(
    "_NetKeep", preset=c_int, keep=_Keep, gelu_bits=c_uint, products=c_size_t,
    extra_work=c_uint, store=c_int, rules=POINTER(_Rule), rules_count=c_size_t, reserved=c_uint64 * 4)
_Weight = _structure(
    "_NetWeight", name=c_char_p, rank=c_size_t, shape=c_size_t * 4, inputs=c_size_t, image=_Extent,
    output=c_bool, value=_Mat, reserved=c_uint64 * 2)
_State = _structure("_NetState", name=c_char_p, mat=_Mat, reserved=c_uint64 * 2)
_Ints = _structure("_Ints", buffer=c_void_p, offset=c_size_t)
_Bytes = _structure("_ImageBytes", buffer=c_void_p, offset=c_size_t, levels=_Mat)
_Given = _structure("_NetInput", images=_Bytes, rows=_Mat, rows_grad=_Mat, tokens=_Ints, reserved=c_uint64 * 2)
_Data = _structure(
    "_NetData", batch=c_size_t, images=_Bytes, rows=_Mat, labels=_Ints, smoothing=c_float,
    targets=_Mat, add=c_bool, scale=c_float, tokens=_Ints, lengths=_Ints,
    output_grad=_Mat, event=c_void_p, first=c_size_t, other_labels=_Ints, shares=_Mat, starts=_Ints,
    more=POINTER(_Given), more_count=c_size_t, rows_grad=_Mat, weights=_Mat, class_weights=_Mat,
    positive_weights=_Mat, reserved=c_uint64 * 2)
_ParamOf = _structure("_ParamOf", name=c_char_p, value=_Mat, grad=_Mat, decay=c_bool,
                     reserved=c_uint64 * 2)
_Optimizer = _structure(
    "_OptimizerDesc", kind=c_int, momentum=c_float, beta1=c_float, beta2=c_float, eps=c_float,
    weight_decay=c_float, state_bits=c_uint, nesterov=c_bool, reserved=c_uint64 * 3)
_OptimizerInfo = _structure(
    "_OptimizerInfo", name=c_char_p, slots=c_char_p, desc=_Optimizer, lr=c_double,
    weight_decay=c_double, in_parts=c_bool, reserved=c_uint64 * 4)
_Options = _structure(
    "_ContextOptions", device=c_char_p, cache_dir=c_char_p, mem_limit=c_uint64, kernels=c_int,
    allocator=c_void_p * 3, log=c_void_p, log_user=c_void_p, precision=c_int,
    thread_safe=c_int, reserved=c_uint64 * 4)
_Device = _structure(
    "_DeviceInfo", platform_index=c_size_t, device_index=c_size_t, platform=c_char * 128,
    device=c_char * 128, vendor=c_char * 128, driver=c_char * 64, version=c_char * 128,
    type=c_uint64, global_memory=c_uint64, local_memory=c_uint64, max_allocation=c_uint64,
    compute_units=c_uint32, vector_width=c_uint32, max_work_group=c_size_t,
    reserved=c_uint64 * 4)
_Usage = _structure("_MemoryUsage", live=c_uint64, peak=c_uint64, count=c_uint64)
_PlanTotals = _structure("_PlanTotals", commands=c_uint64, arena_bytes=c_uint64, live_bytes=c_uint64, buffer_bytes=c_uint64,
                         scratch_bytes=c_uint64, other_bytes=c_uint64)
_Write = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)
_Ready = ctypes.CFUNCTYPE(c_int, c_void_p, _Mat)

_LOSSES = {"cross_entropy": "net_cross_entropy", "mse": "net_mean_squared_error", "smooth_l1": "net_smooth_l1",
           "bce": "net_binary_cross_entropy", "soft_cross_entropy": "net_cross_entropy", None: "net_custom_loss"}
_WITH_TARGETS = ("mse", "smooth_l1", "bce", "soft_cross_entropy")  # of the output's shape
_OF_CLASSES = ("cross_entropy", "soft_cross_entropy")

_FUNCTIONS_OF_NETS = {
    "context_create_dry": ("status", [POINTER(_Device), POINTER(_Options), POINTER(c_void_p)]),
    "context_destroy": (None, [c_void_p]),
    "context_device_info": (_Device, [c_void_p]),
    "context_finish": ("status", [c_void_p]),
    "context_kernels": (c_int, [c_void_p]),
    "context_precision": (c_int, [c_void_p]),
    "context_use_plan": ("status", [c_void_p, c_void_p]),
    "plan_begin": ("status", [c_void_p]),
    "plan_build": ("status", [c_void_p, c_void_p]),
    "plan_end_step": ("status", [c_void_p]),
    "plan_create": ("status", [c_void_p, POINTER(c_void_p)]),
    "plan_destroy": (None, [c_void_p]),
    "plan_sizes": (_PlanTotals, [c_void_p]),
    "memory_query": (_Usage, [c_void_p, c_int]),
    "mat_create": ("status", [c_void_p, c_int, c_char_p, c_size_t, c_size_t, POINTER(_Mat)]),
    "mat_write": ("status", [c_void_p, _Mat, c_void_p]),
    "mat_read": ("status", [c_void_p, _Mat, c_void_p]),
    "optimizer_describe": (_OptimizerInfo, [c_size_t]),
    "mat_sync_to_host": ("status", [c_void_p, _Mat]),
    "mat_sync_to_device": ("status", [c_void_p, _Mat]),
    "optimizer_create": ("status", [c_void_p, POINTER(_Optimizer), c_size_t, c_void_p,
                                    POINTER(c_void_p)]),
    "optimizer_destroy": (None, [c_void_p]),
    "optimizer_step": ("status", [c_void_p, c_float, c_void_p]),
    "optimizer_update": ("status", [c_void_p, c_void_p, c_float, c_void_p]),
    "optimizer_set_steps": (None, [c_void_p, c_uint64]),
    "optimizer_slots": (c_size_t, [c_void_p]),
    "optimizer_state": (_Mat, [c_void_p, c_size_t, c_size_t]),
    "optimizer_codes": (None, [c_void_p, c_size_t, c_size_t, POINTER(_Mat), POINTER(_Mat)]),
    "net_create": ("status", [c_void_p, POINTER(_Desc), POINTER(c_void_p)]),
    "net_destroy": (None, [c_void_p]),
    "net_eps": (None, [c_void_p, c_float]),
    "net_momentum": (None, [c_void_p, c_float]),
    "net_cross_entropy": (None, [c_void_p, _Handle]),
    "net_mean_squared_error": (None, [c_void_p, _Handle]),
    "net_smooth_l1": (None, [c_void_p, _Handle, c_float]),
    "net_binary_cross_entropy": (None, [c_void_p, _Handle]),
    "net_custom_loss": (None, [c_void_p, _Handle]),
    "net_freeze": (None, [c_void_p, c_char_p]),
    "net_store_frozen": (None, [c_void_p, c_char_p, c_int]),
    "net_tie": (None, [c_void_p, c_char_p, c_char_p]),
    "net_settle": ("status", [c_void_p, POINTER(_NetKeep)]),
    "net_print": ("status", [c_void_p, c_int, _Write, c_void_p]),
    "net_params": (POINTER(_ParamOf), [c_void_p, POINTER(c_size_t)]),
    "net_weight_at": (c_bool, [c_void_p, c_size_t, POINTER(_Weight)]),
    "net_states": (POINTER(_State), [c_void_p, POINTER(c_size_t)]),
    "net_use_value": ("status", [c_void_p, c_char_p, _Mat]),
    "net_set_seed": (None, [c_void_p, c_uint64]),
    "net_on_grads": (None, [c_void_p, _Ready, c_void_p]),
    "net_want_grad": (None, [c_void_p, _Handle]),
    "net_forward": ("status", [c_void_p, POINTER(_Data), c_bool]),
    "net_output": (_Mat, [c_void_p, c_size_t]),
    "net_loss": ("status", [c_void_p, POINTER(_Data), _Mat, _Mat]),
    "net_backward": ("status", [c_void_p, POINTER(_Data)]),
}

# ---------------------------------------------------------------------------------------------
# Running a program
# ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Settings:
    batch: int
    keep: "_NetKeep"
    loss: Optional[str]  # None: the caller's
    smoothing: float
    optimizer: Optional["_Optimizer"]
    slots: str = ""  # of its state, a letter each
    in_parts: bool = True  # it updates parts of the parameters alone
    base_bits: Union[int, str] = 0
    input_grads: bool = False
    class_weight: Optional[Tensor] = None
    pos_weight: Optional[Tensor] = None


def _uncompiled(method: Callable) -> Callable:
    """Compiled code calls the method as it is: torch.compile would trace through addresses."""
    disable = getattr(getattr(torch, "compiler", None), "disable", None)  # since PyTorch 2.1
    return disable(method) if disable is not None else method


def optimizers() -> Dict[str, "_OptimizerInfo"]:
    """What the library has, by name."""
    library, found = _library(), {}
    library.declare(_FUNCTIONS_OF_NETS)
    while (info := library.call("optimizer_describe", len(found))).name is not None:
        found[info.name.decode()] = info
    return found


class _Source:
    """An input of a net: its room in the net, or the caller's memory of a pass, its tensor and version."""

    def __init__(self, layer: Layer) -> None:
        self.tokens, self.planes = layer.function == "tokens", layer.function == "pixels"
        numbers, lines = tuple(layer.more), layer.function == "rows"
        # of a sample, which has no rows where there is one
        self.shapes = (numbers, numbers[1:]) if lines and numbers[0] == 1 else (numbers,)
        self.rows = 1 if self.planes else numbers[0]
        self.cols = math.prod(numbers) // self.rows
        self.mat = self.grad = self.taken = None

    def check(self, x: Tensor, batch: int) -> None:
        if self.tokens == x.is_floating_point():
            raise ValueError(f"the input is {x.dtype}, expected {'integers' if self.tokens else 'float32'}")
        if tuple(x.shape[1:]) not in self.shapes or not 1 <= x.shape[0] <= batch:
            raise ValueError(f"the input is {tuple(x.shape)}, expected "
                             f"(N, {', '.join(map(str, self.shapes[-1]))}) with N from 1 to {batch}")

    def given(self, batch: int) -> "_Given":
        given = _Given()
        if self.tokens:
            given.tokens.buffer = self.mat.buffer
            return given
        given.rows = _first_rows(self.mat, batch * self.rows) if self.taken is None else self.taken[0]
        if self.grad is not None:
            given.rows_grad = _Mat(self.grad.buffer, self.grad.offset, given.rows.rows, given.rows.cols, given.rows.cols)
        return given


class _Run:
    """A program as a net in a context, with room for its data, and its optimizer. In a dry context
    nothing runs. context: closed with it."""

    def __init__(self, context: c_void_p, program: Program, settings: _Settings,
                 memory: Dict[str, Tensor], planned: bool) -> None:
        self.context, self.settings = context, settings
        self.memory, self.lent = memory, []  # memory: of the model, by its names; not copied
        # LAMB's ratios need all gradients, and so do parameters of which others are computed
        frozen = set(program.frozen)
        self.drops_grads = (settings.optimizer is None or settings.in_parts) and not any(
            param.made is not None and param.ours not in frozen for param in program.params)
        self.net, self.optimizer = c_void_p(), c_void_p()
        # on CPUs inputs of floats are the caller's
        self.in_place = not planned and bool(_library().call("context_device_info", context).type & 2)
        self.inputs = [_Source(layer) for layer in program.layers if layer.function in INPUTS]
        self.weights: Dict[str, Tuple[_Mat, Tensor]] = {}  # of the loss, by fields of the data, with their values
        self.process, self.closed = os.getpid(), False
        try:
            self._open(program, planned)
        except BaseException:
            self.close()
            raise

    def call(self, name: str, *arguments: Any) -> Any:
        if self.closed:
            raise Error("the net is closed")
        return _library().call(name, *arguments, context=self.context)

    def _open(self, program: Program, planned: bool) -> None:
        batch, out = self.settings.batch, program.output
        flat = len(out.axes) == 1  # one row a sample
        self.out_rows = 1 if flat else out.size(out.rows)
        for source in self.inputs:
            if not self.in_place or source.tokens:  # int32
                source.mat = self._room("x", batch * source.rows, source.cols)
            if self.settings.input_grads and not source.tokens:
                source.grad = self._room("x grad", batch * source.rows, source.cols)
        self.lengths = self._room("lengths", 1, batch) if program.lengths else None  # int32
        self.loss = self._room("loss", batch, 1)
        self.sample_weights = self._room("weights", batch, 1) if self.settings.loss is not None else None
        self.weighted = False  # the next pass
        if self.settings.loss in _WITH_TARGETS:
            cols = out.size(out.axes[0]) if flat else out.sizes["C"]
            self.y = self._room("y", batch * self.out_rows, cols)
        elif self.settings.loss is not None:
            self.y = self._room("labels", 1, batch * self.out_rows)  # int32
        for field, name in (("class_weights", "class_weight"), ("positive_weights", "pos_weight")):
            values = getattr(self.settings, name)
            if values is not None:
                row = _row_of(name, values, out, self.settings.loss)
                self.weights[field] = self._room(field, 1, row.numel()), row
        if planned:
            self.call("plan_begin", self.context)
        self.call("net_create", self.context, byref(_Desc(batch=batch, drops_grads=self.drops_grads)),
                  byref(self.net))
        self._add_layers(program)
        for param in (*program.params, *program.states):
            if param.theirs in self.memory:
                self._borrow(param)
        self.call("net_settle", self.net, byref(self.settings.keep))
        self.params = self._tensors(program)
        count = c_size_t()
        params = self.call("net_params", self.net, byref(count))
        given = {params[i].name.decode(): params[i] for i in range(count.value)}
        mats = {param.ours: mat for param, mat in self.params}
        self.made = [(param, mats[param.ours], given[param.ours].grad if param.ours in given else None)
                     for param in program.params if param.made is not None]
        given = {**{name: param for name, param in given.items() if name not in {made.ours for made, *_ in self.made}},
                 **self._sources(program, given)}
        self.trained = [(name, param.grad) for name, param in given.items()]
        if self.trained and self.settings.optimizer is not None:
            self.call("optimizer_create", self.context, byref(self.settings.optimizer),
                      len(given), (_ParamOf * len(given))(*given.values()), byref(self.optimizer))

    def _sources(self, program: Program, given: Dict[str, "_ParamOf"]) -> Dict[str, "_ParamOf"]:
        """Memory of parameters from which others are computed."""
        found, at, sizes = {}, 0, [-(-math.prod(param.shape) // _ALIGN) * _ALIGN for param in program.sources]
        if not sizes:
            return found
        of = [_Mat(), _Mat()]
        for mat, category in zip(of, ("parameters", "gradients")):
            self.call("mat_create", self.context, CATEGORIES[category], b"sources", 1, sum(sizes), byref(mat))
        for param, size in zip(program.sources, sizes):
            rows = param.shape[0] if param.shape else 1
            cols = math.prod(param.shape) // rows
            value, grad = (_Mat(mat.buffer, mat.offset + at, rows, cols, cols) for mat in of)
            # weight decay is that of what has as many elements
            decay = len(param.shape) > 1 and any(
                made.ours in given and given[made.ours].decay and param.theirs in made.made.names and
                math.prod(made.shape) == math.prod(param.shape) for made, *_ in self.made)
            found[param.ours] = _ParamOf(name=param.ours.encode(), value=value, grad=grad, decay=decay)
            self.params.append((param, value))
            at += size
        return found

    def _borrow(self, param: Param) -> None:
        """The model's memory in place of the net's."""
        wrapped, memory = _Mat(), self.memory[param.theirs]
        self.call("mat_wrap", self.context, memory.data_ptr(), 1, memory.numel(), memory.numel(), 3, byref(wrapped))
        self.lent.append(wrapped)
        self.call("net_use_value", self.net, param.ours.encode(), wrapped)

    def _add_layers(self, program: Program) -> None:
        values: List[Any] = []
        for layer in program.layers:
            if layer.eps > 0:
                self.call("net_eps", self.net, layer.eps)
            self.call("net_momentum", self.net, layer.momentum)
            name = () if layer.name is None else (layer.name.encode(),)
            inputs = [values[i] for i in layer.inputs]
            _library().declare({f"net_{layer.function}": (_Handle, None)})
            values.append(self.call(f"net_{layer.function}", self.net, *name, *inputs,
                                    *map(_to_c, layer.more)))
            if layer.function in INPUTS and layer.function != "tokens" and self.settings.input_grads:
                self.call("net_want_grad", self.net, values[-1])
        more = (1.0,) if self.settings.loss == "smooth_l1" else ()
        self.call(_LOSSES[self.settings.loss], self.net, values[program.output.layer], *more)
        for name, other in program.ties:
            self.call("net_tie", self.net, name.encode(), other.encode())
        for name in program.frozen:
            self.call("net_freeze", self.net, name.encode())
        if self.settings.base_bits:
            self._store_frozen(program)

    def _store_frozen(self, program: Program) -> None:
        """Frozen weights as codes; those of 4 bits have 8 in embeddings and in the last layer, as in the trainers."""
        types = {16: 2, 8: 5, 4: 6, "nf4": 7}  # clprune_value_type
        last = program.layers[program.output.layer]
        frozen, shapes = set(program.frozen), {param.ours: param.shape for param in program.params}
        for layer in program.layers:
            name = f"{layer.name}.weight"
            if layer.function not in ("linear", "embedding") or name not in frozen:
                continue
            if self.settings.base_bits == 16 and math.prod(shapes[name]) // layer.more[0] % 16 != 0:
                continue
            careful = self.settings.base_bits in (4, "nf4") and (layer.function == "embedding" or layer is last)
            self.call("net_store_frozen", self.net, name.encode(), types[8 if careful else self.settings.base_bits])

    def _room(self, name: str, rows: int, cols: int) -> "_Mat":
        mat = _Mat()
        self.call("mat_create", self.context, CATEGORIES["input"], name.encode(), rows, cols,
                  byref(mat))
        return mat

    def _tensors(self, program: Program) -> List[Tuple[Param, "_Mat"]]:
        """Parameters and states with the net's matrices."""
        mats: Dict[str, _Mat] = {}
        weight, count = _Weight(), c_size_t()
        while self.call("net_weight_at", self.net, len(mats), byref(weight)):
            mats[weight.name.decode()] = _copy(weight.value)
        states = self.call("net_states", self.net, byref(count))
        for i in range(count.value):
            mats[states[i].name.decode()] = _copy(states[i].mat)
        return [(param, mats[param.ours]) for param in (*program.params, *program.states)]

    def take(self, source: _Source, x: Tensor) -> None:
        """Makes x the input of the next pass, which reads its memory until `give_back`, or a copy's if that is
        not of float32, aligned, and in order: of images channels first or last."""
        x = x.detach().to("cpu", torch.float32)
        shape = x.shape[0] * source.rows, source.cols
        last = x.permute(0, 2, 3, 1) if source.planes else x
        if not x.is_contiguous() and last.is_contiguous():
            shape = x.numel() // x.shape[1], x.shape[1]
        else:
            x = x.contiguous()
        x = x.clone() if x.data_ptr() % _ALIGN else x
        source.taken = _Mat(), x, _version(x)
        self.call("mat_wrap", self.context, x.data_ptr(), *shape, shape[1], 1, byref(source.taken[0]))

    def end(self) -> None:
        """Of a pass that has no more to do."""
        self.call("plan_end_step", self.context)
        self.give_back()

    def give_back(self) -> None:
        for source in self.inputs:
            if source.taken is not None:
                self.call("mat_unwrap", self.context, byref(source.taken[0]))
                source.taken = None

    def data(self, batch: int) -> "_Data":
        first, *others = (source.given(batch) for source in self.inputs)
        data = _Data(batch=batch, rows=first.rows, rows_grad=first.rows_grad, tokens=first.tokens, more_count=len(others))
        if others:
            data.more = (_Given * len(others))(*others)  # which lives with data
        if self.lengths is not None:
            data.lengths.buffer = self.lengths.buffer
        for field, (mat, _) in self.weights.items():
            setattr(data, field, mat)
        if self.weighted:
            data.weights = _first_rows(self.sample_weights, batch)
        data.smoothing = self.settings.smoothing if self.settings.loss in _OF_CLASSES else 0
        if self.settings.loss in _WITH_TARGETS:
            data.targets = _first_rows(self.y, batch * self.out_rows)
        elif self.settings.loss is None:  # written in the output's place
            data.output_grad = self.output(batch)
        else:
            data.labels.buffer = self.y.buffer
        return data

    def forward(self, batch: int, training: bool) -> None:
        self.call("net_forward", self.net, byref(self.data(batch)), training)
        self.wait()

    def wait(self) -> None:
        """On CPUs: commands that wait to run take about 1 KiB each, 13 MiB for a step of 12 blocks."""
        if self.in_place:
            self.call("context_finish", self.context)

    def output(self, batch: int) -> "_Mat":
        return self.call("net_output", self.net, batch)

    def backward(self, batch: int, use: Callable[[Sequence[int]], None],
                 chain: Callable[[], None] = lambda: None) -> "_Mat":
        """The loss, unless it is the caller's, and the gradients; returns the samples' losses. Calls `use`
        for buffers of gradients once they are complete; then they are gone, if drops_grads. chain: writes the gradients of
        parameters from which others are computed."""
        loss, data = _first_rows(self.loss, batch), self.data(batch)
        buffers = dict.fromkeys(grad.buffer for _, grad in (*self.trained, *(made[1:] for made in self.made)) if grad is not None)
        failed: List[BaseException] = []

        def ready(_: Any, grads: "_Mat") -> int:
            try:
                use((grads.buffer,))
                self.wait()
                del buffers[grads.buffer]
                return 0
            except BaseException as error:  # of KeyboardInterrupt, too, ctypes would only print a text
                failed.append(error)
                return 1

        if self.settings.loss is not None:
            self.call("net_loss", self.net, byref(data), loss, _Mat())
        if not self.drops_grads:
            self.call("net_backward", self.net, byref(data))
            chain()
            use(tuple(buffers))
            return loss
        function = _Ready(ready)
        self.call("net_on_grads", self.net, function, None)
        try:
            self.call("net_backward", self.net, byref(data))
        except Error as error:
            raise failed[0] if failed else error from None
        finally:
            self.call("net_on_grads", self.net, _Ready(), None)
        if buffers:  # before `ready` could catch it
            raise KeyboardInterrupt
        return loss

    def state(self, index: int) -> Dict[str, "_Mat"]:
        """The optimizer's state of a trained parameter. Names are those of net_file.h."""
        mats: Dict[str, _Mat] = {}
        slots = self.call("optimizer_slots", self.optimizer) if self.optimizer else 0
        for slot, name in enumerate(self.settings.slots[:slots]):
            mat, codes, scales = self.call("optimizer_state", self.optimizer, index, slot), _Mat(), _Mat()
            if mat.buffer:
                mats[name] = mat
                continue
            self.call("optimizer_codes", self.optimizer, index, slot, byref(codes), byref(scales))
            mats[name + ".codes"], mats[name + ".scales"] = codes, scales
        return mats

    def update(self, buffers: Sequence[int], lr: float) -> None:
        """Of the parameters whose gradients lie in the buffers."""
        if self.drops_grads:
            for grads in buffers:
                self.call("optimizer_update", self.optimizer, grads, lr, None)
        else:
            self.call("optimizer_step", self.optimizer, lr, None)

    def plan(self, batch: int) -> None:
        """In a dry context: notes what a step and an inference of so many samples enqueue."""
        def use(buffers: Sequence[int]) -> None:
            if self.optimizer:
                self.update(buffers, 0.0)
            for grads in buffers:
                self.call("mat_read", self.context, _Mat(grads, 0, 1, 1, 1), byref(c_float()))

        try:
            self.forward(batch, True)
            self.backward(batch, use)
        except Error:  # a batch norm needs two rows; the step will say so
            if batch == self.settings.batch:
                raise
        self.call("plan_end_step", self.context)
        self.forward(batch, False)
        self.call("plan_end_step", self.context)

    def close(self) -> None:
        if self.closed or self.process != os.getpid():
            return
        self.closed = True
        library = _library()
        library.call("optimizer_destroy", self.optimizer)
        library.call("net_destroy", self.net)
        for mat in (*self.lent, *(source.taken[0] for source in self.inputs if source.taken is not None)):
            library.call("mat_unwrap", self.context, byref(mat), context=self.context)
        library.call("context_destroy", self.context)


def _to_c(value: Any) -> Any:
    """An argument of a layer as C has it."""
    if isinstance(value, Attention):
        return byref(_attention_to_c(value))
    if isinstance(value, Angles):
        return byref(_angles_to_c(value))
    if isinstance(value, Order):
        rank = len(value.extents)
        return byref(_Order(rank, (c_size_t * 8)(*value.extents), (c_size_t * 8)(*value.order)))
    if isinstance(value, Places):
        return byref(_Places(value.rows, value.cols, _Extent(value.grid.height, value.grid.width), value.of.data_ptr()))
    if isinstance(value, (Product, Recurrent)):
        return byref({Product: _Product, Recurrent: _Recurrent}[type(value)](**dataclasses.asdict(value)))
    if isinstance(value, Extent):
        return _Extent(value.height, value.width)
    if isinstance(value, (Conv, Pool)):
        fields = dataclasses.asdict(value)
        structure = {Conv: _Conv, Pool: _Pool}[type(value)]
        return byref(structure(**{name: _Extent(*field) if isinstance(field, tuple) else field
                                  for name, field in fields.items()}))
    if isinstance(value, Matrix):
        entries = len(value.of)
        return byref(_AxisMatrix(value.out, (c_uint32 * (1 + value.out))(*value.first), (c_uint32 * entries)(*value.of),
                                 (c_float * entries)(*value.weight)))
    if isinstance(value, Axis):
        return c_int(value)
    return {bool: c_bool, float: c_float}.get(type(value), c_size_t)(value)


def _angles_to_c(value: Angles) -> "_Angles":
    linear = value.radians.dim() == 1
    radians = value.radians.to(torch.float64 if linear else torch.float32).contiguous()
    angles = _Angles(radians.shape[-1], radians.data_ptr() if linear else None, None if linear else radians.data_ptr(),
                     value.factor, value.adjacent)
    angles.memory = radians
    return angles


def _attention_to_c(value: Attention) -> "_Attention":
    """With what its bias points to, as long as it lives."""
    attention = _Attention(value.heads, value.kv_heads, 0, value.causal, value.rate, value.window, cap=value.cap)
    if value.bias is not None:
        index, mask = value.bias.index, value.bias.mask
        index = None if index is None else index.to(torch.int32).contiguous()
        mask = None if mask is None else mask.to(torch.float32).contiguous()
        bias = _Bias(None if index is None else b"table", value.bias.entries, None if index is None else index.data_ptr(),
                     0 if mask is None else len(mask), None if mask is None else mask.data_ptr())
        attention.bias, attention.memory = ctypes.addressof(bias), (bias, index, mask)
    return attention


def _copy(mat: "_Mat") -> "_Mat":
    return _Mat(mat.buffer, mat.offset, mat.rows, mat.cols, mat.ld, mat.type)


def _first_rows(mat: "_Mat", rows: int) -> "_Mat":
    """The first elements of a dense matrix, as `rows` rows."""
    return _Mat(mat.buffer, mat.offset, rows, mat.cols, mat.ld)


def _version(tensor: Tensor) -> int:
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
            elif values.data_ptr() % _ALIGN:
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
        return tensor if memory is None and _version(tensor) != self.versions[name] else None

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
        self.versions[param.theirs] = _version(tensor)

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


class Net:
    """A PyTorch model that trains as a net of clprune.

    model      an nn.Module of one input, that and a mask, or several inputs, traced by torch.fx with the
               example, whose sizes its code sees; it is copied, and not changed. It returns a tensor, or tuples and
               dicts of tensors; then calls and `forward` do, too, `backward` takes a gradient for each or None, and
               the loss is a function of them, or None
    example    a batch of its input, float32: (N, C, H, W), (N, T, C) or (N, C), or tokens, integers:
               (N, T). N is the largest batch. Of several inputs a tuple. For a model with padding a pair
               (input, mask), as then in each call: the mask (N, T) has 1 in a sample's first rows, which count,
               and 0 behind them, and the model gives it, or what it computes of it, to attention alone. Or
               what a tokenizer gives, for a model of transformers: a dict of input_ids, and attention_mask, or of
               several inputs (decoder_input_ids, pixel_values), whose output has logits. Where padding cannot
               reach the outputs that count, later batches may be shorter, and outputs for padding are anything
    keep       what is kept for the backward pass: "dense", as autograd keeps it; "exact", less, for
               the same gradients; "compact", the same as codes; "least", inputs of blocks as
               codes. Or a Keep: inputs of linear layers and convolutions in that form
    bits       compact, least: of the codes: 2, 4, 8, or 16 for bf16
    extra_work exact, compact: percent of a step's multiplications that may run again, so that less is kept
    store      "bf16" keeps in bf16 what `keep` keeps dense, in half the bytes; or "fp32"
    rules      pairs of a pattern of layers' names and a Keep, or None to make that tensor again; the
               last one that matches wins
    loss       "cross_entropy" of (N, classes), (N, T, classes) or (N, classes, H, W), of whose labels, an
               integer for each row, those of -100 do not count; or with targets of the output's shape "mse",
               "smooth_l1" or "bce", of logits, or "soft_cross_entropy", of probabilities, also of a teacher; or a
               function of PyTorch of the output and y, such as F.l1_loss, that returns one number; None for
               `forward` and `backward` alone
    smoothing  of labels, for the cross-entropy
    class_weight, pos_weight  as weight of PyTorch's CrossEntropyLoss, (classes,), and weight and pos_weight of its
               BCEWithLogitsLoss, of which all but the features' axis is 1 or absent; the former also for "mse" and "smooth_l1"
    optimizer  "adamw", "sgd" or another of clprune_net.optimizers(); of those with an 8, such as
               "adamw8", the state has 8 bits. Weight decay is for weights alone, not for biases and
               normalisations. None: no `step`, and no state
    lr         the learning rate; set net.lr for later steps
    momentum   of "sgd"; nesterov as PyTorch's SGD has it
    betas      None: the optimizer's usual ones, 0.9 and 0.999 of "adamw"
    shares     the net uses the memory of the model's parameters and running statistics, in place of a
               copy: after a step the model has the new values
    base_bits  4, 8, 16 or "nf4": frozen weights of linear layers and embeddings are stored as codes, bf16 or
               NF4 (QLoRA), which passes read as they are (with 4 bits, also of NF4, those of embeddings and of
               the last layer are codes of 8): for adapters of a large model. state_dict() has the values of the
               codes, which a new Net may round again. Not with shares
    input_grads  backward passes make gradients by the inputs, too: net.input_grads, a list, None for tokens
    device     part of a device's or platform's name, or "platform:device" with numbers; else
               $CLPRUNE_DEVICE, else the first GPU, else the first device
    precision  "fp32" or "bf16" of products; else $CLPRUNE_PRECISION, else fp32
    seed       of stochastic rounding and dropout

    Parameters with requires_grad=False are frozen. Normalisations and dropout work as in training
    in `step`, and as in inference when the net is called, whatever the modes of `model`. The net's
    output for the example is compared with the model's; if they differ, that is an Error. What happens
    to `model` later has no effect: requires_grad_, hooks and other modules in place of its own need
    a new Net, and `step` warns of them. NetModule is the same as an nn.Module, for PyTorch's own
    optimizers.

    deepcopy and pickle take all that a run needs with them, so its next step has the same bits; so do
    state_dict() and optimizer_state() in a new Net. Copies do not share.

    On CPUs a pass reads x where it is, if it is float32 on the CPU, aligned to 64 bytes as PyTorch's tensors
    are, and contiguous or channels last; else a copy. So x must stay as it is until the pass is done: after
    `forward` until `backward`, which is an Error where x has changed in place.

    With `shares` weights of convolutions become channels last in the model, which PyTorch computes with as
    well. What the net cannot use in place, such as a weight behind a flattened image, or one that is not
    float32 on the CPU, is copied after each step. Change values in place, as load_state_dict and copy_ do:
    new memory (`p.data =`, to(), another parameter) is an Error in the next call. On GPUs all is copied.
    """

    def __init__(self, model: nn.Module, example: Input, *,
                 keep: Union[str, Keep] = "compact", bits: int = 4, extra_work: int = 0, store: str = "fp32",
                 rules: Sequence[Tuple[str, Optional[Keep]]] = (),
                 loss: Union[str, Callable[[Tensor, Any], Tensor], None] = "cross_entropy",
                 smoothing: float = 0.0, optimizer: Optional[str] = "adamw", lr: float = 1e-3,
                 momentum: float = 0.9, nesterov: bool = False, betas: Optional[Tuple[float, float]] = None,
                 eps: float = 1e-8, weight_decay: float = 0.0, shares: bool = False, base_bits: Union[int, str] = 0,
                 input_grads: bool = False, class_weight: Optional[Tensor] = None, pos_weight: Optional[Tensor] = None,
                 device: Optional[str] = None, precision: Optional[str] = None,
                 seed: int = 0) -> None:
        if not callable(loss) and loss not in _LOSSES:
            raise ValueError(f"loss is {loss!r}, expected {', '.join(filter(None, _LOSSES))}, a function or None")
        if class_weight is not None and not isinstance(loss, str) or pos_weight is not None and loss != "bce":
            raise ValueError(f"class_weight or pos_weight is given with the loss {loss!r}; class_weight goes with losses "
                             "that have a name, pos_weight with 'bce'")
        if base_bits not in (0, 4, 8, 16, "nf4") or base_bits and shares:
            raise ValueError(f"base_bits is {base_bits}, expected 0, 4, 8, 16 or nf4, and 0 with shares")
        given = batch_of(example, has_types(model))
        if any(not isinstance(x, Tensor) or x.dim() < 2 or x.shape[0] < 1 or
               x.dtype not in (torch.float32, torch.int64, torch.int32) for x in given.inputs):
            raise ValueError("the example is no batch of the model's input in float32, or of tokens")
        if optimizer is not None:
            _number(optimizers(), "optimizer", optimizer)
        hooked = [] if optimizer is None else [
            name for name, p in model.named_parameters() if hooks_of(p)]
        if hooked:
            raise Error(f"{hooked[0]} has hooks, which a Net does not run; a NetModule does")
        whole, program = traced(model, example)
        if isinstance(loss, str) and program.outputs is not None:
            raise Error(f"the model returns several tensors, which have no {loss}; expected a function of them as loss, or None")
        few = Batch(tuple(x[:2] for x in given.inputs), None if given.mask is None else given.mask[:2])
        if loss in _OF_CLASSES and "C" not in program.output.axes:
            raise Error(f"the output of a sample is {program.output.shape}, expected classes for "
                        "the cross-entropy")
        how = dict(keep=keep, bits=bits, extra_work=extra_work, store=store, rules=tuple(rules), loss=loss,
                   smoothing=smoothing, optimizer=optimizer, momentum=momentum, nesterov=nesterov,
                   betas=betas and tuple(betas), eps=eps, weight_decay=weight_decay, base_bits=base_bits,
                   input_grads=input_grads, device=device, precision=precision,
                   class_weight=_listed(class_weight), pos_weight=_listed(pos_weight))
        shared = Shared(model, program) if shares else None
        want = None if base_bits else _output_of(whole, program, few, shared)
        self._make(program, given.inputs[0].shape[0], how, shared)
        self.lr, self.seed = lr, seed
        self._names = _names(model, [param.theirs for param, _ in self._run.params])
        self._model, self._structure = weakref.ref(model), structure_of(model)
        self.load_state_dict(model.state_dict())
        if want is None:  # with the values of the codes
            coded = copy.deepcopy(whole)
            coded.load_state_dict(self.state_dict(), strict=False)
            want = _output_of(coded, program, few, None)
        with giving_back():
            self._compare(few, want)

    def _make(self, program: Program, batch: int, how: Dict[str, Any],
              shared: Optional[Shared] = None) -> None:
        """The net without values. how: the arguments that make it."""
        settings = _settings_of(batch, how)
        precision = how["precision"]
        self._lock, self._program, self._how = threading.RLock(), program, how
        self._model, self._structure = lambda: None, {}
        self.lr, self.seed, self.steps, self._names = 0.0, 0, 0, {}
        self._passes = 0  # since the state was loaded
        # of the current pass: rows that are padding, of outputs for each row; rows that the net has beyond the batch's
        self._padded: Optional[Tensor] = None
        self._short = 0
        self.input_grads: List[Optional[Tensor]] = []
        self._current: Optional[object] = None  # of the pass whose backward pass may follow
        self._stale = True  # parameters that are computed of others are not those of their values
        self._shared, self._working = shared, 0
        self._run = _open(program, settings, shared.memory if shared is not None else {}, how["device"],
                          _number(PRECISIONS, "precision", precision) if precision else 0)
        self._closer = weakref.finalize(self, self._run.close)
        for mat, row in self._run.weights.values():
            self._write_mat(mat, row)

    def __getstate__(self) -> Dict[str, Any]:
        file = io.BytesIO()  # torch.multiprocessing would need tensors for longer than they live here
        torch.save((self._program, self._run.settings.batch, self._names, self.state_dict(),
                    self.optimizer_state()), file)
        return dict(how=self._how, saved=file.getvalue())

    def __setstate__(self, state: Dict[str, Any]) -> None:
        program, batch, names, values, optimizer = torch.load(
            io.BytesIO(state["saved"]), weights_only=False)
        self._make(program, batch, state["how"])
        self._names = names
        self.load_state_dict(values)
        self.load_optimizer_state(optimizer)

    # ---- training

    @_uncompiled
    def step(self, x: Input, y: Any, weights: Optional[Tensor] = None) -> float:
        """Trains on a batch and returns its mean loss. y: labels (N,), or targets of the
        output's shape; any other loss takes what it is. A batch may have fewer samples than the
        example. weights: (N,), times the loss of each sample, of losses that have a name: of "mse"
        (F.mse_loss(out, y, reduction="none").mean(1) * weights).mean()."""
        with self._work(True):
            if self._run.settings.optimizer is None:
                raise Error("the net has no optimizer; expected another than optimizer=None")
            if self._run.optimizer:
                self._run.call("optimizer_set_steps", self._run.optimizer, self.steps)
            loss = self._pass(x, y, weights, lambda buffers: self._run.update(buffers, self.lr))
            self.steps += 1
            self._stale = True
            return loss

    @_uncompiled
    def gradients(self, x: Input, y: Any, weights: Optional[Tensor] = None) -> Tuple[float, Dict[str, Tensor]]:
        """The mean loss of a batch and its gradients, by the model's names, without a step, as in `step`.
        Running statistics move, as in every forward pass in training."""
        with self._work(True):
            grads: Dict[str, Tensor] = {}
            return self._pass(x, y, weights, self._reader(grads)), self._sorted(grads)

    @_uncompiled
    def forward(self, x: Input) -> Any:
        """The model's output in training, for `backward`. Running statistics move."""
        with self._work(True):
            self._warn()
            return self._shown(self._run_forward(self._batch_of(x), self.seed * 2**32 + self.steps))

    @_uncompiled
    def backward(self, *dy: Optional[Tensor]) -> Dict[str, Tensor]:
        """After `forward`: the gradients, by the model's names, of a loss whose gradient by the
        output is dy; of several outputs one each, in their order, or None. The net keeps one pass, so
        each forward pass has one backward pass, before the next pass."""
        with self._work(False):
            grads: Dict[str, Tensor] = {}
            if self._program.outputs is None and len(dy) != 1:
                raise ValueError(f"there are {len(dy)} gradients of one output")
            if self._program.outputs is not None:
                self._expect_pass()
                dy = lines(dy, self._program.outputs, self._batch),
            self._run_backward(dy[0], self._reader(grads))
            return self._sorted(grads)

    @_uncompiled
    def __call__(self, x: Input) -> Any:
        """The model's output in inference."""
        with self._work(False):
            return self._shown(self._infer(self._batch_of(x)))

    def _infer(self, x: Batch) -> Tensor:
        batch = self._write_inputs(x, False)
        self._current = None
        self._run.forward(batch, False)
        y = self._output(batch)
        self._run.end()
        return y

    def _shown(self, y: Tensor) -> Any:
        """The output as the model returns it, if that has several tensors."""
        return y if self._program.outputs is None else split(y, self._program.outputs)

    def _run_forward(self, x: Batch, seed: int) -> Tensor:
        """The output of a forward pass in training that draws by the seed."""
        batch = self._write_inputs(x)
        self._forward(batch, seed)
        return self._output(batch)

    def _expect_pass(self) -> None:
        loss = self._run.settings.loss
        if loss is not None:
            raise Error(f"backward: the net has the loss {loss}; expected a function or None")
        if self._current is None:
            raise Error("backward: call forward first; a net keeps one pass, and each has one backward pass")

    def _run_backward(self, dy: Tensor, use: Callable[[Sequence[int]], None], chains: bool = True) -> None:
        """chains: also the gradients of parameters from which others are computed."""
        run, out = self._run, self._program.output
        self._expect_pass()
        batch = self._batch
        shape = tuple(size - (self._short if group == "T" else 0) for group, size in zip(out.axes, out.shape))
        if tuple(dy.shape) != (batch, *shape):
            raise ValueError(f"the gradient is {tuple(dy.shape)}, expected {(batch, *shape)}, as the output")
        if self._padded is not None:
            rows = F.pad(dy.detach().movedim(1 + out.axes.index("T"), -1), (0, self._short)).movedim(-1, 1)
            self._check_padding("gradients", rows != 0, "are to be 0")
            dy = rows.movedim(1, 1 + out.axes.index("T"))
        if any(source.taken is not None and _version(source.taken[1]) != source.taken[2] for source in run.inputs):
            raise Error("backward: the input was changed in place since forward; the net reads it again")
        self._current = None
        self._write_mat(run.output(batch), _to_stored(dy, out))
        run.backward(batch, use, self._chain if chains else lambda: None)
        self.input_grads = [self._input_grad(source, batch) for source in run.inputs]
        run.end()

    def _input_grad(self, source: _Source, batch: int) -> Optional[Tensor]:
        if source.grad is None:
            return None
        grad = self._read_mat(source.given(batch).rows_grad)
        if source.planes:
            channels, *grid = source.shapes[0]
            return grad.view(batch, *source.shapes[0]) if len(grad) == batch else (
                grad.view(batch, *grid, channels).permute(0, 3, 1, 2))
        return grad.view(batch, *(source.shapes[-1] if source.taken is None else source.taken[1].shape[1:]))

    def _reader(self, grads: Dict[str, Tensor],
                wanted: Optional[Callable[[str], bool]] = None) -> Callable[[Sequence[int]], None]:
        """What a backward pass calls to read gradients, by the model's names; those that are `wanted`, also of parameters that
        are computed from others, by their keys."""
        trained = dict(self._run.trained)
        params = [(param.theirs, param, trained[param.ours]) for param, _ in self._run.params if param.ours in trained]
        if wanted is not None:
            params += [(param.key, param, mat) for param, _, mat in self._run.made if mat is not None]
            params = [row for row in params if wanted(row[0])]

        def read(buffers: Sequence[int]) -> None:
            for name, param, mat in params:
                if mat.buffer in buffers:
                    grads[name] = self._read(param, mat)
        return read

    def _state_of(self, names: Sequence[str]) -> Dict[str, Tensor]:
        """Values of the model's tensors; those that are trained require gradients."""
        trained, mats = dict(self._run.trained), {param.theirs: (param, mat) for param, mat in self._run.params}
        state = {}
        for name in names:
            if name not in mats:
                state[name] = self._other(name)
                continue
            param, mat = mats[name]
            state[name] = self._read(param, mat).requires_grad_(param.ours in trained)
        return state

    def _other(self, name: str) -> Tensor:
        """The value of a tensor of the model's that no layer has."""
        tensor = self._shared.tensors.get(name) if self._shared is not None else None
        return self._names[name] if tensor is None else tensor.detach().cpu()

    def _make_values(self) -> None:
        """Parameters that are computed from others, where these have changed."""
        if self._stale or self._shared is not None:
            for param, mat, _ in self._run.made:
                with torch.no_grad():
                    value = param.made.value(self._state_of(param.made.names))
                self._write_mat(mat, param.to_net(value.reshape(param.shape).contiguous()))
        self._stale = False

    def _chain(self) -> None:
        """Gradients of the parameters from which others are computed, on top of those of their own."""
        found: Dict[str, Tensor] = {}
        for param, _, grad in self._run.made:
            if grad is None:
                continue
            for name, more in param.made.gradients(self._state_of(param.made.names), self._read(param, grad)).items():
                found[name] = found[name] + more if name in found else more
        trained = dict(self._run.trained)
        for param, _ in self._run.params:
            if param.theirs in found:
                more, mat = found[param.theirs], trained[param.ours]
                if not param.ours.startswith("source "):
                    more = more + self._read(param, mat)
                self._write_mat(mat, param.to_net(more).contiguous())

    def _sorted(self, grads: Dict[str, Tensor]) -> Dict[str, Tensor]:
        return {param.theirs: grads[param.theirs] for param, _ in self._run.params
                if param.theirs in grads}

    def _forward(self, batch: int, seed: int) -> None:
        self._passes += 1
        if self._shared is not None:
            self._shared.count(self._program.counters)
        self._current, self._batch = None, batch
        self._run.call("net_set_seed", self._run.net, seed % 2**64)
        self._run.forward(batch, True)
        self._current = object()

    def _output(self, batch: int) -> Tensor:
        out = self._program.output
        values = self._read_mat(self._run.output(batch))
        values = _from_stored(values.view(batch, *(out.sizes[axis] for axis in out.stored)), out)
        if self._short == 0 or "T" not in out.axes:
            return values
        return values.narrow(1 + out.axes.index("T"), 0, out.sizes["T"] - self._short)

    def _warn(self) -> None:
        """Of what has become of the model: once each."""
        model = self._model()
        found = changes(self._structure, structure_of(model)) if model is not None else []
        if found:
            self._structure = structure_of(model)
            warnings.warn(f"clprune: the model has changed since the Net was made of it: {found[0]}; "
                          "the net trains it as it was")

    def _compare(self, x: Batch, want: Tensor) -> None:
        """Fails if the model infers otherwise than the net: then something was not converted
        right, such as code that does something else in training. want: the model's output."""
        with self._work(False):
            got = self._infer(x)
        if self._padded is not None:  # padding has other positions in RoBERTa
            axis = 1 + self._program.output.axes.index("T")
            got, want = (value.movedim(axis, 1)[~self._padded] for value in (got, want))
        if got.shape != want.shape:
            self.close()
            raise Error(f"the net's output is {tuple(got.shape)}, the model's in inference {tuple(want.shape)}")
        away = (got - want).norm() / want.norm().clamp(min=1e-6)
        bf16 = self._run.call("context_precision", self._run.context) == PRECISIONS["bf16"]
        if not away <= (0.1 if bf16 else 3e-4):  # NaN, too
            self.close()
            raise Error(f"the net's output differs from the model's in inference by {away:.2g} of "
                        "its norm; does the model compute something else in training?")

    def _pass(self, x: Input, y: Any, weights: Optional[Tensor], use: Callable[[Sequence[int]], None]) -> float:
        loss, seed = self._how["loss"], self.seed * 2**32 + self.steps
        if loss is None:
            raise Error("the net has no loss; call forward and backward, or expected another than loss=None")
        if weights is not None and callable(loss):
            raise Error("weights go with a loss that has a name; a function of PyTorch weighs samples itself")
        self._warn()
        batch = self._write_inputs(self._batch_of(x))
        if not callable(loss):
            self._write_target(batch, y)
            self._write_weights(batch, weights)
            self._forward(batch, seed)
            self._current = None
            losses = self._run.backward(batch, use, self._chain)
            self._run.end()
            return float(self._read_mat(losses).double().mean())
        self._forward(batch, seed)
        output = self._output(batch).requires_grad_()
        with torch.enable_grad():
            value = loss(self._shown(output), y)
            dy, = torch.autograd.grad(value, output)
        self._run_backward(dy, use)
        return float(value.detach())

    def _batch_of(self, x: Input) -> Batch:
        batch = batch_of(x, self._program.token_types, bool(self._program.inputs))
        check_inputs(batch, self._program.inputs)
        return batch

    def _write_inputs(self, batch: Batch, training: bool = True) -> int:
        """How many samples there are."""
        self._make_values()
        (x, *others), mask = batch
        if mask is not None and not self._program.lengths and bool((mask != 0).all()):
            mask = None
        if (mask is not None) != self._program.lengths:
            raise ValueError("the input is " + ("one tensor, expected (tensor, mask)" if mask is None else
                                                "(tensor, mask), expected one tensor") + ", as the example was")
        first = self._run.inputs[0]
        lengths = None if mask is None else lengths_of(mask, x)
        rows = mask is not None and "T" in self._program.output.axes
        apart = mask is not None and not self._program.padding_counts and not (rows and self._how["loss"] in _WITH_TARGETS)
        self._short = 0
        if apart and first.tokens and x.dim() == 2 and x.shape[1] < first.rows:  # more padding, with any token
            self._short = first.rows - x.shape[1]
            x, mask = F.pad(x, (0, self._short), value=int(x[0, 0])), F.pad(mask, (0, self._short))
        self._padded = mask.to("cpu") == 0 if apart and rows else None
        for source, given in zip(self._run.inputs, (x, *others)):
            source.check(given, self._run.settings.batch)
            if source.tokens:
                self._check_tokens(given[mask.to(x.device) != 0] if apart and source is first else given, training)
        if lengths is not None:
            self._write_ints(self._run.lengths, lengths)
        self._run.give_back()
        for source, given in zip(self._run.inputs, (x, *others)):
            if source.tokens:
                self._write_ints(source.mat, given)
            elif self._run.in_place:
                self._run.take(source, given)
            else:
                self._write_mat(_first_rows(source.mat, given.shape[0] * source.rows), given)
        return x.shape[0]

    def _check_tokens(self, x: Tensor, training: bool) -> None:
        for padding in self._program.paddings if training or self._program.pads_positions else ():
            if bool((x == padding).any()):
                raise ValueError(f"the tokens have {padding}, padding_idx of an embedding, whose row the net would train"
                                 + (", and which shifts positions" if self._program.pads_positions else ""))

    def _write_target(self, batch: int, y: Tensor) -> None:
        run, out = self._run, self._program.output
        if run.settings.loss in _WITH_TARGETS:
            if tuple(y.shape) != (batch, *out.shape):
                raise ValueError(f"the target is {tuple(y.shape)}, expected {(batch, *out.shape)}")
            self._write_mat(_first_rows(run.y, batch * run.out_rows), _to_stored(y, out))
            return
        want = (batch, *(out.size(group) - (self._short if group == "T" else 0) for group in out.axes if group != "C"))
        if tuple(y.shape) != want or y.is_floating_point():
            raise ValueError(f"the labels are {y.dtype} of {tuple(y.shape)}, expected integers of {want}")
        classes, least = out.sizes["C"], -100 if len(want) > 1 else 0  # PyTorch's ignore_index
        if ((y < 0) & (y != least)).any() or int(y.max()) >= classes:
            raise ValueError(f"labels are {int(y.min())} to {int(y.max())}, expected 0 to "
                             f"{classes - 1}")
        if self._padded is not None:
            y = F.pad(y, (0, self._short), value=-100)
            self._check_padding("labels", y != -100, "are to be -100")
        letters = "".join(group for group in out.axes if group != "C")
        y = y.reshape(batch, *(out.sizes[axis] for axis in letters))
        self._write_ints(run.y, y.permute(0, *(1 + letters.index(axis) for axis in out.rows)))

    def _write_weights(self, batch: int, weights: Optional[Tensor]) -> None:
        run = self._run
        run.weighted = weights is not None
        if weights is not None:
            if tuple(weights.shape) != (batch,):
                raise ValueError(f"the weights are {tuple(weights.shape)}, expected {(batch,)}")
            self._write_mat(_first_rows(run.sample_weights, batch), weights[:, None])

    def _check_padding(self, what: str, counts: Tensor, expected: str) -> None:
        """counts: of rows, (N, T, ...). Padding has no gradient in PyTorch, so none may come from its rows."""
        if self._padded is not None and self._program.paddings and bool(counts.to("cpu")[self._padded].any()):
            raise ValueError(f"{what} behind a sample's length {expected}: its padding would be trained")

    def _write_ints(self, mat: "_Mat", values: Tensor) -> None:
        self._write(_Mat(mat.buffer, 0, 1, values.numel(), values.numel()), values.to("cpu", torch.int32))

    @contextlib.contextmanager
    def _work(self, writes: bool) -> Iterator[None]:
        """The lock, while which memory of the model is the device's. writes: its values change."""
        with self._lock:
            run, outer = self._run, self._working == 0 and self._shared is not None
            if outer and not run.closed:
                self._shared.check()
                check_read(self._program, self._shared.tensors)
                for param, mat in run.params:
                    value = self._shared.changed(param)
                    if value is not None:
                        self._write_mat(mat, param.to_net(value))
                for mat in run.lent:
                    run.call("mat_sync_to_device", run.context, mat)
            self._working += 1
            try:
                yield
            finally:
                self._working -= 1
                if outer and not run.closed:
                    for mat in run.lent:
                        run.call("mat_sync_to_host", run.context, mat)
                    if writes:
                        for param, mat in run.params:
                            self._shared.changes(param, lambda: self._read(param, mat))

    # ---- tensors

    @_uncompiled
    def state_dict(self) -> Dict[str, Tensor]:
        """Parameters and running statistics, as the model's state_dict has them. Tensors that the
        model does not use have the values that they had."""
        with self._work(False):
            mine = {param.theirs: self._read(param, mat) for param, mat in self._run.params
                    if param.theirs is not None}
            state = {name: mine[source] if isinstance(source, str) else
                     (source if name in self._program.counters else self._other(name)).clone()
                     for name, source in self._names.items()}
            for name in self._program.counters:
                if name in state:
                    state[name] += self._passes
        return state

    @_uncompiled
    def load_state_dict(self, state: Dict[str, Tensor]) -> None:
        """Takes the values of `state`; names that the net does not have are ignored. The
        optimizer's state stays: load_optimizer_state."""
        missing = [param.theirs for param, _ in self._run.params
                   if param.theirs is not None and param.theirs not in state]
        if missing:
            raise ValueError(f"no value for {', '.join(missing)}")
        check_read(self._program, state)
        with self._work(True):
            for name, source in self._names.items():
                if name in state and not isinstance(source, str):
                    self._names[name] = state[name].detach().cpu().clone()
                    if self._shared is not None:
                        self._shared.take(name, state[name])
            self._passes = 0
            self._write_values(state)

    def _write_values(self, values: Dict[str, Tensor]) -> None:
        self._current, self._stale = None, True
        for param, mat in self._run.params:
            if param.made is not None:
                if param.key in values:
                    self._write_mat(mat, param.to_net(values[param.key]).contiguous())
                    self._stale = False
                continue
            value = param.value if param.theirs is None else values[param.theirs]
            memory = self._run.memory.get(param.theirs)
            if memory is not None and value.data_ptr() == memory.data_ptr():
                continue
            if tuple(value.shape) != param.shape:
                raise ValueError(f"{param.theirs} is {tuple(value.shape)}, expected {param.shape}")
            self._write_mat(mat, param.to_net(value))

    @_uncompiled
    def optimizer_state(self) -> Dict[str, Any]:
        """What a resumed run needs beside state_dict(): the number of steps, the seed, the learning
        rate, and the optimizer's state by the model's names."""
        with self._lock:
            state = {param.theirs: {name: self._read_state(param, mat, name)
                                    for name, mat in self._run.state(index).items()}
                     for index, param in self._trained()}
        return dict(optimizer=self._how["optimizer"], steps=self.steps, seed=self.seed, lr=self.lr,
                    state=state)

    @_uncompiled
    def load_optimizer_state(self, state: Dict[str, Any]) -> None:
        """Takes what optimizer_state() of a net of the same model and optimizer has returned."""
        if state["optimizer"] != self._how["optimizer"]:
            raise ValueError(f"the state is of the optimizer {state['optimizer']}, expected "
                             f"{self._how['optimizer']}")
        with self._lock:
            writes = []
            for index, param in self._trained():
                values = state["state"].get(param.theirs, {})
                for name, mat in self._run.state(index).items():
                    like = self._read_state(param, mat, name)
                    value = values.get(name)
                    if value is None or value.shape != like.shape or value.dtype != like.dtype:
                        raise ValueError(
                            f"the state {name} of {param.theirs} is "
                            f"{'missing' if value is None else f'{value.dtype} of {tuple(value.shape)}'}, "
                            f"expected {like.dtype} of {tuple(like.shape)}")
                    plain = len(name) == 1
                    writes.append((mat, param.to_net(value) if plain else value.view(torch.float32)))
            for mat, value in writes:
                self._write_mat(mat, value)
            self.steps, self.seed, self.lr = state["steps"], state["seed"], state["lr"]
            if self._run.optimizer:
                self._run.call("optimizer_set_steps", self._run.optimizer, self.steps)

    def _trained(self) -> List[Tuple[int, Param]]:
        """Parameters with their numbers in the optimizer."""
        numbers = {ours: index for index, (ours, _) in enumerate(self._run.trained)}
        return [(numbers[param.ours], param) for param, _ in self._run.params if param.ours in numbers]

    def _read_state(self, param: Param, mat: "_Mat", name: str) -> Tensor:
        if name in ("m", "v"):
            return self._read(param, mat)
        values = self._read_mat(mat).view(-1)
        return values.view(torch.uint8) if name.endswith(".codes") else values

    def _read(self, param: Param, mat: "_Mat") -> Tensor:
        return param.from_net(self._read_mat(mat))

    def _read_mat(self, mat: "_Mat") -> Tensor:
        values = torch.empty(mat.rows, mat.cols, dtype=torch.float32, device="cpu")
        with _memory_of(values) as address:
            self._run.call("mat_read", self._run.context, mat, address)
        return values

    def _write_mat(self, mat: "_Mat", values: Tensor) -> None:
        if values.numel() != mat.rows * mat.cols:
            raise ValueError(f"{values.numel()} values for {mat.rows} x {mat.cols}")
        values = values.detach().reshape(values.shape or (1,))
        count = values.shape[0]
        if values.is_contiguous() or mat.rows % count:
            self._write(mat, values.to("cpu", torch.float32))
            return
        rows = mat.rows // count  # copies in the net's order, by parts
        step = max(_PART_BYTES // (4 * rows * mat.cols), 1)
        for first in range(0, count, step):
            part = values[first:first + step].to("cpu", torch.float32)
            self._write(_Mat(mat.buffer, mat.offset + first * rows * mat.ld, part.shape[0] * rows, mat.cols,
                             mat.ld, mat.type), part)

    def _write(self, mat: "_Mat", values: Tensor) -> None:
        with _memory_of(values.contiguous()) as address:
            self._run.call("mat_write", self._run.context, mat, address)

    # ---- memory

    @property
    def saved_bytes(self) -> int:
        """Bytes that are kept from the forward pass to the backward pass."""
        return self.memory()["activations"]

    @_uncompiled
    def memory(self) -> Dict[str, int]:
        """Bytes on the device, by category. The arena holds activations and workspace, which share
        places; "total" counts it in their place. On Linux also those of the process: "process" now, and
        "process_peak"."""
        run = self._run
        with self._lock:
            return {**{name: int(run.call("memory_query", run.context, number).live)
                       for name, number in CATEGORIES.items()}, **process_memory()}

    def __str__(self) -> str:
        """All device memory, and a table of the net's tensors: which are kept, how, and how the others are made again."""
        lines: List[str] = []
        run = self._run
        with self._lock:
            run.call("net_print", run.net, 0, _Write(lambda _, text: lines.append(text.decode())),
                     None)
        return "".join(lines).rstrip("\n")

    @_uncompiled
    def close(self) -> None:
        """Releases all that the net holds on the device; it cannot be used afterwards."""
        with self._lock:
            self._closer()


@contextlib.contextmanager
def _memory_of(x: Tensor) -> Iterator[int]:
    """The address of x, which lives as long as the block."""
    yield x.data_ptr()
    del x


def _names(model: nn.Module, mine: Sequence[Optional[str]]) -> Dict[str, Any]:
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


def _net_keep(keep: Union[str, Keep], bits: int, extra_work: int, store: str,
              rules: Sequence[Tuple[str, Optional[Keep]]]) -> "_NetKeep":
    if isinstance(keep, Keep):
        c = _NetKeep(preset=1, keep=keep.c)
    else:
        c = _NetKeep(preset=_number(PRESETS, "keep", keep), keep=_Keep(bits=bits))
    c.extra_work, c.store = extra_work, _number(VALUES, "store", store)
    c.rules = (_Rule * len(rules))(*(
        _Rule(pattern.encode(), how is None, _Keep() if how is None else how.c)
        for pattern, how in rules))
    c.rules_count = len(rules)
    return c


def _axes_of(out: Value) -> str:
    """The axes of the output, with those of size 1 that the model has squeezed at the end."""
    axes = "".join(out.axes)
    return axes + "".join(axis for axis in out.stored if axis not in axes)


def _to_stored(y: Tensor, out: Value) -> Tensor:
    """A tensor of the output's shape as the net stores it: rows first, then features."""
    axes = _axes_of(out)
    y = y.reshape(y.shape[0], *(out.sizes[axis] for axis in axes))
    return y.permute(0, *(1 + axes.index(axis) for axis in out.stored))


def _listed(weights: Optional[Tensor]) -> Any:
    """Without tensors, as a Net's arguments are pickled."""
    return None if weights is None else torch.as_tensor(weights, dtype=torch.float32).tolist()


def _row_of(name: str, weights: Tensor, out: Value, loss: Optional[str]) -> Tensor:
    """Weights of a loss as the net takes them: of classes, or of the columns of what it stores."""
    of_classes = loss in _OF_CLASSES
    shape = (out.sizes["C"],) if of_classes else out.shape
    try:
        rows = weights.expand(shape)
    except RuntimeError:
        rows = None
    if of_classes and weights.shape != shape:
        rows = None
    if rows is not None and not of_classes:
        cols = out.size(out.axes[0]) if len(out.axes) == 1 else out.sizes["C"]
        rows = _to_stored(rows[None], out).reshape(-1, cols)
        rows = rows[0] if bool((rows == rows[0]).all()) else None
    if rows is None:
        raise ValueError(f"{name} is {tuple(weights.shape)}, expected {tuple(shape)}" + (
            "" if of_classes else ", or what has as many axes, and one number for each feature"))
    return rows.contiguous()


def _from_stored(values: Tensor, out: Value) -> Tensor:
    values = values.permute(0, *(1 + out.stored.index(axis) for axis in _axes_of(out)))
    return values.reshape(values.shape[0], *out.shape).contiguous()


def traced(model: nn.Module, example: Input) -> Tuple[nn.Module, Program]:
    """The model as one of tensors, and its program."""
    types = has_types(model)
    with giving_back():
        whole, batch = model_of(model, example), batch_of(example, types)
        if batch.mask is not None:
            lengths_of(batch.mask, batch.inputs[0])
        program = trace(whole, *batch)
        gc.collect()  # graphs of torch.fx are cycles: 8 MiB of a BERT
    program.token_types = types
    program.inputs = [tuple(x.shape[1:]) for x in batch.inputs] if len(batch.inputs) > 1 else []
    program.outputs = next(iter(getattr(whole, "several_outputs", ())), None)
    return whole, program


def _output_of(model: nn.Module, program: Program, x: Batch, shared: Optional[Shared]) -> Tensor:
    """The model's output in inference."""
    try:
        with giving_back(), unchanged(model), torch.no_grad(), torch.random.fork_rng(devices=[]):
            out = model.eval()(*(part.clone() for part in x.parts))
    except RuntimeError as error:
        if shared is None or not shared.moved:
            raise
        shared.undo()
        raise Error("the model does not run with weights of convolutions in channels last, as shares=True "
                    f"has them: {error}") from error
    return (out[program.key] if program.key else out).float()


def _settings_of(batch: int, how: Dict[str, Any]) -> _Settings:
    """how: the arguments of a Net."""
    optimizer, slots, in_parts = None, "", True
    if how["optimizer"] is not None:
        info = optimizers()[how["optimizer"]]
        optimizer, slots, in_parts = info.desc, info.slots.decode(), info.in_parts
        optimizer.momentum, optimizer.weight_decay = how["momentum"], how["weight_decay"]
        optimizer.nesterov = how.get("nesterov", False)
        optimizer.beta1, optimizer.beta2 = how["betas"] or (optimizer.beta1, optimizer.beta2)
        optimizer.eps = how["eps"]
    return _Settings(
        batch, _net_keep(how["keep"], how["bits"], how["extra_work"], how["store"], how["rules"]),
        how["loss"] if isinstance(how["loss"], str) else None, how["smoothing"], optimizer, slots,
        in_parts, how.get("base_bits", 0), how.get("input_grads", False),
        *(None if how.get(name) is None else torch.as_tensor(how[name], dtype=torch.float32)
          for name in ("class_weight", "pos_weight")))


@contextlib.contextmanager
def _dry_run(program: Program, settings: _Settings, memory: Dict[str, Tensor], device: Any,
             options: "_Options") -> Iterator["_Run"]:
    """A net in a context without a device, which has noted all kinds of steps."""
    dry = c_void_p()
    _library().call("context_create_dry", device, byref(options), byref(dry))
    run = _Run(dry, program, settings, memory, True)
    try:
        for batch in range(settings.batch, 0, -1):
            run.plan(batch)
        yield run
    finally:
        run.close()


def _open(program: Program, settings: _Settings, memory: Dict[str, Tensor], device: Optional[str],
          precision: int) -> _Run:
    """The net in a context of its own. A dry run of all kinds of steps plans its memory first."""
    library = _library()
    library.declare(_FUNCTIONS_OF_NETS)
    context, plan = c_void_p(), c_void_p()
    options = _Options(device=device.encode() if device else None, precision=precision)
    library.call("context_create", None, byref(options), byref(context))
    try:
        info = library.call("context_device_info", context)
        same = _Options(kernels=library.call("context_kernels", context),
                        precision=library.call("context_precision", context))
        with _dry_run(program, settings, memory, byref(info), same) as run:
            run.call("plan_create", run.context, byref(plan))
        library.call("plan_build", context, plan, context=context)
        library.call("context_use_plan", context, plan, context=context)
    except BaseException:
        library.call("context_destroy", context)
        raise
    finally:
        library.call("plan_destroy", plan)
    return _Run(context, program, settings, memory, False)
