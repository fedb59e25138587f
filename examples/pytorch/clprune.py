"""clprune for PyTorch: train with activations that are kept pruned, on the CPU.

    import clprune

    clprune.convert_(model, sparsity=0.7)    # changes nn.Linear, nn.ReLU and nn.GELU in place
    loss = criterion(model(x), y)
    loss.backward()
    print(clprune.report(model, x))

A linear layer needs its input in the backward pass, for dw = dy^T * x alone. A converted one keeps
that input in blocks: by default 30 % of them, drawn and scaled so that the expected dw is the dense
one. ReLU keeps 1 bit an element, GELU a code of 8 bits for its derivative. The forward pass and the
gradients of inputs and biases are PyTorch's own.

This file is all that convert_ needs: copy it beside your program. It calls the C library through
ctypes: $CLPRUNE_LIBRARY, else the installed libclprune.so. See README.md for what to expect. Net,
which trains whole models on any OpenCL device, is in clprune_net.py.

What is kept is a uint8 tensor that autograd saves like any other. So hooks of saved tensors, both
kinds of torch.utils.checkpoint, and the release of a graph work as with PyTorch's own tensors.

Threads. All threads of a process share one context of the library, which a lock protects; several
threads may train at once. A process that was forked after its parent used clprune gets a
RuntimeError from it. Workers of a DataLoader that only load data are not affected.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import ctypes.util
import dataclasses
import fnmatch
import os
import threading
import warnings
import weakref
from ctypes import (
    POINTER, byref, c_bool, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p)
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = ["Error", "Keep", "Net", "convert_", "unconvert_", "report", "saved_bytes"]


def __getattr__(name: str) -> object:
    """Net, which is in a file of its own."""
    if name == "Net":
        from clprune_net import Net
        return Net
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Error(RuntimeError):
    """A call of the library failed; the text is the library's."""


# ---------------------------------------------------------------------------------------------
# How a tensor is kept
# ---------------------------------------------------------------------------------------------

FORMS = {"dense": 0, "pruned": 1, "gelu_code": 3, "quantised": 4, "pooled": 5, "mask": 6}
NORMS = {"l2": 0, "l1": 1, "max": 2}
CRITERIA = {"largest": 0, "sampled": 1, "random": 2}
VALUES = {"fp32": 0, "fp16": 1, "bf16": 2, "int8": 3, "int4": 4}
ROUNDINGS = {"stochastic": 0, "nearest": 1}


def _number(names: Dict[str, Any], what: str, name: str) -> Any:
    """The library's number of a name. An unknown name is an error that lists the names."""
    if name not in names:
        raise ValueError(f"{what} is {name!r}, expected one of {', '.join(names)}")
    return names[name]


@dataclasses.dataclass(frozen=True)
class Keep:
    """How an activation is kept (clprune_keep in clprune/keep.h).

    form       "pruned"     the kept blocks of each sample
               "quantised"  codes of `bits` bits, with a scale and a zero for each `group` columns
               "pooled"     the mean of each cell of neighbouring rows (tokens)
               "dense"      all of it in fp32, for comparison
               "gelu_code"  for GELU: its derivative in `bits` bits
               "mask"       for ReLU: one bit an element, whether it is positive
    sparsity   pruned: the share of the blocks of a sample that is dropped, 0 to 1. Below 1 a sample
               keeps at least one block, where rounding would drop all: 0.7 of one block
    block      pruned: rows and columns of a block
    criterion  pruned: "sampled", blocks are drawn, and scaled so that the expected gradient is the
               dense one; "largest", the blocks of the largest norm; "random", as "sampled" but
               all with equal probability
    norm       pruned: "l2", "l1" or "max", by which blocks are ranked
    values     pruned: "fp32", "fp16", "bf16", "int8" or "int4", how kept values are stored
    bits       quantised, gelu_code: 2, 4 or 8; quantised also 16, for bf16
    group      quantised: a multiple of 16 up to 256
    rounding   quantised: "stochastic", which is unbiased, or "nearest"
    rotate     quantised, 2 to 8 bits: rotate before coding, so that a column of large values does
               not harm the others of its group
    cell       pooled: places of the grid per side of a cell
    grid       pooled: height and width of the grid that the rows of a sample form; (0, 0): a line
    """

    form: str = "pruned"
    sparsity: float = 0.7
    block: Tuple[int, int] = (1, 16)
    criterion: str = "sampled"
    norm: str = "l2"
    values: str = "fp32"
    bits: int = 8
    group: int = 64
    rounding: str = "stochastic"
    rotate: bool = False
    cell: int = 2
    grid: Tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        for name, least in (("block", 1), ("grid", 0)):
            sides = tuple(getattr(self, name))  # a list of a JSON file would not hash
            if len(sides) != 2 or min(sides) < least:
                raise ValueError(f"{name} is {sides}, expected two sides of at least {least}")
            object.__setattr__(self, name, sides)
        for name in ("bits", "group", "cell"):
            if not 0 <= getattr(self, name) < 2**32:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 0 to {2**32 - 1}")
        if not 0 <= self.sparsity <= 1:
            raise ValueError(f"sparsity is {self.sparsity}, expected 0 to 1")
        self.c  # fails if a name is wrong

    @property
    def c(self) -> "_Keep":
        return _Keep(
            form=_number(FORMS, "form", self.form),
            sparsity=self.sparsity,
            block=_Block(*self.block),
            norm=_number(NORMS, "norm", self.norm),
            criterion=_number(CRITERIA, "criterion", self.criterion),
            value_type=_number(VALUES, "values", self.values),
            index_type=_SMALLEST,
            bits=self.bits,
            group=self.group,
            rounding=_number(ROUNDINGS, "rounding", self.rounding),
            cell=self.cell,
            grid_height=self.grid[0],
            grid_width=self.grid[1],
            rotate=self.rotate,
        )

    def draw_seed(self) -> int:
        """A seed for storing, from PyTorch's generator; 0 without a draw if storing needs none."""
        draws = (self.form == "pruned" and self.criterion != "largest"
                 or self.form == "quantised" and self.rounding == "stochastic")
        return int(torch.randint(2**63 - 1, (), dtype=torch.int64, device="cpu")) if draws else 0


@dataclasses.dataclass(frozen=True)
class Shape:
    """A tensor as samples: the last two dimensions are the rows and columns of a sample, the others
    count samples. A tensor of two dimensions is samples of one row."""

    batch: int
    rows: int
    cols: int

    @staticmethod
    def of(x: Tensor) -> "Shape":
        cols = x.shape[-1] if x.dim() > 0 else 1
        rows = x.shape[-2] if x.dim() > 2 else 1
        return Shape(x.numel() // max(rows * cols, 1), rows, cols)


# ---------------------------------------------------------------------------------------------
# The library
# ---------------------------------------------------------------------------------------------
# Structures as the public headers declare them; tests/pytorch/test_pytorch.py compares the layouts.


class _Block(ctypes.Structure):
    _fields_ = [("rows", c_size_t), ("cols", c_size_t)]


class _Keep(ctypes.Structure):
    _fields_ = [
        ("form", c_int),
        ("sparsity", c_float),
        ("block", _Block),
        ("norm", c_int),
        ("criterion", c_int),
        ("value_type", c_int),
        ("index_type", c_int),
        ("bits", c_uint),
        ("group", c_uint),
        ("rounding", c_int),
        ("cell", c_uint),
        ("grid_height", c_uint),
        ("grid_width", c_uint),
        ("centre", c_int),
        ("rotate", c_bool),
        ("reserved", c_uint64 * 2),
    ]


class _Sizes(ctypes.Structure):
    _fields_ = [
        ("bytes", c_size_t),
        ("values_bytes", c_size_t),
        ("index_bytes", c_size_t),
        ("dense_bytes", c_size_t),
    ]


class _Mat(ctypes.Structure):
    _fields_ = [
        ("buffer", c_void_p),
        ("offset", c_size_t),
        ("rows", c_size_t),
        ("cols", c_size_t),
        ("ld", c_size_t),
        ("type", c_int),
    ]


class _Grads(ctypes.Structure):
    _fields_ = [
        ("dx", _Mat),
        ("dw", _Mat),
        ("db", _Mat),
        ("beta", c_float),
        ("dx_beta", c_float),
    ]


_SMALLEST = 3  # CLPRUNE_INDEX_SMALLEST
_READ, _WRITE = 1, 2  # clprune_access
_RELU, _GELU = 0, 1  # clprune_activation

# name: (result, arguments); a "status" is checked, and becomes an Error.
_FUNCTIONS = {
    "version": (c_uint32, []),
    "last_error": (c_char_p, [c_void_p]),
    "status_name": (c_char_p, [c_int]),
    "context_create": ("status", [c_void_p, c_void_p, POINTER(c_void_p)]),
    "mat_wrap": ("status", [c_void_p, c_void_p, c_size_t, c_size_t, c_size_t, c_int,
                            POINTER(_Mat)]),
    "mat_unwrap": ("status", [c_void_p, POINTER(_Mat)]),
    "keep_count": (c_size_t, [c_size_t, c_float]),
    "saved_size_query": ("status", [POINTER(_Keep), c_size_t, c_size_t, c_size_t,
                                    POINTER(_Sizes)]),
    "saved_create_in": ("status", [c_void_p, POINTER(_Keep), c_size_t, c_size_t, c_size_t,
                                   c_void_p, c_size_t, c_size_t, POINTER(c_void_p)]),
    "saved_destroy": (None, [c_void_p]),
    "saved_set_seed": (None, [c_void_p, c_uint64]),
    "saved_store_host": ("status", [c_void_p, c_size_t, c_size_t, c_void_p, c_size_t]),
    "saved_product_tn_host": ("status", [c_void_p, c_size_t, c_size_t, c_size_t, c_float, c_void_p,
                                         c_size_t, c_void_p, c_size_t]),
    "activation_backward": ("status", [c_void_p, c_int, c_size_t, c_size_t, c_void_p, _Mat,
                                       POINTER(_Grads), c_void_p]),
}


def _load() -> ctypes.CDLL:
    """$CLPRUNE_LIBRARY, or the installed library of this module's version, or any that is found."""
    path = os.environ.get("CLPRUNE_LIBRARY")
    try:
        return ctypes.CDLL(path or "libclprune.so.0.1")
    except OSError as error:
        found = None if path else ctypes.util.find_library("clprune")
        if found:
            return ctypes.CDLL(found)
        raise Error(
            f"cannot load the clprune library: {error}; install it or set CLPRUNE_LIBRARY to "
            "the path of libclprune.so") from None


class _Library:
    """The C library, and a context of it on the default device."""

    def __init__(self) -> None:
        self._dll = _load()
        self._dll.clprune_version.restype = c_uint32
        version = self._dll.clprune_version()
        if version // 100 != 1:
            number = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
            raise Error(f"the clprune library is of version {number}, expected 0.1")
        self._functions: Dict[str, Callable] = {}
        self._checked: set = set()
        self._made: Optional[c_void_p] = None
        self.process = os.getpid()
        self.lock = threading.RLock()
        self.declare(_FUNCTIONS)

    def declare(self, functions: Dict[str, tuple]) -> None:
        """Makes functions known to `call`: a table such as _FUNCTIONS."""
        for name, (result, arguments) in functions.items():
            function = getattr(self._dll, "clprune_" + name)
            function.restype = c_int if result == "status" else result
            function.argtypes = arguments
            self._functions[name] = function
            if result == "status":
                self._checked.add(name)

    @property
    def _context(self) -> c_void_p:
        with self.lock:
            if self._made is None:
                made = c_void_p()
                self.call("context_create", None, None, byref(made))
                self._made = made
            return self._made

    def call(self, name: str, *arguments: object, context: Optional[c_void_p] = None) -> object:
        """Calls clprune_<name>; raises Error for a status other than success, with the text of
        `context`, the library's own unless given."""
        result = self._functions[name](*arguments)
        if name not in self._checked or result == 0:
            return result
        if context is None and name not in ("context_create", "saved_size_query"):
            context = self._made
        text = self._functions["last_error"](context)
        raise Error(
            f"clprune_{name}: {self._functions['status_name'](result).decode()}: {text.decode()}")

    @contextlib.contextmanager
    def _wrapped(self, tensor: Tensor, rows: int, access: int) -> Iterator[_Mat]:
        """A contiguous tensor as a matrix of `rows` rows of 4-byte elements. On CPU devices the
        memory is the same, on others a copy."""
        cols = tensor.numel() * tensor.element_size() // 4 // rows
        mat = _Mat()
        self.call("mat_wrap", self._context, tensor.data_ptr(), rows, cols, cols, access,
                  byref(mat))
        try:
            yield mat
        finally:
            self.call("mat_unwrap", self._context, byref(mat))

    def _keep(self, keep: Keep, shape: Shape) -> _Keep:
        """keep.c for samples of a shape. Without any block the gradient would be zero."""
        c = keep.c
        blocks = -(-shape.rows // keep.block[0]) * -(-shape.cols // keep.block[1])
        if (keep.form == "pruned" and blocks > 0 and c.sparsity < 1
                and self.call("keep_count", blocks, c.sparsity) == 0):
            c.sparsity = (blocks - 1) / blocks
        return c

    @contextlib.contextmanager
    def _store(self, keep: Keep, shape: Shape, blob: Tensor, access: int) -> Iterator[c_void_p]:
        """A store of the library in the blob's memory."""
        if blob.data_ptr() % 4:  # a hook of saved tensors may have moved it
            blob = blob.clone()
        saved = c_void_p()
        with self._wrapped(blob, 1, access) as room:
            self.call("saved_create_in", self._context, byref(self._keep(keep, shape)),
                      shape.batch, shape.rows, shape.cols, room.buffer, 4 * room.offset,
                      blob.numel(), byref(saved))
            try:
                yield saved
            finally:
                self.call("saved_destroy", saved)

    def sizes(self, keep: Keep, shape: Shape) -> _Sizes:
        """The bytes that a tensor of this shape takes in the form `keep`."""
        sizes = _Sizes()
        self.call("saved_size_query", byref(self._keep(keep, shape)), shape.batch, shape.rows,
                  shape.cols, byref(sizes))
        return sizes

    def store(self, keep: Keep, x: Tensor, seed: int) -> Tensor:
        """The kept form of x: a new tensor of bytes. x: float32, contiguous."""
        shape = Shape.of(x)
        blob = torch.empty(self.sizes(keep, shape).bytes, dtype=torch.uint8, device="cpu")
        with self.lock, self._store(keep, shape, blob, _WRITE) as saved:
            self.call("saved_set_seed", saved, seed)
            self.call("saved_store_host", saved, 0, shape.batch, x.data_ptr(), shape.cols)
        return blob

    def product_tn(self, keep: Keep, shape: Shape, blob: Tensor, dy: Tensor) -> Tensor:
        """dw = dy^T * x of the kept x. dy: (batch * rows) x out, float32, contiguous."""
        out = dy.shape[1]
        dw = torch.empty(out, shape.cols, dtype=torch.float32, device="cpu")
        with self.lock, self._store(keep, shape, blob, _READ) as saved:
            self.call("saved_product_tn_host", saved, 0, shape.batch, out, 0.0, dy.data_ptr(), out,
                      dw.data_ptr(), shape.cols)
        return dw

    def activation_backward(self, function: int, keep: Keep, shape: Shape, blob: Tensor,
                            dy: Tensor) -> Tensor:
        """dx = dy * f'(x), from what was kept of x. dy: float32, contiguous."""
        dx, rows = torch.empty_like(dy), shape.batch * shape.rows
        with self.lock, self._store(keep, shape, blob, _READ) as saved, \
                self._wrapped(dy, rows, _READ) as given, self._wrapped(dx, rows, _WRITE) as made:
            self.call("activation_backward", self._context, function, 0, shape.batch, saved, given,
                      byref(_Grads(dx=made)), None)
        return dx


_library_made: Optional[_Library] = None
_library_lock = threading.Lock()


def _after_fork() -> None:
    global _library_lock
    _library_lock = threading.Lock()  # a thread of the parent may hold the old one


os.register_at_fork(after_in_child=_after_fork)


def _library() -> _Library:
    """The library of this process, loaded when it is first needed."""
    global _library_made
    made = _library_made
    if made is None:
        with _library_lock:
            if _library_made is None:
                _library_made = _Library()
            made = _library_made
    if made.process != os.getpid():
        raise Error(
            "clprune was used before this process was forked, and OpenCL does not survive a fork: "
            "start the process with the 'spawn' method (torch.multiprocessing.set_start_method), "
            "or use clprune in the child alone")
    return made


# ---------------------------------------------------------------------------------------------
# Keeping
# ---------------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Shared:
    """The blobs of a tensor, as long as both are alive."""

    x: "weakref.ref[Tensor]"
    version: int
    data: int
    blobs: Dict[Keep, "weakref.ref[Tensor]"]


# By id of the tensor. Layers that read the same tensor (q, k and v of attention) share its blob.
_shared: Dict[int, _Shared] = {}


def _keep_input(keep: Keep, x: Tensor, seed: int) -> Tensor:
    """The blob of x; layers that read the same x share it, and its seed."""
    entry = _shared.get(id(x))
    if entry is None or entry.x() is not x or (entry.version, entry.data) != (
            x._version, x.data_ptr()):
        key = id(x)
        entry = _Shared(weakref.ref(x, lambda _: _shared.pop(key, None)), x._version, x.data_ptr(),
                        {})
        _shared[key] = entry
    known = entry.blobs.get(keep)
    blob = known() if known is not None else None
    if blob is None:
        blob = _keep(keep, x, seed)
        entry.blobs[keep] = weakref.ref(blob)
    return blob


def _keep(keep: Keep, x: Tensor, seed: int = 0) -> Tensor:
    return _library().store(keep, _floats(x), seed)


def _floats(x: Tensor) -> Tensor:
    """x as the library reads it: float32, contiguous."""
    return x.detach().to(torch.float32).contiguous()


class _LinearFunction(torch.autograd.Function):
    """y = x * w^T + b; the backward pass reads the blob instead of x."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Optional[Tensor], keep: Keep, blob: Tensor):
        ctx.keep, ctx.shape = keep, Shape.of(x)
        ctx.save_for_backward(weight, blob)
        y = F.linear(x, weight, bias)
        # PyTorch 1.13 may return a view, which nothing could change in place. This one is none.
        return y.new_empty(0).set_(y) if y._is_view() else y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy: Tensor):
        weight, blob = ctx.saved_tensors
        rows = dy.reshape(ctx.shape.batch * ctx.shape.rows, dy.shape[-1])
        dx = dw = db = None
        if ctx.needs_input_grad[0]:  # y = x * w^T
            dx = dy.matmul(weight)
        if ctx.needs_input_grad[1]:
            dw = _library().product_tn(ctx.keep, ctx.shape, blob, _floats(rows))
        if ctx.needs_input_grad[2]:  # y = ... + 1 * b
            db = rows.sum(0)
        return dx, dw, db, None, None


class _ActivationFunction(torch.autograd.Function):
    """y = forward(x); the backward pass reads the blob instead of x."""

    @staticmethod
    def forward(ctx, x: Tensor, forward: Callable[[Tensor], Tensor], function: int, keep: Keep,
                blob: Tensor):
        ctx.function, ctx.keep, ctx.shape = function, keep, Shape.of(x)
        ctx.save_for_backward(blob)
        y = forward(x)
        if y is x:  # ReLU in place
            ctx.mark_dirty(x)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy: Tensor):  # y = f(x)
        (blob,) = ctx.saved_tensors
        dx = _library().activation_backward(ctx.function, ctx.keep, ctx.shape, blob, _floats(dy))
        return dx, None, None, None, None


# ---------------------------------------------------------------------------------------------
# Modules
# ---------------------------------------------------------------------------------------------
# Converting a module changes its class to one of these: parameters, buffers, hooks and state_dict
# stay as they are. Outside of training (module.eval(), torch.no_grad()) they run PyTorch's code.


def _check(module: nn.Module, x: Tensor) -> None:
    if x.device.type != "cpu":
        raise TypeError(
            f"clprune.{type(module).__name__}: the input is on {x.device}, expected the CPU; "
            "move the model, or clprune.unconvert_ it")
    if x.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise TypeError(
            f"clprune.{type(module).__name__}: the input is {x.dtype}, expected float32, bfloat16 "
            "or float16; kept values have the precision of float32")


def _under_autocast(*tensors: Optional[Tensor]) -> Sequence[Optional[Tensor]]:
    """The tensors, cast as autocast casts those of F.linear."""
    try:
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
    except TypeError:  # before PyTorch 2.4
        dtype = torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None
    if dtype is None:
        return tensors
    return [t.to(dtype) if t is not None else None for t in tensors]


# torch.compile does not compile these modules.
_not_compiled = getattr(getattr(torch, "compiler", None), "disable", lambda function: function)


class _Converted:
    """The common part of converted modules."""

    keep: Keep
    last: Optional[Tuple[int, int]]  # bytes of the last input or output: dense, and as it was kept

    def _note(self, x: Tensor, blob: Tensor) -> None:
        self.last = (x.numel() * x.element_size(), blob.numel() * blob.element_size())


class Linear(_Converted, nn.Linear):
    """nn.Linear that keeps its input pruned."""

    @_not_compiled
    def forward(self, input: Tensor) -> Tensor:
        if not (self.training and self.weight.requires_grad and input.numel()):
            return super().forward(input)
        # One draw a call, also where nothing is kept: a checkpoint makes its forward pass again,
        # and what else it draws, such as dropout, must be the same as before.
        seed = self.keep.draw_seed()
        if not torch.is_grad_enabled():
            return super().forward(input)
        _check(self, input)
        _warn_where_kept_anyway(self, input)
        blob = _keep_input(self.keep, input, seed)
        self._note(input, blob)
        x, weight, bias = _under_autocast(input, self.weight, self.bias)
        return _LinearFunction.apply(x, weight, bias, self.keep, blob)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {_describe(self.keep)}"


class _Activation(_Converted):
    """The common part of ReLU and GELU; `function` is the library's number of the function."""

    function: int

    @_not_compiled
    def forward(self, input: Tensor) -> Tensor:
        if not (self.training and torch.is_grad_enabled() and input.requires_grad
                and input.numel()):
            return super().forward(input)
        _check(self, input)
        blob = _keep(self.keep, input)
        self._note(input, blob)
        return _ActivationFunction.apply(input, super().forward, self.function, self.keep, blob)


class ReLU(_Activation, nn.ReLU):
    """nn.ReLU that keeps one bit an element."""

    function = _RELU


class GELU(_Activation, nn.GELU):
    """nn.GELU that keeps a code of its derivative. approximate="tanh" also keeps the derivative of
    the exact GELU, which differs by less than 0.001."""

    function = _GELU


def _describe(keep: Keep) -> str:
    read = {"pruned": ("sparsity", "block", "criterion", "values"),
            "quantised": ("bits", "group", "rounding", "rotate"), "pooled": ("cell", "grid")}
    return ", ".join([f"keep={keep.form}"] + [
        f"{name}={getattr(keep, name)}" for name in read.get(keep.form, ())])


_VIEWS = ("View", "Reshape", "Transpose", "Permute", "Expand", "Squeeze", "Unsqueeze", "Alias",
          "TBackward")


def _warn_where_kept_anyway(module: nn.Module, x: Tensor) -> None:
    """Warns once if the operation that made x keeps it dense: then pruning it saves nothing."""
    if getattr(module, "warned", False):
        return
    node = x.grad_fn
    while node is not None and any(view in type(node).__name__ for view in _VIEWS):
        node = node.next_functions[0][0] if node.next_functions else None
    if node is not None and hasattr(type(node), "_saved_result"):
        module.warned = True
        warnings.warn(
            f"clprune: the input of {module} is the result of {type(node).__name__}, which keeps "
            "it dense for its own backward pass, so pruning it saves nothing; nn.ReLU and nn.GELU "
            "modules are converted, functions are not", stacklevel=3)


# ---------------------------------------------------------------------------------------------
# Converting
# ---------------------------------------------------------------------------------------------

_CLASSES = {nn.Linear: Linear, nn.ReLU: ReLU, nn.GELU: GELU}


def convert_(model: nn.Module, sparsity: float = 0.7, *, gelu_bits: int = 8,
             kinds: Sequence[type] = (nn.Linear, nn.ReLU, nn.GELU), skip: Sequence[str] = (),
             **how: object) -> nn.Module:
    """Converts each nn.Linear, nn.ReLU and nn.GELU of `model` in place and returns it.

    sparsity   share of the blocks of a linear layer's input that is dropped
    gelu_bits  2, 4 or 8
    kinds      which of nn.Linear, nn.ReLU and nn.GELU are converted
    skip       names of modules that stay as they are, as model.named_modules() has them; "*" and
               "?" match any characters
    how        other fields of Keep for linear layers: form, block, criterion, values, bits, ...

    Parameters, state_dict, hooks and isinstance(module, nn.Linear) stay as they are. Modules that
    were converted before get the new settings. Subclasses of nn.Linear and nn.MultiheadAttention
    are left alone with a warning.
    """
    linear = Keep(sparsity=sparsity, **how)
    if linear.form in ("gelu_code", "mask"):
        raise ValueError(f"form is {linear.form!r}, which is for activations; expected one of "
                         "dense, pruned, quantised, pooled")
    keeps = {Linear: linear, GELU: Keep(form="gelu_code", bits=gelu_bits),
             ReLU: Keep(form="mask")}
    attention = set()
    for name, module in model.named_modules():
        if isinstance(module, nn.MultiheadAttention):
            attention.update(module.modules())
            warnings.warn(
                f"clprune: {name or 'the model'} is an nn.MultiheadAttention, which keeps its "
                "input, q, k and v itself; it is left alone", stacklevel=2)
        if (module in attention or not isinstance(module, tuple(kinds))
                or any(fnmatch.fnmatchcase(name, pattern) for pattern in skip)):
            continue
        kind = _CLASSES.get(type(module), type(module))
        if kind in keeps:
            module.__class__ = kind
            module.keep = keeps[kind]
            module.last = None
        else:
            warnings.warn(f"clprune: {name} is a {type(module).__name__}, a class of its own; it "
                          "is left alone", stacklevel=2)
    return model


def unconvert_(model: nn.Module) -> nn.Module:
    """Gives converted modules of `model` their own classes back, in place, and returns it."""
    originals = {ours: original for original, ours in _CLASSES.items()}
    for module in model.modules():
        if type(module) in originals:
            module.__class__ = originals[type(module)]
            for name in ("keep", "last", "warned"):
                module.__dict__.pop(name, None)
    return model


# ---------------------------------------------------------------------------------------------
# What is kept
# ---------------------------------------------------------------------------------------------


class saved_bytes:
    """Counts what autograd saves in a `with` block: the bytes of distinct storages.

        with clprune.saved_bytes(model, images) as saved:
            loss = criterion(model(images), labels)
        print(saved.total)

    The parameters and buffers of `model` and the tensors in `held`, which are in memory anyway, do
    not count.
    """

    def __init__(self, model: nn.Module, *held: Tensor) -> None:
        tensors = [*model.parameters(), *model.buffers(), *held]
        self._held = {_storage(tensor)[0] for tensor in tensors}
        self.storages: Dict[int, int] = {}  # address: bytes
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda saved: saved)

    @property
    def total(self) -> int:
        return sum(self.storages.values())

    def _pack(self, saved: Tensor) -> Tensor:
        address, size = _storage(saved)
        if address not in self._held:
            self.storages[address] = size
        return saved

    def __enter__(self) -> "saved_bytes":
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.__exit__(*error)


def _storage(tensor: Tensor) -> Tuple[int, int]:
    """The address and the bytes of a tensor's storage."""
    if hasattr(tensor, "untyped_storage"):
        storage = tensor.untyped_storage()
    else:  # before PyTorch 2.0
        storage = tensor.storage()
    return storage.data_ptr(), storage.nbytes()


def report(model: nn.Module, *inputs: Tensor) -> str:
    """A table of what the converted modules of `model` keep, as text.

    Runs the forward pass of two copies of the model on `inputs`: as it is, and with all modules
    PyTorch's own. The last line has what autograd saves in each, without parameters and `inputs`.
    Layers that share an input have a line each, but keep it once.
    """
    ours, theirs = copy.deepcopy(model).train(), unconvert_(copy.deepcopy(model)).train()
    seen: List[Tuple[str, nn.Module, Tensor]] = []
    for name, module in ours.named_modules():
        if isinstance(module, _Converted):
            module.register_forward_hook(lambda module, args, _, name=name: seen.append(
                (name, module, args[0] if args else None)))
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        with saved_bytes(ours, *inputs) as kept:
            held = ours(*inputs)
        with saved_bytes(theirs, *inputs) as dense:
            held = held, theirs(*inputs)

    def line(name: str, before: int, after: int, note: str = "") -> str:
        return f"{name:32} {before / 2**20:10.3f} {after / 2**20:10.3f}  {note}".rstrip()

    given = {_storage(tensor)[0] for tensor in inputs}
    lines = [f"{'module':32} {'dense MiB':>10} {'kept MiB':>10}"]
    for name, module, x in seen:
        if module.last is None:  # nothing was kept
            continue
        note, address = "", _storage(x)[0] if isinstance(module, Linear) and x is not None else None
        if address in kept.storages:
            note = "its input is kept dense by another operation too"
        elif address in given:
            note = "its input is the model's, which the caller holds anyway"
        lines.append(line(name, *module.last, note))
    return "\n".join([*lines, line("all that autograd saves", dense.total, kept.total)])
