"""Re-ranking: each query's shortlist by an embedding, ordered by another run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.metrics.ranks import Ranks, owners_of, ranks
from seesay.progress import progress
from seesay.protocols.base import Options, Protocol, Result, of_part
from seesay.protocols.subject import RunSubject, Subject
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.run import Run, check_one_score
from seesay.runs.scores import EmbeddingScores, Matrix, Selection, SplitScores

# Scores (p,) of p pairs, given as their images' and their sentences' rows, (p,) each.
ScorePairs = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.floating]]

_CELLS = 1 << 22  # scores from which shortlists are taken at a time


def measure_reranked(
    run: Run,
    other: Run,
    corpus: Corpus,
    split: str,
    protocol: Protocol,
    shortlist: int,
    options: Options,
) -> Result:
    """Measure an embedding run on a split, with the `shortlist` best of each query re-ranked by `other`.

    The result also has the metrics of the embedding alone, and in `about` the gain in mR and the cost.

    Raises:
        SeesayError: `run` has no embedding, a run does not take whole images, or the protocol does not
            measure retrieval.
    """
    if "shortlist" not in protocol.identity:
        raise SeesayError(
            f"protocol '{protocol.name}': re-ranking is measured by retrieval protocols, such as standard."
        )
    for each in (run, other):
        check_one_score(each)
    inputs, others = _both_inputs(run, other, corpus, split)

    started = time.perf_counter()
    alone_subject = RunSubject(run, inputs, split, corpus)
    alone = protocol.measure(alone_subject, Options(at=options.at))
    embedded = time.perf_counter() - started

    reranked = RerankedScores(alone_subject.embeddings(), other, others, shortlist)
    result = protocol.measure(Subject(run.title, split, inputs.corpus, reranked, whole=corpus), options)
    queries = len(inputs.features) + len(inputs.sentences)
    gain = round((result.metrics["mR"] or 0.0) - (alone.metrics["mR"] or 0.0), 3)
    embedding_ms, rerank_ms = (round(1e3 * each / queries, 3) for each in (embedded, reranked.seconds))
    about = {
        "shortlist": shortlist,
        "pairs": reranked.scored,
        "gain": gain,
        "embedding ms": embedding_ms,
        "re-ranking ms": rerank_ms,
    }
    notes = [
        f"Re-ranked: the best {shortlist} of each query, {reranked.scored:,} pairs; mR {gain:+.1f}.",
        "Once images have their features, a query takes on average "
        f"{embedding_ms:.2f} ms by the embedding, and {rerank_ms:.2f} ms more to be re-ranked.",
    ]
    return result.model_copy(
        update={
            "about": result.about | about,
            "metrics": of_part(f"{run.recipe.name} alone", alone.metrics) | result.metrics,
            "notes": alone_subject.notes + result.notes + notes,
        }
    )


class RerankedScores(SplitScores):
    """Embeddings whose shortlists another run re-ranks; each image and sentence is encoded once.

    Attributes:
        scored: the number of scored pairs.
        seconds: the time for encoding and scoring.
    """

    def __init__(self, embeddings: EmbeddingScores, other: Run, inputs: Inputs, shortlist: int) -> None:
        started = time.perf_counter()
        self._embeddings, self._shortlist = embeddings, shortlist
        self._backend = other.backend
        self._images = self._backend.encode_images(inputs.features, query=True)
        self._sentences = self._backend.encode_sentences(inputs.sentences)
        self.scored = 0
        self.seconds = time.perf_counter() - started

    def ranks(self, images: Selection, sentences: Selection, own: NDArray[np.int64]) -> Ranks:
        """See `SplitScores`."""
        scores = self._embeddings.images[images] @ self._embeddings.sentences[sentences].T
        rows, columns = np.arange(len(self._images))[images], np.arange(len(self._sentences))[sentences]
        n, m = scores.shape
        pairs = n * min(self._shortlist, m) + m * min(self._shortlist, n)
        with progress("Re-ranking", pairs, "pairs") as advance:

            def score(i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.floating]:
                started = time.perf_counter()
                both = self._images, self._sentences
                found = self._backend.score_pairs(*both, rows[i], columns[j], advance)
                self.scored += len(found)
                self.seconds += time.perf_counter() - started
                return found

            return reranked_ranks(scores, own, score, self._shortlist)

    def by_direction(self) -> tuple[Matrix, Matrix]:
        """See `SplitScores`.

        Raises:
            SeesayError: always; candidates outside the shortlist have no comparable score.
        """
        raise SeesayError("Re-ranked results have ranks, but no scores of all pairs.")


def _both_inputs(run: Run, other: Run, corpus: Corpus, split: str) -> tuple[Inputs, Inputs]:
    if corpus.has_boxes:
        raise SeesayError(f"{corpus.root}: contains phrases; re-ranking is for whole images and sentences.")
    inputs, others = (
        split_inputs(each.recipe, corpus, split, each.vocabulary, each.sentence_encoder)
        for each in (run, other)
    )
    if [i.name for i in inputs.corpus.images] != [i.name for i in others.corpus.images]:
        raise SeesayError(f"{run.name} and {other.name}: measured on different images of {corpus.root}.")
    return inputs, others


def reranked_ranks(
    scores: ArrayLike, image_of_sentence: ArrayLike, score_pairs: ScorePairs, shortlist: int
) -> Ranks:
    """Rank in both directions after each query's best candidates are re-ordered by another score.

    A right answer that the shortlist misses keeps its rank. Ties count against the query, in either score:
    among equal candidates the right ones enter the shortlist last.

    Args:
        scores: (n_images, n_sentences), floats of at most 32 bits that determine the shortlists.
        image_of_sentence: (n_sentences,), for each sentence the row of its image.
        score_pairs: the other score.
        shortlist: the number of candidates of each query that are re-ordered.

    Raises:
        SeesayError: see `ranks`; or a pair's score is NaN.
    """
    matrix = np.asarray(scores)
    before = ranks(matrix, image_of_sentence)
    owners = owners_of(image_of_sentence, *matrix.shape)
    rows = np.arange(len(matrix))
    return Ranks(
        _reranked(matrix, rows, owners, before.sentence, score_pairs, shortlist),
        _reranked(matrix.T, owners, rows, before.image, lambda s, i: score_pairs(i, s), shortlist),
    )


def _reranked(
    scores: NDArray[Any],
    query_owner: NDArray[np.int64],
    candidate_owner: NDArray[np.int64],
    before: NDArray[np.int64],
    score_pairs: ScorePairs,
    shortlist: int,
) -> NDArray[np.int64]:
    """Return the ranks (q,) after the shortlists of scores (q, c) are re-ranked; `before` are the old ranks.

    A candidate is right if its owner is the query's.
    """
    after = before.copy()
    step = max(1, _CELLS // scores.shape[1])
    for start in range(0, len(scores), step):
        stop = min(start + step, len(scores))
        right = query_owner[start:stop, None] == candidate_owner
        chosen = shortlists(scores[start:stop], right, shortlist)
        queries = np.repeat(np.arange(start, stop), chosen.shape[1])
        found = score_pairs(queries, chosen.ravel()).reshape(chosen.shape)
        if np.isnan(found).any():
            raise SeesayError("A score is NaN; check the weights.")
        own = np.take_along_axis(right, chosen, axis=1)
        best = np.where(own, found, -np.inf).max(axis=1, keepdims=True)
        ahead = ((found >= best) & ~own).sum(axis=1)
        after[start:stop] = np.where(own.any(axis=1), ahead, before[start:stop])
    return after


def shortlists(scores: NDArray[Any], right: NDArray[np.bool_], length: int) -> NDArray[np.int64]:
    """Find each query's best candidates, unordered, (q, length) or (q, c); right ones lose ties."""
    count = scores.shape[1]
    if length >= count:
        return np.tile(np.arange(count), (len(scores), 1))
    exact = scores.astype(np.float64)
    # Right answers lose one step of double precision: they come after candidates that are equal in single
    # precision, and before all lower ones.
    exact[right] = np.nextafter(exact[right], -np.inf)
    best: NDArray[np.int64] = np.argpartition(exact, count - length, axis=1)[:, count - length :]
    return best
