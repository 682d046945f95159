"""The scores of images and sentences: matrices, vectors, and the loop that scores all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

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


class Embeddings(NamedTuple):
    """Vectors of images (n, d) and sentences (m, d), whose inner products are their scores."""

    images: Matrix
    sentences: Matrix


@dataclass(frozen=True, eq=False)
class Scores:
    """How well each of n images matches each of m sentences: a matrix (n, m), or embeddings."""

    image_queries: Matrix | Embeddings  # the scores if images are the queries
    sentence_queries: Matrix | Embeddings | None = None  # None if those of sentences are the same

    def ranks(self, images: Selection, sentences: Selection, own: Ints) -> Ranks:
        """Rank a part of the split; `own` is for each of its sentences the row of its image in the part."""

        def part(scores: Matrix | Embeddings) -> Ranks:
            if isinstance(scores, Embeddings):
                return embedding_ranks(scores.images[images], scores.sentences[sentences], own)
            return ranks(scores[images][:, sentences], own)

        found = part(self.image_queries)
        if self.sentence_queries is None:
            return found
        return Ranks(found.sentence, part(self.sentence_queries).image)

    def by_direction(self) -> tuple[Matrix, Matrix]:
        """Return the score matrices (n, m) of image queries and of sentence queries; often the same."""
        of_images = _matrix(self.image_queries)
        return of_images, of_images if self.sentence_queries is None else _matrix(self.sentence_queries)


def _matrix(scores: Matrix | Embeddings) -> Matrix:
    if not isinstance(scores, Embeddings):
        return scores
    precision = np.result_type(*scores, np.float32)
    products: Matrix = tiled(scores.images, precision) @ tiled(scores.sentences, precision).T
    return products[: len(scores.images), : len(scores.sentences)]


def score_all_pairs(
    backend: OnnxBackend | TorchBackend,
    images: Any,
    sentences: Any,
    advance: Advance = lambda _: None,
    block: int = _BLOCK,
) -> NDArray[np.float32]:
    """Score all pairs of encoded images and sentences with a pair matcher, (n, m), in blocks of images.

    `advance` is called with the number of pairs of each block, about `block`; at least one image's.
    """
    scores = np.empty((len(images), len(sentences)), np.float32)
    few = min(max(block // max(len(sentences), 1), 1), _IMAGES)
    for top in range(0, len(images) if len(sentences) else 0, few):
        rows = backend.score_encoded(images[top : top + few], sentences)
        scores[top : top + few] = rows
        advance(rows.size)
    return scores
