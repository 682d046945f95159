"""Shared layers of matchers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from seesay.errors import SeesayError
from seesay.matchers.sentences import UNKNOWN, Sentences, word_places

State = tuple[Tensor, Tensor]  # of an LSTM: the hidden and the cell state, (1, m, H) each
# How image features are scaled; see `standardised`.
Standardise = Literal[False, True, "power", "length"]


class ScoreLayer(nn.Linear):
    """The last layer of a network, (…, width) to one score (…, 1), in single precision even under autocast.

    Half precision has too few values near a score, so different pairs would tie.
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the scores."""
        with torch.autocast(inputs.device.type, enabled=False):
            return functional.linear(inputs.to(self.weight.dtype), self.weight, self.bias)


class WordLSTM(nn.Module):
    """An LSTM over words, whose last state is the sentence vector, with dropout on words and state."""

    def __init__(self, vocabulary_size: int, word_dim: int, dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary_size, word_dim)
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
    """Return the states (m, dim) after each sentence's last word of a layer that reads vectors (total, d)."""
    if torch.onnx.is_in_onnx_export():  # a packed sequence cannot be exported to ONNX
        outputs: Tensor = layer(vectors[word_places(sentences.lengths)[0].T])[0]
        return outputs[sentences.lengths - 1, torch.arange(outputs.shape[1], device=outputs.device)]
    packed = sentences.packed(vectors)
    if isinstance(layer, nn.LSTM):
        return run_packed(layer, packed)[1]
    last: Tensor = layer(packed)[1][0]
    return last


def run_packed(lstm: nn.LSTM, packed: PackedSequence, start: State | None = None) -> tuple[Tensor, Tensor]:
    """Run a single LSTM that reads the words (total, d) of m sentences forwards, with biases.

    In PyTorch's own layer, each step slices its rows from the products of all words, and on a CPU the
    gradient of each slice is as large as the whole and mostly zeros. Here the steps and weights are the same,
    but the rows are split once, and the gradient of a split is one concatenation: steps of SCO and of the
    two-branch networks take two thirds of the time (`benchmarks/sco.py`).

    Args:
        lstm: the layer whose weights are used.
        packed: the vectors of the words.
        start: hidden and cell state, (1, m, H) each; zeros by default.

    Returns:
        The hidden states after each word, (total, H), in the order of `packed.data`, and those after each
        sentence's last word, (m, H), in the order of the sentences.
    """
    if not torch.is_grad_enabled() or packed.data.device.type != "cpu":
        outputs, (last, _) = lstm(packed, start)
        return outputs.data, last[0]
    from_words, from_state, of_words, of_state = lstm.all_weights[0]  # two matrices, then their biases
    sizes = packed.batch_sizes.tolist()  # of the sentences that have a first word, a second, and so on
    order = slice(None) if packed.sorted_indices is None else packed.sorted_indices
    hidden, cell = (
        packed.data.new_zeros(sizes[0], lstm.hidden_size) if start is None else start[k][0, order]
        for k in (0, 1)
    )
    states, ended = [], []
    for inputs in torch.split(functional.linear(packed.data, from_words, of_words), sizes):
        if (count := len(inputs)) < len(hidden):  # the longest sentences come first
            ended.append(hidden[count:])
            hidden, cell = hidden[:count], cell[:count]
        gates = inputs + functional.linear(hidden, from_state, of_state)
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)
        cell = forget_gate.sigmoid() * cell + input_gate.sigmoid() * candidate.tanh()
        hidden = output_gate.sigmoid() * cell.tanh()
        states.append(hidden)
    last = torch.cat([hidden, *reversed(ended)])
    return torch.cat(states), last if packed.unsorted_indices is None else last[packed.unsorted_indices]


def mean_words(bag: nn.EmbeddingBag, sentences: Sentences) -> Tensor:
    """Return the mean (m, d) of the vectors of each sentence's words, by a bag of mode "mean"."""
    lengths = sentences.lengths
    if not torch.onnx.is_in_onnx_export():
        mean: Tensor = bag(sentences.words, lengths.cumsum(0) - lengths)
        return mean
    places, there = word_places(lengths)  # ONNX has no bags
    words = functional.embedding(sentences.words[places], bag.weight) * there[:, :, None]
    return words.sum(dim=1) / lengths.clamp(min=1)[:, None]


class WordEmbedding(nn.Embedding):
    """An embedding of the words of a vocabulary, with small uniform weights; row 0 is the unknown word.

    If a recipe names pretrained vectors, training initialises the embeddings of this class with them.
    """

    def __init__(self, vocabulary_size: int, word_dim: int) -> None:
        if vocabulary_size < 1:
            raise SeesayError(
                f"vocabulary_size: expected at least 1, for the unknown word, got {vocabulary_size}."
            )
        super().__init__(vocabulary_size, word_dim)
        nn.init.uniform_(self.weight, -0.1, 0.1)

    @torch.no_grad()
    def start_from(self, vectors: Tensor, known: Tensor, std: float) -> None:
        """Initialise words with pretrained vectors; the unknown word becomes zero, and others stay random.

        The vectors are centred, rotated to their principal components and scaled. If they are wider than the
        embedding, the first components are kept; if they are narrower, its remaining components stay random.

        Args:
            vectors: of all words but the unknown one, (V - 1, d); the embedding may have further rows.
            known: which words have a vector, (V - 1,) boolean.
            std: the standard deviation of the scaled vectors.
        """
        given = vectors[known].double()
        if not len(given):
            return
        centred = given - given.mean(dim=0)
        _, axes = torch.linalg.eigh(centred.T @ centred)
        components = centred @ axes.flip(1)[:, : self.embedding_dim]
        # The sign of an axis is arbitrary; this one does not depend on the machine.
        components *= components.gather(0, components.abs().argmax(dim=0, keepdim=True)).sign()
        components *= std / components.std().clamp_min(torch.finfo(components.dtype).tiny)
        rows = 1 + known.nonzero()[:, 0]
        self.weight[rows, : components.shape[1]] = components.to(self.weight)
        self.weight[UNKNOWN] = 0


class PowerNormalisation(nn.Module):
    """Signed square roots of features, x / √(|x| + ε): large values count less (Perronnin et al. 2010)."""

    def forward(self, features: Tensor) -> Tensor:
        """Return the roots; ε keeps their slope at zero finite, for the gradients of a CNN."""
        return features * torch.rsqrt(features.abs() + 1e-6)


class CommonLength(nn.Module):
    """Features times a constant, by which those of the train split have a root mean square length of 16.

    Pooled features of an EfficientNet have about this length, and those of VGG-19 before their ReLU one of
    about 128: with the same learning rate, the first layer's response to them grows 64 times as fast.
    """

    length = 16.0

    def __init__(self) -> None:
        super().__init__()
        self.factor: Tensor
        self.register_buffer("factor", torch.ones(()))

    def forward(self, features: Tensor) -> Tensor:
        """Return the scaled features, of their shape."""
        return features * self.factor

    def measure(self, batches: Iterable[Tensor]) -> None:
        """Set the constant by the features (n, d) of the train split, in batches."""
        squares = [rows.double().square().sum(dim=1) for rows in batches]
        mean = torch.cat(squares).mean()
        self.factor.fill_(self.length / mean.sqrt() if mean > 0 else 1.0)


def standardised(width: int, standardise: Standardise) -> nn.Module:
    """Return a layer that scales features (n, width) as `standardise` says.

    True scales each feature to mean 0 and variance 1, and "power" their signed square roots; "length" scales
    all by one constant (`CommonLength`), and False leaves them unchanged.
    """
    if standardise == "length":
        return CommonLength()
    if not standardise:
        return nn.Identity()
    normed = nn.BatchNorm1d(width, affine=False)
    return nn.Sequential(PowerNormalisation(), normed) if standardise == "power" else normed


def image_input(width: int, standardise: Standardise, dropout: float) -> nn.Sequential:
    """Return a layer that standardises features (n, width), if requested, and applies dropout."""
    return nn.Sequential(standardised(width, standardise), nn.Dropout(dropout))


def xavier(width: int, out: int, kind: type[nn.Linear] = nn.Linear, bias: bool = True) -> nn.Linear:
    """Return a layer with Glorot's uniform weights and zero biases."""
    layer = kind(width, out, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def unit_vectors(vectors: Tensor, dim: int = 1) -> Tensor:
    """Divide vectors by their lengths; vectors of zeros stay as they are and do not enlarge gradients.

    `functional.normalize` divides these by 1e-12, which scales gradients by 1e12 and underflows to 0 / 0 in
    half precision.
    """
    lengths: Tensor = vectors.norm(dim=dim, keepdim=True)
    least = max(1e-12, torch.finfo(vectors.dtype).tiny)
    return vectors / lengths.clamp_min(least).masked_fill(lengths == 0, 1)


def instance_width(image_dim: int, instances: int) -> int:
    """Return the width of each of the concatenated instances; raise `SeesayError` if it is not whole."""
    if image_dim % instances:
        raise SeesayError(
            f"matcher.instances: features of {image_dim} numbers are not {instances} instances."
        )
    return image_dim // instances


def normalised_instances(images: Tensor, instances: int, dtype: torch.dtype) -> Tensor:
    """Split joined instances (n, I·F) to (n, I, F), take signed square roots and normalise in float32."""
    rows = images.view(images.shape[0], instances, images.shape[1] // instances).float()
    return unit_vectors(rows.sign() * rows.abs().sqrt(), dim=2).to(dtype)


def missing_instances(instances: Tensor) -> Tensor:
    """Return which of the instances (n, I, F) are padding, (n, I): zeros, unless all of an image are."""
    empty = (instances == 0).all(dim=2)
    return empty & ~empty.all(dim=1, keepdim=True)
