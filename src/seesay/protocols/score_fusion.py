"""Ensembles: several score matrices of one split put together to one.

mean     the mean of standardised scores: each matrix less its mean, by its standard deviation
rank     reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): a candidate's score is the sum of
         1 / (60 + its rank) over the members' rankings of a query's candidates, ranks counted from one
learned  the mean with weights: shares of one, chosen on val by mR

The shares start equal; each member's in turn is tried from 0 to 1 in steps of 0.05, the others keeping
their proportions, and the best stays, until no share gains any more. One member alone is among what is tried,
so on val nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError
from seesay.metrics.ranks import Ranks, ranks
from seesay.protocols.retrieval import Part, evaluate_folds, protocol_named
from seesay.protocols.scored import Scored
from seesay.runs.split_scores import Matrix, MatrixScores, SplitScores

MEAN, RANK, LEARNED = COMBINATIONS = ("mean", "rank", "learned")

_CONSTANT = 60  # of reciprocal rank fusion, as published
_STEPS = 20
_CELLS = 1 << 22  # scores ranked at a time


def check_combination(how: str | None, members: int) -> None:
    """See that so many members can be put together that way.

    Raises:
        SeesayError: they cannot.
    """
    if how is not None and how not in COMBINATIONS:
        raise SeesayError(f"--combine {how}: there are {', '.join(COMBINATIONS)}.")
    if how is None and members > 1:
        raise SeesayError(
            f"{members} runs: name how to put them together, --combine mean, rank or learned. Two files of "
            "embeddings are one RUN, IMAGES.npy,SENTENCES.npy; to compare two runs there is --against."
        )
    if how is not None and members < 2:
        raise SeesayError(f"--combine {how}: name two runs or more to put together.")


def combine(members: Sequence[Scored], how: str, val: Sequence[Scored] = ()) -> Scored:
    """The ensemble of several scorings of one split.

    Args:
        members: of the same images and sentences.
        how: one of COMBINATIONS.
        val: the members' scores of val, which `learned` chooses weights by.

    Returns:
        The split as the ensemble scores it; `about` says `combined`, and `weights` by member.

    Raises:
        SeesayError: the members differ in their images or sentences, or a score is not finite.
    """
    check_same(members)
    first, names = members[0], distinct([member.name for member in members])
    about: dict[str, Any] = {"combined": how}
    scores: SplitScores
    if how == RANK:
        scores = ReciprocalRanks([member.scores.by_direction() for member in members])
    else:
        weights = np.full(len(members), 1 / len(members))
        if how == LEARNED:
            weights = chosen_weights(val)
            about["weights"] = {name: round(float(w), 4) for name, w in zip(names, weights, strict=True)}
        scores = weighted([standardised(member) for member in members], weights)
    if notes := [note for member in members for note in member.about.get("notes", ())]:
        about["notes"] = notes
    return Scored(f"{how} of {', '.join(names)}", first.split, first.corpus, scores, about)


def check_same(scored: Sequence[Scored]) -> None:
    """See that all score the same images and sentences, in the same order.

    Raises:
        SeesayError: two do not.
    """
    first = scored[0]
    for other in scored[1:]:
        mine, theirs = (([i.name for i in s.corpus.images], s.corpus.sentences) for s in (first, other))
        if mine != theirs:
            counts = " and ".join(f"{len(i)} images with {len(t)} sentences" for i, t in (mine, theirs))
            raise SeesayError(
                f"{first.name} and {other.name}: not of the same images and sentences of split "
                f"'{first.split}' ({counts}): one left some out."
            )


def distinct(names: Sequence[str]) -> list[str]:
    """The names, numbered where one stands twice."""
    return [
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]


def standardised(scored: Scored) -> tuple[Matrix, Matrix]:
    """The score matrices of both directions, with mean 0 and standard deviation 1; a constant one is 0.

    Raises:
        SeesayError: a score is not finite.
    """
    asked = scored.scores.by_direction()
    done = [
        _standardised(matrix, scored.name) for matrix in (asked if asked[0] is not asked[1] else asked[:1])
    ]
    return done[0], done[-1]


def _standardised(matrix: Matrix, name: str) -> NDArray[np.float32]:
    with np.errstate(invalid="ignore"):  # infinities are reported below
        mean, deviation = float(np.mean(matrix, dtype=np.float64)), float(np.std(matrix, dtype=np.float64))
    if not np.isfinite([mean, deviation]).all():
        raise SeesayError(f"{name}: a score is NaN or infinite; only finite ones can be put together.")
    scaled = np.subtract(matrix, mean, dtype=np.float32)
    scaled /= deviation or 1.0
    return scaled


def weighted(members: Sequence[tuple[Matrix, Matrix]], weights: ArrayLike) -> MatrixScores:
    """The weighted sum of the members' matrices of both directions."""
    chosen = [(w, pair) for w, pair in zip(np.asarray(weights, np.float32), members, strict=True) if w]
    sums = []
    for way in (0, 1):
        total = np.zeros_like(members[0][way])
        for weight, pair in chosen:
            total += weight * pair[way]
        sums.append(total)
        if all(pair[0] is pair[1] for _, pair in chosen):
            return MatrixScores(total)
    return MatrixScores(*sums)


def chosen_weights(val: Sequence[Scored]) -> NDArray[np.float64]:
    """The members' shares, (k,), that have the highest mR on val; how they are found stands above."""
    check_same(val)
    matrices = [standardised(member) for member in val]
    owners, n = val[0].owners, len(val[0].corpus.images)

    def mean_recall(shares: NDArray[np.float64]) -> float:
        scores = weighted(matrices, shares)
        return float(evaluate_folds(scores.ranks, owners, n, protocol_named("standard"), "val")["mR"])

    best = np.full(len(val), 1 / len(val))
    highest, before = mean_recall(best), -1.0
    while highest > before:
        before = highest
        for member in range(len(val)):
            for step in range(_STEPS + 1):
                shares = _with_share(best, member, step / _STEPS)
                if (found := mean_recall(shares)) > highest:
                    best, highest = shares, found
    return best


def _with_share(shares: NDArray[np.float64], member: int, share: float) -> NDArray[np.float64]:
    """One member's share set, the others' in their proportions; equal ones where they had nothing."""
    others = np.delete(shares, member)
    if not others.any():
        others = np.ones_like(others)
    return np.insert(others * (1 - share) / others.sum(), member, share)


@dataclass(frozen=True)
class ReciprocalRanks(SplitScores):
    """Reciprocal rank fusion of the rankings by several members' score matrices of both directions.

    The rankings are of the candidates of the part that is asked for. Equal scores have the rank of the last
    of them, so that a member that tells nothing apart adds nothing.
    """

    members: Sequence[tuple[Matrix, Matrix]]

    def ranks(self, images: Part, sentences: Part, own: NDArray[np.int64]) -> Ranks:
        """See `SplitScores`."""
        by_image = fused([asked[images][:, sentences] for asked, _ in self.members])
        found = ranks(by_image, own).sentence
        del by_image  # before there is another as large
        by_sentence = fused([asked[images][:, sentences].T for _, asked in self.members])
        return Ranks(found, ranks(by_sentence.T, own).image)

    def by_direction(self) -> tuple[Matrix, Matrix]:
        """See `SplitScores`."""
        by_sentence = fused([asked.T for _, asked in self.members])
        return fused([asked for asked, _ in self.members]), by_sentence.T


def fused(rankings: Sequence[Matrix]) -> NDArray[np.float64]:
    """The sum of `reciprocal_ranks` of several scores of the same queries and candidates."""
    total = reciprocal_ranks(rankings[0])
    for scores in rankings[1:]:
        total += reciprocal_ranks(scores)
    return np.round(total, 12, out=total)  # the same ranks in another order are added to a tie


def reciprocal_ranks(scores: Matrix) -> NDArray[np.float64]:
    """1 / (60 + rank) of each candidate (column) for each query (row), ranks counted from one.

    Raises:
        SeesayError: a score is NaN.
    """
    found = np.empty(scores.shape)
    step = max(1, _CELLS // scores.shape[1])
    for start in range(0, len(scores), step):
        block = np.asarray(scores[start : start + step])
        if block.dtype.kind == "f" and np.isnan(block).any():
            raise SeesayError("score matrix: a score is NaN; ranks of it would mean nothing.")
        found[start : start + step] = 1 / (_CONSTANT + _last_ranks(block))
    return found


def _last_ranks(block: Matrix) -> NDArray[np.int64]:
    """The rank of each score in its row, from one for the highest; equal ones have that of their last."""
    order = np.argsort(block, axis=1)  # the lowest first
    rising = np.take_along_axis(block, order, axis=1)
    n = block.shape[1]
    starts = np.ones(block.shape, bool)
    starts[:, 1:] = rising[:, 1:] != rising[:, :-1]
    lowest = np.maximum.accumulate(np.where(starts, np.arange(n), 0), axis=1)
    ranked = np.empty(block.shape, np.int64)
    np.put_along_axis(ranked, order, n - lowest, axis=1)
    return ranked
