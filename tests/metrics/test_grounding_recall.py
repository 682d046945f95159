"""Recall of phrase localization against plain loops, and against the two published evaluators."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.errors import SeesayError
from seesay.metrics import grounding_recall
from seesay.metrics.grounding_recall import random_hits, recalls, region_overlaps

LEFT, RIGHT, ALL = (0.0, 0.0, 10.0, 10.0), (90.0, 0.0, 100.0, 10.0), (0.0, 0.0, 100.0, 10.0)


def some_boxes(rng, n):
    corners = np.sort(rng.integers(0, 12, (n, 2, 2)), axis=1)
    return corners.reshape(-1, 4) + np.array([0, 0, 1, 1])


def inclusive(box):
    """The first and last pixels of a box, counted from one, as annotations have them."""
    return box[0] + 1, box[1] + 1, box[2], box[3]


def plummers_iou(region, truth):
    """Of first and last pixels, with a pixel added to each side."""
    return plain_iou(inclusive(region), inclusive(truth), 1)


def mdetrs_iou(region, truth):
    """Of the region as predicted and the truth as annotated, with nothing added."""
    return plain_iou(region, inclusive(truth), 0)


def plain_iou(a, b, extra):
    def span(low, high):
        return max(high - low + extra, 0)

    shared = span(max(a[0], b[0]), min(a[2], b[2])) * span(max(a[1], b[1]), min(a[3], b[3]))
    union = span(a[0], a[2]) * span(a[1], a[3]) + span(b[0], b[2]) * span(b[1], b[3]) - shared
    return shared / union if union else 0.0


IOU = {"plummer": plummers_iou, "mdetr": mdetrs_iou}


def recall_in_plain_python(scores, regions, truths, iou, boxes):
    """R@1, R@5, R@10 and the upper bound by sorting each phrase's regions, right ones last among equals."""
    counts = [0, 0, 0, 0]
    for mine, some, those in zip(scores, regions, truths, strict=True):
        if boxes == "merged":
            x1, y1, x2, y2 = zip(*those, strict=True)
            those = [(min(x1), min(y1), max(x2), max(y2))]
        right = [any(IOU[iou](r, t) >= 0.5 for t in those) for r in some]
        order = sorted(range(len(some)), key=lambda i, s=mine, r=right: (-s[i], r[i]))
        for at, k in enumerate((1, 5, 10, len(right))):
            counts[at] += any(right[i] for i in order[:k])
    return [100 * count / len(truths) for count in counts]


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["plummer", "mdetr"]), st.sampled_from(["merged", "any"]))
def test_recall_is_that_of_a_plain_loop(seed, iou, boxes):
    rng = np.random.default_rng(seed)
    truths = [some_boxes(rng, rng.integers(1, 4)).tolist() for _ in range(9)]
    regions = [some_boxes(rng, rng.integers(0, 15)) for _ in truths]
    scores = [rng.integers(0, 4, len(some)) for some in regions]  # ties abound
    found = grounding_recall(scores, regions, truths, iou, boxes)
    expected = recall_in_plain_python(scores, regions, truths, iou, boxes)
    assert list(found.values()) == pytest.approx(expected, abs=1e-3)


def test_many_phrases_in_blocks_are_those_of_a_plain_loop():
    rng = np.random.default_rng(3)
    truths = [some_boxes(rng, 2).tolist() for _ in range(2100)]
    regions, scores = [some_boxes(rng, 3) for _ in truths], [rng.random(3) for _ in truths]
    found = grounding_recall(scores, regions, truths, boxes="any")
    expected = recall_in_plain_python(scores, regions, truths, "plummer", "any")
    assert found["R@1"] == pytest.approx(expected[0], abs=1e-3)


def test_plummers_pixel_is_added_to_inclusive_boxes_once():
    """Annotated as 1 1 9 10, a box is 9 by 10 pixels; the region shows the last 4 columns of them."""
    truth, region = [[0, 0, 9, 10]], [[5, 0, 9, 10]]
    (overlap,) = region_overlaps([region], [truth])
    assert overlap == pytest.approx([40 / 90])
    assert grounding_recall([[1.0]], [region], [truth])["R@1"] == 0
    (raw,) = region_overlaps([region], [truth], "mdetr")
    assert raw == pytest.approx([36 / (8 * 9 + 4 * 10 - 36)])


def test_a_pixel_can_decide_between_the_evaluators():
    truth, region = [[0, 0, 10, 2]], [[0, 0, 10, 1]]
    assert grounding_recall([[1.0]], [region], [truth], "plummer")["R@1"] == 100
    assert grounding_recall([[1.0]], [region], [truth], "mdetr")["R@1"] == 0


def test_a_phrase_of_several_boxes_counts_as_merged_or_any():
    two = [[LEFT, RIGHT]]
    assert grounding_recall([[1.0]], [[ALL]], two)["R@1"] == 100
    assert grounding_recall([[1.0]], [[ALL]], two, boxes="any")["R@1"] == 0
    assert grounding_recall([[1.0]], [[LEFT]], two)["R@1"] == 0
    assert grounding_recall([[1.0]], [[RIGHT]], two, boxes="any")["R@1"] == 100


def test_a_constant_scorer_gains_nothing():
    regions = [[LEFT, *[RIGHT] * 9], [*[RIGHT] * 4, LEFT], [LEFT, LEFT, LEFT]]
    found = grounding_recall([np.ones(len(some)) for some in regions], regions, [[LEFT]] * 3)
    assert list(found.values()) == pytest.approx([100 / 3, 200 / 3, 100, 100], abs=1e-3)
    for order in permutations(range(5)):  # where the right one stands among equals makes no difference
        boxes = np.array([LEFT, RIGHT, RIGHT, RIGHT, RIGHT])[list(order)]
        assert grounding_recall([np.zeros(5)], [boxes], [[LEFT]])["R@1"] == 0


def test_a_phrase_without_regions_is_a_miss():
    regions = [[], [LEFT], np.zeros((0, 4)), [RIGHT]]
    found = grounding_recall([[], [0.5], np.zeros(0), [0.5]], regions, [[LEFT]] * 4)
    by_chance = recalls(random_hits(region_overlaps(regions, [[LEFT]] * 4)))
    for each in (found, by_chance):
        assert set(each.values()) == {25}


def test_random_hits_are_the_mean_over_all_orders():
    rng = np.random.default_rng(0)
    truths = [[LEFT], [LEFT, RIGHT], [ALL]]
    regions = [[LEFT, RIGHT, ALL, LEFT, RIGHT, RIGHT], [ALL, LEFT], some_boxes(rng, 6) + 50]
    overlaps = region_overlaps(regions, truths)
    for at, k in enumerate((1, 5)):
        for chance, overlap in zip(random_hits(overlaps)[:, at], overlaps, strict=True):
            orders = permutations(range(len(overlap)))
            assert chance == pytest.approx(np.mean([(overlap[list(o[:k])] >= 0.5).any() for o in orders]))


@pytest.mark.parametrize(
    ("scores", "regions", "truths", "message"),
    [
        ([], [], [], "there are no phrases to measure"),
        ([[1]], [[LEFT]], [[LEFT]] * 2, "regions: 1 lists"),
        ([], [[LEFT]], [[LEFT]], "scores: 0 lists"),
        ([[1, 2]], [[LEFT]], [[LEFT]], r"scores\[0\]: shape \(2,\); it must be \(1,\)"),
        ([[np.nan]], [[LEFT]], [[LEFT]], r"scores\[0\]: NaN"),
        ([[1, 2]], [[LEFT, (0, 0, np.nan, 1)]], [[LEFT]], r"regions\[0\]: box 1 is not finite"),
        ([[1]], [[(1, 2, 3)]], [[LEFT]], r"regions\[0\]: shape \(1, 3\); it must be \(n, 4\)"),
        ([[1]], [[LEFT]], [[]], r"true_boxes\[0\]: no box"),
    ],
)
def test_wrong_input_is_refused(scores, regions, truths, message):
    with pytest.raises(SeesayError, match=message):
        grounding_recall(scores, regions, truths)


def test_an_unknown_convention_is_refused():
    with pytest.raises(SeesayError, match="boxes: unknown value 'union'; use merged or any"):
        grounding_recall([[1]], [[LEFT]], [[LEFT]], boxes="union")
    with pytest.raises(SeesayError, match="use plummer or mdetr"):
        grounding_recall([[1]], [[LEFT]], [[LEFT]], iou="coco")
