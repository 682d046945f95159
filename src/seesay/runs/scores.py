"""The scores of a split's image-sentence pairs, computed by a run or read from elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seesay.metrics.ranks import Ranks, embedding_ranks, ranks
from seesay.paths import cache_dir
from seesay.progress import Advance

if TYPE_CHECKING:
    from torch import Tensor

    from seesay.matchers.base import PairMatcher
    from seesay.matchers.sentences import Sentences
    from seesay.matchers.settings import MatcherSettings
    from seesay.runs.inputs import Inputs
    from seesay.runs.run import Run

Matrix = NDArray[Any]  # real numbers, maybe memory-mapped
Part = slice | NDArray[np.int64]  # of a split's images or sentences
Rows = NDArray[np.int64]

_ENCODED = 512  # images or sentences encoded at a time
_PAIRS = 1 << 10  # pairs scored at a time: each carries a copy of both sides


class SplitScores(ABC):
    """How well each image of a split matches each of its sentences."""

    @abstractmethod
    def ranks(self, images: Part, sentences: Part, own: Rows) -> Ranks:
        """Rank a part of the split; `own` is for each of its sentences the row of its image in the part."""

    @abstractmethod
    def by_direction(self) -> tuple[Matrix, Matrix]:
        """Return the score matrices (n, m) of image queries and of sentence queries; often the same."""

    def pairs(self, images: Rows, sentences: Rows) -> NDArray[np.float64]:
        """Return the scores (p,) of those pairs, the images being the queries."""
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
    """Vectors of images (n, d) and sentences (m, d), and of queries, if these are embedded differently."""

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
        parts = [
            np.einsum("pd,pd->p", rows[i].astype(np.float64), self.sentences[j].astype(np.float64))
            for i, j in _split(images, sentences)
        ]
        return np.concatenate(parts)


def split_scores(run: Run, inputs: Inputs, keep: bool = False) -> SplitScores:
    """Score a split by a run; see `score_matrix` for `keep`."""
    from seesay.matchers.base import EmbeddingMatcher

    features = np.asarray(inputs.features)
    if not isinstance(run.matcher, EmbeddingMatcher):
        return MatrixScores(score_matrix(run, features, inputs.sentences, keep))
    rows, columns = run.embed_features(features), run.embed_prepared(inputs.sentences)
    if not run.matcher.asymmetric:
        return EmbeddingScores(rows, columns)
    queries = run.embed_features(features, query=True), run.embed_prepared(inputs.sentences, query=True)
    return EmbeddingScores(rows, columns, *queries)


def score_matrix(
    run: Run, features: NDArray[np.float32], sentences: Sentences, keep: bool = False
) -> NDArray[np.float32]:
    """Score all pairs of images, given as joined features (n, d), and m sentences by a run, (n, m).

    Args:
        run: the run.
        features: (n, d).
        sentences: m prepared sentences.
        keep: for a pair matcher, show progress and cache the rows, so that a stopped scoring resumes. An
            ensemble caches its members' matrices, and finds those of members that were scored alone.
    """
    from seesay.matchers.base import PairMatcher
    from seesay.matchers.composed import Ensemble, EnsembleSettings
    from seesay.runs.all_pairs import score_all_pairs

    matcher = run.matcher
    if not isinstance(matcher, PairMatcher):
        return run.embed_features(features) @ run.embed_prepared(sentences).T
    if not len(features) or not len(sentences):
        return np.zeros((len(features), len(sentences)), np.float32)
    if not keep:
        encoded = _encoded_images(run, matcher, features), _encoded_sentences(run, matcher, sentences)
        return score_all_pairs(matcher, *encoded).numpy()
    settings = run.recipe.matcher
    if isinstance(matcher, Ensemble) and isinstance(settings, EnsembleSettings):
        members = zip(matcher.pair_matchers(), settings.matchers, strict=True)
        return reduce(np.add, (_kept(run, *member, features, sentences) for member in members))
    return _kept(run, matcher, settings, features, sentences)


class PairScorer:
    """Scores single pairs by a run, each image and sentence encoded once; images are the queries."""

    def __init__(self, run: Run) -> None:
        from seesay.matchers.base import PairMatcher

        self._run = run
        self._matcher = run.matcher if isinstance(run.matcher, PairMatcher) else None

    def encode_images(self, features: NDArray[np.float32]) -> Tensor:
        """Encode images, given as joined features (n, d)."""
        import torch

        if self._matcher is not None:
            return _encoded_images(self._run, self._matcher, features)
        return torch.from_numpy(self._run.embed_features(features, query=True))

    def encode_sentences(self, sentences: Sentences) -> Tensor:
        """Encode prepared sentences."""
        import torch

        if self._matcher is not None:
            return _encoded_sentences(self._run, self._matcher, sentences)
        return torch.from_numpy(self._run.embed_prepared(sentences))

    def score(
        self,
        images: Tensor,
        sentences: Tensor,
        rows: Rows,
        columns: Rows,
        advance: Advance = lambda _: None,
    ) -> NDArray[np.floating]:
        """Score the pairs (p,) of those rows of encoded images and of encoded sentences."""
        import torch

        if self._matcher is None:
            advance(len(rows))
            return EmbeddingScores(images.numpy(), sentences.numpy()).pairs(rows, columns)
        parts = []
        with torch.inference_mode():
            for i, j in _split(rows, columns):
                mine, theirs = (torch.from_numpy(some).to(images.device) for some in (i, j))
                scores = self._matcher.score_pairs(images[mine], sentences[theirs])
                parts.append(scores.float().cpu().numpy())
                advance(len(i))
        return np.concatenate(parts)


def _kept(
    run: Run,
    matcher: PairMatcher,
    settings: MatcherSettings,
    features: NDArray[np.float32],
    sentences: Sentences,
) -> NDArray[np.float32]:
    """Score by the run's matcher or a member of it, reading the rows that are cached."""
    from seesay.runs.all_pairs import resume_all_pairs
    from seesay.runs.score_file import matrix_name

    name = matrix_name(_origin(run, matcher, settings, features, sentences))
    images, texts = _encoded_images(run, matcher, features), _encoded_sentences(run, matcher, sentences)
    return resume_all_pairs(matcher, images, texts, cache_dir() / "scores" / name)


def _origin(
    run: Run,
    matcher: PairMatcher,
    settings: MatcherSettings,
    features: NDArray[np.float32],
    sentences: Sentences,
) -> Iterator[str | NDArray[Any]]:
    """Iterate over everything that a score matrix depends on."""
    yield f"{run.device.partition(':')[0]} {settings!r}"  # one GPU finds what another computed
    for key, weights in matcher.state_dict().items():
        yield from (key, weights.cpu().numpy())
    yield features
    yield from (part.numpy() for part in (sentences.words, sentences.lengths, sentences.vectors))


def _encoded_images(run: Run, matcher: PairMatcher, features: NDArray[np.float32]) -> Tensor:
    import torch

    with torch.inference_mode():
        parts = torch.split(torch.from_numpy(features), _ENCODED)
        return torch.cat([matcher.encode_images(part.to(run.device)) for part in parts])


def _encoded_sentences(run: Run, matcher: PairMatcher, sentences: Sentences) -> Tensor:
    import torch

    with torch.inference_mode():
        batches = torch.split(torch.arange(len(sentences)), _ENCODED)
        return torch.cat([matcher.encode_sentences(sentences.take(b).to(run.device)) for b in batches])


def _products(rows: Matrix, columns: Matrix) -> Matrix:
    precision = np.result_type(rows, columns, np.float32)
    products: Matrix = np.asarray(rows, precision) @ np.asarray(columns, precision).T
    return products


def _split(rows: Rows, columns: Rows) -> Iterator[tuple[Rows, Rows]]:
    count = max(1, -(-len(rows) // _PAIRS))
    return zip(np.array_split(rows, count), np.array_split(columns, count), strict=True)
