"""A detector of YOLOX's layout that always finds the same, and the regions that it gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seesay.data.boxes import iou
from seesay.encoders.proposals import propose
from seesay.encoders.regions import Detector, load_region_encoder, region_store
from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.results.records import encoder_and_crops

SIDE = 64  # 8² + 4² + 2² = 84 cells


class Fixed(nn.Module):
    """Gives the same rows for every image, and the colours of its corners as one more class each."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.register_buffer("rows", rows)

    def forward(self, images: Tensor) -> Tensor:
        return (self.get_buffer("rows") + 0 * images.mean())[None]


def rows() -> Tensor:
    found = torch.zeros(84, 5 + 3)
    log2 = float(np.log(2))
    found[2 * 8 + 3] = torch.tensor([0.5, 0.5, log2, log2, 0.9, 0.1, 0.8, 0])  # stride 8, column 3, row 2
    found[2 * 8 + 4] = torch.tensor([-0.4, 0.5, log2, log2, 0.8, 0, 0.8, 0])  # nearly the same box
    found[64 + 1 * 4 + 0] = torch.tensor([0.5, 0.5, 0, 0, 0.5, 1, 0, 0])  # stride 16, column 0, row 1
    found[80 + 3] = torch.tensor([0.5, 0.5, 0, 0, 0.1, 0.4, 0, 0])  # stride 32: not likely enough
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("detector") / "fixed.onnx"
    torch.onnx.export(Fixed(rows()), (torch.zeros(1, 3, SIDE, SIDE),), str(made), dynamo=False)
    return made


def test_rows_become_boxes_in_pixels_of_the_image(path: Path) -> None:
    pixels = np.zeros((64, 128, 3), np.uint8)  # half as large in the square
    boxes, confidences = Detector(path).objects(pixels, 10)
    np.testing.assert_allclose(boxes, [[40, 24, 72, 56], [0, 32, 32, 64]], atol=1e-4)
    np.testing.assert_allclose(confidences, [[0.09, 0.72, 0], [0.5, 0, 0]], atol=1e-6)
    assert len(Detector(path).objects(pixels, 1)[0]) == 1


def test_regions_are_proposed_from_objects_first(path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 128, 3)).astype(np.uint8)
    encoder = load_region_encoder({"kind": "detector", "file": str(path)})
    objects, edges = Detector(path).objects(pixels, 10)[0], propose(pixels, 30)
    boxes = encoder.propose(pixels, 30)
    np.testing.assert_allclose(boxes[: len(objects)], objects)
    np.testing.assert_allclose(boxes[-1], [0, 0, 128, 64])
    apart = [box for box in edges[:-1] if iou(box[None], objects).max() < 0.7]
    np.testing.assert_allclose(boxes[len(objects) : -1], apart[: 29 - len(objects)])
    assert len(encoder.propose(pixels, 2)) == 2


def test_regions_have_the_classes_of_the_objects_that_they_overlap(path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 128, 3)).astype(np.uint8)
    encoder, plain = (
        load_region_encoder({"kind": "detector", "file": str(path)}),
        load_region_encoder({"kind": "roi-pooling", "network": "efficientnet-lite0-int8"}),
    )
    boxes = [[40, 24, 72, 56], [0, 32, 32, 64], [40, 24, 72, 88], [100, 0, 110, 10]]
    rows = encoder.encode(pixels, boxes)
    assert encoder.dim == rows.shape[1] == plain.dim + 3
    np.testing.assert_array_equal(rows[:, : plain.dim], plain.encode(pixels, boxes))
    wanted = [[0.09, 0.72, 0], [0.5, 0, 0], [0.8 * 0.09, 0.8 * 0.72, 0], [0, 0, 0]]
    np.testing.assert_allclose(rows[:, plain.dim :], wanted, atol=1e-4)


def test_features_do_not_depend_on_where_the_detector_lies(path: Path, tmp_path: Path) -> None:
    (tmp_path / "same.onnx").write_bytes(path.read_bytes())
    first, second = (
        load_region_encoder({"kind": "detector", "file": str(each)})
        for each in (path, tmp_path / "same.onnx")
    )
    assert first.fingerprint == second.fingerprint
    ones = {"boxes": np.ones((1, 4)), "features": np.ones((1, first.dim))}
    region_store(tmp_path, first).add({"0" * 32: ones})
    assert region_store(tmp_path, second)["0" * 32]["features"].tolist() == [[1] * first.dim]


def test_a_recipe_finds_its_detector_from_anywhere(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    (encoder,) = load_recipe(
        "ground-one", changes=[f"encoders=[{{kind: detector, file: {path.name}}}]"]
    ).encoders
    assert encoder.dump() == {"kind": "detector", "file": str(path)}
    (missing,) = load_recipe("ground-one", changes=["encoders=[{kind: detector, file: none.onnx}]"]).encoders
    assert missing.dump() == {"kind": "detector", "file": "none.onnx"}
    with pytest.raises(SeesayError, match=r"name its file, {kind: detector, file: FILE\.onnx}"):
        load_region_encoder("detector")


def test_rows_name_the_detector(path: Path) -> None:
    recipe = load_recipe("ground-one", changes=[f"encoders=[{{kind: detector, file: {path}}}]"])
    assert encoder_and_crops(recipe) == ("efficientnet-lite0-int8+fixed", "pooled regions")


def test_what_is_no_detector_is_said(tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="no such detector"):
        load_region_encoder({"kind": "detector", "file": str(tmp_path / "none.onnx")})
    made = tmp_path / "other.onnx"
    torch.onnx.export(nn.Linear(3, 2), (torch.zeros(1, 3),), str(made), dynamo=False)
    with pytest.raises(SeesayError, match=r"not of YOLOX's layout, .*\[\(\[1, 3\]"):
        Detector(made)
