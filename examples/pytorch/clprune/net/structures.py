"""What clprune/net.h and its neighbours declare, for ctypes: structures, functions, and arguments of layers.

tests/pytorch/test_pytorch.py compares the layouts of the structures with the headers'."""

from __future__ import annotations

import ctypes
import dataclasses
from ctypes import (
    POINTER, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_size_t, c_uint, c_uint32, c_uint64,
    c_void_p)
from typing import Any

import torch

from clprune.library import _Keep, _Mat
from clprune.tracing.program import Attention, Axis, Conv, Extent, Places, Pool, Product, Recurrent
from clprune.tracing.views import Angles, Matrix, Order


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

FUNCTIONS_OF_NETS = {
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


def to_c(value: Any) -> Any:
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
