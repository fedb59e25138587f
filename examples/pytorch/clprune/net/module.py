"""NetModule: a model whose training passes run as a net of clprune, as an nn.Module."""

from __future__ import annotations

import threading
import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from clprune.convert.compressed import transformed
from clprune.convert.functions import Once
from clprune.convert.sources import is_batched
from clprune.library import Error, Keep
from clprune.net.changes import changes, structure_of
from clprune.net.net import Net, uncompiled
from clprune.tracing.inputs import Batch, Input, batch_of, split
from clprune.tracing.program import check_read

__all__ = ["NetModule"]


class NetFunction(Once):
    """y = net(inputs). What the backward pass reads is in the net, which keeps one pass: if another came
    since, this one runs again. parts: the inputs, the mask or None, and the parameters."""

    advice = "train the model itself for them"

    @staticmethod
    def forward(ctx, module: "NetModule", seed: int, inputs: int, *parts: Optional[Tensor]):
        ctx.module, ctx.seed, ctx.inputs = module, seed, inputs
        with module.net._lock:
            y = module._run(Batch(parts[:inputs], parts[inputs]), parts[inputs + 1:], seed, True)
            ctx.mine = module.net._current
        ctx.save_for_backward(*parts)
        return y

    @staticmethod
    def backward(ctx, dy: Tensor):
        if is_batched(dy):
            raise Error("a net has no batched gradients (is_grads_batched, vectorize=True)")
        net, names, inputs = ctx.module.net, ctx.module._names(), ctx.inputs
        needs = ctx.needs_input_grad[3:]
        needed = {name for name, need in zip(names, needs[inputs + 1:]) if need}
        with net._lock:
            if net._current is None or net._current is not ctx.mine:
                parts = ctx.saved_tensors
                ctx.module._run(Batch(parts[:inputs], parts[inputs]), parts[inputs + 1:], ctx.seed, False)
            grads: Dict[str, Tensor] = {}
            net._run_backward(dy, net._reader(grads, needed.__contains__), False)
            found = [grad if grad is None else grad.to(dy.device) for grad in net.input_grads]
        for name in sorted(needed - set(grads)):
            raise Error(f"{name} was frozen when the NetModule was made of the model; make a new one")
        return None, None, None, *(grad if need else None for grad, need in zip(found, needs)), None, *map(grads.get, names)


class NetModule(nn.Module):
    """`model` as an nn.Module whose passes in training run as a net; see Net for the arguments.

        module = clprune.NetModule(model, images, keep="compact")
        optimizer = torch.optim.AdamW(module.parameters())
        loss = criterion(module(images), labels)
        loss.backward()

    Parameters, buffers and their names are the model's own, so any loss and optimizer, clipping,
    schedules, accumulation, state_dict, hooks of parameters, deepcopy, pickle and DDP work as for the
    model. module.net is the Net. In eval() the model's own code runs, and so it does, with a warning,
    where a net cannot: where an input needs a gradient, unless `input_grads` is set, and in transformations of torch.func.

    The net keeps one pass. If another pass came before the backward pass, as with two inputs of one
    loss, the first runs again, with the same draws. Seeds come from PyTorch's generator. An Error:
    second derivatives, and a model that changed since, as by a hook of a module in it, another module
    in its place, a parameter that is trained and was frozen, or a part in eval() alone.
    """

    def __init__(self, model: nn.Module, example: Input, *, keep: Union[str, Keep] = "compact",
                 bits: int = 4, extra_work: int = 0, store: str = "fp32",
                 rules: Sequence[Tuple[str, Optional[Keep]]] = (), input_grads: bool = False, device: Optional[str] = None,
                 precision: Optional[str] = None) -> None:
        super().__init__()
        if not isinstance(example, (Tensor, tuple, list)):
            raise ValueError("the example is no tensor, and no pair of one and a mask")
        net = Net(model, example, keep=keep, bits=bits, extra_work=extra_work, store=store, rules=rules,
                  loss=None, optimizer=None, input_grads=input_grads, device=device, precision=precision)
        self.__dict__.update(
            _parameters=model._parameters, _buffers=model._buffers, _modules=model._modules,
            _non_persistent_buffers_set=model._non_persistent_buffers_set, training=model.training,
            _own=model, _net=net, _parts=(net._program, batch_of(example).inputs[0].shape[0], net._how),
            _structure=structure_of(model, False), _told=set(), _lock=threading.RLock())

    @property
    def net(self) -> Net:
        """The net; a copy of the module makes its own when it first trains."""
        with self._lock:
            if self._net is None:
                self.__dict__["_net"] = net = Net.__new__(Net)
                net._make(*self._parts)
            return self._net

    def __getattr__(self, name: str) -> Any:
        """What the model has besides, such as methods."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["_own"], name)

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_net": None, "_lock": None}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    def train(self, mode: bool = True) -> "NetModule":
        self._own.training = mode
        return super().train(mode)

    @uncompiled
    def forward(self, x: Tensor, *mask: Tensor, **named: Any) -> Any:
        """In training x, and the mask if the model has one, or several inputs; in eval() whatever the model takes."""
        if not self.training or any(map(self._runs_itself, (x, *mask))):
            return self._own(x, *mask, **named)
        program = self._parts[0]
        if not isinstance(x, Tensor) or named or not program.inputs and len(mask) > 1:
            raise ValueError("a NetModule takes the input in training, and perhaps a mask, or several inputs, in this order")
        self._check()
        batch = self.net._batch_of((x, *mask) if mask else x)
        seed = int(torch.empty((), dtype=torch.int64, device="cpu").random_())
        tensors = self._tensors()
        for param in self._parts[0].params:
            if param.made is not None:
                tensors[param.key] = param.made.value(tensors).reshape(param.shape)
        y = NetFunction.apply(self, seed, len(batch.inputs), *batch.inputs, batch.mask,
                              *(tensors[name] for name in self._names()))
        key = program.key
        return {key: y} if key else y if program.outputs is None else split(y, program.outputs)

    def _names(self) -> List[str]:
        return [param.key for param in self._parts[0].params if param.key is not None]

    def _tensors(self) -> Dict[str, Tensor]:
        return {**dict(self._own.named_buffers(remove_duplicate=False)),
                **dict(self._own.named_parameters(remove_duplicate=False))}

    def _run(self, batch: Batch, parameters: Sequence[Tensor], seed: int, first: bool) -> Tensor:
        """A forward pass in training; the first one moves running statistics."""
        net, tensors = self.net, self._tensors()
        check_read(net._program, tensors)
        net._write_values({**tensors, **dict(zip(self._names(), parameters))})
        y = net._run_forward(batch, seed).to(batch.inputs[0].device)
        if first:
            first = len(net._program.params)
            for param, mat in net._run.params[first:first + len(net._program.states)]:
                tensors[param.theirs].copy_(net._read(param, mat))
            for name in net._program.counters:
                if name in tensors:
                    tensors[name].add_(1)
        return y

    def _runs_itself(self, x: Any) -> bool:
        """Whether the model's own code runs. Warns once of each reason."""
        reason = None
        if transformed() or getattr(forward_ad, "_current_level", -1) >= 0:
            reason = "nets have no transformations of torch.func"
        elif isinstance(x, Tensor) and x.requires_grad and torch.is_grad_enabled() and not self._parts[2]["input_grads"]:
            reason = "the input needs a gradient, which takes input_grads=True"
        if reason is not None and reason not in self._told:
            self._told.add(reason)
            warnings.warn(f"clprune: {reason}; PyTorch's own code runs")
        return reason is not None or torch.jit.is_tracing()

    def _check(self) -> None:
        found = changes(self._structure, structure_of(self._own, False))
        found += [f"{name} is in eval() alone, and a net trains all modules"
                  for name, module in self._own.named_modules() if not module.training]
        if found:
            raise Error(f"the model has changed since the NetModule was made of it: {found[0]}; make a "
                        "new one")
