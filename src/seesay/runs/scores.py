"""The scores of images and sentences: matrices, vectors, and the loop that scores all pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Ints
from seesay.metrics.ranks import Ranks, embedding_ranks, ranks, tiled
from seesay.progress import Advance

if TYPE_CHECKING:
    from seesay.runs.onnx_backend import OnnxBackend
    from seesay.runs.trained import TorchBackend

Matrix = NDArray[Any]  # real numbers, maybe memory-mapped
Selection = slice | NDArray[np.int64]  # of a split's images or sentences

_BLOCK = 1 << 17  # pairs that are scored at a time, roughly
_IMAGES = 256  # in a block, at most: a sentence is scored with all of them at once, at all its positions


class SplitScores(ABC):
    """How well each image of a split matches each of its sentences."""

    @abstractmethod
    def ranks(self, images: Selection, sentences: Selection, own: Ints) -> Ranks:
        """Rank a part of the split; `own` is for each of its sentences the row of its image in the part."""

    @abstractmethod
    def by_direction(self) -> tuple[Matrix, Matrix]:
        """Return the score matrices (n, m) of image queries and of sentence queries; often the same."""

    def embeddings(self) -> EmbeddingScores | None:
        """Return the embeddings behind the scores; None if there are none."""
        return None


@dataclass(frozen=True)
class MatrixScores(SplitScores):
    """A score matrix (n, m), and a second one for sentence queries if these score differently."""

    scores: Matrix
    of_sentence_queries: Matrix | None = None

    def ranks(self, images: Selection, sentences: Selection, own: Ints) -> Ranks:
        """See `SplitScores`."""
        found = ranks(self.scores[images][:, sentences], own)
        if self.of_sentence_queries is None:
            return found
        return Ranks(found.sentence, ranks(self.of_sentence_queries[images][:, sentences], own).image)

    def by_direction(self) -> tuple[Matrix, Matrix]:
        """See `SplitScores`."""
        other = self.of_sentence_queries
        return self.scores, self.scores if other is None else other


@dataclass(frozen=True)
class EmbeddingScores(SplitScores):
    """Vectors of images (n, d) and sentences (m, d), and of queries if these are embedded differently."""

    images: Matrix
    sentences: Matrix
    query_images: Matrix | None = None
    query_sentences: Matrix | None = None

    def ranks(self, images: Selection, sentences: Selection, own: Ints) -> Ranks:
        """See `SplitScores`."""
        rows, columns = self.images[images], self.sentences[sentences]
        if self.query_images is None or self.query_sentences is None:
            return embedding_ranks(rows, columns, own)
        return Ranks(
            embedding_ranks(self.query_images[images], columns, own).sentence,
            embedding_ranks(rows, self.query_sentences[sentences], own).image,
        )

    def by_direction(self) -> tuple[Matrix, Matrix]:
        """See `SplitScores`."""
        if self.query_images is None or self.query_sentences is None:
            both = _products(self.images, self.sentences)
            return both, both
        return _products(self.query_images, self.sentences), _products(self.images, self.query_sentences)

    def embeddings(self) -> EmbeddingScores:
        """See `SplitScores`."""
        return self


def _products(rows: Matrix, columns: Matrix) -> Matrix:
    precision = np.result_type(rows, columns, np.float32)
    products: Matrix = tiled(rows, precision) @ tiled(columns, precision).T
    return products[: len(rows), : len(columns)]


def score_all_pairs(
    backend: OnnxBackend | TorchBackend,
    images: Any,
    sentences: Any,
    advance: Advance = lambda _: None,
    block: int = _BLOCK,
) -> NDArray[np.float32]:
    """Score all pairs with a pair matcher, (n, m), in blocks of images.

    Args:
        backend: of the pair matcher.
        images: output of its `encode_images`, n rows.
        sentences: output of its `encode_sentences`, m rows.
        advance: called with the number of pairs of each block.
        block: pairs at a time; at least one image's are scored.
    """
    scores = np.empty((len(images), len(sentences)), np.float32)
    few = min(max(block // max(len(sentences), 1), 1), _IMAGES)
    for top in range(0, len(images) if len(sentences) else 0, few):
        rows = backend.score_encoded(images[top : top + few], sentences)
        scores[top : top + few] = rows
        advance(rows.size)
    return scores
