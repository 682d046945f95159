"""The probability that an image is a right answer.

A score becomes a probability by a logistic function (Platt 1999), whose parameters are fitted to queries with
known right answers and stored with the run. A single word has another function than a sentence, since a right
image has all of what a word says and only most of what a sentence says.

Scores of a run without known answers, such as a CLIP model's, have no such function. There the best image is
judged by how far it stands out of the gallery, and the others by a mixture (`seesay.runs.mixture`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError
from seesay.text.vocabulary import tokenize

FITS = 0.1
"""The line between likely and less likely answers. Of names of things that photographs show, one in sixteen
has no answer above it; of names of things that none of them shows, nearly half have some."""

USUAL_UNIT = 0.05
"""Standard deviation over a gallery of the scores of an unrelated sentence, where nothing is known of it."""

_PRIOR_IMAGES = 20  # that this counts as, beside the gallery's own
_UNRELATED = Path(__file__).with_name("unrelated.txt")
_ARTICLES = frozenset(("a", "an", "the"))
_TINY = 1e-6
_STEPS = 100  # of Newton's method, which needs about ten
_RIDGE = 1e-3  # keeps the parameters finite where right and wrong answers are separable

Floats = NDArray[np.float64]


@lru_cache(maxsize=1)
def unrelated_sentences() -> tuple[str, ...]:
    """Return 200 sentences about various things, most of which a gallery does not show."""
    return tuple(_UNRELATED.read_text(encoding="utf-8").splitlines())


def usual_unit(scores: NDArray[np.floating]) -> float:
    """Return the typical standard deviation of the scores (n, b) of n images for b sentences.

    >>> round(usual_unit(np.random.default_rng(1).normal(0, 0.1, (2000, 50))), 2)
    0.1
    """
    variance = np.median(np.var(scores, axis=0, dtype=np.float64))
    known = len(scores) * variance + _PRIOR_IMAGES * USUAL_UNIT**2
    return float(np.sqrt(known / (len(scores) + _PRIOR_IMAGES)))


class NothingToFitError(SeesayError):
    """A corpus has no answers to fit probabilities to."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic function from standardised scores to probabilities.

    Example:
        >>> from seesay.runs.calibration import Calibration
        >>> Calibration(intercept=-1.0, slope=0.5).probabilities([2.0]).tolist()
        [0.5]
    """

    intercept: float
    slope: float

    def log_odds(self, standardised: ArrayLike) -> Floats:
        """Return the log-odds that answers with standardised scores are right."""
        values: Floats = self.intercept + self.slope * np.asarray(standardised, np.float64)
        return values

    def probabilities(self, standardised: ArrayLike) -> Floats:
        """Return the probabilities that answers with standardised scores are right."""
        return probability(self.log_odds(standardised))

    @classmethod
    def fit(cls, standardised: ArrayLike, right: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Fit to answers whose correctness is known, by maximum likelihood.

        Args:
            standardised: (a,).
            right: (a,), true for right answers.
            weights: (a,), of the answers; 1 by default.

        Raises:
            NothingToFitError: all answers are right, or all are wrong.
        """
        values, outcomes = np.asarray(standardised, np.float64), np.asarray(right, bool).astype(np.float64)
        counts = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
        if outcomes.min(initial=1) == outcomes.max(initial=0):
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
        return cls(float(found[0]), float(found[1]))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Create a calibration from stored parameters; raise a ValueError if one is not finite."""
        calibration = cls(float(values["intercept"]), float(values["slope"]))
        if not np.isfinite([calibration.intercept, calibration.slope]).all():
            raise ValueError("a parameter of the calibration is not finite")
        return calibration

    def rounded(self) -> Self:
        """Round the parameters to four digits, as runs store them."""
        return type(self)(round(self.intercept, 4), round(self.slope, 4))


def probability(log_odds: ArrayLike) -> Floats:
    """Return probabilities for log-odds.

    >>> probability([-1000.0, 0.0, 1000.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    values: Floats = 0.5 * (1.0 + np.tanh(0.5 * np.asarray(log_odds, np.float64)))
    return values


@dataclass(frozen=True, slots=True)
class ScoreCalibration:
    """Logistic functions from a run's scores to probabilities, between which the number of words decides.

    Attributes:
        of_words: for queries of a single word.
        of_sentences: for queries of ten words or more.

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
        words = [word for text in texts for word in tokenize(text) if word not in _ARTICLES]
        share = float(np.clip(np.log10(max(len(words), 1)), 0, 1))
        short, long = self.of_words, self.of_sentences
        return Calibration(
            (1 - share) * short.intercept + share * long.intercept,
            (1 - share) * short.slope + share * long.slope,
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make one of what a run stores; raise a ValueError if a parameter is not finite."""
        return cls(*(Calibration.from_dict(values[name]) for name in ("of_words", "of_sentences")))

    def rounded(self) -> Self:
        """Round the parameters, see `Calibration.rounded`."""
        return type(self)(self.of_words.rounded(), self.of_sentences.rounded())


USUAL = Calibration(intercept=-2.64, slope=0.78)
"""Of how far the best image stands out, for runs without a calibration of their own."""

IMAGES = Calibration(intercept=-6.23, slope=13.43)
"""For queries by image. A score counts from the query's mean over the gallery, and the image's score with
itself is 1. Fitted to Flickr8k's val split and to 212 other photographs; single parts of seesay-small's
vectors, whose scores differ, give nearly the same two numbers.
"""


def known_share(sentences: Sequence[str], unknown: Sequence[str]) -> float:
    """Return the share of known words among the distinct words of sentences; 1 without words.

    >>> known_share(["a red xyzzy", "a dog"], ["xyzzy"])
    0.75
    """
    from seesay.text.words import words_or_signs

    words = {word for sentence in sentences for word in words_or_signs(sentence)}
    return 1 - len(words & set(unknown)) / len(words) if words else 1.0
