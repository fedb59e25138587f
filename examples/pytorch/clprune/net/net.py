"""Whole PyTorch models as nets of clprune: training on any OpenCL device, without autograd.

    import clprune

    net = clprune.Net(model, images, keep="compact")
    for images, labels in loader:
        loss = net.step(images, labels)      # forward, backward, AdamW
    model.load_state_dict(net.state_dict())

torch.fx traces the model, and each of its operations becomes a layer of a net (clprune/net.h). The
net decides for each tensor whether to keep it for the backward pass, and how. An operation that it
does not have is an Error that names the module. See README.md for the operations.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import threading
import warnings
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clprune.library import Error, Keep, _Mat, _number, giving_back, process_memory
from clprune.net.changes import changes, names_of, structure_of
from clprune.net.losses import LOSSES, OF_CLASSES, WITH_TARGETS, from_stored, to_stored
from clprune.net.run import CATEGORIES, PRECISIONS, NetInput, first_rows, open_run, optimizers, settings_of
from clprune.net.shared import Shared, write_count
from clprune.net.structures import _Write
from clprune.tracing.graph import hooks_of, unchanged
from clprune.tracing.inputs import Batch, Input, batch_of, check_inputs, has_types, lengths_of, lines, model_of, split
from clprune.tracing.program import Param, Program, check_read
from clprune.tracing.trace import trace

__all__ = ["Net"]

_PART_BYTES = 2**20


def uncompiled(method: Callable) -> Callable:
    """Compiled code calls the method as it is: torch.compile would trace through addresses."""
    disable = getattr(getattr(torch, "compiler", None), "disable", None)  # since PyTorch 2.1
    return disable(method) if disable is not None else method


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
    optimizer  "adamw", "sgd" or another of clprune.net.run.optimizers(); of those with an 8, such as
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
        if not callable(loss) and loss not in LOSSES:
            raise ValueError(f"loss is {loss!r}, expected {', '.join(filter(None, LOSSES))}, a function or None")
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
        if loss in OF_CLASSES and "C" not in program.output.axes:
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
        self._names = names_of(model, [param.theirs for param, _ in self._run.params])
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
        settings = settings_of(batch, how)
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
        self._run = open_run(program, settings, shared.memory if shared is not None else {}, how["device"],
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

    @uncompiled
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

    @uncompiled
    def gradients(self, x: Input, y: Any, weights: Optional[Tensor] = None) -> Tuple[float, Dict[str, Tensor]]:
        """The mean loss of a batch and its gradients, by the model's names, without a step, as in `step`.
        Running statistics move, as in every forward pass in training."""
        with self._work(True):
            grads: Dict[str, Tensor] = {}
            return self._pass(x, y, weights, self._reader(grads)), self._sorted(grads)

    @uncompiled
    def forward(self, x: Input) -> Any:
        """The model's output in training, for `backward`. Running statistics move."""
        with self._work(True):
            self._warn()
            return self._shown(self._run_forward(self._batch_of(x), self.seed * 2**32 + self.steps))

    @uncompiled
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

    @uncompiled
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
        if any(source.taken is not None and write_count(source.taken[1]) != source.taken[2] for source in run.inputs):
            raise Error("backward: the input was changed in place since forward; the net reads it again")
        self._current = None
        self._write_mat(run.output(batch), to_stored(dy, out))
        run.backward(batch, use, self._chain if chains else lambda: None)
        self.input_grads = [self._input_grad(source, batch) for source in run.inputs]
        run.end()

    def _input_grad(self, source: NetInput, batch: int) -> Optional[Tensor]:
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
        values = from_stored(values.view(batch, *(out.sizes[axis] for axis in out.stored)), out)
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
        apart = mask is not None and not self._program.padding_counts and not (rows and self._how["loss"] in WITH_TARGETS)
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
                self._write_mat(first_rows(source.mat, given.shape[0] * source.rows), given)
        return x.shape[0]

    def _check_tokens(self, x: Tensor, training: bool) -> None:
        for padding in self._program.paddings if training or self._program.pads_positions else ():
            if bool((x == padding).any()):
                raise ValueError(f"the tokens have {padding}, padding_idx of an embedding, whose row the net would train"
                                 + (", and which shifts positions" if self._program.pads_positions else ""))

    def _write_target(self, batch: int, y: Tensor) -> None:
        run, out = self._run, self._program.output
        if run.settings.loss in WITH_TARGETS:
            if tuple(y.shape) != (batch, *out.shape):
                raise ValueError(f"the target is {tuple(y.shape)}, expected {(batch, *out.shape)}")
            self._write_mat(first_rows(run.y, batch * run.out_rows), to_stored(y, out))
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
            self._write_mat(first_rows(run.sample_weights, batch), weights[:, None])

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

    @uncompiled
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

    @uncompiled
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

    @uncompiled
    def optimizer_state(self) -> Dict[str, Any]:
        """What a resumed run needs beside state_dict(): the number of steps, the seed, the learning
        rate, and the optimizer's state by the model's names."""
        with self._lock:
            state = {param.theirs: {name: self._read_state(param, mat, name)
                                    for name, mat in self._run.state(index).items()}
                     for index, param in self._trained()}
        return dict(optimizer=self._how["optimizer"], steps=self.steps, seed=self.seed, lr=self.lr,
                    state=state)

    @uncompiled
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

    @uncompiled
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

    @uncompiled
    def close(self) -> None:
        """Releases all that the net holds on the device; it cannot be used afterwards."""
        with self._lock:
            self._closer()


@contextlib.contextmanager
def _memory_of(x: Tensor) -> Iterator[int]:
    """The address of x, which lives as long as the block."""
    yield x.data_ptr()
    del x


def _listed(weights: Optional[Tensor]) -> Any:
    """Without tensors, as a Net's arguments are pickled."""
    return None if weights is None else torch.as_tensor(weights, dtype=torch.float32).tolist()


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
