"""How probable the best answer of a gallery is, and which answers are sure, perhaps right or probably wrong.

Scores of a run without known answers, such as a CLIP model's, have no calibration. There the best image is
judged by how far it stands out from the gallery, and the others by a mixture of two normal distributions, of
related and unrelated images, fitted by expectation maximisation (Dempster, Laird, Rubin 1977). Prior counts
act as a few more related images at a typical distance above the others, because a gallery may contain any
number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.arrays import Floats
from seesay.runs.calibration import Calibration, probability

FITS = 0.16
"""Probability from which an answer counts as likely. Chosen on the names of 80 kinds of things that 212
photographs of everyday life show, and of 120 that none of them shows: two thirds of the likely answers are
right, and seven of ten absent things have none."""

SURE = 0.5
"""Probability from which the best answer is more often right than not."""

USUAL_UNIT = 0.05
"""Standard deviation of an unrelated sentence's scores over a gallery of which nothing is known."""

_PRIOR_IMAGES = 20  # weight of the priors, as a number of images

# Chosen on the nouns of Flickr8k's val split: images whose sentences have the noun, against the others.
_PRIOR_SHARE = 0.05  # of images that show what is asked for
_PRIOR_DISTANCE, _PRIOR_SPREAD = 2.0, 1.2  # of the scores of these, in units
_LEAST_DISTANCE, _LEAST_SPREAD = 0.75, 0.4  # in units
_SHARES = 0.001, 0.6
_ROUNDS, _CONVERGED = 60, 1e-3  # of expectation maximisation, at most; change of a mean, in units
_LOW, _HIGH, _QUANTILES_APART = 0.1, 0.5, 1.2816  # two quantiles; their distance, in standard deviations

USUAL = Calibration(intercept=-2.64, slope=0.78)
"""For `ScoreMixture.excess`, of runs without a calibration and of sentences in queries with images."""

IMAGES = Calibration(intercept=-5.05, slope=8.63)
"""For queries by image. Scores are rescaled: 0 is the query's mean over the gallery, and 1 is its score with
itself. Fitted to the best answers of seesay-small to 212 photographs of everyday things.
"""


@lru_cache(maxsize=1)
def unrelated_sentences() -> tuple[str, ...]:
    """Return 202 sentences about various things, most of which a gallery does not show."""
    return tuple(Path(__file__).with_name("unrelated.txt").read_text(encoding="utf-8").splitlines())


def usual_unit(scores: NDArray[np.floating]) -> float:
    """Return the typical standard deviation of the scores (n, b) of n images for b sentences.

    >>> round(usual_unit(np.random.default_rng(1).normal(0, 0.1, (2000, 50))), 2)
    0.1
    """
    variance = np.median(np.var(scores, axis=0, dtype=np.float64))
    known = len(scores) * variance + _PRIOR_IMAGES * USUAL_UNIT**2
    return float(np.sqrt(known / (len(scores) + _PRIOR_IMAGES)))


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
        >>> from seesay.search.certainty import ScoreMixture
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
        return cast("Floats", prior + (other - shown) / 2)

    def excess(self, scores: ArrayLike, images: int, unit: float) -> Floats:
        """Return how far scores (k,) exceed the best one expected of that many unrelated images, in units.

        That is the expected maximum of standard normal numbers, approximated as by Cramér (1946, 28.6).
        """
        count = max(images, 3)
        root = np.sqrt(2 * np.log(count))
        best = root - (np.log(np.log(count)) + np.log(4 * np.pi) - 2 * np.euler_gamma) / (2 * root)
        return (np.asarray(scores, np.float64) - self.centre) / unit - float(best)
