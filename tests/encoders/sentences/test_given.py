"""Sentence vectors of a file, looked up by their texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seesay.encoders import load_sentence_encoder
from seesay.errors import SeesayError

TEXTS = ["a dog", "two  cats .", "a dog", "caf\u00e9"]
VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3)


def write(folder: Path, vectors: np.ndarray = VECTORS, texts: list[str] = TEXTS) -> dict[str, str]:
    np.save(folder / "hglmm.npy", vectors)
    (folder / "hglmm_texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return {"kind": "vectors", "file": str(folder / "hglmm.npy")}


def test_a_text_has_the_vector_of_its_line(tmp_path: Path) -> None:
    encoder = load_sentence_encoder(write(tmp_path))
    assert encoder.dim == 3
    found = encoder.encode(["two cats .", "cafe\u0301", "a dog"])
    np.testing.assert_array_equal(found, VECTORS[[1, 3, 0]])
    assert encoder.encode([]).shape == (0, 3)


def test_texts_without_vectors_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    encoder = load_sentence_encoder(write(tmp_path))
    with pytest.raises(SeesayError, match=r"2 of 3 texts have no vector; the first is 'a bird'"):
        encoder.encode(["a dog", "a bird", "a fish"])


def test_a_vector_with_nan_names_its_text(tmp_path: Path) -> None:
    vectors = VECTORS.copy()
    vectors[1, 2] = np.nan
    with pytest.raises(SeesayError, match=r"the vector of 'two cats \.' contains NaN"):
        load_sentence_encoder(write(tmp_path, vectors)).encode(["a dog", "two cats ."])


def test_other_vectors_are_another_encoder(tmp_path: Path) -> None:
    first = load_sentence_encoder(write(tmp_path)).fingerprint
    assert load_sentence_encoder(write(tmp_path)).fingerprint == first
    assert load_sentence_encoder(write(tmp_path, VECTORS + 1)).fingerprint != first


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    name = write(tmp_path, texts=TEXTS[:2])
    with pytest.raises(SeesayError, match=r"hglmm_texts\.txt: 2 texts for 4 vectors"):
        load_sentence_encoder(name)
    (tmp_path / "hglmm_texts.txt").unlink()
    with pytest.raises(SeesayError, match=r"hglmm_texts\.txt: not a UTF-8 file of the texts of hglmm\.npy"):
        load_sentence_encoder(name)
    with pytest.raises(SeesayError, match=r"expected a vector for each text"):
        load_sentence_encoder(write(tmp_path, np.zeros((4, 2, 3))))
    with pytest.raises(SeesayError, match="name its file"):
        load_sentence_encoder("vectors")
