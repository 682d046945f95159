"""Ensembles against plain loops, and what they must never do: choose on test, or gain by ties."""

from __future__ import annotations

import numpy as np
import pytest

from seesay.errors import SeesayError
from seesay.protocols.evaluate import measure
from seesay.protocols.score_fusion import check_combination, chosen_weights, combine
from seesay.protocols.subject import Scores, Subject
from tests.protocols import drawn

N, PER_IMAGE = 40, 3
OWNERS = np.repeat(np.arange(N), PER_IMAGE)


def scored(name, scores, split="test", other=None):
    return drawn.subject_of(scores, OWNERS, split=split, name=name, other=other)


def noisy(seed, signal, scale=1.0, shift=0.0):
    draw = np.random.default_rng(seed)
    right = np.arange(N)[:, None] == OWNERS
    return ((draw.normal(size=(N, len(OWNERS))) + signal * right) * scale + shift).astype(np.float32)


def measured(each):
    return drawn.flat(measure(each, "standard"))


def test_the_mean_is_of_standardised_scores():
    scores = [noisy(1, 2), noisy(2, 2, scale=1000, shift=5e4), noisy(3, 1, scale=1e-3)]
    together = combine([scored(str(i), s) for i, s in enumerate(scores)], "mean")
    plain = sum((s - s.mean()) / s.std() for s in scores)
    assert measured(together)["mR"] == drawn.measured(plain, OWNERS)["mR"]
    assert measured(together)["mR"] > max(drawn.measured(s, OWNERS)["mR"] for s in scores)
    assert together.about == {"combined": "mean"}


@pytest.mark.parametrize("shift", [1e4, 1e8])
def test_scores_far_from_zero_keep_their_differences(shift):
    scores = [noisy(seed, 1).astype(np.float64) for seed in (1, 2)]
    far = combine([scored(str(i), s + shift) for i, s in enumerate(scores)], "mean")
    near = combine([scored(str(i), s) for i, s in enumerate(scores)], "mean")
    assert measured(far) == measured(near)


def directed(found, way):
    """The metrics of one direction."""
    return {name: value for name, value in found.items() if name.startswith(f"{way} ")}


@pytest.mark.parametrize("how", ["mean", "learned"])
def test_a_constant_member_changes_nothing(how):
    useful, flat = noisy(1, 2), np.ones((N, len(OWNERS)), np.float32)
    val = [scored("useful", useful, "val"), scored("flat", flat, "val")]
    together = combine([scored("useful", useful), scored("flat", flat)], how, val)
    alone = drawn.measured(useful, OWNERS)
    assert {key: measured(together)[key] for key in alone} == alone


def test_constant_members_gain_nothing():
    flat = [scored(str(i), np.full((N, len(OWNERS)), i, np.float32)) for i in range(3)]
    assert measured(combine(flat, "mean"))["mR"] == 0


def test_weights_are_chosen_on_val_and_lose_nothing_there():
    val = [
        scored("good", noisy(4, 2.5), "val"),
        scored("fair", noisy(5, 1.5), "val"),
        scored("bad", noisy(6, -1), "val"),
    ]
    weights = chosen_weights(val)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    assert weights[0] > weights[1] > weights[2]
    best = measured(combine(val, "learned", val))
    assert best["weights"] == {
        name: round(float(w), 4) for name, w in zip(("good", "fair", "bad"), weights, strict=True)
    }
    for rival in (*val, combine(val, "mean")):
        assert best["mR"] >= measured(rival)["mR"]
    # On test the members are told apart the other way round; val's weights stay.
    test = [scored("good", noisy(7, -1)), scored("fair", noisy(8, 1)), scored("bad", noisy(9, 3))]
    assert measured(combine(test, "learned", val))["weights"] == best["weights"]


def test_two_members_weights_are_the_best_of_the_grid():
    val = [scored("a", noisy(4, 1.5), "val"), scored("b", noisy(5, 1.8, scale=30), "val")]
    a, b = ((s - s.mean()) / s.std() for s in (member.scores.image_queries for member in val))
    grid = [drawn.measured(w * a + (1 - w) * b, OWNERS)["mR"] for w in np.arange(21) / 20]
    assert measured(combine(val, "learned", val))["mR"] == max(grid)


def test_asymmetric_scores_are_combined_by_direction():
    members = [scored("a", noisy(1, 2), other=noisy(2, 2)), scored("b", noisy(3, 2))]
    found = measured(combine(members, "mean"))
    first = measured(combine([scored("a", noisy(1, 2)), members[1]], "mean"))
    second = measured(combine([scored("a", noisy(2, 2)), members[1]], "mean"))
    assert directed(found, "S") == directed(first, "S")
    assert directed(found, "I") == directed(second, "I")


def test_members_must_score_the_same_split():
    part = drawn.corpus_of(OWNERS, N, names="y")
    other = Subject("other", "test", part, Scores(noisy(1, 1)))
    with pytest.raises(SeesayError, match="a and other: different images"):
        combine([scored("a", noisy(1, 1)), other], "mean")
    infinite = noisy(1, 1)
    infinite[3, 3] = -np.inf
    with pytest.raises(SeesayError, match="bad: a score is NaN or infinite"):
        combine([scored("a", noisy(1, 1)), scored("bad", infinite)], "mean")


def test_two_members_of_one_name_are_told_apart():
    together = combine([scored("run", noisy(1, 2)), scored("run", noisy(2, 2))], "mean")
    assert together.name == "mean of run (1), run (2)"


@pytest.mark.parametrize(
    ("how", "members", "said"),
    [(None, 2, "None for 2 runs; choose mean"), ("mean", 1, "mean for 1"), ("maen", 2, "maen for 2 runs")],
)
def test_combinations_are_checked(how, members, said):
    with pytest.raises(SeesayError, match=said):
        check_combination(how, members)
