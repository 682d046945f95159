"""The probability that an image is a right answer.

A score becomes a probability by a logistic function (Platt 1999), whose parameters are fitted to queries with
known right answers and stored with the run. Single words have a different function than sentences, because a
right image shows all of what a word says but only most of what a sentence says.

Scores of a run without known answers, such as a CLIP model's, have no such function. There the best image is
judged by how far it stands out from the gallery, and the others by a mixture of two normal distributions, of
related and unrelated images, fitted by expectation maximisation (Dempster, Laird, Rubin 1977). Prior counts
act as a few more related images at a typical distance above the others, because a gallery may contain any
number of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.arrays import Floats
from seesay.errors import SeesayError
from seesay.text.tokens import tokenize

FITS = 0.16
"""Probability from which an answer counts as likely. Chosen on the names of 80 kinds of things that 212
photographs of everyday life show, and of 120 that none of them shows: two thirds of the likely answers are
right, and seven of ten absent things have none."""

SURE = 0.5
"""Probability from which the best answer is more often right than not."""

USUAL_UNIT = 0.05
"""Standard deviation of an unrelated sentence's scores over a gallery of which nothing is known."""

_PRIOR_IMAGES = 20  # weight of the priors, as a number of images
_UNRELATED = Path(__file__).with_name("unrelated.txt")
_ARTICLES = frozenset(("a", "an", "the"))
_TINY = 1e-6
_STEPS = 100  # of Newton's method, which needs about ten
_RIDGE = 1e-3  # keeps the parameters finite where right and wrong answers are separable

# Chosen on the nouns of Flickr8k's val split: images whose sentences have the noun, against the others.
_PRIOR_SHARE = 0.05  # of images that show what is asked for
_PRIOR_DISTANCE, _PRIOR_SPREAD = 2.0, 1.2  # of the scores of these, in units
_LEAST_DISTANCE, _LEAST_SPREAD = 0.75, 0.4  # in units
_SHARES = 0.001, 0.6
_ROUNDS, _CONVERGED = 60, 1e-3  # of expectation maximisation, at most; change of a mean, in units
_LOW, _HIGH, _QUANTILES_APART = 0.1, 0.5, 1.2816  # two quantiles; their distance, in standard deviations


@lru_cache(maxsize=1)
def unrelated_sentences() -> tuple[str, ...]:
    """Return 202 sentences about various things, most of which a gallery does not show."""
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
        values: Floats = self.intercept + self.slope * np.asarray(scores, np.float64)
        return values

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
    values: Floats = 0.5 * (1.0 + np.tanh(0.5 * np.asarray(log_odds, np.float64)))
    return values


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


USUAL = Calibration(intercept=-2.64, slope=0.78)
"""For `ScoreMixture.excess`, of runs without a calibration and of sentences in queries with images."""

IMAGES = Calibration(intercept=-5.05, slope=8.63)
"""For queries by image. Scores are rescaled: 0 is the query's mean over the gallery, and 1 is its score with
itself. Fitted to the best answers of seesay-small to 212 photographs of everyday things.
"""


def known_share(sentences: Sequence[str], unknown: Sequence[str]) -> float:
    """Return the share of known words among the distinct words of sentences; 1 without words.

    >>> known_share(["a red xyzzy", "a dog"], ["xyzzy"])
    0.75
    """
    from seesay.text.words import words_or_signs

    words = {word for sentence in sentences for word in words_or_signs(sentence)}
    return 1 - len(words & set(unknown)) / len(words) if words else 1.0


def best_is_right(log_odds: float, standing: float, images: int) -> float:
    """Return the probability that the best answer of a whole gallery is right.

    The more images there are, the more probable is the best of those that show something else, so it also
    counts how far the best score stands out, and of how many. Fitted to seesay-small's best answers to the
    names of 80 things that photographs show and of 120 things that none of them shows, in galleries of 30 to
    212 of these photographs.

    Args:
        log_odds: of the best image, judged by its own score.
        standing: its score less the gallery's mean, in standard deviations of the gallery's scores.
        images: of the gallery.

    Example:
        >>> round(best_is_right(2.0, 4.0, 200), 2), round(best_is_right(2.0, 4.0, 20_000), 2)
        (0.68, 0.27)
    """
    return float(probability(0.625 * log_odds + 0.415 * standing - 0.379 * np.log(images) - 0.169))


@dataclass(frozen=True, slots=True)
class ScoreMixture:
    """Two normal distributions of a query's scores: of unrelated images, and of related (`right_`) ones.

    Example:
        >>> import numpy as np
        >>> from seesay.runs.calibration import ScoreMixture
        >>> draw = np.random.default_rng(1)
        >>> scores = np.concatenate([draw.normal(0.1, 0.05, 900), draw.normal(0.4, 0.05, 100)])
        >>> mixture = ScoreMixture.fit(scores, unit=0.05)
        >>> round(float(mixture.share), 2), (mixture.log_odds([0.1, 0.4]) > 0).tolist()
        (0.1, [False, True])
    """

    centre: float  # mean
    spread: float  # standard deviation
    right_centre: float
    right_spread: float
    share: float  # of related images

    @classmethod
    def fit(cls, scores: ArrayLike, unit: float) -> Self:
        """Fit to the scores (n,) of one image or more; the `unit` of the priors, see `usual_unit`."""
        values = np.asarray(scores, np.float64)
        # The lower half of the scores locates unrelated images, even if the upper half is of related ones.
        low, middle, high = np.quantile(values, [_LOW, _HIGH - _LOW, _HIGH])
        fitted = cls(
            middle,
            max((high - low) / _QUANTILES_APART, _LEAST_SPREAD * unit),
            middle + _PRIOR_DISTANCE * unit,
            _PRIOR_SPREAD * unit,
            _PRIOR_SHARE,
        )
        for _ in range(_ROUNDS):
            former, fitted = fitted, fitted._improved(values, unit)
            if abs(fitted.right_centre - former.right_centre) < _CONVERGED * unit:
                break
        return fitted

    def _improved(self, scores: Floats, unit: float) -> Self:
        """Perform one step of expectation maximisation."""
        shown = np.where(scores < self.centre, 0.0, probability(self._log_ratio(scores)))
        others = 1 - shown
        rest, weight = max(others.sum(), 1.0), shown.sum() + _PRIOR_IMAGES
        centre = (others * scores).sum() / rest
        spread = np.sqrt((others * np.square(scores - centre)).sum() / rest)
        right = ((shown * scores).sum() + _PRIOR_IMAGES * (centre + _PRIOR_DISTANCE * unit)) / weight
        right = max(right, centre + _LEAST_DISTANCE * unit)
        squares = (shown * np.square(scores - right)).sum()
        right_spread = np.sqrt((squares + _PRIOR_IMAGES * (_PRIOR_SPREAD * unit) ** 2) / weight)
        share = (shown.sum() + _PRIOR_IMAGES * _PRIOR_SHARE) / (len(scores) + _PRIOR_IMAGES)
        return type(self)(
            centre, max(spread, _LEAST_SPREAD * unit), right, right_spread, np.clip(share, *_SHARES)
        )

    def log_odds(self, scores: ArrayLike) -> Floats:
        """Return the log-odds (k,) that images with scores (k,) are related to the query.

        Unlike the ratio of two normal densities, they never fall with rising scores: below the centre and
        above the highest ratio they are constant.
        """
        sharper = self.spread**2 - self.right_spread**2
        above = self.right_spread**2 * (self.right_centre - self.centre)
        highest = self.right_centre + (above / sharper if sharper > 0 else np.inf)
        return self._log_ratio(np.clip(np.asarray(scores, np.float64), self.centre, highest))

    def _log_ratio(self, scores: Floats) -> Floats:
        shown = np.square((scores - self.right_centre) / self.right_spread)
        other = np.square((scores - self.centre) / self.spread)
        prior = np.log(self.share / (1 - self.share)) + np.log(self.spread / self.right_spread)
        ratio: Floats = prior + (other - shown) / 2
        return ratio

    def excess(self, scores: ArrayLike, images: int, unit: float) -> Floats:
        """Return how far scores (k,) exceed the best one expected of that many unrelated images, in units.

        That is the expected maximum of standard normal numbers, approximated as by Cramér (1946, 28.6).
        """
        count = max(images, 3)
        root = np.sqrt(2 * np.log(count))
        best = root - (np.log(np.log(count)) + np.log(4 * np.pi) - 2 * np.euler_gamma) / (2 * root)
        result: Floats = (np.asarray(scores, np.float64) - self.centre) / unit - float(best)
        return result
