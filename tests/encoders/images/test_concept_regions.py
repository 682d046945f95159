from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

from seesay.data.boxes import iou
from seesay.encoders.regions.proposals import best_of_clusters, concept_regions, propose


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
    regions = concept_regions(pixels)
    assert 10 < len(regions) <= 50
    np.testing.assert_array_equal(regions[-1], [0, 0, 320, 240])
    sides = regions[:, 2:] - regions[:, :2]
    assert sides.prod(axis=1).min() >= 64 * 64
    assert (sides.max(axis=1) / sides.min(axis=1)).max() <= 4

    def mean_overlap(boxes: np.ndarray) -> float:
        overlaps = iou(boxes, boxes)
        np.fill_diagonal(overlaps, 0)
        return float(overlaps.max(axis=1).mean())

    assert mean_overlap(regions) <= mean_overlap(propose(pixels, len(regions)).boxes)


def test_an_image_without_edges_or_room_is_one_region() -> None:
    for flat in (np.full((90, 120, 3), 7, np.uint8), np.zeros((1, 1, 3), np.uint8)):
        height, width = flat.shape[:2]
        np.testing.assert_array_equal(concept_regions(flat), [[0, 0, width, height]])
