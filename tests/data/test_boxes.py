import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from seesay.data.boxes import as_boxes, clip, enclosing, from_inclusive, iou, jittered, vote
from seesay.errors import SeesayError


def boxes(least=1):
    """Boxes with corners on a small grid, some of them without area."""
    counts = st.integers(least, 6)
    corners = counts.flatmap(lambda n: arrays(np.float64, (n, 2, 2), elements=st.integers(0, 12)))
    return corners.map(lambda c: np.sort(c, axis=1).reshape(-1, 4))


def area(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def iou_by_pixels(a, b):
    """Counts the unit squares that both boxes cover, and those that either does."""

    def mask(box):
        x1, y1, x2, y2 = map(int, box)
        canvas = np.zeros((14, 14), bool)
        canvas[y1:y2, x1:x2] = True
        return canvas

    either = (mask(a) | mask(b)).sum()
    return (mask(a) & mask(b)).sum() / either if either else 0.0


@settings(max_examples=40)
@given(boxes(), boxes())
def test_iou_counts_pixels(a, b):
    by_pixels = [[iou_by_pixels(x, y) for y in b] for x in a]
    np.testing.assert_allclose(iou(a, b), by_pixels, atol=1e-6)


@settings(max_examples=40)
@given(boxes(), boxes())
def test_iou_is_symmetric_within_bounds_and_free_of_scale_and_place(a, b):
    scores = iou(a, b)
    assert scores.shape == (len(a), len(b))
    assert scores.dtype == np.float32
    assert ((scores >= 0) & (scores <= 1)).all()
    np.testing.assert_array_equal(scores, iou(b, a).T)
    np.testing.assert_allclose(scores, iou(a * 3 + 5, b * 3 + 5), atol=1e-6)


@settings(max_examples=40)
@given(boxes())
def test_a_box_is_itself(a):
    np.testing.assert_array_equal(np.diag(iou(a, a)), (area(a) > 0).astype(np.float32))


@settings(max_examples=40)
@given(boxes())
def test_the_enclosing_box_holds_all_and_touches_each_side(a):
    x1, y1, x2, y2 = enclosing(a)
    assert (x1, y1, x2, y2) == (a[:, 0].min(), a[:, 1].min(), a[:, 2].max(), a[:, 3].max())
    assert (area(a) <= (x2 - x1) * (y2 - y1)).all()


@settings(max_examples=40)
@given(boxes(), st.integers(1, 12), st.integers(1, 12))
def test_clipping_keeps_the_part_inside(a, width, height):
    clipped = clip(a, width, height)
    frame = np.array([[0, 0, width, height]])
    shared = iou(a, frame)[:, 0].astype(float) * (area(a) + width * height)
    shared /= 1 + iou(a, frame)[:, 0]  # IoU = s / (A + B − s)
    np.testing.assert_allclose(area(clipped), shared, atol=1e-3)
    np.testing.assert_array_equal(clip(clipped, width, height), clipped)


@settings(max_examples=40)
@given(boxes(), boxes())
def test_boxes_of_first_and_last_pixels_become_a_pixel_longer(a, b):
    longer = [0, 0, 1, 1]
    ours, theirs = from_inclusive(a), from_inclusive(b)
    np.testing.assert_allclose(iou(a + longer, b + longer), iou(ours, theirs), atol=1e-6)


def test_a_box_of_the_issue():
    assert iou(from_inclusive([[1, 1, 9, 10]]), [[5, 0, 9, 10]]).round(3) == np.float32(0.444)


def test_a_half_is_a_half():
    assert iou([[0, 0, 1, 1]], [[0, 0, 2, 1]]) == 0.5
    assert iou([[0, 0, 224, 112]], [[0, 0, 224, 224]]) == 0.5


def test_boxes_may_be_none():
    assert iou([], [[0, 0, 1, 1]]).shape == (0, 1)
    assert clip([], 5, 5).shape == (0, 4)


def test_a_box_turned_inside_out_has_no_area():
    assert iou([[5, 5, 1, 1], [5, 1, 1, 5]], [[0, 0, 9, 9]]).tolist() == [[0], [0]]


@pytest.mark.parametrize(
    "wrong",
    [[1, 2, 3, 4], [[1, 2, 3]], [[[0, 0, 1, 1]]], [[1, 2], [3]], ["box"], [[], []], [[0, 0, 1, 10**400]]],
)
def test_another_shape_is_refused(wrong):
    with pytest.raises(SeesayError, match=r"boxes must be \(n, 4\)"):
        iou(wrong, [[0, 0, 1, 1]])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_coordinates_must_be_finite(value):
    with pytest.raises(SeesayError, match="boxes: box 1 is"):
        as_boxes([[0, 0, 1, 1], [0, 0, value, 1]])


def test_an_enclosing_box_needs_a_box():
    with pytest.raises(SeesayError, match="at least one"):
        enclosing([])


@settings(max_examples=60)
@given(boxes(), st.data())
def test_a_vote_is_the_mean_of_overlapping_boxes_weighted_by_odds(a, data):
    log_odds = np.array(data.draw(st.lists(st.integers(-4, 4), min_size=len(a), max_size=len(a))), float)
    chosen = data.draw(st.integers(0, len(a) - 1))
    total, corners = 0.0, np.zeros(4)
    for other, (box, odds) in enumerate(zip(a, log_odds, strict=True)):
        overlaps = iou_by_pixels(box, a[chosen]) >= 0.25 and odds <= log_odds[chosen]
        if overlaps or other == chosen:
            total += np.exp(odds)
            corners += np.exp(odds) * box
    np.testing.assert_allclose(vote(a, log_odds, chosen, 0.25), corners / total, rtol=1e-5, atol=1e-5)


def test_far_boxes_and_improbable_ones_have_no_vote():
    near = [[0, 0, 10, 10], [0, 0, 10, 14]]
    alone = vote(near, [800.0, -800.0], 0, 0.25)  # odds beyond what a double holds
    np.testing.assert_array_equal(alone, near[0])
    np.testing.assert_array_equal(vote(near, [1.0, 1.0], 0, 0.9), near[0])
    np.testing.assert_array_equal(vote(near, [1.0, 1.0], 0, 0.5), [0, 0, 10, 12])


def test_jittered_boxes_are_near_inside_and_the_same_each_time():
    box = [5, 0, 90, 40]
    drawn = jittered(box, 92, 50, count=9, min_iou=0.7)
    assert drawn.shape == (9, 4)
    assert (iou(drawn, [box]) >= 0.7).all()
    np.testing.assert_array_equal(drawn, clip(drawn, 92, 50))
    assert len(np.unique(drawn, axis=0)) == 9
    np.testing.assert_array_equal(drawn, jittered(box, 92, 50, count=9, min_iou=0.7))
    assert not len(jittered([4, 4, 4, 9], 92, 50, count=9, min_iou=0.7))  # without area
