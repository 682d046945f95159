"""Images as callers have them: each kind is read to the same picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from seesay.data.images import EncodedImage
from seesay.errors import ImageError, SeesayError
from seesay.runs.prepare import list_images, read_images


def test_every_kind_is_read_with_a_name(scenes: Path) -> None:
    path = next(scenes.rglob("*.jpg"))
    data, picture = path.read_bytes(), Image.open(path)
    pixels = np.asarray(picture.convert("RGB"))
    contents, names = read_images([str(path), path, data, picture, pixels])
    assert contents[:3] == [data] * 3
    for content in contents[3:]:
        np.testing.assert_array_equal(content, pixels)
    assert names == [str(path), str(path), "images[2]", "images[3]", "images[4]"]


def test_a_photo_is_turned_upright() -> None:
    photo = Image.new("RGB", (4, 2))
    photo.getexif()[0x0112] = 6  # taken with the camera on its side
    (content,), _ = read_images([photo])
    assert np.shape(content) == (4, 2, 3)


@pytest.mark.parametrize(
    ("mode", "value"),
    [("RGBA", (9, 9, 9, 0)), ("LA", (9, 0)), ("I;16", 20_000), ("F", 0.5), ("L", 7), ("CMYK", (9, 9, 9, 9))],
)
def test_an_opened_image_has_the_pixels_of_its_file(mode: str, value: Any) -> None:
    image, out = Image.new(mode, (8, 6), value), io.BytesIO()
    image.save(out, "TIFF")
    (content,), _ = read_images([image])
    np.testing.assert_array_equal(content, EncodedImage(out.getvalue(), "image").pixels())


def test_an_opened_image_whose_file_is_cut_off_is_named(scenes: Path) -> None:
    data = next(scenes.rglob("*.jpg")).read_bytes()
    with pytest.raises(ImageError, match=r"images\[1\]: damaged \(.*truncated"):
        read_images([data, Image.open(io.BytesIO(data[: len(data) // 2]))])


@pytest.mark.parametrize("single", ["a.jpg", b"jpeg", Path("a.jpg"), Image.new("RGB", (2, 2))])
def test_a_single_image_is_refused(single: object) -> None:
    with pytest.raises(SeesayError, match=r"expected a list of images, .* write \[image\]"):
        list_images(single)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("item", "got"),
    [(np.zeros((2, 2, 3)), r"float64 \(2, 2, 3\)"), (np.zeros((2, 2), np.uint8), "uint8"), (3, "int")],
)
def test_other_things_are_refused(item: object, got: str) -> None:
    with pytest.raises(SeesayError, match=rf"images\[1\]: .*got {got}"):
        read_images([b"", item])  # type: ignore[list-item]


def test_an_image_without_pixels_is_refused() -> None:
    for image in (Image.new("RGB", (0, 5)), np.zeros((0, 5, 3), np.uint8)):
        with pytest.raises(ImageError, match="no pixels"):
            read_images([image])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"none\.jpg"):
        read_images([tmp_path / "none.jpg"])


def test_a_closed_image_and_a_path_that_cannot_be_are_named() -> None:
    image = Image.new("RGB", (2, 2))
    image.close()
    for each, place in ((image, r"images\[0\]"), ("a\0b.jpg", "a\0b.jpg")):
        with pytest.raises(ImageError, match=place):
            read_images([each])
