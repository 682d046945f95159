"""Crops against a computation that spells every index out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from seesay.encoders.images import base as module
from seesay.encoders.images.base import crops_of, random_crop, resize, ten_crops

SHAPES = ((300, 500), (500, 300), (256, 256), (224, 640), (37, 90), (1, 50))


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def naive_ten(pixels: np.ndarray, size: int) -> np.ndarray:
    """Krizhevsky et al.: short side to 256/224 of the crop, four corners, centre, mirrors, pixel by pixel."""
    height, width = pixels.shape[:2]
    short = min(height, width)
    rows = max(size, round(height * size * 256 / 224 / short))
    columns = max(size, round(width * size * 256 / 224 / short))
    large = resize(pixels, rows, columns)
    out = np.zeros((10, size, size, 3), np.uint8)
    tops = (0, 0, rows - size, rows - size, (rows - size) // 2)
    lefts = (0, columns - size, 0, columns - size, (columns - size) // 2)
    for crop in range(5):
        for y in range(size):
            for x in range(size):
                out[crop, y, x] = large[tops[crop] + y, lefts[crop] + x]
                out[crop + 5, y, size - 1 - x] = out[crop, y, x]
    return out


@pytest.mark.parametrize("shape", SHAPES)
def test_ten_crops_are_the_naive_ones(shape: tuple[int, int]) -> None:
    pixels = picture(*shape)
    np.testing.assert_array_equal(ten_crops(pixels, 28), naive_ten(pixels, 28))


def test_ten_crops_of_a_right_sized_image_need_no_resize() -> None:
    pixels = picture(256, 300)
    crops = ten_crops(pixels, 224)
    np.testing.assert_array_equal(crops[0], pixels[:224, :224])
    np.testing.assert_array_equal(crops[3], pixels[32:, 76:])
    np.testing.assert_array_equal(crops[4], pixels[16:240, 38:262])
    np.testing.assert_array_equal(crops[9], pixels[16:240, 38:262][:, ::-1])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 90), st.integers(1, 90), st.sampled_from(["squash", "mirror", "ten"]))
def test_any_image_gives_crops_of_one_shape(height: int, width: int, kind: str) -> None:
    crops = crops_of(picture(height, width), 16, kind)
    assert crops.shape == ({"squash": 1, "mirror": 2, "ten": 10}[kind], 16, 16, 3)
    assert crops.dtype == np.uint8


def test_squash_shows_the_whole_image() -> None:
    pixels = np.zeros((40, 160, 3), np.uint8)
    pixels[:, :80] = 255
    (crop,) = crops_of(pixels, 16, "squash")
    assert (crop[:, :7] == 255).all()
    assert (crop[:, 9:] == 0).all()


def test_mirror_is_the_squash_and_its_mirror_image() -> None:
    pixels = picture(30, 50)
    (squash,) = crops_of(pixels, 16, "squash")
    np.testing.assert_array_equal(crops_of(pixels, 16, "mirror"), [squash, squash[:, ::-1]])


@pytest.mark.parametrize("kind", ["squash", "ten"])
def test_random_crops_are_pieces_of_the_enlarged_image_or_of_its_mirror(kind: str) -> None:
    pixels, size = picture(40, 64), 28
    large = resize(pixels, 32, 32 if kind == "squash" else 51)
    views = np.lib.stride_tricks.sliding_window_view(large, (size, size), axis=(0, 1))
    pieces = views.transpose(0, 1, 3, 4, 2).reshape(-1, size, size, 3)
    for seed in range(6):
        found = random_crop(pixels, size, kind, np.random.default_rng(seed))
        assert any((piece == found).all() or (piece[:, ::-1] == found).all() for piece in pieces)


@pytest.mark.parametrize("vectorised", [False, True])
@pytest.mark.parametrize("shape", [*SHAPES, (1200, 1600)])
def test_resize_is_pillows(shape: tuple[int, int], vectorised: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_VECTORISED", vectorised)
    pixels = resize(picture(9, 12), *shape)  # smooth, as a photograph is
    found = resize(pixels, 40, 30)
    expected = np.asarray(Image.fromarray(pixels).resize((30, 40), Image.Resampling.BICUBIC))
    assert found.dtype == np.uint8
    difference = np.abs(found.astype(int) - expected)
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.02


def test_resize_takes_arrays_of_any_layout() -> None:
    pixels = picture(30, 50)
    pixels.flags.writeable = False
    expected = resize(np.ascontiguousarray(pixels[:, ::-1]), 16, 16)
    np.testing.assert_array_equal(resize(pixels[:, ::-1], 16, 16), expected)


def test_resize_leaves_the_right_size_as_it_is_and_averages_when_it_shrinks() -> None:
    pixels = picture(16, 16)
    assert resize(pixels, 16, 16) is pixels
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[::2] = 255
    assert abs(resize(stripes, 8, 8)[2:6].astype(float).mean() - 127.5) < 3  # not one stripe's colour
