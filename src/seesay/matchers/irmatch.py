"""IRMatch (Ke, Li, Wang, Li 2017): image and sentence CNNs in one space.

`p(i) = W·iCNN(i) + b` (eq. 1), `q(s) = sCNN(s)` (eq. 2), scored by their cosine (eq. 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, cast

import torch
from pydantic import AfterValidator, Field, PositiveInt, ValidationInfo
from torch import Tensor, nn
from torch.nn import functional

from seesay.matchers.base import EmbeddingMatcher, check_images
from seesay.matchers.layers import Standardise, WordEmbedding, standardised, unit_vectors
from seesay.matchers.sentences import Sentences, SentencesLike, read_words, word_places
from seesay.matchers.settings import register_matcher
from seesay.settings import Dropout


def _share_dim(widths: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
    dim = info.data.get("dim", 0)
    if dim % len(widths):
        raise ValueError(f"dim must be a multiple of the number of widths, {len(widths)}; it is {dim}")
    return widths


Widths = Annotated[
    tuple[PositiveInt, ...], Field(min_length=1, validate_default=True), AfterValidator(_share_dim)
]


class SentenceCNN(nn.Module):
    """One convolution layer with several widths, ReLU, and maximum over time (Kim 2014).

    The widths share the outputs (k = 1200) evenly. The paper does not say how windows treat the end of a
    sentence: here a window starts at every word, padded with zeros after the last.
    """

    def __init__(self, vocabulary_size: int, word_dim: int, dim: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary_size, word_dim)
        self.widths = tuple(widths)
        kernels = nn.ModuleList(nn.Linear(width * word_dim, dim // len(widths)) for width in widths)
        self.kernels = cast(Sequence[nn.Linear], kernels)

    def forward(self, sentences: Sentences) -> Tensor:
        """Return sentence features, (m, dim)."""
        if not len(sentences):
            return self.embedding.weight.new_zeros(0, sum(kernel.out_features for kernel in self.kernels))
        # The product of a word and each position of each kernel is computed once, however often the word
        # occurs in the batch; the response of a window is the sum of its words' products.
        words, occurrence = torch.unique(sentences.words, return_inverse=True)
        vectors = self.embedding(words)
        places = window_places(sentences.lengths, max(self.widths))
        behind = torch.cat([occurrence, occurrence.new_full((1,), words.shape[0])])
        pooled = []
        for width, kernel in zip(self.widths, self.kernels, strict=True):
            k, positions = kernel.out_features, width * words.shape[0]
            by_place = kernel.weight.view(k, width, -1).permute(2, 1, 0).reshape(-1, width * k)
            products = (vectors @ by_place).view(-1, k)  # one row for each position of each word
            products = torch.cat([products, products.new_zeros(1, k)])
            rows = behind[places[:, :width]] * width + torch.arange(width, device=places.device)
            windows = rows.clamp(max=positions)  # behind a sentence, the last row
            if torch.onnx.is_in_onnx_export():  # ONNX has neither bags nor segments
                responses = functional.embedding(windows, products).sum(dim=1)
                at, there = word_places(sentences.lengths)
                pooled.append(responses[at].masked_fill(~there[:, :, None], -torch.inf).amax(dim=1))
                continue
            responses = functional.embedding_bag(windows, products, mode="sum", padding_idx=positions)
            pooled.append(max_over_time(responses, sentences.lengths))
        # Bias and ReLU commute with the maximum, and cost less after it.
        return functional.relu(torch.cat(pooled, dim=1) + torch.cat([kernel.bias for kernel in self.kernels]))


def window_places(lengths: Tensor, width: int) -> Tensor:
    """Return the positions of the `width` words from each word on, (total, width).

    Positions after the end of the sentence are `total`.
    """
    total = lengths.sum()
    ends = lengths.cumsum(0)[word_places(lengths)[1].nonzero()[:, 0]]
    first = torch.arange(total, device=lengths.device)  # type: ignore[call-overload]
    places = first[:, None] + torch.arange(width, device=lengths.device)
    return torch.where(places < ends[:, None], places, total)


def max_over_time(values: Tensor, lengths: Tensor) -> Tensor:
    """Return the maximum of each sentence's rows, (m, d) from (total, d); tied rows share the gradient.

    `segment_reduce` alone only divides positive gradients among tied rows; each receives negative ones in
    full (seen in torch 2.13).
    """
    owner = torch.repeat_interleave(torch.arange(lengths.shape[0], device=lengths.device), lengths)
    with torch.no_grad():
        highest = torch.segment_reduce(values, "max", lengths=lengths, axis=0)
        share = (values == highest[owner]).to(values.dtype)
        share /= torch.segment_reduce(share, "sum", lengths=lengths, axis=0)[owner]
    return torch.segment_reduce(values * share, "sum", lengths=lengths, axis=0)


@register_matcher("irmatch")
class IRMatch(EmbeddingMatcher):
    """IRMatch: a linear image map and a sentence CNN, scored by cosine.

    Args:
        image_dim: width of the image features.
        vocabulary_size: rows of the word embedding.
        dim: width of the embeddings.
        word_dim: width of the word embedding.
        widths: of the convolution's windows, which share `dim` evenly.
        dropout: on both sides in training.
        standardise: how the image features are scaled, see `layers.standardised`.

    Example:
        >>> import torch
        >>> from seesay.matchers import IRMatch
        >>> matcher = IRMatch(image_dim=6, vocabulary_size=10, dim=12)
        >>> sentences = (torch.tensor([[5, 2, 9], [7, 1, 0]]), torch.tensor([3, 2]))  # padded ids, lengths
        >>> matcher(torch.rand(4, 6), sentences).shape
        torch.Size([4, 2])
    """

    tunable = True

    def __init__(
        self,
        image_dim: PositiveInt,
        vocabulary_size: PositiveInt,
        dim: PositiveInt = 1200,
        word_dim: PositiveInt = 300,
        widths: Widths = (1, 2, 3, 4, 5, 6),
        dropout: Dropout = 0.0,
        standardise: Standardise = False,
    ) -> None:
        super().__init__()
        self.standard = standardised(image_dim, standardise)
        self.image_map = nn.Linear(image_dim, dim)
        self.sentence_cnn = SentenceCNN(vocabulary_size, word_dim, dim, widths)
        self.dropout = nn.Dropout(dropout)

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit vectors by eq. 1, (n, dim)."""
        check_images(images, self.image_map.in_features, self.image_map.weight)
        return unit_vectors(self.image_map(self.dropout(self.standard(images))))

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return unit vectors by eq. 2, (m, dim)."""
        read = read_words(sentences, self.sentence_cnn.embedding.num_embeddings)
        return unit_vectors(self.dropout(self.sentence_cnn(read)))
