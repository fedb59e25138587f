"""What modules become in a net as a whole: of PyTorch, timm and transformers. For trace.py, whose tracer is `t`."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, List, Optional

import torch
from torch import nn

from clprune.convert.modules import own_class
from clprune.tracing.recurrent import cell, recurrent
from clprune.tracing.views import Constant, NotSupported, Value

__all__ = ["known"]


def _constants(module: nn.Module, trace: Any, *names: str) -> List[Optional[Constant]]:
    prefix = str(trace.node.target)
    values = [getattr(module, name, None) for name in names]
    for name, value in zip(names, values):
        if value is not None and name not in module._parameters and name not in module._buffers:
            raise NotSupported(f"its {name} is computed from other parameters")
    return [None if value is None else Constant(f"{prefix}.{name}", value)
            for name, value in zip(names, values)]


def _linear(t: Any, m: nn.Linear, x: Value) -> Value:
    return t.linear(x, *_constants(m, t, "weight", "bias"))


def _conv2d(t: Any, m: nn.Conv2d, x: Value) -> Value:
    padding = m.padding
    if m.padding_mode != "zeros":
        x, padding = t.pad(x, m._reversed_padding_repeated_twice, m.padding_mode), 0
    return t.conv2d(x, *_constants(m, t, "weight", "bias"), m.stride, padding, m.dilation,
                    m.groups)


def _conv1d(t: Any, m: nn.Conv1d, x: Value) -> Value:
    if m.padding_mode != "zeros":
        raise NotSupported(f"a convolution of lines with padding_mode {m.padding_mode!r}")
    return t.conv1d(x, *_constants(m, t, "weight", "bias"), m.stride, m.padding, m.dilation, m.groups)


def _conv_transpose2d(t: Any, m: nn.ConvTranspose2d, x: Value) -> Value:
    return t.conv_transpose2d(x, *_constants(m, t, "weight", "bias"), m.stride, m.padding, m.output_padding, m.groups,
                              m.dilation)


def _batch_norm(t: Any, m: nn.BatchNorm2d, x: Value) -> Value:
    constants = _constants(m, t, "running_mean", "running_var", "weight", "bias")
    return t.batch_norm(x, *constants, m.training, m.momentum, m.eps)


def _embedding(t: Any, m: nn.Embedding, x: Any) -> Value:
    return t.embedding(x, *_constants(m, t, "weight"), m.padding_idx, m.max_norm, m.norm_type, m.scale_grad_by_freq,
                       m.sparse)


def _layer_norm(t: Any, m: nn.LayerNorm, x: Value) -> Value:
    return t.layer_norm(x, m.normalized_shape, *_constants(m, t, "weight", "bias"), m.eps)


def _group_norm(t: Any, m: nn.GroupNorm, x: Value) -> Value:
    return t.group_norm(x, m.num_groups, *_constants(m, t, "weight", "bias"), m.eps)


def _of(t: Any, name: str, module: nn.Module) -> List[Optional[Constant]]:
    """Weight and bias of a linear layer inside of a module."""
    if not {name for name, _ in module.named_parameters()} <= {"weight", "bias"}:
        raise NotSupported(f"the parameters of its {name} are computed from others")
    path = f"{t.node.target}.{name}"
    return [None if value is None else Constant(f"{path}.{part}", value)
            for part, value in (("weight", module.weight), ("bias", module.bias))]


def _timm_attention(t: Any, m: nn.Module, x: Value, *more: Any, **kwargs: Any) -> Value:
    parts = [getattr(m, name, nn.Identity()) for name in ("q_norm", "k_norm", "norm")]
    if not all(isinstance(part, nn.Identity) for part in parts) or getattr(m, "gate", None):
        raise NotSupported("attention with norms or gates inside")
    if any(value is not None and value is not False for value in (*more, *kwargs.values())):
        raise NotSupported("attention with a mask")
    if m.qkv.weight.shape[0] != 3 * m.proj.weight.shape[1] or \
            abs(m.scale * (m.proj.weight.shape[1] // m.num_heads) ** 0.5 - 1) > 1e-6:
        raise NotSupported("attention with a scale of its own")
    y = t.attention(x, _of(t, "qkv", m.qkv), _of(t, "proj", m.proj), m.num_heads,
                    float(getattr(m.attn_drop, "p", m.attn_drop)) if m.training else 0.0)
    return t.dropout(y, m.proj_drop.p, m.proj_drop.training)


def _attention(t: Any, m: nn.MultiheadAttention, query: Value, key: Value, value: Value,
               key_padding_mask: Optional[Constant] = None, need_weights: bool = True, attn_mask: Optional[Constant] = None,
               average_attn_weights: bool = True, is_causal: bool = False) -> Value:
    if m.in_proj_weight is None or m.bias_k is not None or m.add_zero_attn:
        raise NotSupported("nn.MultiheadAttention needs keys and values as wide as queries, without bias_kv or zeros")
    given = dict(zip(("query", "key", "value"), t.node.args), **t.node.kwargs)
    if given["key"] is not given["value"]:
        raise NotSupported("nn.MultiheadAttention needs key and value to be the same tensor")
    qkv, rate = _constants(m, t, "in_proj_weight", "in_proj_bias"), m.dropout if m.training else 0.0
    if not m.batch_first:
        query, key = map(t.samples_first, (query, key))
    if given["query"] is not given["key"]:
        if attn_mask is not None or key_padding_mask is not None:
            raise NotSupported("a mask in attention to other rows")
        y = t.attention_to(query, key, qkv, _of(t, "out_proj", m.out_proj), m.num_heads, rate)
        return y if m.batch_first else t.rows_first(y)
    causal = masked = False
    for mask, of_keys in ((attn_mask, False), (key_padding_mask, True)):
        if mask is not None:
            names = t._parameters_of(mask)
            if names:
                raise NotSupported(f"a mask of attention that is computed from a parameter, {names[0]}")
            seen = mask.value if mask.value.is_floating_point() else ~mask.value
            seen = seen[:, None, None] if of_keys else seen
            causal = t.hides(dataclasses.replace(mask, value=seen), query.size(query.rows)) or causal
            t._read(mask)
            masked = masked or mask.mask
    if is_causal and not need_weights and key_padding_mask is None and not causal:  # PyTorch then leaves the mask out
        raise NotSupported("is_causal beside a mask of attention that is not causal")
    y = t.attention(query, qkv, _of(t, "out_proj", m.out_proj), m.num_heads, rate, causal, masked)
    return y if m.batch_first else t.rows_first(y)


def _timm_drop_path(t: Any, m: nn.Module, x: Value) -> Value:
    if not m.scale_by_keep:
        raise NotSupported("stochastic depth without a scale")
    return t.stochastic_depth(x, m.drop_prob or 0.0, "row", m.training)


def _transposed_linear(t: Any, m: nn.Module, x: Value) -> Value:
    """Conv1D of transformers: a linear layer whose weight is in x out."""
    weight, bias = _constants(m, t, "weight", "bias")
    return t.linear(x, weight, bias, True)


def _rms_norm(t: Any, m: nn.Module, x: Value) -> Value:
    eps = getattr(m, "variance_epsilon", None)
    if eps is None:  # nn.RMSNorm
        eps = torch.finfo(torch.float32).eps if m.eps is None else m.eps
        if len(m.normalized_shape) != 1:
            raise NotSupported("an RMS norm over several dimensions")
    return t.rms_norm(x, *_constants(m, t, "weight"), eps)


def _norm_by_result(t: Any, m: nn.Module, x: Value) -> Value:
    """A layer norm without bias, as in Cohere, or an RMS norm, whose weight is w, or w + 1 as in Gemma: what it makes of random
    numbers tells."""
    (weight,), eps = _constants(m, t, "weight"), getattr(m, "eps", None) or m.variance_epsilon
    draw = torch.Generator().manual_seed(1)
    value, w = (torch.randn(*rows, *m.weight.shape, generator=draw) / 8 + 0.1 for rows in ((2, 3), ()))
    result = torch.func.functional_call(m, {"weight": w}, value).detach()
    value, result, w = (x.double() for x in (value, result, w))
    for centre, more in ((0, 0), (0, 1), (1, 0)):
        normed = value - centre * value.mean(-1, keepdim=True)
        normed = normed * (normed.square().mean(-1, keepdim=True) + eps).rsqrt() * (w + more)
        if torch.allclose(result, normed, atol=1e-5, rtol=1e-5):
            if more == 1:
                return t.scaled_more(t.rms_norm(x, None, eps), weight)
            return t.layer_norm(x, w.shape, weight, None, eps) if centre else t.rms_norm(x, weight, eps)
    raise NotSupported("a norm that is neither RMS norm, with a weight w or w + 1, nor layer norm")


_OF_TRANSFORMERS = {  # classes by name
    "Conv1D": _transposed_linear,
    "NewGELUActivation": lambda t, m, x: t.gelu(x, "tanh"),
    "GELUTanh": lambda t, m, x: t.gelu(x, "tanh"),
    "BloomGelu": lambda t, m, x: t.gelu(x, "tanh"),
    "SiLUActivation": lambda t, m, x: t.silu(x),
}


def known(module: nn.Module) -> Optional[Callable[..., Value]]:
    """What a module becomes as a whole."""
    of = own_class(module)
    if of.__name__ == "Attention" and of.__module__.startswith("timm.") and of.__module__ != "timm.models.fastvit":
        own = {name.split(".")[0] for name, _ in module.named_parameters()}
        return _timm_attention if own == {"qkv", "proj"} and isinstance(module.qkv, nn.Linear) else None
    if of.__name__ == "DropPath" and of.__module__.startswith("timm."):
        return _timm_drop_path
    if of.__module__.startswith("transformers."):
        if (of.__name__.endswith("RMSNorm") or of.__name__ == "T5LayerNorm") and hasattr(module, "variance_epsilon"):
            return _rms_norm
        if of.__name__.endswith(("RMSNorm", "LayerNorm")) and [name for name, _ in module.named_parameters()] == ["weight"] and \
                isinstance(getattr(module, "eps", getattr(module, "variance_epsilon", None)), float):
            return _norm_by_result
        return _OF_TRANSFORMERS.get(of.__name__)
    if of.__name__ == "RMSNorm" and of.__module__.startswith("torch."):  # since PyTorch 2.4
        return _rms_norm
    return _MODULES.get(of)


_MODULES: Dict[type, Callable[..., Value]] = {
    nn.Linear: _linear,
    nn.Conv1d: _conv1d,
    nn.Conv2d: _conv2d,
    nn.ConvTranspose2d: _conv_transpose2d,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.Embedding: _embedding,
    nn.LayerNorm: _layer_norm,
    nn.GroupNorm: _group_norm,
    nn.Identity: lambda t, m, x: t.same(x),
    nn.ReLU: lambda t, m, x: t.relu(x),
    nn.GELU: lambda t, m, x: t.gelu(x, m.approximate),
    nn.SiLU: lambda t, m, x: t.silu(x),
    nn.Tanh: lambda t, m, x: t.tanh(x),
    nn.ReLU6: lambda t, m, x: t.relu6(x),
    nn.Hardtanh: lambda t, m, x: t.hardtanh(x, m.min_val, m.max_val),
    nn.LeakyReLU: lambda t, m, x: t.leaky_relu(x, m.negative_slope),
    nn.Sigmoid: lambda t, m, x: t.sigmoid(x),
    nn.Hardsigmoid: lambda t, m, x: t.hard_sigmoid(x),
    nn.Hardswish: lambda t, m, x: t.hard_swish(x),
    nn.MultiheadAttention: _attention,
    nn.LSTM: recurrent,
    nn.GRU: recurrent,
    nn.RNN: recurrent,
    nn.LSTMCell: cell,
    nn.GRUCell: cell,
    nn.RNNCell: cell,
    nn.Unfold: lambda t, m, x: t.unfold(x, m.kernel_size, m.dilation, m.padding, m.stride),
    nn.Fold: lambda t, m, x: t.fold(x, m.output_size, m.kernel_size, m.dilation, m.padding, m.stride),
    nn.Softmax: lambda t, m, x: t.softmax(x, m.dim),
    nn.Dropout: lambda t, m, x: t.dropout(x, m.p, m.training),
    nn.Dropout2d: lambda t, m, x: t.dropout_of_features(x, m.p, m.training),
    nn.MaxPool2d: lambda t, m, x: t.max_pool2d(x, m.kernel_size, m.stride, m.padding, m.dilation,
                                               m.ceil_mode, m.return_indices),
    nn.AvgPool2d: lambda t, m, x: t.avg_pool2d(x, m.kernel_size, m.stride, m.padding, m.ceil_mode,
                                               m.count_include_pad, m.divisor_override),
    nn.Upsample: lambda t, m, x: t.upsample(x, m.size, m.scale_factor, m.mode, m.align_corners, m.recompute_scale_factor),
    **{pad: lambda t, m, x, mode=mode: t.pad(x, m.padding, mode) for pad, mode in (
        (nn.ZeroPad2d, "constant"), (nn.ReflectionPad2d, "reflect"), (nn.ReplicationPad2d, "replicate"))},
    nn.ConstantPad2d: lambda t, m, x: t.pad(x, m.padding, "constant", m.value),
    nn.AvgPool1d: lambda t, m, x: t.avg_pool1d(x, m.kernel_size, m.stride, m.padding, m.ceil_mode, m.count_include_pad),
    nn.AdaptiveAvgPool2d: lambda t, m, x: t.adaptive_avg_pool2d(x, m.output_size),
    nn.Flatten: lambda t, m, x: t.reshape(x),
}
