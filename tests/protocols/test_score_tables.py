"""Files of scores and embeddings in every format, and what is said of those that cannot be read."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seesay.errors import SeesayError
from seesay.protocols.external_scores import read_tables

IMAGES = np.arange(6, dtype=np.float32).reshape(2, 3)
SENTENCES = np.arange(12, dtype=np.float32).reshape(4, 3)


ONE_TABLE: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "npy": ("a.npy", lambda path: np.save(path, IMAGES)),
    "npz": ("a.npz", lambda path: np.savez(path, whatever=IMAGES)),
    "tensor": ("a.pt", lambda path: torch.save(torch.from_numpy(IMAGES), path)),
    "bfloat16": ("a.pth", lambda path: torch.save(torch.from_numpy(IMAGES).bfloat16(), path)),
    "dictionary": ("a.pt", lambda path: torch.save({"scores": torch.from_numpy(IMAGES)}, path)),
}


@pytest.mark.parametrize("kind", ONE_TABLE)
def test_every_format_holds_the_same_table(kind: str, tmp_path: Path) -> None:
    name, write = ONE_TABLE[kind]
    write(tmp_path / name)
    ((where, table),) = read_tables(tmp_path / name)
    assert where == str(tmp_path / name)
    assert table.dtype == np.float32
    np.testing.assert_array_equal(table, IMAGES)


@pytest.mark.parametrize("suffix", [".npz", ".pt"])
def test_a_file_can_hold_images_and_sentences(suffix: str, tmp_path: Path) -> None:
    path, tables = tmp_path / f"both{suffix}", {"sentences": SENTENCES, "images": IMAGES}
    if suffix == ".npz":
        np.savez(path, **tables)
    else:
        torch.save({key: torch.from_numpy(table) for key, table in tables.items()}, path)
    (first, images), (second, _) = read_tables(path)
    assert (first, second) == (f"{path}: 'images'", f"{path}: 'sentences'")
    np.testing.assert_array_equal(images, IMAGES)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".pt", ".pth"])
@pytest.mark.parametrize("content", [b"", b"no such thing at all", pickle.dumps([1, 2])])
def test_a_damaged_or_missing_file_is_a_one_line_error(suffix: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    with pytest.raises(SeesayError, match=rf"a\{suffix}: no (NumPy|PyTorch) .*; write ") as caught:
        read_tables(path)
    assert "\n" not in str(caught.value)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    torch.save({"scores": Path("a")}, tmp_path / "a.pt")
    np.savez(tmp_path / "a.npz", scores=np.array([[{}]]), allow_pickle=True)
    for name in ("a.pt", "a.npz"):
        with pytest.raises(SeesayError, match="plain"):
            read_tables(tmp_path / name)
    torch.save({"scores": [1.0]}, tmp_path / "a.pt")
    with pytest.raises(SeesayError, match="something else than tensors"):
        read_tables(tmp_path / "a.pt")


def test_other_tables_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", mine=IMAGES, yours=IMAGES)
    with pytest.raises(SeesayError, match="contains mine, yours; expected one table, or 'images' and"):
        read_tables(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", images=IMAGES[0], sentences=SENTENCES)
    with pytest.raises(SeesayError, match=r"a.npz: 'images': float32 \(3,\); a score matrix is"):
        read_tables(tmp_path / "a.npz")


def test_sparse_tensors_and_objects_are_refused_without_bad_advice(tmp_path: Path) -> None:
    torch.save(torch.eye(3).to_sparse(), tmp_path / "a.pt")
    with pytest.raises(SeesayError, match="a sparse tensor"):
        read_tables(tmp_path / "a.pt")
    np.savez(tmp_path / "a.npz", scores=np.array([[{}]]), allow_pickle=True)
    with pytest.raises(SeesayError, match="objects, which are not unpickled") as caught:
        read_tables(tmp_path / "a.npz")
    assert "allow_pickle" not in str(caught.value)
