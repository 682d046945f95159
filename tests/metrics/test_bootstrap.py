"""Bootstrap intervals against a plain loop, against SciPy, and against the truth they should hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import (
    Answers,
    RankCounts,
    by_name,
    image_draws,
    intervals,
    mean_intervals,
    rank_intervals,
    resampled,
)
from seesay.metrics.ranks import NO_ANSWER, Ranks
from seesay.metrics.recall import mean_recall, retrieval
from seesay.protocols.retrieval import evaluate_scores


def answers(sentence, image, owners):
    return Answers(Ranks(np.asarray(sentence), np.asarray(image)), np.asarray(owners))


def drawn(n, seed, per_image=(1, 6), worst=40):
    draw = np.random.default_rng(seed)
    owners = np.repeat(np.arange(n), draw.integers(*per_image, n))
    return answers(draw.integers(0, worst, n), draw.integers(0, worst, len(owners)), owners)


def plain_figures(fold, chosen):
    """The figures of a list of images, each with its sentences, one after the other."""
    sentence = [fold.ranks.sentence[i] for i in chosen]
    image = [
        rank for i in chosen for rank, owner in zip(fold.ranks.image, fold.owners, strict=True) if owner == i
    ]
    ways = retrieval(sentence), retrieval(image)
    return [value for way in ways for value in way.as_dict().values()] + [mean_recall(*ways)]


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.sampled_from([2, 12, 40]))
@settings(max_examples=60, deadline=None)
def test_weighted_figures_are_those_of_repeated_queries(n, seed, worst):
    fold = drawn(n, seed, worst=worst)
    chosen = np.random.default_rng(seed).integers(0, n, n)
    weights = np.bincount(chosen, minlength=n).astype(np.int32)
    found = RankCounts.of(fold).figures(weights[None])[0]
    assert found == pytest.approx(plain_figures(fold, chosen))


def test_draws_are_those_of_a_loop_and_folds_are_averaged():
    folds = [drawn(7, 1), drawn(9, 2)]
    draw = np.random.default_rng(11)
    chosen = [draw.integers(0, len(fold.ranks.sentence), (20, len(fold.ranks.sentence))) for fold in folds]
    expected = [
        np.mean([plain_figures(fold, some[i]) for fold, some in zip(folds, chosen, strict=True)], axis=0)
        for i in range(20)
    ]
    assert resampled(folds, 20, seed=11) == pytest.approx(np.array(expected))
    low, high = np.percentile(expected, [2.5, 97.5], axis=0)
    told = intervals(folds, 20, seed=11)
    assert told["level"] == 95
    assert told["resamples"] == 20
    for way, values in by_name(list(zip(low, high, strict=True))).items():
        for name, pair in values.items() if isinstance(values, dict) else [(None, values)]:
            found = told[way][name] if name else told[way]
            assert found == pytest.approx(pair, abs=1e-3)


def test_what_is_no_query_is_not_drawn():
    fold = drawn(6, 3)
    sentence = np.append(fold.ranks.sentence, [NO_ANSWER, NO_ANSWER])
    more = answers(sentence, fold.ranks.image, fold.owners)
    assert (resampled([more], 50, 0) == resampled([fold], 50, 0)).all()
    with pytest.raises(SeesayError, match="no query"):
        intervals([answers([NO_ANSWER], [NO_ANSWER], [0])])


def test_one_query_an_image_agrees_with_scipy():
    draw = np.random.default_rng(4)
    ranks = draw.geometric(0.2, 300) - 1
    told = intervals([answers(ranks, ranks, np.arange(300))], 4000)["sentence_retrieval"]
    for name, statistic in (
        ("R@5", lambda x: 100 * np.mean(x < 5)),
        ("Med r", lambda x: np.floor(np.median(x)) + 1),
    ):
        theirs = stats.bootstrap(
            (ranks,), statistic, n_resamples=4000, method="percentile", vectorized=False, rng=1
        ).confidence_interval
        assert told[name] == pytest.approx(theirs, abs=1.0)


def test_intervals_hold_the_truth_as_often_as_they_say_because_images_are_drawn():
    """Five sentences of an image are found or not together: as 95 % intervals of single sentences fail."""
    draw, truth, held, held_alone = np.random.default_rng(0), 30.0, 0, 0
    trials, n = 300, 80
    for trial in range(trials):
        chance = draw.beta(0.3, 0.7, n)  # of an image's sentences to be found; its mean is the truth
        missed = draw.random((n, 5)) >= chance[:, None]
        owners = np.repeat(np.arange(n), 5)
        fold = answers(missed[:, 0], missed.ravel(), owners)
        single = answers(missed.ravel(), missed.ravel(), np.arange(5 * n))
        for some, count in ((fold, 0), (single, 1)):
            low, high = np.percentile(resampled([some], 300, trial)[:, 4], [2.5, 97.5])
            held, held_alone = (
                held + (low <= truth <= high) * (1 - count),
                held_alone + (low <= truth <= high) * count,
            )
    assert 0.90 <= held / trials <= 0.98
    assert held_alone / trials < 0.80


def test_they_stand_beside_the_figures_and_round_them():
    draw = np.random.default_rng(5)
    owners = np.repeat(np.arange(60), 3)
    scores = draw.normal(size=(60, 180)) + 2 * (owners == np.arange(60)[:, None])
    plain = evaluate_scores(scores, owners)
    told = evaluate_scores(scores, owners, resamples=200)
    assert plain == {key: value for key, value in told.items() if key != "intervals"}
    for way in ("sentence_retrieval", "image_retrieval"):
        for name, (low, high) in told["intervals"][way].items():
            assert low <= told[way][name] <= high
            assert high - low < 40
    low, high = told["intervals"]["mR"]
    assert low < told["mR"] < high
    assert told == evaluate_scores(scores, owners, resamples=200)


def chosen_images(n, resamples):
    """The images of each draw, as the intervals draw them."""
    return [
        np.repeat(np.arange(n), times)
        for _, weights in image_draws(np.random.default_rng(0), n, resamples)
        for times in weights
    ]


def test_ranks_of_one_direction_are_drawn_by_image():
    draw = np.random.default_rng(1)
    images, ranks = np.repeat([3, 5, 8, 9], [2, 1, 4, 3]), draw.integers(-1, 12, 10)
    told = rank_intervals(ranks, images, 40)
    asked = sorted({i for i, rank in zip(images, ranks, strict=True) if rank >= 0})
    each = [
        retrieval([r for i in some for j, r in zip(images, ranks, strict=True) if j == asked[i] and r >= 0])
        for some in chosen_images(len(asked), 40)
    ]
    for name in ("R@1", "R@5", "R@10", "Med r"):
        assert told[name] == pytest.approx(
            np.percentile([one.as_dict()[name] for one in each], [2.5, 97.5]), abs=1e-3
        )
    assert (told["level"], told["resamples"]) == (95, 40)


def test_means_are_drawn_by_image_and_what_has_no_value_is_left_out():
    draw = np.random.default_rng(2)
    images, values = np.repeat(np.arange(5), [2, 1, 4, 3, 2]), draw.normal(size=(12, 3))
    values[draw.random((12, 3)) < 0.2] = np.nan
    values[:, 2] = np.nan
    first, second, nothing = mean_intervals("abc", values, images, 60).values()
    for column, told in enumerate((first, second)):
        means = [
            np.nanmean(np.concatenate([values[images == i, column] for i in some]))
            for some in chosen_images(5, 60)
        ]
        assert told == pytest.approx(np.percentile(means, [2.5, 97.5]), abs=1e-3)
    assert nothing is None
