"""Exported networks: made once, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

from seesay.errors import SeesayError
from seesay.onnx import Packaged, onnx_session


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def export(build: object = None, axes: dict[str, dict[int, str]] | None = None) -> Path:
    build = build or (lambda: nn.Sequential(nn.Dropout(0.5), nn.Softmax(dim=-1)))
    example = [np.zeros((1, 4), np.float32)]
    return Packaged("soft", build, example, ["x"], ["y"], axes or {}).file()  # type: ignore[arg-type]


def test_a_network_is_exported_once_in_evaluation_mode(cache: Path) -> None:
    path = export()
    assert path == cache / "onnx" / "soft.onnx"
    assert list(path.parent.iterdir()) == [path]

    def unwanted() -> nn.Module:
        raise AssertionError("it is in the cache")

    assert export(unwanted) == path
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)  # the first axis is free
    (y,) = onnx_session(path, threads=1).run(None, {"x": x})
    np.testing.assert_allclose(y, torch.from_numpy(x).softmax(-1), rtol=1e-5)


def test_named_axes_are_free() -> None:
    session = onnx_session(export(axes={"x": {1: "width"}, "y": {1: "width"}}), threads=1)
    assert session.run(None, {"x": np.zeros((2, 9), np.float32)})[0].shape == (2, 9)


def test_a_failed_export_leaves_nothing_behind(cache: Path) -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no such shape")

    with pytest.raises(ValueError, match="no such shape"):
        export(Broken)
    assert list((cache / "onnx").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "file"))
    with pytest.raises(SeesayError, match="set SEESAY_CACHE"):
        export()


def test_a_file_that_the_disk_does_not_return_is_not_to_be_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise RuntimeError("system error number 5: Input/output error")  # as ONNX Runtime has it

    monkeypatch.setattr(onnxruntime, "InferenceSession", failing)
    with pytest.raises(SeesayError, match=r"soft\.onnx: cannot be read \(Input/output error\)") as raised:
        onnx_session(export(), threads=1)
    assert "delete" not in str(raised.value)


@pytest.mark.parametrize("keep", [0, 10, -20])
def test_a_damaged_file_is_named(keep: int) -> None:
    path = export()
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(SeesayError, match=r"soft\.onnx: damaged; delete it"):
        onnx_session(path, threads=1)
