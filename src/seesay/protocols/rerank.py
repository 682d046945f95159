"""What re-ranking gains and costs: each query's shortlist by an embedding, put in order by another run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from seesay.data.corpus import Corpus
from seesay.data.phrases import PhraseCorpus
from seesay.errors import SeesayError
from seesay.matchers.base import PairMatcher
from seesay.metrics.bootstrap import RESAMPLES
from seesay.metrics.ranks import Ranks, owners_of, ranks
from seesay.progress import Advance, progress
from seesay.protocols.measure import provenance
from seesay.protocols.retrieval import (
    PROTOCOLS,
    Part,
    evaluate_embeddings,
    evaluate_folds,
    protocol_named,
)
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.run import Run, check_one_score

# Scores (p,) of p pairs, given as their images' and their sentences' rows, (p,) each.
ScorePairs = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float32]]

_CELLS = 1 << 22  # scores of which shortlists are taken at a time
_ENCODED = 512  # images or sentences encoded at a time
_PAIRS = 1 << 10  # pairs scored at a time: each carries a copy of both sides


def measure_reranked(
    run: Run, other: Run, corpus: Corpus | PhraseCorpus, split: str, protocol: str, shortlist: int
) -> dict[str, Any]:
    """An embedding run on a split, each query's `shortlist` best re-ranked by the run `other`.

    Returns:
        What `evaluate_scores` gives of the re-ranked answers, with `intervals`, and: `shortlist`; under
        `baselines` the same of the embedding alone; `gain` in mR; `cost`, the pairs scored and the
        milliseconds a query of either run, image features at hand.

    Raises:
        SeesayError: `run` has no embedding, a run does not take whole images, or the protocol is another's.
    """
    if protocol not in PROTOCOLS:
        raise SeesayError(
            f"protocol '{protocol}': what re-ranking gains is measured by {', '.join(PROTOCOLS)}."
        )
    for each in (run, other):
        check_one_score(each)
    inputs, theirs = _both_inputs(run, other, corpus, split)
    owners = inputs.image_of_sentence

    started = time.perf_counter()
    images = run.embed_features(np.asarray(inputs.features))
    sentences = run.embed_prepared(inputs.sentences)
    alone = evaluate_embeddings(images, sentences, owners, protocol, split)
    embedded = time.perf_counter() - started

    pairs = EncodedPairs(other, theirs)

    def fold(of_images: Part, of_sentences: Part, own: NDArray[np.int64]) -> Ranks:
        scores = images[of_images] @ sentences[of_sentences].T
        n, m = scores.shape
        with progress("Re-ranking", n * min(shortlist, m) + m * min(shortlist, n), "pairs") as advance:
            score_pairs = pairs.within(of_images, of_sentences, advance)
            return reranked_ranks(scores, own, score_pairs, shortlist)

    result = evaluate_folds(fold, owners, len(images), protocol_named(protocol), split, RESAMPLES)
    queries = len(images) + len(sentences)
    return result | {
        "shortlist": shortlist,
        "baselines": {f"{run.recipe.name} alone": alone},
        "gain": round(result["mR"] - alone["mR"], 3),
        "cost": {
            "pairs": pairs.scored,
            "embedding_ms": round(1e3 * embedded / queries, 3),
            "rerank_ms": round(1e3 * pairs.seconds / queries, 3),
        },
    }


def _both_inputs(run: Run, other: Run, corpus: Corpus | PhraseCorpus, split: str) -> tuple[Inputs, Inputs]:
    if isinstance(corpus, PhraseCorpus):
        raise SeesayError(f"{corpus.root}: holds phrases; re-ranking is of whole images and sentences.")
    inputs, theirs = (
        split_inputs(each.recipe, corpus, split, each.vocabulary, each.sentence_encoder)
        for each in (run, other)
    )
    mine, others = ([image.name for image in each.corpus.images] for each in (inputs, theirs))
    if mine != others:
        raise SeesayError(f"{run.name} and {other.name}: not of the same images of {corpus.root}.")
    return inputs, theirs


def reranked_ranks(
    scores: ArrayLike, image_of_sentence: ArrayLike, score_pairs: ScorePairs, shortlist: int
) -> Ranks:
    """Ranks in both directions, once each query's best candidates are put in order by another score.

    A right answer that the shortlist misses keeps its rank. Ties count against the query, in either score:
    among equal candidates the right ones enter the shortlist last.

    Args:
        scores: (n_images, n_sentences), those that the shortlists are taken by; floats of 32 bits at most.
        image_of_sentence: (n_sentences,), for each sentence the row of its image.
        score_pairs: the other score.
        shortlist: how many candidates of each query are put in order.

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
    """New ranks (q,) of queries whose candidates score (q, c); equal owners belong together."""
    after = before.copy()
    step = max(1, _CELLS // scores.shape[1])
    for start in range(0, len(scores), step):
        stop = min(start + step, len(scores))
        right = query_owner[start:stop, None] == candidate_owner
        chosen = shortlists(scores[start:stop], right, shortlist)
        queries = np.repeat(np.arange(start, stop), chosen.shape[1])
        found = score_pairs(queries, chosen.ravel()).reshape(chosen.shape)
        if np.isnan(found).any():
            raise SeesayError("A pair's score is NaN; ranks of it would mean nothing. Check the weights.")
        own = np.take_along_axis(right, chosen, axis=1)
        best = np.where(own, found, -np.inf).max(axis=1, keepdims=True)
        ahead = ((found >= best) & ~own).sum(axis=1)
        after[start:stop] = np.where(own.any(axis=1), ahead, before[start:stop])
    return after


def shortlists(scores: NDArray[Any], right: NDArray[np.bool_], length: int) -> NDArray[np.int64]:
    """Each query's best candidates, in no order: (q, length) from scores (q, c); right ones lose ties."""
    count = scores.shape[1]
    if length >= count:
        return np.tile(np.arange(count), (len(scores), 1))
    exact = scores.astype(np.float64)
    # One step of double precision: behind whatever is equal in single, ahead of all the rest.
    exact[right] = np.nextafter(exact[right], -np.inf)
    best: NDArray[np.int64] = np.argpartition(exact, count - length, axis=1)[:, count - length :]
    return best


class EncodedPairs:
    """A run's scores of single pairs of a split, whose images and sentences are encoded once.

    Attributes:
        scored: how many pairs were scored.
        seconds: what encoding and scoring took.
    """

    def __init__(self, run: Run, inputs: Inputs) -> None:
        started = time.perf_counter()
        self._matcher = run.matcher
        self._images, self._sentences = _encoded(run, inputs)
        self.scored = 0
        self.seconds = time.perf_counter() - started

    def within(self, images: Part, sentences: Part, advance: Advance = lambda _: None) -> ScorePairs:
        """The scores of pairs among these images and these sentences, each numbered from zero."""
        rows = np.arange(len(self._images))[images]
        columns = np.arange(len(self._sentences))[sentences]
        return lambda i, j: self.score(rows[i], columns[j], advance)

    @torch.inference_mode()
    def score(
        self, images: NDArray[np.int64], sentences: NDArray[np.int64], advance: Advance
    ) -> NDArray[np.float32]:
        """Scores (p,) of the pairs of those images and sentences, (p,) each."""
        started = time.perf_counter()
        pairs = torch.from_numpy(np.stack([images, sentences])).to(self._images.device)
        parts = []
        for first, second in torch.split(pairs, _PAIRS, dim=1):
            parts.append(self._score(self._images[first], self._sentences[second]))
            advance(len(first))
        scores: NDArray[np.float32] = torch.cat(parts).cpu().numpy()
        self.scored += len(scores)
        self.seconds += time.perf_counter() - started
        return scores

    def _score(self, images: Tensor, sentences: Tensor) -> Tensor:
        if isinstance(self._matcher, PairMatcher):
            return self._matcher.score_pairs(images, sentences)
        return (images * sentences).sum(dim=1)


@torch.inference_mode()
def _encoded(run: Run, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """What pairs need of a split's images and sentences; of an embedding, the vectors."""
    matcher, sentences = run.matcher, inputs.sentences
    if not isinstance(matcher, PairMatcher):
        images = run.embed_features(np.asarray(inputs.features))
        return torch.from_numpy(images), torch.from_numpy(run.embed_prepared(sentences))
    looked = [matcher.encode_images(part.to(run.device)) for part in torch.split(inputs.features, _ENCODED)]
    order = torch.split(torch.arange(len(sentences)), _ENCODED)
    read = [matcher.encode_sentences(sentences.take(rows).to(run.device)) for rows in order]
    return torch.cat(looked), torch.cat(read)


def reranked_provenance(run: Run, other: Run, seconds: float, commit: str | None) -> dict[str, Any]:
    """As `provenance`, of both runs: `first > second` where they differ, and the re-ranking one's seed."""
    first, second = provenance(run, seconds, commit), provenance(other, seconds, commit)
    named = {key: f"{first[key]} > {second[key]}" for key in ("recipe", "encoder", "crops")}
    named |= {key: first[key] for key in ("encoder", "crops") if first[key] == second[key]}
    joined = {key: list(dict.fromkeys(first[key] + second[key])) for key in ("changes", "departures")}
    return second | joined | named | {"system": named["recipe"]}
