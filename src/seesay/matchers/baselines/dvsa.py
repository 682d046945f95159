"""DVSA (Karpathy, Fei-Fei 2015): each word of a sentence is aligned with its best region.

    v_i = W_m a_i + b_m                                                    regions     (eq. 1)
    e_t = f(W_e x_t + b_e),   h_t = f(W_d (h_t^f + h_t^b) + b_d)           words       (eq. 2-6)
    h_t^f = f(e_t + W_f h_(t-1)^f + b_f),   h_t^b = f(e_t + W_b h_(t+1)^b + b_b)
    score = Σ_t max_i v_i·h_t                                                          (eq. 8)

f is the rectifier, and x_t a word vector that is not learned. Here the regions are the encoder's instances,
including the whole image: normalised square roots, as in GVSE. What the paper leaves open: W_f and W_b are
initialised as orthogonal matrices, the others as proposed by Glorot and Bengio 2010, and biases as 0; unknown
words have zero vectors; dropout is applied to a_i and e_t.
"""

from __future__ import annotations

import torch
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from seesay.matchers.base import PairMatcher, Pretrained, check_images
from seesay.matchers.layers import (
    instance_width,
    missing_instances,
    normalised_instances,
    pretrained_words,
    xavier,
)
from seesay.matchers.sentences import (
    Sentences,
    SentencesLike,
    WordVectors,
    read_words,
    word_width,
)
from seesay.matchers.settings import register_matcher
from seesay.settings import Dropout

_WORDS = 256  # compared with all regions at a time


class BRNN(nn.Module):
    """The bidirectional recurrent network over words, eq. 2-6; most arguments are those of `DVSA`."""

    def __init__(self, vocabulary_size: int, dim: int, hidden: int, dropout: float, word_dim: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, word_dim)
        nn.init.zeros_(self.embedding.weight)
        self.embedding.weight.requires_grad_(False)
        self.word_map = xavier(word_dim, hidden)
        self.dropout = nn.Dropout(dropout)
        self.ahead, self.back = (_recurrent(hidden) for _ in range(2))
        self.output = xavier(hidden, dim)

    def forward(self, sentences: Sentences, max_length: int) -> Tensor:
        """Return h_t of each word, (m, max_length, dim); zeros after the last word."""
        if torch.onnx.is_in_onnx_export():
            longest = max_length  # the loops over positions are unrolled
        else:
            longest = int(sentences.lengths.max()) if len(sentences) else 1
        places = torch.arange(longest, device=sentences.lengths.device)
        there = places < sentences.lengths[:, None]
        padded = self.embedding.weight.new_zeros(*there.shape, self.embedding.embedding_dim)
        padded[there] = self.embedding(sentences.words)
        e = self.dropout(functional.relu(self.word_map(padded)))
        # After the last word, the backward state stays at its initial 0.
        e, mask = e.unbind(dim=1), there[:, :, None].to(e.dtype).unbind(dim=1)
        ahead = _states(e, self.ahead, mask)
        back = _states(e[::-1], self.back, mask[::-1])[::-1]
        states = torch.stack([f + b for f, b in zip(ahead, back, strict=True)], dim=1)
        h = functional.relu(self.output(states)) * there[:, :, None]
        return functional.pad(h, (0, 0, 0, max_length - h.shape[1]))


@register_matcher("dvsa")
class DVSA(PairMatcher):
    """The score is the sum over words of the product with their best region.

    Args:
        image_dim: width of the joined instances.
        vocabulary_size: rows of the word embedding.
        instances: the number of regions of an image; regions of zeros are padding.
        dim: width of the space of regions and words.
        hidden: width of the recurrent states.
        max_length: the number of words of a sentence that are read.
        dropout: on regions and words in training.
        word_vectors: the vectors x_t: "glove", "minilm", or a text file of word2vec or GloVe.
        word_dim: the width of the word vectors, required for a file.

    Raises:
        SeesayError: the features cannot be divided into that many instances.

    Example:
        >>> import torch
        >>> from seesay.matchers import DVSA
        >>> matcher = DVSA(image_dim=3 * 6, vocabulary_size=10, instances=3, dim=16, hidden=8)
        >>> sentences = (torch.tensor([[5, 2, 9], [7, 1, 0]]), torch.tensor([3, 2]))  # padded ids, lengths
        >>> matcher(torch.rand(4, 3 * 6), sentences).shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        image_dim: PositiveInt,
        vocabulary_size: PositiveInt,
        instances: PositiveInt = 36,
        dim: PositiveInt = 1000,
        hidden: PositiveInt = 300,
        max_length: PositiveInt = 30,
        dropout: Dropout = 0.0,
        word_vectors: WordVectors = "glove",
        word_dim: PositiveInt | None = None,
    ) -> None:
        super().__init__()
        self.image_dim, self.instances, self.max_length = image_dim, instances, max_length
        self.image_map = xavier(instance_width(image_dim, instances), dim)
        self.dropout = nn.Dropout(dropout)
        self.word_vectors = word_vectors
        self.reader = BRNN(vocabulary_size, dim, hidden, dropout, word_width(word_vectors, word_dim))

    def prepare(self, pretrained: Pretrained) -> None:
        """Set the pretrained vectors of the words, which are not trained."""
        words = self.reader.embedding
        words.weight[1:], _ = pretrained_words(pretrained, self.word_vectors, words.embedding_dim)

    def encode_images(self, images: Tensor) -> Tensor:
        """Return the regions v_i, (n, instances, dim); padding is replaced by the first region."""
        check_images(images, self.image_dim)
        regions = normalised_instances(images, self.instances, self.image_map.weight.dtype)
        first = regions[:, :1].expand_as(regions)
        vectors: Tensor = self.image_map(
            self.dropout(torch.where(missing_instances(regions)[:, :, None], first, regions))
        )
        return vectors

    def encode_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return the words h_t, (m, max_length, dim); zeros after the last, which add nothing to scores."""
        read = read_words(sentences, self.reader.embedding.num_embeddings)
        vectors: Tensor = self.reader(read.truncated(self.max_length), self.max_length)
        return vectors

    def score_encoded(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return the score matrix (n, m), computed for some words of all sentences at a time."""
        words = sentences.flatten(0, 1)
        there = words.any(dim=1).nonzero()[:, 0]
        regions = images.flatten(0, 1).T
        best = [
            (words[some] @ regions).view(len(some), *images.shape[:2]).amax(dim=2)
            for some in torch.split(there, _WORDS)
        ]
        scores = images.new_zeros(len(sentences), len(images), dtype=torch.float32)
        return scores.index_add(0, there // sentences.shape[1], torch.cat(best).float()).T

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return the scores (n,) of n encoded images, each with one of n encoded sentences."""
        return torch.bmm(sentences, images.transpose(1, 2)).amax(dim=2).float().sum(dim=1)


def _recurrent(width: int) -> nn.Linear:
    layer = nn.Linear(width, width)
    nn.init.orthogonal_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _states(inputs: tuple[Tensor, ...], layer: nn.Linear, mask: tuple[Tensor, ...]) -> list[Tensor]:
    """Return the states (m, width) after each input, in order."""
    state, states = torch.zeros_like(inputs[0]), []
    for each, there in zip(inputs, mask, strict=True):
        state = functional.relu(each + layer(state)) * there
        states.append(state)
    return states
