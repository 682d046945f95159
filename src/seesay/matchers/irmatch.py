"""IRMatch (Ke, Li, Wang, Li 2017): image and sentence CNNs in one space.

`p(i) = W·iCNN(i) + b` (eq. 1), `q(s) = sCNN(s)` (eq. 2), scored by their cosine (eq. 3).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher
from seesay.text.sentences import Sentences


class SentenceCNN(nn.Module):
    """One convolution layer of several widths, ReLU, maximum over time (Kim 2014).

    The paper gives the widths (1 to 6) and the outputs in all (k = 1200); they are shared out
    evenly here. It does not say what a window does at a sentence's end: here one starts at each
    word and what it lacks behind the last word is zero, so that any sentence has windows of all
    widths and batching changes nothing. No sentence is ever padded to another's length.
    """

    def __init__(self, words: int, word_dim: int, dim: int, widths: Sequence[int]) -> None:
        super().__init__()
        if dim % len(widths):
            raise SeesayError(f"matcher.dim: {dim} outputs cannot be shared out over {len(widths)} widths.")
        self.embedding = nn.Embedding(words, word_dim)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.widths = tuple(widths)
        self.kernels = nn.ModuleList(nn.Linear(width * word_dim, dim // len(widths)) for width in widths)

    def forward(self, sentences: Sentences) -> Tensor:
        """Sentences to (m, dim)."""
        vectors = self.embedding(sentences.words)
        # One zero row behind all words: the place that a window reaching past its sentence sees.
        vectors = torch.cat([vectors, vectors.new_zeros(1, vectors.shape[1])])
        windows = window_places(sentences.lengths, max(self.widths))
        pooled = [
            max_over_time(kernel(vectors[windows[:, :width]].flatten(1)), sentences.lengths)
            for width, kernel in zip(self.widths, self.kernels, strict=True)
        ]
        # ReLU grows with its input, so it commutes with the maximum and costs less behind it.
        return functional.relu(torch.cat(pooled, dim=1))


def window_places(lengths: Tensor, width: int) -> Tensor:
    """For each word the places of the `width` words from it on, (total, width).

    A place behind the end of the word's own sentence is `total`.
    """
    total = int(lengths.sum())
    ends = torch.repeat_interleave(lengths.cumsum(0), lengths)
    places = torch.arange(total, device=lengths.device)[:, None] + torch.arange(width, device=lengths.device)
    return torch.where(places < ends[:, None], places, total)


def max_over_time(values: Tensor, lengths: Tensor) -> Tensor:
    """The maximum over each sentence's rows, (m, d) from (total, d)."""
    return torch.segment_reduce(values, "max", lengths=lengths, axis=0)


class IRMatch(EmbeddingMatcher):
    """IRMatch; hard or soft margin is the objective's business, not the matcher's.

    Args:
        image_dim: width of the image features.
        words: rows of the word embedding.
    """

    def __init__(
        self, image_dim: int, words: int, dim: int, word_dim: int, widths: Sequence[int], dropout: float
    ) -> None:
        super().__init__()
        self.image_map = nn.Linear(image_dim, dim)
        self.sentence_cnn = SentenceCNN(words, word_dim, dim, widths)
        self.dropout = nn.Dropout(dropout)

    def embed_images(self, images: Tensor) -> Tensor:
        """Eq. 1, then unit length for eq. 3."""
        return functional.normalize(self.image_map(self.dropout(images)), dim=1)

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        """Eq. 2, then unit length for eq. 3."""
        return functional.normalize(self.dropout(self.sentence_cnn(sentences)), dim=1)
