"""Proposals: boxes inside the image, best first, around what is drawn, for any image."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

from seesay.data.boxes import iou
from seesay.encoders.proposals import best_of_clusters, diverse_regions, propose


def drawing(height: int, width: int, box: tuple[int, int, int, int]) -> np.ndarray:
    pixels = np.full((height, width, 3), (90, 120, 160), np.uint8)
    x1, y1, x2, y2 = box
    pixels[y1:y2, x1:x2] = (250, 220, 30)
    return pixels


def assert_sound(pixels: np.ndarray, count: int) -> None:
    boxes = propose(pixels, count)
    height, width = pixels.shape[:2]
    assert boxes.dtype == np.float32
    assert 1 <= len(boxes) <= count
    assert (boxes >= 0).all()
    assert (boxes[:, 2] <= width + 1e-2).all()
    assert (boxes[:, 3] <= height + 1e-2).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()
    assert boxes[-1].tolist() == [0, 0, width, height]


@pytest.mark.parametrize(
    ("height", "width", "box"),
    [(224, 224, (60, 50, 150, 160)), (600, 900, (300, 100, 640, 420)), (100, 60, (10, 30, 45, 70))],
)
def test_a_drawn_rectangle_is_among_the_first(height: int, width: int, box: tuple[int, ...]) -> None:
    boxes = propose(drawing(height, width, box))
    assert iou(boxes[:10], np.array([box], np.float32)).max() > 0.8


@settings(max_examples=25)
@given(st.integers(1, 80), st.integers(1, 80), st.integers(1, 30), st.integers(0, 2**32 - 1), st.booleans())
def test_any_image_has_sound_proposals(height: int, width: int, count: int, seed: int, grey: bool) -> None:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (-(-height // 8), -(-width // 8), 1 if grey else 3), np.uint8)
    pixels = np.broadcast_to(
        coarse.repeat(8, axis=0).repeat(8, axis=1)[:height, :width], (height, width, 3)
    ).copy()
    assert_sound(pixels, count)


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1), (7, 4000), (224, 224)])
@pytest.mark.parametrize("level", [0, 128, 255])
def test_an_image_without_edges_is_one_proposal(shape: tuple[int, int], level: int) -> None:
    boxes = propose(np.full((*shape, 3), level, np.uint8))
    assert boxes.tolist() == [[0, 0, shape[1], shape[0]]]


def test_an_image_of_nothing_but_edges_ends() -> None:
    blocks = np.random.default_rng(0).integers(0, 256, (75, 75, 1), np.uint8)
    assert_sound(np.broadcast_to(blocks.repeat(3, axis=0).repeat(3, axis=1), (225, 225, 3)).copy(), 200)


def test_edges_that_enclose_nothing_are_one_proposal() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (10, 10_000, 3), np.uint8)
    assert_sound(noise, 200)


def test_the_same_image_has_the_same_proposals() -> None:
    pixels = drawing(240, 320, (40, 60, 200, 150))
    np.testing.assert_array_equal(propose(pixels), propose(pixels))


@pytest.mark.parametrize("nms", [0.3, 0.55, 0.75, 0.9])
def test_no_two_proposals_overlap_by_more_than_the_threshold(nms: float) -> None:
    boxes = propose(_textured(), 100, nms)[:-1]
    overlaps = iou(boxes, boxes)
    np.fill_diagonal(overlaps, 0)
    assert nms - 0.05 < overlaps.max() <= nms + 1e-4


def test_a_higher_threshold_keeps_more_boxes_near_a_true_one() -> None:
    pixels, box = drawing(224, 224, (60, 50, 150, 160)), np.array([(60, 50, 150, 160)], np.float32)
    few, many = ((iou(propose(pixels, 200, nms), box) >= 0.7).sum() for nms in (0.55, 0.9))
    assert 1 <= few < many


def _textured(height: int = 240, width: int = 320) -> np.ndarray:
    noise = np.random.default_rng(3).random((height, width, 3))
    smooth = gaussian_filter(noise, (6, 6, 0))
    return (255 * (smooth - smooth.min()) / np.ptp(smooth)).astype(np.uint8)


def _box(x: float, y: float, side: float) -> list[float]:
    return [x, y, x + side, y + side]


def test_each_cluster_is_stood_for_by_its_best() -> None:
    boxes = np.array([_box(0, 0, 10), _box(50, 50, 10), _box(1, 0, 10), _box(50, 51, 10)], np.float32)
    np.testing.assert_array_equal(best_of_clusters(boxes, 2), boxes[:2])


def test_another_size_is_another_cluster() -> None:
    boxes = np.array([_box(0, 0, 100), _box(2, 0, 100), _box(0, 0, 30), _box(0, 2, 100)], np.float32)
    np.testing.assert_array_equal(best_of_clusters(boxes, 2), boxes[[0, 2]])


@given(
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80), st.integers(1, 60)), max_size=40, unique=True),
    st.integers(0, 20),
)
def test_clusters_are_at_most_so_many_and_keep_their_order(places: list, count: int) -> None:
    boxes = np.array([_box(*place) for place in places], np.float32).reshape(-1, 4)
    kept = best_of_clusters(boxes, count)
    assert len(kept) <= count
    assert len(kept) > 0 or count == 0 or not places
    if len(places) <= count:
        np.testing.assert_array_equal(kept, boxes)
    at = [next(i for i, box in enumerate(boxes) if (box == one).all()) for one in kept]
    assert at == sorted(at)


def test_fifty_regions_of_several_sizes_and_few_duplicates() -> None:
    pixels = _textured()
    regions = diverse_regions(pixels, 50)
    assert 10 < len(regions) <= 50
    np.testing.assert_array_equal(regions[-1], [0, 0, 320, 240])
    sides = regions[:, 2:] - regions[:, :2]
    assert sides.prod(axis=1).min() >= 64 * 64
    assert (sides.max(axis=1) / sides.min(axis=1)).max() <= 4

    def mean_overlap(boxes: np.ndarray) -> float:
        overlaps = iou(boxes, boxes)
        np.fill_diagonal(overlaps, 0)
        return float(overlaps.max(axis=1).mean())

    assert mean_overlap(regions) <= mean_overlap(propose(pixels, len(regions)))


def test_an_image_without_edges_or_room_is_one_region() -> None:
    for flat in (np.full((90, 120, 3), 7, np.uint8), np.zeros((1, 1, 3), np.uint8)):
        height, width = flat.shape[:2]
        np.testing.assert_array_equal(diverse_regions(flat, 50), [[0, 0, width, height]])
