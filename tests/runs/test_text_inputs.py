"""The sentence side of a recipe: what is kept, and what becomes of damaged files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seesay.encoders.sentences.base import SentenceEncoder
from seesay.recipes.load import load_recipe
from seesay.runs.text_inputs import fitted_sentence_encoder, sentence_vectors

TEXTS = ["a dog runs", "two dogs run", "a red ball", "xqzzk", "a man and a dog on a hill"]
RECIPE = load_recipe("cca-mean", changes=["sentence_dim=3"])


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SentenceEncoder:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path))
    fitted = fitted_sentence_encoder(RECIPE, TEXTS, np.arange(len(TEXTS)))
    assert fitted is not None
    return fitted


def test_many_sentences_have_the_vectors_of_each(encoder: SentenceEncoder) -> None:
    """So many that they are encoded and written in several parts."""
    vectors = sentence_vectors(encoder, TEXTS * 7000)
    np.testing.assert_allclose(vectors, np.tile(encoder.encode(TEXTS), (7000, 1)), atol=1e-6)
    assert sentence_vectors(encoder, []).shape == (0, encoder.dim)


def test_changed_vectors_stay_out_of_the_cache(encoder: SentenceEncoder) -> None:
    before = np.array(sentence_vectors(encoder, TEXTS))
    sentence_vectors(encoder, TEXTS)[:] = 7
    np.testing.assert_array_equal(sentence_vectors(encoder, TEXTS), before)


@pytest.mark.parametrize("damage", [b"", b"no array", "half", "another shape"])
def test_damaged_caches_are_made_again(tmp_path: Path, encoder: SentenceEncoder, damage: bytes | str) -> None:
    before = np.array(sentence_vectors(encoder, TEXTS))
    # A test before this one may have loaded a run that brings its networks: what they compute is kept apart.
    (vectors,), (fitted,) = ([*(tmp_path / name).rglob("*.*")] for name in ("sentences", "text"))
    if damage == "another shape":
        np.save(vectors, before[1:])
    for file in (vectors, fitted):
        whole = file.read_bytes()
        if isinstance(damage, bytes):
            file.write_bytes(damage)
        elif damage == "half":
            file.write_bytes(whole[: len(whole) // 2])
    again = fitted_sentence_encoder(RECIPE, TEXTS, np.arange(len(TEXTS)))
    assert again is not None
    assert again.fingerprint == encoder.fingerprint
    np.testing.assert_array_equal(sentence_vectors(again, TEXTS), before)
