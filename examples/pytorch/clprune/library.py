"""How a tensor is kept, and the C library that keeps it, through ctypes: the lowest of the files of
clprune for PyTorch. The library is $CLPRUNE_LIBRARY, else the one in the folder of this file's
package, else the installed libclprune.so.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import dataclasses
import os
import re
import sys
import threading
from ctypes import (
    POINTER, byref, c_bool, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p)
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Tuple

import torch
from torch import Tensor


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

    @property
    def draws(self) -> bool:
        """Whether storing reads the seed."""
        return (self.form == "pruned" and self.criterion != "largest"
                or self.form == "quantised" and self.rounding == "stochastic")


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


_SMALLEST = 3  # CLPRUNE_INDEX_SMALLEST
_READ, _WRITE = 1, 2  # clprune_access
_MADV_DONTNEED = 4
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _LEAST_MAPPED = -1, -3, 1 << 18  # of malloc.h; bytes

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
    "saved_restore_host": ("status", [c_void_p, c_size_t, c_size_t, c_void_p, c_size_t]),
    "saved_product_tn_host": ("status", [c_void_p, c_size_t, c_size_t, c_size_t, c_float, c_void_p,
                                         c_size_t, c_void_p, c_size_t]),
}


def _load() -> ctypes.CDLL:
    """$CLPRUNE_LIBRARY, or the library that pip has installed in this package, or the installed one
    of this package's version, or any that is found."""
    path = os.environ.get("CLPRUNE_LIBRARY")
    name = "libclprune.so.0.1"
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    try:
        return ctypes.CDLL(path or (own if os.path.exists(own) else name))
    except OSError as error:
        found = None if path else ctypes.util.find_library("clprune")
        if found:
            return ctypes.CDLL(found)
        raise Error(
            f"cannot load the clprune library: {error}; install it or set CLPRUNE_LIBRARY to "
            "the path of libclprune.so") from None


def process_memory() -> Dict[str, int]:
    """Bytes of this process in memory: "process" now and "process_peak". Empty where Linux does not tell."""
    names = {"VmRSS:": "process", "VmHWM:": "process_peak"}
    try:
        with open("/proc/self/status") as file:
            lines = [line.split() for line in file if line.startswith(tuple(names))]
    except OSError:
        return {}
    return {names[name]: 1024 * int(kib) for name, kib, *_ in lines}


def _code_of_torch() -> Dict[int, int]:
    """Of each mapping of PyTorch's libraries that nobody may write, by its address: 1 in the bytes of pages that are in
    memory as they are in the file."""
    folder, found = os.path.join(os.path.dirname(torch.__file__), "lib", ""), {}
    page, in_file = os.sysconf("SC_PAGESIZE"), bytes(bits & 0xa0 == 0xa0 for bits in range(256))
    with open("/proc/self/maps") as maps, open("/proc/self/pagemap", "rb", 0) as pages:
        for line in maps:
            span, rights, _, _, _, *path = line.split(maxsplit=5)
            if rights in ("r-xp", "r--p") and path and path[0].startswith(folder):
                first, end = (int(address, 16) for address in span.split("-"))
                pages.seek(first // page * 8)
                bits = pages.read((end - first) // page * 8)[7::8]  # the last byte of each: present, of a file
                found[first] = int.from_bytes(bits.translate(in_file), "little")
    return found


@contextlib.contextmanager
def giving_back() -> Iterator[None]:
    """Gives back what PyTorch keeps of what the block has used: buffers of MKL, 5 MiB, and pages of its code, 15 MiB to
    trace a model, which are mapped from the file where they are used again. Linux; elsewhere it does nothing."""
    before = None
    if sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):
            before = _code_of_torch()
    try:
        yield
    finally:
        if before is not None:
            mine, page = ctypes.CDLL(None), os.sysconf("SC_PAGESIZE")
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")).mkl_serv_free_buffers()
            for first, now in _code_of_torch().items():
                new = now & ~before.get(first, 0)
                for run in re.finditer(b"\1+", new.to_bytes((new.bit_length() + 7) // 8, "little")):
                    mine.madvise(c_void_p(first + run.start() * page), c_size_t(len(run[0]) * page), _MADV_DONTNEED)


def _return_freed_memory() -> None:
    """Makes glibc give freed tensors back. By default it keeps blocks of up to 32 MiB, and as they are freed
    in another order than they were made, a process holds several times what it uses."""
    if "MALLOC_MMAP_THRESHOLD_" in os.environ or "malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LEAST_MAPPED)
        mallopt(_M_TRIM_THRESHOLD, _LEAST_MAPPED)


class _Library:
    """The C library, and a context of it on the default device."""

    def __init__(self) -> None:
        _return_freed_memory()
        self._dll = _load()
        self._dll.clprune_version.restype = c_uint32
        version = self._dll.clprune_version()
        if version // 100 != 1:
            number = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
            raise Error(f"the clprune library is of version {number}, expected 0.1")
        self._functions: Dict[str, Callable] = {}
        self._checked: set = set()
        self._made: Optional[c_void_p] = None
        self._open: Optional[Tuple[c_void_p, _Mat, Tensor]] = None  # a store, and its memory
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

    def _keep(self, keep: Keep, shape: Shape) -> _Keep:
        """keep.c for samples of a shape. Without any block the gradient would be zero."""
        c = keep.c
        blocks = -(-shape.rows // keep.block[0]) * -(-shape.cols // keep.block[1])
        if (keep.form == "pruned" and blocks > 0 and c.sparsity < 1
                and self.call("keep_count", blocks, c.sparsity) == 0):
            c.sparsity = (blocks - 1) / blocks
        return c

    def _use(self, keep: Keep, shape: Shape, blob: Tensor, access: int,
             use: Callable[[c_void_p], None]) -> None:
        """Runs `use` on a store of the library in the blob's memory."""
        if blob.data_ptr() % 4:  # a hook of saved tensors may have moved it
            blob = blob.clone()
        with self.lock:
            self._close()
            self._open = saved, mat, _ = c_void_p(), _Mat(), blob
            words = blob.numel() // 4
            try:
                self.call("mat_wrap", self._context, blob.data_ptr(), 1, words, words, access, byref(mat))
                self.call("saved_create_in", self._context, byref(self._keep(keep, shape)),
                          shape.batch, shape.rows, shape.cols, mat.buffer, 4 * mat.offset,
                          blob.numel(), byref(saved))
                use(saved)
            finally:
                self._close()

    def _close(self) -> None:
        """Gives back what `_use` has taken. A KeyboardInterrupt may come between any two lines of both: the next
        call then does what is left."""
        if self._open is None:
            return
        saved, mat, _ = self._open
        made, saved.value = saved.value, None
        self.call("saved_destroy", made)
        if mat.buffer:
            self.call("mat_unwrap", self._context, byref(mat))
        self._open = None

    def sizes(self, keep: Keep, shape: Shape) -> _Sizes:
        """The bytes that a tensor of this shape takes in the form `keep`."""
        sizes = _Sizes()
        self.call("saved_size_query", byref(self._keep(keep, shape)), shape.batch, shape.rows,
                  shape.cols, byref(sizes))
        return sizes

    def store(self, keep: Keep, shape: Shape, samples: Iterable[Tensor], seed: int = 0) -> Tensor:
        """The kept form of samples, which come some at a time: a new tensor of bytes. They are float32,
        contiguous."""
        blob = torch.empty(self.sizes(keep, shape).bytes, dtype=torch.uint8, device="cpu")

        def write(saved: c_void_p) -> None:
            self.call("saved_set_seed", saved, seed)
            first = 0
            for x in samples:
                count = x.numel() // max(shape.rows * shape.cols, 1)
                self.call("saved_store_host", saved, first, count, x.data_ptr(), shape.cols)
                first += count

        self._use(keep, shape, blob, _WRITE, write)
        return blob

    def product_tn(self, keep: Keep, shape: Shape, blob: Tensor, dy: Tensor) -> Tensor:
        """dw = dy^T * x of the kept x. dy: (batch * rows) x out, float32, contiguous."""
        out = dy.shape[1]
        dw = torch.empty(out, shape.cols, dtype=torch.float32, device="cpu")
        self._use(keep, shape, blob, _READ, lambda saved: self.call(
            "saved_product_tn_host", saved, 0, shape.batch, out, 0.0, dy.data_ptr(), out,
            dw.data_ptr(), shape.cols))
        return dw

    def restore(self, keep: Keep, shape: Shape, blob: Tensor, first: int = 0,
                count: Optional[int] = None) -> Tensor:
        """The elements of `count` kept samples, or of all, float32. With MASK 1 or 0."""
        count = shape.batch - first if count is None else count
        x = torch.empty(count * shape.rows, shape.cols, dtype=torch.float32, device="cpu")
        self._use(keep, shape, blob, _READ, lambda saved: self.call(
            "saved_restore_host", saved, first, count, x.data_ptr(), shape.cols))
        return x.view(-1)


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
