"""nn.LSTM, nn.GRU and nn.RNN, and single steps of them: for each layer and direction a linear layer of the inputs and one over time."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Tuple

import torch
from torch import nn

from clprune.tracing.moves import Moved
from clprune.tracing.program import Axis, Layer, Recurrent
from clprune.tracing.views import Constant, NotSupported, Value


def _is_zero(state: Any) -> bool:
    if isinstance(state, Moved):  # x.new_zeros: nothing of x
        return not state.places.any() and not state.plus.any()
    return isinstance(state, Constant) and not state.value.any()


def _beside(t: Any, parts: List[Any]) -> int:
    """A layer of what these have, one beside the other: of places of one layer, that layer if they are all of it."""
    one = parts[0]
    if all(isinstance(part, Moved) and part.layer == one.layer for part in parts):
        one = dataclasses.replace(one, places=torch.cat([part.places for part in parts], -1),
                                  plus=torch.cat([part.plus for part in parts], -1))
        whole = torch.equal(one.places.flatten(), torch.arange(1, 1 + t.batch * one.elements)) and not one.plus.any()
        if whole and t.program.layers[one.layer].function.startswith("recurrent"):
            return one.layer
        return t.placed(one, 2).layer
    layer, *others = [t.placed(part, 2).layer for part in parts]
    for other in others:
        layer = t._push("concat", (layer, other), Axis.FEATURES)
    return layer


def _before(t: Any, state: Any, shape: Tuple[int, ...], lstm: bool, *number: int) -> Tuple[int, ...]:
    """The layer of the states before the first step, [h c] or h, of this shape, unless they are zeros. number: which of them."""
    states = () if state is None else state if lstm else (state,)
    if all(map(_is_zero, states)):
        return ()
    parts = [t._use(s.after("__getitem__", number).after("reshape", shape)) if isinstance(s, Constant) else
             t._changed(s, lambda v: v[number].reshape(shape)) for s in states]
    return (_beside(t, parts),)


def _states_at(t: Any, y: int, rows: torch.Tensor, hidden: int, lstm: bool, elements: int) -> List[Moved]:
    """h, and of an LSTM c, of these rows of layer y, which has so many elements of a sample."""
    places = 1 + rows[:, None] * hidden * (1 + lstm) + torch.arange(hidden)
    return [t.of_places(y, places + k * hidden, elements) for k in range(1 + lstm)]


def _layers(t: Any, m: nn.Module, x: int, first: Tuple[int, ...], which: str, steps: int, reverse: bool) -> int:
    """The layer over time of layer and direction `which`, from a layer of inputs."""
    cells = {nn.LSTM: 0, nn.LSTMCell: 0, nn.GRU: 1, nn.GRUCell: 1}
    how = Recurrent(cells[type(m)] if type(m) in cells else 2 + (m.nonlinearity == "relu"), steps, reverse)

    def add(function: str, layers: Tuple[int, ...], of: str, *more: Any) -> int:
        name = t._name(f"{t.node.target}.{of}")
        t.program.layers.append(Layer(function, name, layers, more))
        for kind in ("weight", "bias")[:1 + m.bias]:
            path = f"{kind}_{of}"
            t._param(f"{name}.{kind}", Constant(f"{t.node.target}.{path}", getattr(m, path)))
        return len(t.program.layers) - 1

    weight = getattr(m, f"weight_ih{which}")
    z = add("linear" if m.bias else "project", (x,), f"ih{which}", weight.shape[0])
    return add("recurrent_from" if first else "recurrent", (z, *first), f"hh{which}", how, m.bias)


def cell(t: Any, m: nn.RNNCellBase, x: Any, state: Any = None) -> Any:
    """nn.LSTMCell, nn.GRUCell and nn.RNNCell: one step."""
    lstm = isinstance(m, nn.LSTMCell)
    samples, hidden = (t.result[0] if lstm else t.result).shape
    windows = samples // t.batch
    if windows == 0 or samples % t.batch:
        raise NotSupported("a recurrent cell of rows that are not of one sample each")
    first = _before(t, state, (t.batch, windows, hidden), lstm)
    x = t.placed(t._changed(x, lambda v: v.reshape(t.batch, windows, v.shape[-1])), 2)
    y = _layers(t, m, x.layer, first, "", 1, False)
    found = _states_at(t, y, torch.arange(samples), hidden, lstm, windows * hidden * (1 + lstm))
    return tuple(found) if lstm else found[0]


def recurrent(t: Any, m: nn.RNNBase, x: Any, state: Any = None) -> tuple:
    """nn.LSTM, nn.GRU and nn.RNN."""
    lstm = isinstance(m, nn.LSTM)
    for wrong, what in ((getattr(m, "proj_size", 0), "a projection (proj_size)"),
                        (len(t.result[0].shape) != 3, "samples alone, without a batch")):
        if wrong:
            raise NotSupported(f"a recurrent cell with {what}")
    hidden = m.hidden_size
    samples, features = t.result[0].shape[0 if m.batch_first else 1], t.result[0].shape[-1]
    windows = samples // t.batch  # sequences of a sample
    if windows == 0 or samples % t.batch:
        raise NotSupported("a recurrent layer over sequences that are not of one sample each")
    shape = (t.batch, windows, hidden)

    def sequences_first(v: Any) -> Any:
        v = v if m.batch_first else v.transpose(0, 1)
        return v.reshape(t.batch, -1, v.shape[-1])

    x = t._use(x, True) if isinstance(x, Value) else x
    plain = isinstance(x, Value) and m.batch_first and windows == 1 and x.axes == (x.rows, "C")
    x = x if plain else t.placed(t._changed(x, sequences_first), 2)
    rows, layer = x.size(x.rows), x.layer
    steps, last = rows // windows, []
    for number in range(m.num_layers):
        if number > 0 and m.dropout > 0 and m.training:
            layer = t._push("dropout", (layer,), float(m.dropout))
        found: List[int] = []
        for reverse in range(2 if m.bidirectional else 1):
            first = _before(t, state, shape, lstm, len(last))
            y = _layers(t, m, layer, first, f"_l{number}" + "_reverse" * reverse, steps, bool(reverse))
            ends = torch.arange(samples) * steps + (0 if reverse else steps - 1)  # rows of the last states
            last.append(_states_at(t, y, ends, hidden, lstm, rows * hidden * (1 + lstm)))
            found.append(t._push("slice", (y,), Axis.FEATURES, 0, hidden) if lstm else y)
        layer = t._push("concat", tuple(found), Axis.FEATURES) if m.bidirectional else found[0]
    if plain:
        y = dataclasses.replace(x, layer=layer, sizes={**x.sizes, "C": features})
    else:
        places = torch.arange(1, 1 + samples * steps * features).view(samples, steps, features)
        y = t.of_places(layer, places if m.batch_first else places.transpose(0, 1))
    h, *c = (_stacked(t, [states[k] for states in last], shape) for k in range(1 + lstm))
    return (y, (h, *c)) if lstm else (y, h)


def _stacked(t: Any, states: List[Moved], shape: Tuple[int, ...]) -> Moved:
    """The last states of all layers and directions, as PyTorch has them: one behind the other."""
    if len(states) == 1:
        return dataclasses.replace(states[0], places=states[0].places[None], plus=states[0].plus[None])
    layer = _beside(t, [t._changed(state, lambda v: v.reshape(shape)) for state in states])
    samples, hidden = states[0].places.shape
    places = torch.arange(1, 1 + samples * len(states) * hidden).view(samples, len(states), hidden)
    return t.of_places(layer, places.transpose(0, 1))
