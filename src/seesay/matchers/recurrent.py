"""Recurrent layers over sentences of different lengths, without what makes their training slow on a CPU.

PyTorch's own layers slice each step's rows out of the products of all words. The gradient of a slice is as
large as what it is cut from and mostly zeros, and there is one for each step: about a third of the time of
training on 512 sentences. The steps here are those of `torch.nn.LSTM` and `torch.nn.GRU`, with their weights.
But the rows are split once, and the gradient of a split is one concatenation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from seesay.errors import SeesayError

State = tuple[Tensor, ...]  # hidden state, and an LSTM's cell state


def run_packed(
    layer: nn.GRU | nn.LSTM, packed: PackedSequence, start: State | None = None
) -> tuple[Tensor, Tensor]:
    """Run one layer that reads forwards, with biases and without a projection.

    Args:
        layer: whose weights are used.
        packed: the vectors of the words of m sentences, (total, d).
        start: hidden state, and an LSTM's cell state, (1, m, H) each; zeros by default.

    Returns:
        The hidden states after each word, (total, H), in the order of `packed.data`, and those after each
        sentence's last word, (m, H), in the order of the sentences.

    Raises:
        SeesayError: the layer is another one.
    """
    if layer.num_layers > 1 or layer.bidirectional or not layer.bias or layer.proj_size:
        raise SeesayError(
            "run_packed: one layer that reads forwards, with biases and without a projection, is supported."
        )
    if torch.is_grad_enabled() and packed.data.device.type == "cpu":
        return _run(layer, packed, start)
    if isinstance(layer, nn.LSTM):
        states, (last, _) = layer(packed, start)
    else:
        states, last = layer(packed, None if start is None else start[0])
    return states.data, last[0]


def _run(layer: nn.GRU | nn.LSTM, packed: PackedSequence, start: State | None) -> tuple[Tensor, Tensor]:
    step = _lstm_step if isinstance(layer, nn.LSTM) else _gru_step
    from_words, from_state, of_words, of_state = layer.all_weights[0]  # two matrices, then their biases
    sizes = packed.batch_sizes.tolist()  # of the sentences that have a first word, a second, and so on
    if start is None:
        zeros = packed.data.new_zeros(sizes[0], layer.hidden_size)
        state: State = (zeros, zeros) if isinstance(layer, nn.LSTM) else (zeros,)
    else:
        order = slice(None) if packed.sorted_indices is None else packed.sorted_indices
        state = tuple(each[0, order] for each in start)
    states, ended = [], []
    for inputs in torch.split(functional.linear(packed.data, from_words, of_words), sizes):
        if len(inputs) < len(state[0]):  # the longest sentences stand first
            ended.append(state[0][len(inputs) :])
            state = tuple(each[: len(inputs)] for each in state)
        state = step(inputs, functional.linear(state[0], from_state, of_state), state)
        states.append(state[0])
    last = torch.cat([state[0], *reversed(ended)])
    return torch.cat(states), last if packed.unsorted_indices is None else last[packed.unsorted_indices]


def _lstm_step(inputs: Tensor, recurrent: Tensor, state: State) -> State:
    input_gate, forget_gate, candidate, output_gate = (inputs + recurrent).chunk(4, dim=1)
    cell = forget_gate.sigmoid() * state[1] + input_gate.sigmoid() * candidate.tanh()
    return output_gate.sigmoid() * cell.tanh(), cell


def _gru_step(inputs: Tensor, recurrent: Tensor, state: State) -> State:
    (reset, update, new), (reset_of_state, update_of_state, new_of_state) = (
        each.chunk(3, dim=1) for each in (inputs, recurrent)
    )
    update_gate = (update + update_of_state).sigmoid()
    candidate = (new + (reset + reset_of_state).sigmoid() * new_of_state).tanh()
    return ((1 - update_gate) * candidate + update_gate * state[0],)
