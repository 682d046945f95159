"""SCO (Huang, Wu, Song, Wang, CVPR 2018): concepts and context, fused, in the space of a sentence LSTM.

The image vector is also made to generate the matching sentence while training, so that it learns the
order of the concepts (section 3.3.2); see `decoder.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher
from seesay.matchers.decoder import Decoder, Written
from seesay.matchers.sentences import Sentences
from seesay.matchers.two_branch import WordLSTM
from seesay.recipes.matchers import ScoSettings


class GatedFusion(nn.Module):
    """The gated fusion unit, eq. 2: v = t ⊙ ‖W_l p‖₂ + (1 - t) ⊙ ‖W_g x‖₂ with t = σ(U_l p + U_g x).

    `sum` adds the two instead, and where there is only one of them it is all. Context x and concept
    scores p are brought to unit length first.

    Args:
        kind: as in `ScoSettings`.
        parts: widths of the image's arrays; the last is the concept scores, where `kind` takes them.
        dim: H.
    """

    def __init__(self, kind: str, parts: Sequence[int], dim: int) -> None:
        super().__init__()
        concepts = 0 if kind == "context" else parts[-1]
        self.context_dim = sum(parts) - concepts
        if kind in ("gate", "sum") and not self.context_dim:
            raise SeesayError(
                f"matcher.fusion: '{kind}' joins context and concepts; name their encoders, that of the "
                "concepts last, or take 'context' or 'concepts' alone."
            )
        self.context = _matrix(self.context_dim, dim) if kind != "concepts" else None
        self.concepts = _matrix(concepts, dim) if concepts else None
        self.context_gate = _matrix(self.context_dim, dim) if kind == "gate" else None
        self.concept_gate = _matrix(concepts, dim) if kind == "gate" else None

    def forward(self, images: Tensor) -> Tensor:
        """Image vectors v, (n, H), from joined arrays (n, d)."""
        x = functional.normalize(images[:, : self.context_dim], dim=1)
        p = functional.normalize(images[:, self.context_dim :], dim=1)
        if self.concepts is None:
            return _unit(self.context, x)
        if self.context is None:
            return _unit(self.concepts, p)
        concepts, context = _unit(self.concepts, p), _unit(self.context, x)
        if self.context_gate is None or self.concept_gate is None:
            return concepts + context
        gate = torch.sigmoid(self.concept_gate(p) + self.context_gate(x))
        return gate * concepts + (1 - gate) * context


class SCO(EmbeddingMatcher):
    """The score is the cosine of image vector v and sentence vector s, the LSTM's state behind the last word.

    Args:
        settings: of the recipe.
        image_parts: widths of the image's arrays; the last is the concept scores, where fusion takes them.
        words: rows of the vocabulary.
    """

    def __init__(self, settings: ScoSettings, image_parts: Sequence[int], words: int) -> None:
        super().__init__()
        self.max_length, self.generation = settings.max_length, settings.generation
        # Named so that a run on features given as files finds their width.
        self.image_map = GatedFusion(settings.fusion, image_parts, settings.dim)
        shared = self.generation is not None and self.generation.shared
        self.reader = WordLSTM(words + 1 if shared else words, settings.word_dim, settings.dim)
        self.decoder = Decoder(words, settings.word_dim, settings.dim) if self.generation else None
        self.written_words = None
        if self.generation is not None and not shared:
            self.written_words = nn.Embedding(words + 1, settings.word_dim)
            nn.init.uniform_(self.written_words.weight, -0.1, 0.1)

    def embed_images(self, images: Tensor) -> Tensor:
        """Unit image vectors, (n, H): v, or the vector of the sentence that v generates (ctx + sen)."""
        vectors: Tensor = self.image_map(images)
        if self.generation is not None and self.generation.role == "sentence":
            decoder, table = self._decoder()
            return self.embed_sentences(decoder.greedy(vectors, table, self.max_length))
        return functional.normalize(vectors, dim=1)

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        """Unit sentence vectors, (m, H)."""
        return functional.normalize(self.reader(cut(sentences, self.max_length)), dim=1)

    def generation_loss(self, images: Tensor, sentences: Sentences, passed: float) -> Tensor:
        """λ·L_gen of eq. 4 for images and sentences side by side, a mean over the pairs as L_mat is.

        Args:
            images: joined arrays, (m, d).
            sentences: m.
            passed: how much of training is over, from 0 to 1: scheduled sampling grows with it.
        """
        decoder, table = self._decoder()
        assert self.generation is not None
        sampling = self.generation.sampling * passed
        loss = decoder.loss(self.image_map(images), cut(sentences, self.max_length), table, sampling)
        return self.generation.weight * loss

    def write(self, images: Tensor, beam: int, count: int) -> list[list[Written]]:
        """For each image, (n, d), its `count` likeliest sentences: word numbers and log-likelihood.

        Raises:
            SeesayError: the matcher has no decoder.
        """
        decoder, table = self._decoder()
        with torch.inference_mode():
            vectors = self.image_map(images)
            return [decoder.beam_search(v, table, max(beam, count), count, self.max_length) for v in vectors]

    def _decoder(self) -> tuple[Decoder, Tensor]:
        if self.decoder is None:
            raise SeesayError("this matcher has no decoder: its recipe has no matcher.generation.")
        own = self.written_words
        return self.decoder, self.reader.embedding.weight if own is None else own.weight


def cut(sentences: Sentences, max_length: int) -> Sentences:
    """The sentences without what stands behind their first `max_length` words."""
    lengths = sentences.lengths
    if not (lengths > max_length).any():
        return sentences
    starts = torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
    kept = torch.arange(len(sentences.words), device=lengths.device) - starts < max_length
    return Sentences(sentences.words[kept], lengths.clamp(max=max_length), sentences.vectors)


def _matrix(width: int, dim: int) -> nn.Linear:
    """W or U of eq. 2: no bias is printed."""
    matrix = nn.Linear(width, dim, bias=False)
    nn.init.xavier_uniform_(matrix.weight)
    return matrix


def _unit(matrix: nn.Linear | None, vectors: Tensor) -> Tensor:
    assert matrix is not None
    return functional.normalize(matrix(vectors), dim=1)
