"""Paired comparisons against SciPy's exact tests and a plain loop."""

import numpy as np
import pytest
from scipy import stats

from seesay.errors import SeesayError
from seesay.metrics import paired_test
from seesay.metrics.bootstrap import RetrievalSample
from seesay.metrics.ranks import Ranks
from seesay.metrics.significance import compare
from tests.metrics.test_bootstrap import drawn, plain_figures, sample

MR = "mR"


@pytest.mark.parametrize(("only_ours", "only_theirs"), [(9, 2), (14, 9), (5, 5), (1, 0)])
def test_one_query_an_image_is_mcnemars_exact_test(only_ours, only_theirs):
    n = 60
    ours, theirs = np.zeros(n, int), np.zeros(n, int)
    theirs[:only_ours] = 20
    ours[only_ours : only_ours + only_theirs] = 20
    ours[-10:] = theirs[-10:] = 3
    sides = [[sample(ranks, ranks, np.arange(n))] for ranks in (ours, theirs)]
    told = compare(*sides, resamples=20)
    exact = stats.binomtest(only_ours, only_ours + only_theirs, 0.5).pvalue
    for name in ("S R@1", "I R@1"):
        assert told[name].p == pytest.approx(exact, abs=0.015)
        assert told[name].difference == pytest.approx(100 * (only_ours - only_theirs) / n, abs=1e-3)
    assert paired_test(ours < 1, theirs < 1).p == pytest.approx(exact, abs=0.015)


def test_differences_and_p_are_those_of_a_loop():
    ours = drawn(8, 1)
    worse = ours.ranks.image + 6 * (np.arange(len(ours.owners)) % 2 == 0)
    theirs = sample(ours.ranks.sentence, worse, ours.owners)
    told = compare([ours], [theirs], resamples=400, swaps=400)
    mine, other = (np.array(plain_figures(fold, range(8))) for fold in (ours, theirs))
    draw = np.random.default_rng(0)
    chosen = draw.integers(0, 8, (400, 8))
    drawn_differences = [np.subtract(plain_figures(ours, c), plain_figures(theirs, c)) for c in chosen]
    low, high = np.percentile(drawn_differences, [2.5, 97.5], axis=0)
    draw = np.random.default_rng(0)
    extreme = np.zeros(9)
    for kept in draw.integers(0, 2, (400, 8), np.int32).astype(bool):
        sides = [swapped(ours, theirs, k) for k in (kept, ~kept)]
        found = np.subtract(*[plain_figures(fold, range(8)) for fold in sides])
        extreme += np.abs(found) >= np.abs(mine - other) - 1e-9
    for i, test in enumerate(told.values()):
        assert test.theirs == pytest.approx(other[i], abs=1e-3)
        assert test.difference == pytest.approx(mine[i] - other[i], abs=1e-3)
        assert test.interval == pytest.approx([low[i], high[i]], abs=1e-3)
        assert test.p == pytest.approx((1 + extreme[i]) / 401, abs=1e-5)


def swapped(ours, theirs, kept):
    sentence = np.where(kept, ours.ranks.sentence, theirs.ranks.sentence)
    image = np.where(kept[ours.owners], ours.ranks.image, theirs.ranks.image)
    return RetrievalSample(Ranks(sentence, image), ours.owners)


def test_the_same_answers_do_not_differ_and_order_only_turns_the_sign():
    folds = [drawn(20, 1), drawn(20, 2)]
    same = compare(folds, folds, resamples=50, swaps=50)[MR]
    assert (same.difference, same.interval, same.p) == (0.0, (0.0, 0.0), 1.0)
    other = [RetrievalSample(Ranks(f.ranks.sentence + 1, f.ranks.image), f.owners) for f in folds]
    there, back = compare(folds, other, 50, 50)[MR], compare(other, folds, 50, 50)[MR]
    assert there.difference == -back.difference > 0
    assert there.interval == pytest.approx([-edge for edge in reversed(back.interval)])
    assert there.p == back.p


def test_a_p_value_under_equal_matchers_is_uniform():
    draw, found = np.random.default_rng(3), []
    owners = np.repeat(np.arange(30), 5)
    for _ in range(200):
        hard = draw.beta(0.5, 0.5, 30)
        sides = [[sample(draw.random(30) < hard, draw.random(150) < hard[owners], owners)] for _ in range(2)]
        found.append(compare(*sides, resamples=2, swaps=99)[MR].p)
    assert 0.01 <= np.mean(np.array(found) <= 0.05) <= 0.10
    assert 0.4 <= np.median(found) <= 0.6


def test_other_queries_are_refused():
    fold = drawn(5, 1)
    with pytest.raises(SeesayError, match="same queries"):
        compare([fold], [drawn(5, 9)])
    with pytest.raises(SeesayError, match=r"theirs: shape \(2, 1\)"):
        paired_test([0, 1], [[0], [1]])
    with pytest.raises(SeesayError, match="theirs: expected the same queries as ours"):
        paired_test([0, np.nan], [np.nan, 1])
    with pytest.raises(SeesayError, match="swaps: expected a whole number of at least 1, got 0"):
        paired_test([0, 1], [0, 1], swaps=0)


@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e10])
def test_p_values_do_not_depend_on_the_unit(scale):
    ours, theirs = np.random.default_rng(0).normal([[0.8], [0.0]], size=(2, 12))
    assert paired_test(ours * scale, theirs * scale).p == paired_test(ours, theirs).p < 0.2
    assert paired_test(ours * scale, ours * scale).p == 1
