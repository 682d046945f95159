"""The scores of a split, whoever gave them: a score matrix, or embeddings whose inner products they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.matchers.base import EmbeddingMatcher
from seesay.metrics.ranks import Ranks, embedding_ranks, ranks
from seesay.protocols.retrieval import Part
from seesay.runs.inputs import Inputs
from seesay.runs.run import Run

Matrix = NDArray[Any]  # real numbers, maybe memory-mapped


class SplitScores(ABC):
    """How well each image of a split matches each of its sentences."""

    @abstractmethod
    def ranks(self, images: Part, sentences: Part, own: NDArray[np.int64]) -> Ranks:
        """The ranks of a part of the split; `own` says for each of its sentences which of its images."""

    @abstractmethod
    def by_direction(self) -> tuple[Matrix, Matrix]:
        """The score matrices (n, m) where images ask and where sentences ask; often one and the same."""


@dataclass(frozen=True)
class MatrixScores(SplitScores):
    """A score matrix (n, m); `asked_by_sentences`, another one for image retrieval, where it is another."""

    scores: Matrix
    asked_by_sentences: Matrix | None = None

    def ranks(self, images: Part, sentences: Part, own: NDArray[np.int64]) -> Ranks:
        """See `SplitScores`."""
        found = ranks(self.scores[images][:, sentences], own)
        if self.asked_by_sentences is None:
            return found
        return Ranks(found.sentence, ranks(self.asked_by_sentences[images][:, sentences], own).image)

    def by_direction(self) -> tuple[Matrix, Matrix]:
        """See `SplitScores`."""
        other = self.asked_by_sentences
        return self.scores, self.scores if other is None else other


@dataclass(frozen=True)
class EmbeddingScores(SplitScores):
    """Vectors of images (n, d) and sentences (m, d); those that ask are others where a matcher has such."""

    images: Matrix
    sentences: Matrix
    asking_images: Matrix | None = None
    asking_sentences: Matrix | None = None

    def ranks(self, images: Part, sentences: Part, own: NDArray[np.int64]) -> Ranks:
        """See `SplitScores`."""
        rows, columns = self.images[images], self.sentences[sentences]
        if self.asking_images is None or self.asking_sentences is None:
            return embedding_ranks(rows, columns, own)
        return Ranks(
            embedding_ranks(self.asking_images[images], columns, own).sentence,
            embedding_ranks(rows, self.asking_sentences[sentences], own).image,
        )

    def by_direction(self) -> tuple[Matrix, Matrix]:
        """See `SplitScores`."""
        if self.asking_images is None or self.asking_sentences is None:
            both = _products(self.images, self.sentences)
            return both, both
        return _products(self.asking_images, self.sentences), _products(self.images, self.asking_sentences)


def scores_of_run(run: Run, inputs: Inputs, keep: bool = False) -> SplitScores:
    """The scores of a run, whose images and sentences are embedded once; `keep` is `Run.scores`'."""
    features = np.asarray(inputs.features)
    if not isinstance(run.matcher, EmbeddingMatcher):
        return MatrixScores(run.scores(features, inputs.sentences, keep))
    rows, columns = run.embed_features(features), run.embed_prepared(inputs.sentences)
    if not run.matcher.asymmetric:
        return EmbeddingScores(rows, columns)
    asking = run.embed_features(features, query=True), run.embed_prepared(inputs.sentences, query=True)
    return EmbeddingScores(rows, columns, *asking)


def _products(rows: Matrix, columns: Matrix) -> Matrix:
    precision = np.result_type(rows, columns, np.float32)
    products: Matrix = np.asarray(rows, precision) @ np.asarray(columns, precision).T
    return products
