"""Region features: pooling against a plain loop, boxes at and over the border, both encoders."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.encoders import REGION_ENCODERS, list_encoders
from seesay.encoders.images.base import resize
from seesay.encoders.images.efficientnet import MAP_CHANNELS, lite_network, load_lite
from seesay.encoders.networks import PixelsToMaps, in_pytorch
from seesay.encoders.regions import (
    NETWORK,
    SIDE,
    clip_boxes,
    load_region_encoder,
    pool_regions,
)
from seesay.errors import SeesayError

NAMES = [yaml.safe_load(line) for line, _ in list_encoders(REGION_ENCODERS) if "file" not in line]
SAMPLES = 150  # along each side of a box


def sampled_mean(maps: np.ndarray, box: np.ndarray) -> np.ndarray:
    """RoI pooling line by line: bilinear samples at the middles of a fine grid over the box."""
    height, width, _ = maps.shape
    xs = box[0] + (np.arange(SAMPLES) + 0.5) / SAMPLES * (box[2] - box[0])
    ys = box[1] + (np.arange(SAMPLES) + 0.5) / SAMPLES * (box[3] - box[1])
    total = np.zeros(maps.shape[2])
    columns = np.clip(xs * width - 0.5, 0, width - 1)
    left = columns.astype(int)
    right, part = np.minimum(left + 1, width - 1), (columns - left)[:, None]
    for y in ys:
        at = min(max(y * height - 0.5, 0), height - 1)
        top = int(at)
        line = maps[top] * (1 - at + top) + maps[min(top + 1, height - 1)] * (at - top)
        total += (line[left] * (1 - part) + line[right] * part).sum(0)
    return total / SAMPLES**2


@pytest.mark.parametrize(
    "box",
    [
        (0.0, 0.0, 1.0, 1.0),
        (0.21, 0.1, 0.83, 0.64),
        (0.5, 0.5, 0.502, 0.503),
        (0.0, 0.9, 0.05, 1.0),
        (0.97, 0.0, 1.0, 0.3),
    ],
)
@pytest.mark.parametrize("shape", [(5, 7), (1, 3), (14, 14)])
def test_pooling_is_the_mean_of_samples(box: tuple[float, ...], shape: tuple[int, int]) -> None:
    maps = np.random.default_rng(0).standard_normal((*shape, 3)).astype(np.float32)
    corners = np.array([box], np.float32)
    np.testing.assert_allclose(pool_regions(maps, corners, 1)[0], sampled_mean(maps, corners[0]), atol=2e-3)


def ends(start: float, part: float) -> tuple[float, float]:
    """Two ends within 0..1, at least 0.004 apart."""
    return start, start + 0.004 + part * (0.996 - start)


parts_of_one = st.builds(ends, st.floats(0, 0.99), st.floats(0, 1))


@settings(max_examples=50)
@given(st.integers(1, 9), st.integers(1, 9), parts_of_one, parts_of_one, st.integers(0, 1000))
def test_a_region_is_a_mean_and_the_whole_is_the_mean_of_its_halves(
    height: int, width: int, across: tuple[float, float], down: tuple[float, float], seed: int
) -> None:
    maps = np.random.default_rng(seed).standard_normal((height, width, 4)).astype(np.float32)
    (x1, x2), (y1, y2) = across, down
    middle = (x1 + x2) / 2
    boxes = np.array([[x1, y1, x2, y2], [x1, y1, middle, y2], [middle, y1, x2, y2]], np.float32)
    whole, left, right = pool_regions(maps, boxes, 1)
    np.testing.assert_allclose(whole, (left + right) / 2, atol=1e-2)
    np.testing.assert_allclose(pool_regions(np.ones_like(maps), boxes, 1), 1, atol=1e-3)
    assert (whole <= maps.max((0, 1)) + 1e-3).all()
    assert (whole >= maps.min((0, 1)) - 1e-3).all()


def test_the_whole_image_is_the_global_average() -> None:
    maps = np.random.default_rng(1).standard_normal((14, 14, 8)).astype(np.float32)
    pooled = pool_regions(maps, np.array([[0, 0, 1, 1]], np.float32), 1)
    np.testing.assert_allclose(pooled[0], maps.mean((0, 1)), atol=1e-6)


def test_boxes_are_clipped_and_widened_to_a_pixel() -> None:
    given = [[-5, -5, 20, 9], [3, 3, 3, 3], [9.5, 4, 12, 30]]
    clipped = clip_boxes(np.array(given, np.float32), 8, 10)
    assert clipped.tolist() == [[0, 0, 10, 8], [3, 3, 4, 4], [9, 4, 10, 8]]
    assert clip_boxes(np.zeros((0, 4), np.float32), 8, 10).shape == (0, 4)


@pytest.mark.parametrize(
    "box",
    [
        [10, 0, 12, 4],
        [0, 8, 4, 9],
        [-3, 0, 0, 4],
        [0, -3, 4, 0],
        [5, 0, 4, 4],
        [0, 5, 4, 4],
        [np.nan, 0, 4, 4],
        [0, 0, np.inf, 4],
    ],
)
def test_a_box_outside_the_image_is_named(box: list[float]) -> None:
    with pytest.raises(SeesayError, match=r"row 1\) is not in an image of 10×8"):
        clip_boxes(np.array([[0, 0, 1, 1], box], np.float32), 8, 10)


@pytest.fixture(scope="module")
def photo() -> np.ndarray:
    coarse = np.random.default_rng(2).integers(0, 256, (6, 9, 3), np.uint8)
    return resize(coarse, 180, 270)


BOXES = np.array([[0, 0, 270, 180], [30, 20, 200, 120], [250, 160, 400, 300], [5, 5, 5, 5]], np.float32)


def test_pooled_regions_are_those_of_the_network_run_plainly(photo: np.ndarray) -> None:
    rows = load_region_encoder("roi-pooling").encode(photo, BOXES)
    network = PixelsToMaps(load_lite(NETWORK).network).eval().network
    seen: list[np.ndarray] = []
    for block in (10, 15):  # the last of strides 16 and 32
        network._blocks[block].register_forward_hook(
            lambda _, __, out: seen.append(out[0].permute(1, 2, 0).numpy())
        )
    pixels = torch.from_numpy(resize(photo, SIDE, SIDE).copy()).permute(2, 0, 1)[None].float()
    with torch.inference_mode():
        network.extract_features((pixels - 127) / 128)
    assert [maps.shape for maps in seen] == [(28, 28, 112), (14, 14, 320)]
    for row, box in zip(rows[:2], BOXES[:2] / np.array([270, 180, 270, 180]), strict=True):
        by_bin = [sampled_mean(maps, part) for maps in seen for part in thirds(box)]
        np.testing.assert_allclose(row, np.concatenate(by_bin), atol=2e-2)
    assert np.isfinite(rows).all()


def test_the_exported_maps_are_those_in_pytorch(photo: np.ndarray) -> None:
    pixels = resize(photo, SIDE, SIDE)[None]
    eager = in_pytorch(PixelsToMaps(load_lite(NETWORK).network).eval(), "cpu")(pixels)
    network, _ = lite_network(NETWORK, MAP_CHANNELS, SIDE, "cpu")
    for exported, other in zip(network(pixels).values(), eager, strict=True):
        np.testing.assert_allclose(exported, other, atol=2e-3)


def thirds(box: np.ndarray) -> list[np.ndarray]:
    """The nine parts of a box, row by row."""
    x, y = np.linspace(box[0], box[2], 4), np.linspace(box[1], box[3], 4)
    return [np.array([x[i], y[j], x[i + 1], y[j + 1]]) for j in range(3) for i in range(3)]


def test_fingerprints_tell_encoders_apart_and_unknown_names_are_answered() -> None:
    encoders = [load_region_encoder(name) for name in NAMES]
    assert len({e.fingerprint for e in encoders}) == len(encoders)
    for name in ("nothing", "efficientnet-lite0", "roi-pool"):
        with pytest.raises(SeesayError, match=f"No region encoder '{name}'.*roi-pooling"):
            load_region_encoder(name)
