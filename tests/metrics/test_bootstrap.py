"""Bootstrap intervals against a plain loop, against SciPy, and against the truth they should hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from seesay.errors import SeesayError
from seesay.metrics import bootstrap, paired_test
from seesay.metrics.bootstrap import (
    MeanSample,
    RankSample,
    RetrievalSample,
    draws,
    image_draws,
    intervals,
    mean_metrics,
)
from seesay.metrics.ranks import NO_ANSWER, Ranks
from seesay.metrics.recall import METRICS, median_rank, metrics_of, recall_at_k


def sample(sentence, image, owners):
    return RetrievalSample(Ranks(np.asarray(sentence), np.asarray(image)), np.asarray(owners))


def drawn(n, seed, per_image=(1, 6), worst=40):
    draw = np.random.default_rng(seed)
    owners = np.repeat(np.arange(n), draw.integers(*per_image, n))
    return sample(draw.integers(0, worst, n), draw.integers(0, worst, len(owners)), owners)


def plain_figures(fold, chosen):
    """The figures of a list of images, each with its sentences, one after the other."""
    sentence = [fold.ranks.sentence[i] for i in chosen]
    image = [
        rank for i in chosen for rank, owner in zip(fold.ranks.image, fold.owners, strict=True) if owner == i
    ]
    return list(metrics_of(Ranks(np.array(sentence), np.array(image))).values())


def test_small_values_are_not_rounded() -> None:
    low, high = bootstrap([1e-4, 2e-4, 3e-4, 4e-4])
    assert 1e-4 <= low < high <= 4e-4
    test = paired_test([4e-4] * 8, [1e-4] * 8)
    assert (test.theirs, test.difference) == pytest.approx((1e-4, 3e-4))
    assert test.interval == pytest.approx((3e-4, 3e-4))


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.sampled_from([2, 12, 40]))
@settings(max_examples=60)
def test_weighted_figures_are_those_of_repeated_queries(n, seed, worst):
    fold = drawn(n, seed, worst=worst)
    chosen = np.random.default_rng(seed).integers(0, n, n)
    weights = np.bincount(chosen, minlength=n).astype(np.int32)
    found = fold.metrics(weights[None])[0]
    assert found == pytest.approx(plain_figures(fold, chosen))


def test_draws_are_those_of_a_loop_and_folds_are_averaged():
    folds = [drawn(7, 1), drawn(9, 2)]
    draw = np.random.default_rng(11)
    chosen = [draw.integers(0, len(fold.ranks.sentence), (20, len(fold.ranks.sentence))) for fold in folds]
    expected = [
        np.mean([plain_figures(fold, some[i]) for fold, some in zip(folds, chosen, strict=True)], axis=0)
        for i in range(20)
    ]
    assert draws(folds, 20, seed=11) == pytest.approx(np.array(expected))
    expected_ends = np.percentile(expected, [2.5, 97.5], axis=0).T
    assert np.array(list(intervals(folds, 20, seed=11).values())) == pytest.approx(expected_ends, abs=1e-3)
    everything = [plain_figures(fold, range(len(fold.ranks.sentence))) for fold in folds]
    assert list(mean_metrics(folds).values()) == pytest.approx(np.mean(everything, axis=0))


def test_images_without_queries_are_not_drawn():
    fold = drawn(6, 3)
    sentence = np.append(fold.ranks.sentence, [NO_ANSWER, NO_ANSWER])
    more = sample(sentence, fold.ranks.image, fold.owners)
    assert (draws([more], 50, 0) == draws([fold], 50, 0)).all()
    with pytest.raises(SeesayError, match="no query"):
        sample([NO_ANSWER], [NO_ANSWER], [0])


@pytest.mark.filterwarnings("error")
def test_a_draw_without_a_query_is_left_out():
    """Image 0 alone has a sentence query that counts, and is in about two draws of three."""
    fold = sample([3, 1, 2], [7, NO_ANSWER, NO_ANSWER], [0, 1, 2])
    found = draws([fold], 200, 0)
    without = np.isnan(found[:, 4])
    assert 0 < without.mean() < 0.5
    assert np.isnan(found[without][:, [4, 5, 6, 7, 8]]).all()  # mR has no value either
    assert not np.isnan(found[:, :4]).any()
    assert intervals([fold], 200)["I Med r"] == (8, 8)
    assert intervals([fold], 200)["I R@10"] == (100, 100)


def test_one_query_an_image_agrees_with_scipy():
    draw = np.random.default_rng(4)
    ranks = draw.geometric(0.2, 300) - 1
    found = intervals([sample(ranks, ranks, np.arange(300))], 4000)
    for name, statistic in (
        ("R@5", lambda x: 100 * np.mean(x < 5)),
        ("Med r", lambda x: np.floor(np.median(x)) + 1),
    ):
        theirs = stats.bootstrap(
            (ranks,), statistic, n_resamples=4000, method="percentile", vectorized=False, rng=1
        ).confidence_interval
        assert found[f"S {name}"] == pytest.approx(theirs, abs=1.0)


def test_intervals_of_drawn_images_cover_the_truth_as_often_as_they_say():
    """Five sentences of an image are found or not together: as 95 % intervals of single sentences fail."""
    draw, truth, held, held_alone = np.random.default_rng(0), 30.0, 0, 0
    trials, n = 300, 80
    for trial in range(trials):
        chance = draw.beta(0.3, 0.7, n)  # of an image's sentences to be found; its mean is the truth
        missed = draw.random((n, 5)) >= chance[:, None]
        owners = np.repeat(np.arange(n), 5)
        fold = sample(missed[:, 0], missed.ravel(), owners)
        single = sample(missed.ravel(), missed.ravel(), np.arange(5 * n))
        for some, count in ((fold, 0), (single, 1)):
            low, high = np.percentile(draws([some], 300, trial)[:, 4], [2.5, 97.5])
            held, held_alone = (
                held + (low <= truth <= high) * (1 - count),
                held_alone + (low <= truth <= high) * count,
            )
    assert 0.90 <= held / trials <= 0.98
    assert held_alone / trials < 0.80


def chosen_images(n, resamples):
    """The images of each draw, as the intervals draw them."""
    return [
        np.repeat(np.arange(n), times)
        for weights in image_draws(np.random.default_rng(0), n, resamples)
        for times in weights
    ]


def test_ranks_of_one_direction_are_drawn_by_image():
    draw = np.random.default_rng(1)
    images, ranks = np.repeat([3, 5, 8, 9], [2, 1, 4, 3]), draw.integers(-1, 12, 10)
    found = intervals([RankSample(ranks, images)], 40)
    queried = sorted({i for i, rank in zip(images, ranks, strict=True) if rank >= 0})
    each = []
    for some in chosen_images(len(queried), 40):
        known = [r for i in some for j, r in zip(images, ranks, strict=True) if j == queried[i] and r >= 0]
        each.append([*(recall_at_k(known, k) for k in (1, 5, 10)), median_rank(known)])
    for name, column in zip(METRICS, zip(*each, strict=True), strict=True):
        assert found[name] == pytest.approx(np.percentile(column, [2.5, 97.5]), abs=1e-3)


@pytest.mark.filterwarnings("error")
def test_means_are_drawn_by_image_and_missing_values_left_out():
    draw = np.random.default_rng(2)
    images, values = np.repeat(np.arange(5), [2, 1, 4, 3, 2]), draw.normal(size=(12, 3))
    values[draw.random((12, 3)) < 0.2] = np.nan
    values[:, 2] = np.nan
    *known, nothing = intervals([MeanSample(["a", "b", "c"], values, images)], 60).values()
    for column, found in enumerate(known):
        means = [
            np.nanmean(np.concatenate([values[images == i, column] for i in some]))
            for some in chosen_images(5, 60)
        ]
        assert found == pytest.approx(np.percentile(means, [2.5, 97.5]), abs=1e-3)
    assert nothing is None
    one_column = bootstrap(values[:, 0], groups=images, resamples=60)
    assert one_column == known[0]


def test_bootstrap_refuses_values_that_do_not_fit():
    with pytest.raises(SeesayError, match=r"values: shape \(2, 2\); it must be \(q,\)"):
        bootstrap(np.zeros((2, 2)))
    with pytest.raises(SeesayError, match=r"groups: shape \(3,\); it must be \(2,\)"):
        bootstrap([0.0, 1.0], groups=[0, 1, 2])
    with pytest.raises(SeesayError, match="all values are NaN"):
        bootstrap([np.nan, np.nan])
    with pytest.raises(SeesayError, match="at least one query"):
        bootstrap([])
    with pytest.raises(SeesayError, match="values: expected finite numbers or NaN, got an infinity"):
        bootstrap([np.inf, 1])
    with pytest.raises(SeesayError, match="resamples: expected a whole number of at least 1, got 0"):
        bootstrap([0, 1], resamples=0)
    with pytest.raises(SeesayError, match="seed: expected a whole number of at least 0, got -1"):
        bootstrap([0, 1], seed=-1)
