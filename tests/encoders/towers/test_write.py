"""Towers in folders that need no library: as they are, and with weights of 8 and 16 bits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from seesay.encoders import load_image_encoder
from seesay.encoders.towers import (
    TwoTower,
    bring_towers,
    digest,
    load_two_tower,
    use_towers_of,
    write_towers,
)
from seesay.encoders.towers.recall import overlap
from seesay.errors import SeesayError
from seesay.paths import file_digest
from seesay.runs.run import Run
from tests.small_towers import CAPTIONS, REMEMBER_NETWORKS

PIXELS = [np.random.default_rng(i).integers(0, 256, (40, 50, 3), dtype=np.uint8) for i in range(3)]


def vectors(tower: TwoTower) -> list[np.ndarray]:
    images = tower.image.encode_prepared([tower.image.prepare(each) for each in PIXELS])["pooled"]
    both = images, tower.text.encode(CAPTIONS[:5])
    return [each / np.linalg.norm(each, axis=1, keepdims=True) for each in both]


def save_photos(folder: Path, contrast: int) -> Path:
    """Sixty photographs of coarse shapes; with little contrast they are nearly the same."""
    draw = np.random.default_rng(0)
    folder.mkdir()
    for number in range(60):
        coarse = 128 + draw.integers(-contrast, contrast, (6, 6, 3))
        image = Image.fromarray(coarse.astype(np.uint8)).resize((48, 40), Image.Resampling.BICUBIC)
        image.save(folder / f"{number}.png")
    (folder / "broken.jpg").write_bytes(b"no photo")
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_photos(tmp_path_factory.mktemp("photos") / "photos", 127)


@pytest.fixture(scope="module")
def written(clip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_towers(f"transformers:{clip}", tmp_path_factory.mktemp("written") / "clip").folder


def test_what_is_written_is_the_same_model(clip: Path, written: Path) -> None:
    assert sorted(path.name for path in written.iterdir()) == [
        "image.onnx",
        "text.onnx",
        "tokenizer.json",
        "tower.json",
    ]
    for path in written.iterdir():
        assert str(clip).encode() not in path.read_bytes()
    ours, theirs = load_two_tower(f"onnx:{written}"), load_two_tower(f"transformers:{clip}", "cpu")
    assert (ours.dim, ours.logit_scale, ours.logit_bias) == (24, theirs.logit_scale, theirs.logit_bias)
    for found, expected in zip(vectors(ours), vectors(theirs), strict=True):
        np.testing.assert_array_equal(found, expected)


WITHOUT_THE_LIBRARY = (
    REMEMBER_NETWORKS
    + """
import seesay
run = seesay.load(sys.argv[1])
assert run.embed_sentences(["two dogs"]).shape == (1, 24)
assert opened == ["text.onnx"], opened
heavy = [name for name in ("torch", "transformers", "onnx") if name in sys.modules]
assert not heavy, heavy
"""
)


def test_the_folder_is_a_run_by_itself(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = shutil.copytree(written, tmp_path / "moved")
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "empty"))
    command = [sys.executable, "-c", WITHOUT_THE_LIBRARY, f"onnx:{moved}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    monkeypatch.chdir(tmp_path)
    run = Run.load("onnx:moved", "cpu")
    assert run.name == f"onnx:{moved}"  # an index records it, and is searched from anywhere
    assert run.embed_images(PIXELS).shape == (3, 24)
    assert run.fingerprint == Run.load(f"onnx:{written}", "cpu").fingerprint


APART = """
import shutil, sys
from seesay.encoders.towers import load_two_tower
from seesay.onnx import network_cache
before = network_cache("features")
load_two_tower(sys.argv[1])
apart = network_cache("features")
assert apart.parent == before
shutil.rmtree(sys.argv[1].removeprefix("onnx:"))  # while it is in use
assert network_cache("features").parent == before
"""


def test_what_a_network_of_a_stranger_computes_is_cached_apart(written: Path, tmp_path: Path) -> None:
    given = shutil.copytree(written, tmp_path / "given")
    command = [sys.executable, "-c", APART, f"onnx:{given}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_fewer_bits_that_find_the_same(
    kind: str, bits: int, photos: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name = f"transformers:{request.getfixturevalue(kind)}"
    export = write_towers(name, tmp_path / "small", bits, photos)
    check = export.check
    assert check is not None
    assert (check.photos, check.sentences) == (60, 200)
    assert 0.9 <= check.recall_sentences <= 1
    assert 0.9 <= check.recall_photos <= 1
    assert all(export.sizes[file] < size for file, size in export.full_sizes.items())
    about = json.loads((export.folder / "tower.json").read_text())
    assert about["bits"] == bits
    assert about["check"]["recall_photos"] == check.recall_photos
    full, small = load_two_tower(name, "cpu"), load_two_tower(f"onnx:{export.folder}")
    assert small.image.fingerprint != full.image.fingerprint
    assert small.text.fingerprint != full.text.fingerprint
    for expected, found in zip(vectors(full), vectors(small), strict=True):
        cosines = (expected * found).sum(axis=1)
        assert cosines.min() > 0.99
        assert cosines.min() < 1 - 1e-9


def test_which_weights_have_how_many_bits(clip: Path, photos: Path, tmp_path: Path) -> None:
    def weights(bits: int, file: str) -> dict[str, int]:
        folder = tmp_path / str(bits)
        if not folder.exists():
            write_towers(f"transformers:{clip}", folder, bits, photos)
        model = onnx.load(folder / file)
        return {each.name: each.data_type for each in model.graph.initializer if np.prod(each.dims) >= 1024}

    kinds = onnx.TensorProto
    for file in ("image.onnx", "text.onnx"):
        assert set(weights(16, file).values()) == {kinds.FLOAT16}
    image, text = weights(8, "image.onnx"), weights(8, "text.onnx")
    assert [name for name, kind in image.items() if kind == kinds.FLOAT] == [
        name for name in image if "patch_embedding" in name
    ]
    assert set(text.values()) == {kinds.INT8}
    quantised = onnx.load(tmp_path / "8" / "text.onnx").graph.initializer
    matrices = [onnx.numpy_helper.to_array(each) for each in quantised if "MatMul" in each.name]
    linear = [each for each in matrices if each.ndim == 2]
    assert linear
    assert max(np.abs(each.astype(int)).max() for each in linear) <= 64  # seven bits


def test_fewer_bits_that_find_something_else_are_not_written(clip: Path, tmp_path: Path) -> None:
    alike = save_photos(tmp_path / "alike", 2)
    with pytest.raises(
        SeesayError, match=r"recall@10 0\.\d+ for sentences and 0\.\d+ for photos, on 60 photos"
    ) as info:
        write_towers(f"transformers:{clip}", tmp_path / "small", 8, alike)
    assert "nothing was written. Take 16 bits, or 32." in str(info.value)
    assert [path.name for path in tmp_path.iterdir()] == ["alike"]


def test_an_image_tower_alone(transformers: Any, photos: Path, tmp_path: Path) -> None:
    pytest.importorskip("timm", reason="timm is not installed")
    for bits, where in ((32, None), (8, photos)):
        export = write_towers("timm:test_vit@random", tmp_path / str(bits), bits, where)
        assert sorted(export.sizes) == ["image.onnx", "tower.json"]
        encoder = load_image_encoder(f"onnx:{export.folder}")
        assert encoder.encode_prepared([encoder.prepare(PIXELS[0])])["pooled"].shape == (1, 64)
        with pytest.raises(SeesayError, match="encodes images only"):
            load_two_tower(f"onnx:{export.folder}")
    assert export.check is not None
    assert export.check.recall_sentences is None


def test_equal_scores_count_as_the_same() -> None:
    full = np.array([[9.0, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, -1]])
    swapped = full[:, [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 9, 10, 12]].copy()
    swapped[0, 9:] = [-3, -2, 0, -4]
    assert overlap(full, swapped) == 1
    swapped[0, 9:] = [-3, -2, -4, 0]
    assert overlap(full, swapped) == 0.9


def test_what_cannot_be_written(clip: Path, written: Path, photos: Path, tmp_path: Path) -> None:
    name, out = f"transformers:{clip}", tmp_path / "out"
    with pytest.raises(SeesayError, match="wanted 8, 16 or 32, got 4"):
        write_towers(name, out, 4, photos)
    with pytest.raises(SeesayError, match="Name a folder of photos"):
        write_towers(name, out, 8)
    with pytest.raises(SeesayError, match="no such folder"):
        write_towers(name, out, 8, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SeesayError, match="0 photos can be read, and the check needs 50"):
        write_towers(name, out, 8, tmp_path / "empty")
    with pytest.raises(SeesayError, match="exists already"):
        write_towers(name, written)
    small = write_towers(f"onnx:{written}", tmp_path / "small", 8, photos).folder
    with pytest.raises(SeesayError, match="has 8 bits already"):
        write_towers(f"onnx:{small}", out, 16, photos)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "small"]


@pytest.mark.parametrize("file", ["image.onnx", "text.onnx", "tokenizer.json", "tower.json"])
def test_what_is_missing_or_damaged_is_named(file: str, written: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(written, tmp_path / "given")
    (folder / file).write_bytes(b"{")
    with pytest.raises(SeesayError, match=f"{file}: damaged.*; copy the folder again"):
        vectors(load_two_tower(f"onnx:{folder}"))
    (folder / file).unlink()
    with pytest.raises(SeesayError, match=r"no export there" if file == "tower.json" else f"{file}: missing"):
        load_two_tower(f"onnx:{folder}")


def test_other_networks_beside_a_true_description(written: Path, tmp_path: Path) -> None:
    true = load_two_tower(f"onnx:{written}")
    copied = shutil.copytree(written, tmp_path / "copied")
    (copied / "LICENSE").write_text("MIT")
    assert load_two_tower(f"onnx:{copied}").fingerprint == true.fingerprint
    for file in ("image.onnx", "text.onnx"):
        folder = shutil.copytree(written, tmp_path / file)
        network = onnx.load(folder / file)
        largest = max(network.graph.initializer, key=lambda each: len(each.raw_data))
        largest.raw_data = bytes(reversed(largest.raw_data))
        onnx.save(network, folder / file)
        other = load_two_tower(f"onnx:{folder}")
        assert other.fingerprint != true.fingerprint
        assert other.image.fingerprint != true.image.fingerprint
    (copied / "onnx__MatMul_99").write_bytes(b"weights outside of a network")
    assert load_two_tower(f"onnx:{copied}").fingerprint != true.fingerprint


def test_a_large_network_is_hashed_once(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest, "_SMALL", 0)
    monkeypatch.setattr(digest, "_SETTLED", 0)
    read: list[str] = []
    monkeypatch.setattr(digest, "file_digest", lambda path: read.append(path.name) or file_digest(path))
    folder = shutil.copytree(written, tmp_path / "given")
    first = load_two_tower(f"onnx:{folder}").fingerprint
    assert sorted(read) == ["image.onnx", "text.onnx", "tokenizer.json"]
    assert load_two_tower(f"onnx:{folder}").fingerprint == first
    assert len(read) == 3
    times = (folder / "image.onnx").stat()
    changed = bytearray((folder / "image.onnx").read_bytes())
    changed[-1] ^= 1
    (folder / "image.onnx").write_bytes(changed)
    os.utime(folder / "image.onnx", ns=(times.st_atime_ns, times.st_mtime_ns))  # as an archive would
    assert load_two_tower(f"onnx:{folder}").fingerprint != first


WRONG: dict[str, object] = {
    "preprocessing.interpolation": "nope",
    "preprocessing.resize": "foo",
    "preprocessing.offset": "up",
    "preprocessing.crop": [0, 32],
    "preprocessing.size": [32],
    "preprocessing.std": [1.0, 0.0, 1.0],
    "preprocessing.fill": 256,
    "preprocessing.mean": "0.5",
    "tokens.clean": "nope",
    "tokens.length": 0,
    "tokens.pad_id": -1,
    "tokens.fixed": 3,
    "dim": 24.5,
    "logit_scale": float("nan"),
    "logit_bias": "0",
    "weights": 1,
    "text_inputs": ["mask", "ids"],
}


def with_field(written: Path, folder: Path, field: str, value: object) -> str:
    """Copy an export with one field of tower.json changed, and return its name."""
    shutil.copytree(written, folder)
    about = json.loads((folder / "tower.json").read_text())
    *outer, inner = field.split(".")
    (about[outer[0]] if outer else about)[inner] = value
    (folder / "tower.json").write_text(json.dumps(about))
    return f"onnx:{folder}"


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_field_is_named(field: str, written: Path, tmp_path: Path) -> None:
    name = with_field(written, tmp_path / "given", field, WRONG[field])
    inner = field.rpartition(".")[2]
    with pytest.raises(SeesayError, match=rf"tower\.json: damaged \(.*{inner}.*\); copy the folder again"):
        load_two_tower(name)


@pytest.mark.parametrize(
    ("field", "value", "file"),
    [
        ("dim", 25, "image.onnx"),
        ("preprocessing.crop", [64, 64], "image.onnx"),
        ("text_inputs", ["ids"], "text.onnx"),
        ("tokens.length", 1, "tokenizer.json"),
    ],
)
def test_what_does_not_fit_its_description_is_named(
    field: str, value: object, file: str, written: Path, tmp_path: Path
) -> None:
    given = load_two_tower(with_field(written, tmp_path / "given", field, value))
    with pytest.raises(SeesayError, match=f"{file}: .*; copy the folder again") as caught:
        vectors(given)
    assert "\n" not in str(caught.value)


def test_a_text_tower_in_place_of_the_image_tower(written: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(written, tmp_path / "given")
    shutil.copy(folder / "text.onnx", folder / "image.onnx")
    with pytest.raises(SeesayError, match=r"image\.onnx: does not fit its tower\.json"):
        vectors(load_two_tower(f"onnx:{folder}"))


def test_towers_of_a_run_are_those_that_they_are_named_after(clip: Path, tmp_path: Path) -> None:
    name = bring_towers(f"transformers:{clip}", tmp_path)
    assert name is not None
    use_towers_of(tmp_path)
    assert load_two_tower(name).dim == 24
    [folder] = (tmp_path / "towers").iterdir()
    about = json.loads((folder / "tower.json").read_text())
    (folder / "tower.json").write_text(json.dumps(about | {"logit_bias": 1.0}))
    with pytest.raises(SeesayError, match="not those that it is named after"):
        load_two_tower(name)


def test_a_copy_has_the_bits_of_what_it_is_a_copy_of(written: Path, photos: Path, tmp_path: Path) -> None:
    half = write_towers(f"onnx:{written}", tmp_path / "half", 16, photos)
    assert write_towers(f"onnx:{half.folder}", tmp_path / "copy").bits == 16


def test_no_folder_is_named() -> None:
    with pytest.raises(SeesayError, match="come with the run that holds them"):
        load_two_tower("onnx:@0123456789abcdef")
    with pytest.raises(SeesayError, match="no export there"):
        load_two_tower("onnx:nowhere")
