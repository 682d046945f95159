"""Pixels against the libraries' own, on photographs where they exist."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from seesay.encoders.towers.inputs import Preprocessing
from seesay.encoders.towers.libraries import of_transform

SIZES = [(500, 375), (375, 500), (333, 500), (97, 61), (30, 20), (224, 224), (225, 226), (1, 50)]


def real() -> list[Image.Image]:
    """The first photographs of Flickr8k; none where it is not."""
    file = Path(__file__).parents[4] / "shared" / "flickr8k" / "images.tar"
    images = []
    if file.is_file():
        with tarfile.open(file) as tar:
            while len(images) < 12 and (member := tar.next()):
                if data := tar.extractfile(member):
                    images.append(Image.open(io.BytesIO(data.read())).convert("RGB"))
    return images


@pytest.fixture(scope="module")
def photographs() -> list[Image.Image]:
    draw = np.random.default_rng(0)
    return real() + [Image.fromarray(draw.integers(0, 256, (h, w, 3), dtype=np.uint8)) for w, h in SIZES]


def levels(preprocessing: Preprocessing, image: Image.Image, theirs: Any) -> float:
    """The largest difference of two prepared images, in levels of 255."""
    mean, std = (np.array(each, np.float64) for each in (preprocessing.mean, preprocessing.std))
    pixels = (np.asarray(theirs, np.float64).transpose(1, 2, 0) * std + mean) * 255
    ours = preprocessing.apply(np.asarray(image))
    assert ours.dtype == np.uint8
    assert ours.shape == pixels.shape
    return float(np.abs(ours - pixels).max())


@pytest.mark.parametrize("resize", ["shortest", "cover"])
@pytest.mark.parametrize("shape", [(2000, 1, 3), (1, 2000, 3)])
def test_of_a_row_of_pixels_only_the_middle_is_enlarged(
    resize: Any, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes: list[tuple[int, ...]] = []
    fromarray = Image.fromarray

    def seen(array: np.ndarray) -> Image.Image:
        shapes.append(array.shape)
        return fromarray(array)

    monkeypatch.setattr(Image, "fromarray", seen)
    preprocessing = Preprocessing(resize, (224, 224), (224, 224), "bicubic", (0.5,) * 3, (0.5,) * 3)
    assert preprocessing.apply(np.zeros(shape, np.uint8)).shape == (224, 224, 3)
    assert [max(each) for each in shapes] == [64]


@pytest.mark.parametrize("mode", ["shortest", "squash", "longest"])
@pytest.mark.parametrize("size", [224, (160, 224)])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_pixels_of_open_clip(
    mode: str, size: Any, interpolation: str, open_clip: Any, photographs: list[Image.Image]
) -> None:
    transform = open_clip.image_transform(
        size, is_train=False, resize_mode=mode, interpolation=interpolation, fill_color=9
    )
    preprocessing = of_transform(transform)
    for image in photographs:
        assert levels(preprocessing, image, transform(image)) < 1e-3


@pytest.mark.parametrize("crop_mode", ["center", "squash", "border"])
def test_pixels_of_timm(crop_mode: str, timm: Any, photographs: list[Image.Image]) -> None:
    transform = timm.data.create_transform(
        (3, 64, 64), crop_pct=0.9, crop_mode=crop_mode, interpolation="bicubic"
    )
    preprocessing = of_transform(transform)
    for image in photographs:
        assert levels(preprocessing, image, transform(image)) < 1e-3


def test_preprocessing_survives_json() -> None:
    one = Preprocessing("contain", (3, 4), (5, 6), "lanczos", (0.1, 0.2, 0.3), (1, 2, 3), 4)
    ten = replace(one, crop=(6, 6), ten=True)
    for each in (one, ten):
        assert Preprocessing.from_json(json.loads(json.dumps(asdict(each)))) == each
    for crop in ((6, 5), (2048, 2048)):  # neither squares, nor gigabytes an image
        with pytest.raises(ValueError, match=r"^ten is True, with crops of "):
            Preprocessing.from_json(asdict(replace(ten, crop=crop)))
