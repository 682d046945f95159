"""Detectors in the layout of YOLOX, by graphs that give known rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from seesay.encoders.regions import Detector
from seesay.errors import SeesayError

SIDE = 64
CELLS = 8 * 8 + 4 * 4 + 2 * 2


def graph(
    path: Path, rows: NDArray[np.float32], side: int | str = SIDE, channels: int = 3, batch: int = 1
) -> Path:
    """A detector that gives these rows (cells, 5 + classes), and the mean of its input as one objectness."""
    where = np.zeros((1, *rows.shape), np.float32)
    where[0, -1, 4] = 1
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "where"], ["there"]),
        helper.make_node("Add", ["rows", "there"], ["output"]),
    ]
    made = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch, channels, side, side])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, *rows.shape])],
        [numpy_helper.from_array(rows[None], "rows"), numpy_helper.from_array(where, "where")],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, path)
    return path


def rows(classes: int = 2, **objects: tuple[int, float, float, float, float, int, float]) -> NDArray:
    """Rows of nothing but objects: cell, centre x and y, width and height in strides, class, confidence."""
    made = np.zeros((CELLS, 5 + classes), np.float32)
    for cell, x, y, width, height, number, confidence in objects.values():
        made[cell, :5] = x, y, np.log(width), np.log(height), 0.9
        made[cell, 5 + number] = confidence / 0.9
    return made


@pytest.fixture
def detector(tmp_path: Path) -> Detector:
    found = rows(
        dog=(8 * 2 + 3, 0.5, 0.5, 2, 1, 0, 0.8),  # column 3, row 2 of stride 8: centre 28, 20
        again=(8 * 2 + 4, -0.4, 0.5, 2, 1, 0, 0.6),  # the same dog
        cat=(64 + 4 * 1 + 1, 0.5, 0.5, 1, 1, 1, 0.7),  # stride 16: centre 24, 24
        faint=(0, 0, 0, 1, 1, 1, 0.1),
    )
    return Detector(graph(tmp_path / "two.onnx", found))


def test_boxes_are_pixels_of_the_image(detector: Detector) -> None:
    for size in (1, 4):
        boxes, confidences = detector.objects(np.zeros((32 * size, 64 * size, 3), np.uint8), 2)
        np.testing.assert_allclose(confidences, [[0.8, 0], [0, 0.7]], atol=1e-6)
        assert boxes[0] == pytest.approx([20 * size, 16 * size, 36 * size, 24 * size])
        assert boxes[1] == pytest.approx([16 * size, 16 * size, 32 * size, 32 * size])


def test_boxes_end_at_the_edges(detector: Detector) -> None:
    boxes, _ = detector.objects(np.zeros((20, 64, 3), np.uint8), 1)
    assert boxes.tolist() == [[20, 16, 36, 20]]


def test_images_are_letterboxed_with_grey_and_are_blue_green_red(tmp_path: Path) -> None:
    found = rows()
    found[-1, 5] = 1 / 256
    detector = Detector(graph(tmp_path / "two.onnx", found))
    black, white = (np.full((32, 64, 3), value, np.uint8) for value in (0, 255))
    assert detector.read(black)[1].max() == pytest.approx(114 / 2 / 256)
    assert detector.read(white)[1].max() == pytest.approx((114 + 255) / 2 / 256)


def test_what_is_no_detector_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no graph")
    graph(tmp_path / "flat.onnx", rows())
    flat = onnx.load_model(tmp_path / "flat.onnx")
    flat.graph.output[0].CopyFrom(helper.make_tensor_value_info("mean", TensorProto.FLOAT, []))
    onnx.save_model(flat, tmp_path / "flat.onnx")
    graphs = {
        "flat.onnx": r"it is \[\]",
        "missing.onnx": "no such detector",
        "text.onnx": "damaged; name an ONNX file",
        graph(tmp_path / "grey.onnx", rows(), channels=1).name: r"its inputs are \[\(\[1, 1, 64, 64\]",
        graph(tmp_path / "free.onnx", rows(), side="n").name: "its inputs are",
        graph(tmp_path / "several.onnx", rows(), batch=8).name: "its inputs are",
        graph(tmp_path / "few.onnx", rows()[:50]).name: r"it is \[1, 50, 7\]",
    }
    for name, told in graphs.items():
        with pytest.raises(SeesayError, match=told):
            Detector(tmp_path / name)
