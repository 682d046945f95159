"""The scores of a split's images and sentences: a matrix, or vectors whose inner products they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Ints
from seesay.metrics.ranks import Ranks, embedding_ranks, ranks, tiled

Matrix: TypeAlias = NDArray[Any]  # real numbers, maybe memory-mapped
Selection: TypeAlias = slice | NDArray[np.int64]  # of a split's images or sentences


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
