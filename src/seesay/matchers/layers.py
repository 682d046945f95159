"""Layers that several matchers share."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from seesay.matchers.sentences import Sentences, check_vocabulary, word_places


class ScoreLayer(nn.Linear):
    """A network's last layer, to one score: (…, width) to (…, 1), in single precision under autocast too.

    In half precision, with some thousand values near a score, different pairs would tie.
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the scores."""
        with torch.autocast(inputs.device.type, enabled=False):
            return functional.linear(inputs.to(self.weight.dtype), self.weight, self.bias)


class WordLSTM(nn.Module):
    """An LSTM over words; its state after the last one is the sentence's vector.

    Dropout is applied to the words' vectors and to that state.
    """

    def __init__(self, vocabulary_size: int, word_dim: int, dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = word_embedding(vocabulary_size, word_dim)
        self.lstm = nn.LSTM(word_dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, sentences: Sentences) -> Tensor:
        """Return the states, (m, dim)."""
        if not len(sentences):
            return self.embedding.weight.new_zeros(0, self.lstm.hidden_size)
        words = self.dropout(self.embedding(sentences.words))
        state: Tensor = self.dropout(last_states(self.lstm, sentences, words))
        return state


def last_states(layer: nn.GRU | nn.LSTM, sentences: Sentences, vectors: Tensor) -> Tensor:
    """Return the states (m, dim) of a recurrent layer after each sentence's last word.

    Args:
        layer: a single layer that reads forwards.
        sentences: m of them.
        vectors: of their words, (total, d).
    """
    if torch.onnx.is_in_onnx_export():  # a packed sequence cannot be exported to ONNX
        outputs: Tensor = layer(vectors[word_places(sentences.lengths)[0].T])[0]
        return outputs[sentences.lengths - 1, torch.arange(outputs.shape[1], device=outputs.device)]
    found = layer(sentences.packed(vectors))[1]
    state: Tensor = found[0] if isinstance(found, tuple) else found
    return state[0]


def word_embedding(vocabulary_size: int, word_dim: int) -> nn.Embedding:
    """Return an embedding of words with small uniform weights."""
    check_vocabulary(vocabulary_size)
    embedding = nn.Embedding(vocabulary_size, word_dim)
    nn.init.uniform_(embedding.weight, -0.1, 0.1)
    return embedding


def standardised(width: int, standardise: bool) -> nn.Module:
    """Return a layer that brings features (n, width) to mean 0 and variance 1, or one that leaves them."""
    return nn.BatchNorm1d(width, affine=False) if standardise else nn.Identity()


def image_input(width: int, standardise: bool, dropout: float) -> nn.Sequential:
    """Return a layer that standardises features (n, width), if that is wanted, and drops some."""
    return nn.Sequential(standardised(width, standardise), nn.Dropout(dropout))


def xavier(width: int, out: int, kind: type[nn.Linear] = nn.Linear, bias: bool = True) -> nn.Linear:
    """Return a layer with Glorot's uniform weights and zero biases."""
    layer = kind(width, out, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer
