"""Instances: regions described by class probabilities, against a plain pass of the network over each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from seesay.data.corpus import CorpusImage
from seesay.data.images import FileSource, decode
from seesay.encoders.images.base import load_image_encoder, resize
from seesay.encoders.images.efficientnet import DIMS, load_lite
from seesay.encoders.images.encode import encode_images, fill_stores
from seesay.encoders.images.instances import COUNT
from seesay.encoders.proposals import SIDE, diverse_regions

CLASSES = DIMS["logits"]


@pytest.fixture(scope="module")
def photo(scenes: Path) -> bytes:
    return min(scenes.rglob("*.jpg")).read_bytes()


def test_each_instance_is_what_the_network_says_of_its_box(photo: bytes) -> None:
    encoder = load_image_encoder("instances")
    (arrays,) = encode_images([encoder], [photo], ["a"])
    rows = arrays["pooled"].reshape(1, COUNT, CLASSES)
    pixels = decode(photo, "a")
    boxes = diverse_regions(pixels, COUNT)
    network = load_lite("efficientnet-lite0")
    for i, (x1, y1, x2, y2) in enumerate(boxes):
        crop = pixels[int(np.floor(y1)) : int(np.ceil(y2)), int(np.floor(x1)) : int(np.ceil(x2))]
        with torch.inference_mode():
            logits = network(torch.from_numpy(resize(crop, SIDE, SIDE).copy())[None])[1]
        np.testing.assert_allclose(rows[0, i], logits.softmax(dim=1)[0], atol=1e-4)
    height, width = pixels.shape[:2]
    places = arrays["boxes"].reshape(1, COUNT, 4)
    np.testing.assert_allclose(places[0, : len(boxes)] * [width, height, width, height], boxes, atol=1e-3)


def test_an_image_without_edges_has_the_whole_image_and_zeros(tmp_path: Path) -> None:
    path = tmp_path / "grey.png"
    Image.new("RGB", (90, 60), (120, 120, 120)).save(path)
    image = CorpusImage("grey.png", "test", FileSource(path))
    report = fill_stores([load_image_encoder("instances")], tmp_path / "stores", [image])
    rows = report.stores[0].read([key for key in report.keys if key], "pooled").reshape(COUNT, CLASSES)
    assert rows[0].sum() == pytest.approx(1, abs=1e-2)  # kept in half precision
    assert not rows[1:].any()
    boxes = report.stores[0].read([key for key in report.keys if key], "boxes").reshape(COUNT, 4)
    assert boxes[0].tolist() == [0, 0, 1, 1]
    assert not boxes[1:].any()


def test_what_is_encoded_along_with_it_changes_nothing(photo: bytes) -> None:
    names = ["instances", "efficientnet-lite0"]
    together = encode_images([load_image_encoder(name) for name in names], [photo], ["a"])
    for name, arrays in zip(names, together, strict=True):
        alone = encode_images([load_image_encoder(name)], [photo], ["a"])
        np.testing.assert_array_equal(alone[0]["pooled"], arrays["pooled"])


def test_a_grid_covers_the_image_at_three_sizes(photo: bytes) -> None:
    pixels = decode(photo, "a")
    encoder = load_image_encoder({"kind": "instances", "boxes": "grid"})
    squares, boxes = encoder.prepare(pixels)
    assert squares.shape == (COUNT, SIDE, SIDE, 3)
    sides = boxes[:, 2:] - boxes[:, :2]
    np.testing.assert_allclose(sides[:, 0], sides[:, 1], atol=1e-6)
    found, counts = np.unique(sides[:, 0].astype(float).round(3), return_counts=True)
    assert dict(zip(found.tolist(), counts.tolist(), strict=True)) == {0.333: 25, 0.5: 9, 0.75: 1, 1.0: 1}
    for size in (1 / 3, 1 / 2):  # each size by itself leaves nothing out
        mine = boxes[np.isclose(sides[:, 0], size)]
        points = np.random.default_rng(0).random((500, 1, 2))
        assert ((points >= mine[:, :2] - 1e-6) & (points <= mine[:, 2:] + 1e-6)).all(axis=2).any(axis=1).all()
    assert boxes[-1].tolist() == [0, 0, 1, 1]
    assert encoder.fingerprint != load_image_encoder("instances").fingerprint
