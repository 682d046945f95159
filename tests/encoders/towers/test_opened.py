"""Towers in folders that need no library."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from seesay.encoders import load_image_encoder
from seesay.encoders.towers import opened
from seesay.errors import SeesayError
from seesay.paths import file_digest
from tests.encoders.towers.conftest import Model, settings_of
from tests.small_towers import CAPTIONS

PIXELS = [np.random.default_rng(i).integers(0, 256, (40, 50, 3), dtype=np.uint8) for i in range(3)]


def vectors(tower: Model) -> list[np.ndarray]:
    images = tower.image.encode_prepared([tower.image.prepare(each) for each in PIXELS])["pooled"]
    both = images, tower.text.encode(CAPTIONS[:5])
    return [each / np.linalg.norm(each, axis=1, keepdims=True) for each in both]


@pytest.fixture(scope="module")
def written(clip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(f"open_clip:{clip}", tmp_path_factory.mktemp("written") / "copy")


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(opened.open_towers(settings_of(name), "cpu").folder, folder))


def test_what_is_written_is_the_same_model(clip: Path, written: Path) -> None:
    assert {path.name for path in written.iterdir() if path.is_file()} == {
        "image.onnx",
        "text.onnx",
        "tokenizer.json",
        "tower.json",
    }
    for path in written.iterdir():
        assert str(clip).encode() not in path.read_bytes()
    ours, theirs = Model({"kind": "exported", "folder": str(written)}), Model(f"open_clip:{clip}", "cpu")
    assert (ours.dim, ours.logit_scale, ours.logit_bias) == (24, theirs.logit_scale, theirs.logit_bias)
    for found, expected in zip(vectors(ours), vectors(theirs), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_image_tower_alone(timm: Any, tmp_path: Path) -> None:
    folder = copied({"kind": "timm", "model": "test_vit", "weights": "random"}, tmp_path / "copy")
    assert sorted(path.name for path in folder.iterdir()) == ["image.onnx", "tower.json"]
    encoder = load_image_encoder({"kind": "exported", "folder": str(folder)})
    assert encoder.encode_prepared([encoder.prepare(PIXELS[0])])["pooled"].shape == (1, 64)
    with pytest.raises(SeesayError, match="encodes images only"):
        Model({"kind": "exported", "folder": str(folder)})


@pytest.mark.parametrize("file", ["image.onnx", "text.onnx", "tokenizer.json", "tower.json"])
def test_what_is_missing_or_damaged_is_named(file: str, written: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(written, tmp_path / "given")
    (folder / file).write_bytes(b"{")
    with pytest.raises(SeesayError, match=f"{file}: damaged.*; copy the folder again"):
        vectors(Model({"kind": "exported", "folder": str(folder)}))
    (folder / file).unlink()
    with pytest.raises(SeesayError, match=r"no tower there" if file == "tower.json" else f"{file}: missing"):
        Model({"kind": "exported", "folder": str(folder)})


def test_other_networks_beside_a_true_description(written: Path, tmp_path: Path) -> None:
    true = Model({"kind": "exported", "folder": str(written)})
    copied = shutil.copytree(written, tmp_path / "copied")
    (copied / "LICENSE").write_text("MIT")
    assert Model({"kind": "exported", "folder": str(copied)}).fingerprint == true.fingerprint
    for file in ("image.onnx", "text.onnx"):
        folder = shutil.copytree(written, tmp_path / file)
        network = onnx.load(folder / file)
        largest = max(network.graph.initializer, key=lambda each: len(each.raw_data))
        largest.raw_data = bytes(reversed(largest.raw_data))
        onnx.save(network, folder / file)
        other = Model({"kind": "exported", "folder": str(folder)})
        assert other.fingerprint != true.fingerprint
        assert other.image.fingerprint != true.image.fingerprint
    (copied / "onnx__MatMul_99").write_bytes(b"weights outside of a network")
    assert Model({"kind": "exported", "folder": str(copied)}).fingerprint != true.fingerprint


def test_a_large_network_is_hashed_once(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = time.time() + 60  # by when a change would show in the times of the files
    monkeypatch.setattr(time, "time", lambda: later)
    read: list[str] = []
    monkeypatch.setattr(opened, "file_digest", lambda path: read.append(path.name) or file_digest(path))
    folder = shutil.copytree(written, tmp_path / "given")
    first = Model({"kind": "exported", "folder": str(folder)}).fingerprint
    assert sorted(read) == ["image.onnx", "text.onnx", "tokenizer.json"]
    assert Model({"kind": "exported", "folder": str(folder)}).fingerprint == first
    assert len(read) == 3
    times = (folder / "image.onnx").stat()
    changed = bytearray((folder / "image.onnx").read_bytes())
    changed[-1] ^= 1
    (folder / "image.onnx").write_bytes(changed)
    os.utime(folder / "image.onnx", ns=(times.st_atime_ns, times.st_mtime_ns))  # as an archive would
    assert Model({"kind": "exported", "folder": str(folder)}).fingerprint != first


WRONG: dict[str, object] = {
    "preprocessing.interpolation": "nope",
    "preprocessing.resize": "foo",
    "preprocessing.crop": [0, 32],
    "preprocessing.size": [32],
    "preprocessing.std": [1.0, 0.0, 1.0],
    "preprocessing.fill": 256,
    "preprocessing.ten": 1,
    "preprocessing.mean": "0.5",
    "preprocessing": 5,
    "tokens.clean": "nope",
    "tokens.length": 0,
    "tokens.pad_id": -1,
    "tokens.pad_left": 3,
    "dim": 24.5,
    "logit_scale": float("nan"),
    "logit_bias": "0",
    "weights": 1,
}


def with_field(written: Path, folder: Path, field: str, value: object) -> str:
    """Copy an export with one field of tower.json changed, and return its name."""
    shutil.copytree(written, folder)
    about = json.loads((folder / "tower.json").read_text())
    *outer, inner = field.split(".")
    (about[outer[0]] if outer else about)[inner] = value
    (folder / "tower.json").write_text(json.dumps(about))
    return {"kind": "exported", "folder": str(folder)}


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_field_is_named(field: str, written: Path, tmp_path: Path) -> None:
    name = with_field(written, tmp_path / "given", field, WRONG[field])
    inner = "not iterable" if field == "preprocessing" else field.rpartition(".")[2]
    with pytest.raises(SeesayError, match=rf"tower\.json: damaged \(.*{inner}.*\); copy the folder again"):
        Model(name)


@pytest.mark.parametrize(
    ("field", "value", "file"),
    [
        ("dim", 25, "image.onnx"),
        ("preprocessing.crop", [64, 64], "image.onnx"),
        ("tokens.length", 1, "tokenizer.json"),
    ],
)
def test_what_does_not_fit_its_description_is_named(
    field: str, value: object, file: str, written: Path, tmp_path: Path
) -> None:
    given = Model(with_field(written, tmp_path / "given", field, value))
    with pytest.raises(SeesayError, match=f"{file}: .*; copy the folder again") as caught:
        vectors(given)
    assert "\n" not in str(caught.value)


def test_a_text_tower_in_place_of_the_image_tower(written: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(written, tmp_path / "given")
    shutil.copy(folder / "text.onnx", folder / "image.onnx")
    with pytest.raises(SeesayError, match=r"image\.onnx: does not fit its tower\.json"):
        vectors(Model({"kind": "exported", "folder": str(folder)}))


def test_no_folder_is_named() -> None:
    with pytest.raises(SeesayError, match="no tower there"):
        Model({"kind": "exported", "folder": "nowhere"})
