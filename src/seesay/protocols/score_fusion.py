"""Ensembles: several score matrices of one split combined into one.

mean     the mean of standardised scores: each matrix less its mean, divided by its standard deviation
learned  the weighted mean, with weights that sum to 1, chosen by mR on val

All weights start equal. Each member's weight in turn is tried from 0 to 1 in steps of 0.05, with the
proportions of the others fixed, and the best is kept, until none improves mR. On val, the ensemble is
therefore never worse than a member.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import JsonValue

from seesay.errors import SeesayError
from seesay.metrics.recall import metrics_of
from seesay.protocols.subject import Matrix, Scores, Subject

Combination = Literal["mean", "learned"]

_STEPS = 20


def check_combination(how: str | None, members: int) -> None:
    """Raise a SeesayError if that many members cannot be combined in this way."""
    if (how is not None) != (members > 1) or how not in (None, *get_args(Combination)):
        raise SeesayError(
            f"combine (--combine): {how} for {members} runs; choose mean or learned for two or more, nothing "
            "for one. Embeddings are one entry, two files IMAGES.npy,SENTENCES.npy or a tuple of two arrays; "
            "to compare two runs, use against (--against)."
        )


def combine(members: Sequence[Subject], how: Combination, val: Sequence[Subject] = ()) -> Subject:
    """Combine several scorings of one split into an ensemble.

    Args:
        members: scorings of the same images and sentences.
        how: "mean" or "learned".
        val: the members' scores on val, on which `learned` chooses weights.

    Returns:
        The split with the ensemble's scores; `about` has `combined`, and `weights` by member.

    Raises:
        SeesayError: the members differ in their images or sentences, or a score is not finite.
    """
    check_same(members)
    first, names = members[0], distinct([member.name for member in members])
    about: dict[str, JsonValue] = {"combined": how}
    notes = list(dict.fromkeys(note for member in members for note in member.notes))
    weights = np.full(len(members), 1 / len(members))
    if how == "learned":
        weights = chosen_weights(val)
        chosen = {name: round(float(weight), 4) for name, weight in zip(names, weights, strict=True)}
        about["weights"] = {**chosen}
        notes.append(f"Weights: {', '.join(f'{name} {weight:.2f}' for name, weight in chosen.items())}.")
    scores = _weighted([_standardised(member) for member in members], weights)
    return Subject(
        f"{how} of {', '.join(names)}", first.split, first.corpus, scores, about, notes, first.whole
    )


def check_same(subjects: Sequence[Subject]) -> None:
    """Raise a SeesayError unless all members score the same images and sentences, in the same order."""
    first = subjects[0]
    for other in subjects[1:]:
        mine, theirs = (([i.name for i in s.corpus.images], s.corpus.sentences) for s in (first, other))
        if mine != theirs:
            counts = " and ".join(f"{len(i)} images with {len(t)} sentences" for i, t in (mine, theirs))
            raise SeesayError(
                f"{first.name} and {other.name}: different images and sentences of split "
                f"'{first.split}' ({counts}): one skipped some."
            )


def distinct(names: Sequence[str]) -> list[str]:
    """Number names that occur more than once.

    >>> distinct(["a", "a", "a (1)"])
    ['a (2)', 'a (3)', 'a (1)']
    """
    taken = {name for name in names if names.count(name) == 1}
    found = list[str]()
    for name in names:
        free = (f"{name} ({number})" for number in count(1))
        found.append(name if name in taken else next(each for each in free if each not in {*taken, *found}))
    return found


def _standardised(subject: Subject) -> list[Matrix]:
    """Scale the matrices of one or both directions to mean 0 and standard deviation 1, constant ones to 0."""
    of_images, of_sentences = subject.scores.by_direction()
    found: list[Matrix] = []
    for matrix in (of_images,) if of_images is of_sentences else (of_images, of_sentences):
        with np.errstate(invalid="ignore"):  # infinities are reported below
            mean, deviation = (float(f(matrix, dtype=np.float64)) for f in (np.mean, np.std))
        if not np.isfinite([mean, deviation]).all():
            raise SeesayError(
                f"{subject.name}: a score is NaN or infinite; only finite ones can be combined."
            )
        # Integers and doubles may be so far from zero that single precision has no decimals.
        wide = matrix.dtype.kind != "f" or matrix.dtype.itemsize > 4
        scaled = np.subtract(matrix, mean, dtype=np.float64 if wide else np.float32)
        scaled /= deviation or 1.0
        found.append(scaled.astype(np.float32, copy=False))
    return found


def _weighted(members: Sequence[Sequence[Matrix]], weights: ArrayLike) -> Scores:
    """Return the weighted sums of the members' matrices of one or both directions."""
    sums = []
    for way in range(max(map(len, members))):
        total = np.zeros_like(members[0][0])
        for weight, matrices in zip(np.asarray(weights, np.float32), members, strict=True):
            total += weight * matrices[min(way, len(matrices) - 1)]
        sums.append(total)
    return Scores(*sums)


def chosen_weights(val: Sequence[Subject]) -> NDArray[np.float64]:
    """Find the weights of the k members, (k,), on val; see the module's docstring."""
    check_same(val)
    matrices = [_standardised(member) for member in val]

    def mean_recall(shares: NDArray[np.float64]) -> float:
        found = _weighted(matrices, shares).ranks(slice(None), slice(None), val[0].owners)
        return round(metrics_of(found)["mR"], 3)

    best = np.full(len(val), 1 / len(val))
    highest, before = mean_recall(best), -1.0
    while highest > before:
        before = highest
        for member in range(len(val)):
            for step in range(_STEPS + 1):
                others = np.delete(best, member)
                if not others.any():  # the others' proportions are fixed, or equal if all were zero
                    others = np.ones_like(others)
                share = step / _STEPS
                shares = np.insert(others * (1 - share) / others.sum(), member, share)
                if (found := mean_recall(shares)) > highest:
                    best, highest = shares, found
    return best
