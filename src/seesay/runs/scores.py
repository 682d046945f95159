"""The scores of a split's image-sentence pairs, from a run or another source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seesay.metrics.ranks import Ranks, embedding_ranks, ranks
from seesay.progress import Advance
from seesay.runs.onnx_backend import OnnxBackend, inner_products

if TYPE_CHECKING:
    from seesay.runs.inputs import Inputs
    from seesay.runs.run import Run
    from seesay.runs.trained import TorchBackend

Matrix = NDArray[Any]  # real numbers, maybe memory-mapped
Part = slice | NDArray[np.int64]  # of a split's images or sentences
Rows = NDArray[np.int64]

_AT_ONCE = 1 << 13  # pairs between two reports of progress


class SplitScores(ABC):
    """How well each image of a split matches each of its sentences."""

    @abstractmethod
    def ranks(self, images: Part, sentences: Part, own: Rows) -> Ranks:
        """Rank a part of the split; `own` is for each of its sentences the row of its image in the part."""

    @abstractmethod
    def by_direction(self) -> tuple[Matrix, Matrix]:
        """Return the score matrices (n, m) of image queries and of sentence queries; often the same."""

    def pairs(self, images: Rows, sentences: Rows) -> NDArray[np.float64]:
        """Return the scores (p,) of pairs, with the images as queries."""
        return np.asarray(self.by_direction()[0][images, sentences], np.float64)


@dataclass(frozen=True)
class MatrixScores(SplitScores):
    """A score matrix (n, m), and a second one for sentence queries if these score differently."""

    scores: Matrix
    of_sentence_queries: Matrix | None = None

    def ranks(self, images: Part, sentences: Part, own: Rows) -> Ranks:
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

    def ranks(self, images: Part, sentences: Part, own: Rows) -> Ranks:
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

    def pairs(self, images: Rows, sentences: Rows) -> NDArray[np.float64]:
        """See `SplitScores`; the other products are not computed."""
        rows = self.images if self.query_images is None else self.query_images
        return inner_products(rows, self.sentences, images, sentences)


def split_scores(run: Run, inputs: Inputs, keep: bool = False) -> SplitScores:
    """Score a split by a run; with `keep` a pair matcher's scores are cached, see `Run.score_prepared`."""
    if not run.embeds:
        return MatrixScores(run.score_prepared(inputs.features, inputs.sentences, keep))
    rows, columns = run.embed_features(inputs.features), run.embed_prepared(inputs.sentences)
    if not run.asymmetric:
        return EmbeddingScores(rows, columns)
    queries = (
        run.embed_features(inputs.features, query=True),
        run.embed_prepared(inputs.sentences, query=True),
    )
    return EmbeddingScores(rows, columns, *queries)


def score_pairs(
    backend: OnnxBackend | TorchBackend,
    images: Any,
    sentences: Any,
    rows: Rows,
    columns: Rows,
    advance: Advance = lambda _: None,
) -> NDArray[np.floating]:
    """Score pairs (p,), given as rows of a backend's encoded inputs, and report progress."""
    parts = []
    for start in range(0, len(rows), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        parts.append(backend.score_pairs(images, sentences, rows[some], columns[some]))
        advance(len(parts[-1]))
    return np.concatenate(parts)


def _products(rows: Matrix, columns: Matrix) -> Matrix:
    precision = np.result_type(rows, columns, np.float32)
    products: Matrix = np.asarray(rows, precision) @ np.asarray(columns, precision).T
    return products
