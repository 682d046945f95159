"""The probability that an image is a right answer, by its score.

A score becomes a probability by a logistic function (Platt 1999), whose parameters are fitted to queries with
known right answers and stored with the run. Single words have a different function than sentences, because a
right image shows all of what a word says but only most of what a sentence says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from seesay.arrays import Floats
from seesay.errors import SeesayError
from seesay.text.tokens import tokenize
from seesay.text.words import words_or_signs

_ARTICLES = frozenset(("a", "an", "the"))
_TINY = 1e-6
_STEPS = 100  # of Newton's method, which needs about ten
_RIDGE = 1e-3  # keeps the parameters finite where right and wrong answers are separable


class NothingToFitError(SeesayError):
    """A corpus has no answers to fit probabilities to."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic function from scores, raw or standardised, to probabilities.

    Example:
        >>> from seesay.runs.calibration import Calibration
        >>> Calibration(intercept=-1.0, slope=0.5).probabilities([2.0]).tolist()
        [0.5]
    """

    intercept: float
    slope: float

    def log_odds(self, scores: ArrayLike) -> Floats:
        """Return the log-odds that answers with these scores are right."""
        return self.intercept + self.slope * np.asarray(scores, np.float64)

    def probabilities(self, scores: ArrayLike) -> Floats:
        """Return the probabilities that answers with these scores are right."""
        return probability(self.log_odds(scores))

    @classmethod
    def fit(cls, scores: ArrayLike, right: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Fit to answers whose correctness is known, by maximum likelihood with a small ridge penalty.

        `right` and `weights` (by default 1) are those of the answers with these scores, (a,) each. The
        parameters are rounded to four digits.

        Raises:
            NothingToFitError: all answers are right, or all are wrong.
        """
        values, outcomes = np.asarray(scores, np.float64), np.asarray(right, bool).astype(np.float64)
        counts = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
        if outcomes.min(initial=1) >= outcomes.max(initial=0):
            raise NothingToFitError(
                "Fitting probabilities needs both right and wrong answers; one kind is missing."
            )
        rows = np.column_stack([np.ones_like(values), values])
        found = np.zeros(2)
        for _ in range(_STEPS):
            expected = cls(*found).probabilities(values)
            gradient = rows.T @ (counts * (expected - outcomes)) + _RIDGE * found
            curvature = (rows * (counts * expected * (1 - expected))[:, None]).T @ rows + _RIDGE * np.eye(2)
            step = np.linalg.solve(curvature, gradient)
            found -= step / max(1.0, float(np.abs(step).max()))  # long steps may overshoot
            if np.abs(step).max() < _TINY:
                break
        return cls(round(float(found[0]), 4), round(float(found[1]), 4))


def probability(log_odds: ArrayLike) -> Floats:
    """Return probabilities for log-odds.

    >>> probability([-1000.0, 0.0, 1000.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(log_odds, np.float64)))


@dataclass(frozen=True, slots=True)
class ScoreCalibration:
    """Logistic functions from a run's scores to probabilities, for queries of different lengths.

    From one word to ten, without articles, parameters are interpolated by the logarithm of their number,
    between `of_words` and `of_sentences`.

    Example:
        >>> from seesay.runs.calibration import Calibration, ScoreCalibration
        >>> both = ScoreCalibration(Calibration(-5.0, 10.0), Calibration(-10.0, 20.0))
        >>> both.of("dog").probabilities([0.5]), both.of("a dog and a cat on the grass").slope < 20
        (array([0.5]), True)
    """

    of_words: Calibration
    of_sentences: Calibration

    def of(self, *texts: str) -> Calibration:
        """Return the function for a query of these texts."""
        words = [word for text in set(texts) for word in tokenize(text) if word not in _ARTICLES]
        share = float(np.clip(np.log10(max(len(words), 1)), 0, 1))
        short, long = self.of_words, self.of_sentences
        return Calibration(
            (1 - share) * short.intercept + share * long.intercept,
            (1 - share) * short.slope + share * long.slope,
        )


def known_share(sentences: Sequence[str], unknown: Sequence[str]) -> float:
    """Return the share of known words among the distinct words of sentences; 1 without words.

    >>> known_share(["a red xyzzy", "a dog"], ["xyzzy"])
    0.75
    """
    words = {word for sentence in sentences for word in words_or_signs(sentence)}
    return 1 - len(words & set(unknown)) / len(words) if words else 1.0
