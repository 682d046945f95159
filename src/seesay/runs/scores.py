"""The scores of a split's image-sentence pairs, from a run or another source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seesay.metrics.ranks import Ranks, embedding_ranks, ranks, tiled

if TYPE_CHECKING:
    from seesay.runs.inputs import Inputs
    from seesay.runs.run import Run

Matrix = NDArray[Any]  # real numbers, maybe memory-mapped
Selection = slice | NDArray[np.int64]  # of a split's images or sentences
Rows = NDArray[np.int64]


class SplitScores(ABC):
    """How well each image of a split matches each of its sentences."""

    @abstractmethod
    def ranks(self, images: Selection, sentences: Selection, own: Rows) -> Ranks:
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

    def ranks(self, images: Selection, sentences: Selection, own: Rows) -> Ranks:
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

    def ranks(self, images: Selection, sentences: Selection, own: Rows) -> Ranks:
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


class RunScores(SplitScores):
    """The scores of a run, computed when they are needed.

    Args:
        run: an embedding or a pair matcher.
        inputs: the split, prepared for the run.
        keep: cache the scores of a pair matcher, see `Run.score_prepared`.
    """

    def __init__(self, run: Run, inputs: Inputs, keep: bool = False) -> None:
        self._run, self._inputs, self._keep = run, inputs, keep
        self._whole: MatrixScores | EmbeddingScores | None = None

    def whole(self) -> MatrixScores | EmbeddingScores:
        """Return the scores of all pairs, or the embeddings behind them."""
        if self._whole is None:
            self._whole = self._of(self._inputs)
        return self._whole

    def ranks(self, images: Selection, sentences: Selection, own: Rows) -> Ranks:
        """See `SplitScores`; of a fold, a pair matcher scores only the pairs within it."""
        inputs = self._inputs
        if self._run.embeds or self._whole is not None or len(own) == len(inputs.sentences):
            return self.whole().ranks(images, sentences, own)
        read = inputs.sentences.take(np.arange(len(inputs.sentences))[sentences])
        fold = self._of(replace(inputs, features=inputs.features[images], sentences=read))
        return fold.ranks(slice(None), slice(None), own)

    def by_direction(self) -> tuple[Matrix, Matrix]:
        """See `SplitScores`."""
        return self.whole().by_direction()

    def embeddings(self) -> EmbeddingScores | None:
        """See `SplitScores`.

        Raises:
            SeesayError: the run is a pair matcher.
        """
        self._run.dim  # noqa: B018 — raises it, before all pairs are scored
        return self.whole().embeddings()

    def _of(self, inputs: Inputs) -> MatrixScores | EmbeddingScores:
        run, features, sentences = self._run, inputs.features, inputs.sentences
        if not run.embeds:
            return MatrixScores(run.score_prepared(features, sentences, self._keep))
        rows, columns = run.embed_features(features), run.embed_prepared(sentences)
        if not run.asymmetric:
            return EmbeddingScores(rows, columns)
        queries = run.embed_features(features, query=True), run.embed_prepared(sentences, query=True)
        return EmbeddingScores(rows, columns, *queries)


def _products(rows: Matrix, columns: Matrix) -> Matrix:
    precision = np.result_type(rows, columns, np.float32)
    products: Matrix = tiled(rows, precision) @ tiled(columns, precision).T
    return products[: len(rows), : len(columns)]
