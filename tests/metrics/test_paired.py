"""Paired comparisons against SciPy's exact tests and a plain loop."""

import numpy as np
import pytest
from scipy import stats

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import Answers
from seesay.metrics.paired import compare
from seesay.metrics.ranks import Ranks
from tests.evaluation.test_uncertainty import answers, drawn, plain_figures


@pytest.mark.parametrize(("only_ours", "only_theirs"), [(9, 2), (14, 9), (5, 5), (1, 0)])
def test_one_query_an_image_is_mcnemars_exact_test(only_ours, only_theirs):
    n = 60
    ours, theirs = np.zeros(n, int), np.zeros(n, int)
    theirs[:only_ours] = 20
    ours[only_ours : only_ours + only_theirs] = 20
    ours[-10:] = theirs[-10:] = 3
    sides = [[answers(ranks, ranks, np.arange(n))] for ranks in (ours, theirs)]
    told = compare(*sides, resamples=20)
    exact = stats.binomtest(only_ours, only_ours + only_theirs, 0.5).pvalue
    for way in ("sentence_retrieval", "image_retrieval"):
        assert told[way]["R@1"]["p"] == pytest.approx(exact, abs=0.015)
        assert told[way]["R@1"]["difference"] == pytest.approx(100 * (only_ours - only_theirs) / n, abs=1e-3)


def test_differences_and_p_are_those_of_a_loop():
    ours, theirs = drawn(8, 1), drawn(8, 1)
    theirs.ranks.image[::2] += 6
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
    cells = [*told["sentence_retrieval"].values(), *told["image_retrieval"].values(), told["mR"]]
    for i, cell in enumerate(cells):
        assert cell["theirs"] == pytest.approx(other[i], abs=1e-3)
        assert cell["difference"] == pytest.approx(mine[i] - other[i], abs=1e-3)
        assert cell["interval"] == pytest.approx([low[i], high[i]], abs=1e-3)
        assert cell["p"] == pytest.approx((1 + extreme[i]) / 401, abs=1e-5)


def swapped(ours, theirs, kept):
    sentence = np.where(kept, ours.ranks.sentence, theirs.ranks.sentence)
    image = np.where(kept[ours.owners], ours.ranks.image, theirs.ranks.image)
    return Answers(Ranks(sentence, image), ours.owners)


def test_the_same_answers_do_not_differ_and_order_only_turns_the_sign():
    folds = [drawn(20, 1), drawn(20, 2)]
    same = compare(folds, folds, resamples=50, swaps=50)
    assert same["mR"] == {"theirs": same["mR"]["theirs"], "difference": 0.0, "interval": [0.0, 0.0], "p": 1.0}
    other = [Answers(Ranks(f.ranks.sentence + 1, f.ranks.image), f.owners) for f in folds]
    there, back = compare(folds, other, 50, 50)["mR"], compare(other, folds, 50, 50)["mR"]
    assert there["difference"] == -back["difference"] > 0
    assert there["interval"] == [-edge for edge in reversed(back["interval"])]
    assert there["p"] == back["p"]


def test_a_p_value_under_equal_matchers_is_uniform():
    draw, found = np.random.default_rng(3), []
    owners = np.repeat(np.arange(30), 5)
    for _ in range(200):
        hard = draw.beta(0.5, 0.5, 30)
        sides = [[answers(draw.random(30) < hard, draw.random(150) < hard[owners], owners)] for _ in range(2)]
        found.append(compare(*sides, resamples=2, swaps=99)["mR"]["p"])
    assert 0.01 <= np.mean(np.array(found) <= 0.05) <= 0.10
    assert 0.4 <= np.median(found) <= 0.6


def test_other_queries_are_refused():
    fold = drawn(5, 1)
    with pytest.raises(SeesayError, match="same queries"):
        compare([fold], [drawn(5, 9)])
