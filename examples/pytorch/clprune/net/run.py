"""A program as a net of the library, in a context of its own: what Net runs, with the data of a pass in place."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from ctypes import byref, c_float, c_size_t, c_void_p
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from clprune.library import VALUES, Error, Keep, _Keep, _library, _Mat, _number
from clprune.net.losses import LOSSES, OF_CLASSES, WITH_TARGETS, row_of
from clprune.net.shared import ALIGN, write_count
from clprune.net.structures import (
    FUNCTIONS_OF_NETS, _Data, _Desc, _Given, _Handle, _NetKeep, _Optimizer, _OptimizerInfo, _Options, _ParamOf, _Ready,
    _Rule, _Weight, to_c)
from clprune.tracing.program import INPUTS, Layer, Param, Program

PRESETS = {"dense": 0, "exact": 2, "compact": 3, "least": 4}  # 1, inputs: a Keep
PRECISIONS = {"fp32": 1, "tf32": 2, "bf16": 3}
CATEGORIES = {"total": 255, "input": 0, "parameters": 1, "gradients": 2, "optimizer": 3,
              "activations": 4, "workspace": 5, "arena": 6}


@dataclasses.dataclass(frozen=True)
class Settings:
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


def optimizers() -> Dict[str, "_OptimizerInfo"]:
    """What the library has, by name."""
    library, found = _library(), {}
    library.declare(FUNCTIONS_OF_NETS)
    while (info := library.call("optimizer_describe", len(found))).name is not None:
        found[info.name.decode()] = info
    return found


class NetInput:
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
        given.rows = first_rows(self.mat, batch * self.rows) if self.taken is None else self.taken[0]
        if self.grad is not None:
            given.rows_grad = _Mat(self.grad.buffer, self.grad.offset, given.rows.rows, given.rows.cols, given.rows.cols)
        return given


class Run:
    """A program as a net in a context, with room for its data, and its optimizer. In a dry context
    nothing runs. context: closed with it."""

    def __init__(self, context: c_void_p, program: Program, settings: Settings,
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
        self.inputs = [NetInput(layer) for layer in program.layers if layer.function in INPUTS]
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
        if self.settings.loss in WITH_TARGETS:
            cols = out.size(out.axes[0]) if flat else out.sizes["C"]
            self.y = self._room("y", batch * self.out_rows, cols)
        elif self.settings.loss is not None:
            self.y = self._room("labels", 1, batch * self.out_rows)  # int32
        for field, name in (("class_weights", "class_weight"), ("positive_weights", "pos_weight")):
            values = getattr(self.settings, name)
            if values is not None:
                row = row_of(name, values, out, self.settings.loss)
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
        found, at, sizes = {}, 0, [-(-math.prod(param.shape) // ALIGN) * ALIGN for param in program.sources]
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
                                    *map(to_c, layer.more)))
            if layer.function in INPUTS and layer.function != "tokens" and self.settings.input_grads:
                self.call("net_want_grad", self.net, values[-1])
        more = (1.0,) if self.settings.loss == "smooth_l1" else ()
        self.call(LOSSES[self.settings.loss], self.net, values[program.output.layer], *more)
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

    def take(self, source: NetInput, x: Tensor) -> None:
        """Makes x the input of the next pass, which reads its memory until `give_back`, or a copy's if that is
        not of float32, aligned, and in order: of images channels first or last."""
        x = x.detach().to("cpu", torch.float32)
        shape = x.shape[0] * source.rows, source.cols
        last = x.permute(0, 2, 3, 1) if source.planes else x
        if not x.is_contiguous() and last.is_contiguous():
            shape = x.numel() // x.shape[1], x.shape[1]
        else:
            x = x.contiguous()
        x = x.clone() if x.data_ptr() % ALIGN else x
        source.taken = _Mat(), x, write_count(x)
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
            data.weights = first_rows(self.sample_weights, batch)
        data.smoothing = self.settings.smoothing if self.settings.loss in OF_CLASSES else 0
        if self.settings.loss in WITH_TARGETS:
            data.targets = first_rows(self.y, batch * self.out_rows)
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
        loss, data = first_rows(self.loss, batch), self.data(batch)
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


def _copy(mat: "_Mat") -> "_Mat":
    return _Mat(mat.buffer, mat.offset, mat.rows, mat.cols, mat.ld, mat.type)


def first_rows(mat: "_Mat", rows: int) -> "_Mat":
    """The first elements of a dense matrix, as `rows` rows."""
    return _Mat(mat.buffer, mat.offset, rows, mat.cols, mat.ld)


def net_keep(keep: Union[str, Keep], bits: int, extra_work: int, store: str,
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


def settings_of(batch: int, how: Dict[str, Any]) -> Settings:
    """how: the arguments of a Net."""
    optimizer, slots, in_parts = None, "", True
    if how["optimizer"] is not None:
        info = optimizers()[how["optimizer"]]
        optimizer, slots, in_parts = info.desc, info.slots.decode(), info.in_parts
        optimizer.momentum, optimizer.weight_decay = how["momentum"], how["weight_decay"]
        optimizer.nesterov = how.get("nesterov", False)
        optimizer.beta1, optimizer.beta2 = how["betas"] or (optimizer.beta1, optimizer.beta2)
        optimizer.eps = how["eps"]
    return Settings(
        batch, net_keep(how["keep"], how["bits"], how["extra_work"], how["store"], how["rules"]),
        how["loss"] if isinstance(how["loss"], str) else None, how["smoothing"], optimizer, slots,
        in_parts, how.get("base_bits", 0), how.get("input_grads", False),
        *(None if how.get(name) is None else torch.as_tensor(how[name], dtype=torch.float32)
          for name in ("class_weight", "pos_weight")))


@contextlib.contextmanager
def dry_run(program: Program, settings: Settings, memory: Dict[str, Tensor], device: Any,
             options: "_Options") -> Iterator["Run"]:
    """A net in a context without a device, which has noted all kinds of steps."""
    dry = c_void_p()
    _library().call("context_create_dry", device, byref(options), byref(dry))
    run = Run(dry, program, settings, memory, True)
    try:
        for batch in range(settings.batch, 0, -1):
            run.plan(batch)
        yield run
    finally:
        run.close()


def open_run(program: Program, settings: Settings, memory: Dict[str, Tensor], device: Optional[str],
          precision: int) -> Run:
    """The net in a context of its own. A dry run of all kinds of steps plans its memory first."""
    library = _library()
    library.declare(FUNCTIONS_OF_NETS)
    context, plan = c_void_p(), c_void_p()
    options = _Options(device=device.encode() if device else None, precision=precision)
    library.call("context_create", None, byref(options), byref(context))
    try:
        info = library.call("context_device_info", context)
        same = _Options(kernels=library.call("context_kernels", context),
                        precision=library.call("context_precision", context))
        with dry_run(program, settings, memory, byref(info), same) as run:
            run.call("plan_create", run.context, byref(plan))
        library.call("plan_build", context, plan, context=context)
        library.call("context_use_plan", context, plan, context=context)
    except BaseException:
        library.call("context_destroy", context)
        raise
    finally:
        library.call("plan_destroy", plan)
    return Run(context, program, settings, memory, False)
