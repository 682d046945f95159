"""How probable answers are: mixtures of scores, against a plain computation, and the best answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture

from seesay.search.certainty import USUAL_UNIT, ScoreMixture, best_is_right, unrelated_sentences, usual_unit

UNIT = 0.06


def gallery(
    share: float, distance: float = 4.0, n: int = 1000, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    shown = np.arange(n) < share * n
    scores = draw.normal(0.1, UNIT, n) + shown * distance * UNIT
    return scores, shown


@pytest.mark.parametrize("share", [0.002, 0.02, 0.1, 0.25, 0.45])
def test_right_images_are_above_even_odds_be_they_frequent_or_rare(share: float) -> None:
    scores, shown = gallery(share, distance=6.0)
    found = ScoreMixture.fit(scores, UNIT).log_odds(scores) > 0
    assert found[shown].mean() > 0.9
    assert shown[found].mean() > 0.9


@pytest.mark.parametrize("n", [50, 1000, 5000])
def test_what_the_gallery_does_not_show_leaves_the_centre_in_place(n: int) -> None:
    scores, _ = gallery(0.0, n=n)
    mixture = ScoreMixture.fit(scores, UNIT)
    assert float(mixture.centre) == pytest.approx(0.1, abs=0.4 * UNIT)
    assert (mixture.log_odds(scores) > 0).mean() < 0.03


def test_many_images_outweigh_the_prior_counts() -> None:
    scores, _ = gallery(0.3, n=20_000)
    mixture = ScoreMixture.fit(scores, UNIT)
    reference = GaussianMixture(2, means_init=[[0.1], [0.34]], tol=1e-6).fit(scores[:, None])
    [centre, right], [spread, right_spread] = reference.means_[:, 0], np.sqrt(reference.covariances_[:, 0, 0])
    assert float(mixture.centre) == pytest.approx(centre, abs=0.003)
    assert float(mixture.right_centre) == pytest.approx(right, abs=0.003)
    assert float(mixture.spread) == pytest.approx(spread, rel=0.05)
    assert float(mixture.right_spread) == pytest.approx(right_spread, rel=0.05)
    assert float(mixture.share) == pytest.approx(reference.weights_[1], abs=0.01)


def test_log_odds_are_those_of_two_normal_distributions() -> None:
    mixture = ScoreMixture.fit(gallery(0.2)[0], UNIT)
    score = float(mixture.centre + 0.4 * (mixture.right_centre - mixture.centre))

    def density(mean: np.ndarray, deviation: np.ndarray) -> float:
        return math.exp(-0.5 * ((score - float(mean)) / float(deviation)) ** 2) / float(deviation)

    shown = float(mixture.share) * density(mixture.right_centre, mixture.right_spread)
    other = (1 - float(mixture.share)) * density(mixture.centre, mixture.spread)
    assert float(mixture.log_odds(score)) == pytest.approx(math.log(shown / other))


@settings(max_examples=50)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=60))
def test_log_odds_never_fall_as_the_score_rises(scores: list[float]) -> None:
    odds = ScoreMixture.fit(scores, UNIT).log_odds(np.linspace(-2, 2, 401))
    assert np.isfinite(odds).all()
    assert (np.diff(odds) >= -1e-9).all()


@pytest.mark.parametrize(("scale", "shift"), [(0.01, 0.0), (30.0, -4.0)])
def test_scores_have_no_unit_of_their_own(scale: float, shift: float) -> None:
    scores, _ = gallery(0.1)
    odds = ScoreMixture.fit(scores, UNIT).log_odds(scores)
    moved = ScoreMixture.fit(scale * scores + shift, scale * UNIT).log_odds(scale * scores + shift)
    np.testing.assert_allclose(moved, odds, atol=1e-6)


def test_the_unit_is_the_spread_of_a_usual_sentence() -> None:
    draw = np.random.default_rng(0)
    spreads = draw.uniform(0.05, 0.15, 101)
    scores = draw.normal(size=(5000, 101)) * spreads
    assert usual_unit(scores) == pytest.approx(np.median(spreads), rel=0.02)


def test_few_or_equal_scores_have_a_unit_above_zero() -> None:
    assert usual_unit(np.ones((1, 5))) == pytest.approx(USUAL_UNIT, rel=0.05)
    assert usual_unit(np.ones((1000, 5))) > 0


def test_unrelated_sentences_are_distinct() -> None:
    sentences = unrelated_sentences()
    assert len(sentences) == len(set(sentences)) >= 200
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


@given(st.floats(-10, 10), st.floats(0, 8), st.integers(1, 10**7))
def test_the_best_answer_is_more_probable_if_it_stands_out_and_less_among_many(
    log_odds: float, standing: float, images: int
) -> None:
    found = best_is_right(log_odds, standing, images)
    assert 0 <= found <= 1
    assert best_is_right(log_odds + 1, standing, images) >= found
    assert best_is_right(log_odds, standing + 1, images) >= found
    assert best_is_right(log_odds, standing, 10 * images) <= found
