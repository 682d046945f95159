import time
from functools import partialmethod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from sklearn.decomposition import PCA

from seesay.encoders import SENTENCE_ENCODERS
from seesay.encoders.sentences.base import (
    FittedEncoder,
    fit_pca,
    fit_sentence_encoder,
    load_sentence_encoder,
    save_sentence_encoder,
)
from seesay.encoders.sentences.quick_thought import QuickThought
from seesay.encoders.sentences.word_vectors import Bags, word_vectors
from seesay.errors import SeesayError

FITTED = sorted(name for name, found in SENTENCE_ENCODERS.items() if issubclass(found, FittedEncoder))
WHO = ["dog", "man", "woman", "child", "boy", "girl", "horse", "bird", "cat", "player"]
DOES = ["runs", "jumps", "sits", "eats", "plays", "sleeps", "swims", "climbs", "rides", "stands"]
WHERE = ["grass", "water", "street", "beach", "snow", "mountain", "field", "road", "table", "park"]
TEXTS = [f"A {WHO[i % 10]} {DOES[i // 10 % 10]} near the {WHERE[(i + i // 10) % 10]}" for i in range(100)]
IMAGES = np.arange(100) // 5


@pytest.fixture(autouse=True)
def _short_training(monkeypatch: pytest.MonkeyPatch):
    short = partialmethod(QuickThought.fit, width=64, steps=10, batch_size=16)
    monkeypatch.setattr(QuickThought, "fit", short)


@pytest.mark.parametrize("name", FITTED)
def test_what_was_saved_encodes_the_same(name: str, tmp_path: Path):
    encoder = fit_sentence_encoder(name, TEXTS, 12, IMAGES)
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (100, encoder.dim)
    assert vectors.dtype == np.float32
    assert encoder.dim == 12
    save_sentence_encoder(encoder, tmp_path)
    again = load_sentence_encoder(name, tmp_path)
    np.testing.assert_array_equal(again.encode(TEXTS), vectors)
    assert again.fingerprint == encoder.fingerprint
    assert fit_sentence_encoder(name, TEXTS, 12, IMAGES).fingerprint == encoder.fingerprint
    assert fit_sentence_encoder(name, TEXTS[:70], 12, IMAGES[:70]).fingerprint != encoder.fingerprint


@pytest.mark.parametrize("name", FITTED)
def test_a_sentence_is_encoded_alone_as_among_others(name: str):
    encoder = fit_sentence_encoder(name, TEXTS, 12, IMAGES)
    together = encoder.encode(["two cats in the snow", TEXTS[3], "a xqzzt", ""])
    alone = np.concatenate([encoder.encode([text]) for text in ("two cats in the snow", TEXTS[3])])
    np.testing.assert_allclose(together[:2], alone, atol=1e-5)
    assert not together[3].any()
    assert np.isfinite(together).all()
    assert encoder.encode([]).shape == (0, 12)


@pytest.mark.parametrize("name", FITTED)
def test_sentences_of_like_words_are_near(name: str):
    encoder = fit_sentence_encoder(name, TEXTS, 40, IMAGES)
    first, like, other = encoder.encode(
        ["a dog runs near the grass", "near the grass runs the dog", "a woman sleeps near the table"]
    )
    assert first @ like > first @ other


@pytest.mark.parametrize("name", ["hglmm", "mean", "quick-thought"])
def test_a_word_that_training_never_saw_counts(name: str):
    encoder = fit_sentence_encoder(name, TEXTS, 40, IMAGES)
    puppy, dog, table = encoder.encode(["puppy", "dog", "table"])
    assert np.linalg.norm(puppy - dog) < np.linalg.norm(puppy - table)


def test_as_many_dimensions_as_the_data_supports():
    assert fit_sentence_encoder("mean", TEXTS, 1000).dim <= 50
    assert fit_sentence_encoder("hglmm", TEXTS[:6], 1000).dim <= 5


def test_both_mixtures_stand_side_by_side():
    both = fit_sentence_encoder("gmm+hglmm", TEXTS, 12).rows(TEXTS)
    parts = [fit_sentence_encoder(name, TEXTS, 12, IMAGES).rows(TEXTS) for name in ("gmm", "hglmm")]
    np.testing.assert_array_equal(both, np.hstack(parts))


@pytest.mark.parametrize("name", FITTED)
def test_training_sentences_without_a_known_word_are_refused(name: str):
    with pytest.raises(SeesayError, match="training sentence"):
        fit_sentence_encoder(name, ["xqzzt qqqqzz", "zzxxqq"], 12)


def test_no_such_encoder_is_said():
    with pytest.raises(SeesayError, match=r"No sentence encoder 'word2vec'.*hglmm"):
        fit_sentence_encoder("word2vec", TEXTS, 12)


def test_files_that_are_missing_or_broken_or_anothers(tmp_path: Path):
    path = tmp_path / "text.safetensors"
    with pytest.raises(SeesayError, match="train again"):
        load_sentence_encoder("mean", tmp_path)
    save_sentence_encoder(fit_sentence_encoder("mean", TEXTS, 5), tmp_path)
    with pytest.raises(SeesayError, match="contains the sentence encoder 'mean'"):
        load_sentence_encoder("hglmm", tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(SeesayError, match="train again"):
        load_sentence_encoder("mean", tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("pca.mean", np.zeros(3, np.float32), "damaged .*do not fit"),
        ("pca.components", np.zeros(9, np.float32), "damaged .*do not fit"),
        ("ica.mean", None, "'ica.mean' is missing"),
    ],
)
def test_parts_that_do_not_fit_are_named(tmp_path: Path, key: str, value: np.ndarray | None, said: str):
    path = tmp_path / "text.safetensors"
    save_sentence_encoder(fit_sentence_encoder("hglmm", TEXTS, 5), tmp_path)
    tensors = {name: array for name, array in load_file(path).items() if name != key}
    save_file(tensors if value is None else tensors | {key: value}, path, {"encoder": "hglmm"})
    with pytest.raises(SeesayError, match=rf"text\.safetensors: {said}"):
        load_sentence_encoder("hglmm", tmp_path)


def test_minilm_needs_no_file(tmp_path: Path):
    encoder = fit_sentence_encoder("minilm", TEXTS, 12)
    save_sentence_encoder(encoder, tmp_path)
    assert not list(tmp_path.iterdir())
    assert load_sentence_encoder("minilm", tmp_path).fingerprint == encoder.fingerprint
    assert encoder.dim == 384


def test_bags_keep_known_words_in_order():
    bags = Bags.from_texts(["a dog a", "xqzzt", "", "dog's xqzzt man"])
    assert bags.lengths.tolist() == [3, 0, 0, 2]
    expected, _ = word_vectors(["a", "dog", "a", "dog", "man"])
    np.testing.assert_array_equal(bags.vectors[bags.numbers], expected)


def rows(n: int = 200, d: int = 12, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * np.linspace(3, 0.5, d) + 7).astype(np.float32)


@settings(max_examples=20)
@given(seed=st.integers(0, 999), batch=st.integers(1, 200))
def test_components_are_scikit_learns_whatever_the_batches(seed: int, batch: int):
    x = rows(seed=seed)
    ours = fit_pca((x[start : start + batch] for start in range(0, len(x), batch)), 5)
    theirs = PCA(12, svd_solver="full").fit(x.astype(float))
    np.testing.assert_allclose(
        ours.project(x).var(axis=0), theirs.explained_variance_[:5] * 199 / 200, rtol=1e-3
    )
    np.testing.assert_allclose(ours.mean, theirs.mean_, rtol=1e-5)


def test_projections_are_scikit_learns_up_to_sign():
    x = rows()
    expected = PCA(3, svd_solver="full").fit_transform(x.astype(float))
    found = fit_pca([x], 3).project(x)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=2e-3)


@given(seed=st.integers(0, 99), batch=st.integers(1, 30))
@settings(max_examples=20)
def test_components_of_few_wide_rows_are_those_of_their_covariance(seed: int, batch: int):
    """Of 30 sentences with 100 features the inner products are decomposed, not the covariance."""
    x = rows(n=30, d=100, seed=seed)
    ours = fit_pca((x[start : start + batch] for start in range(0, len(x), batch)), 8)
    variances = np.linalg.eigvalsh(np.cov(x.T.astype(float), bias=True))[::-1]
    np.testing.assert_allclose(ours.components.T @ ours.components, np.eye(8), atol=1e-5)
    np.testing.assert_allclose(ours.mean, x.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(ours.project(x).var(axis=0), variances[:8], rtol=1e-3)
    assert fit_pca([x], 100).components.shape == (100, 29)


def test_few_wide_rows_need_no_matrix_of_their_width():
    """The printed size: 18,000 numbers, whose covariance takes 1.3 GB and minutes to decompose."""
    x = np.random.default_rng(0).standard_normal((50, 18_000)).astype(np.float32)
    started = time.process_time()
    pca = fit_pca([x[:30], x[30:]], 6000)
    assert time.process_time() - started < 10
    np.testing.assert_allclose(pca.project(x) @ pca.project(x).T, (x - pca.mean) @ (x - pca.mean).T, atol=2)


def test_no_more_components_than_the_rank():
    thin = rows(d=3) @ np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
    pca = fit_pca([thin[:50], thin[50:]], 20)
    assert pca.components.shape == (40, 3)
    np.testing.assert_allclose(pca.components.T @ pca.components, np.eye(3), atol=1e-5)


def test_far_from_the_origin_small_variance_is_kept():
    x = rows() * 1e-3 + 50
    expected = PCA(12, svd_solver="full").fit(x.astype(float)).explained_variance_
    np.testing.assert_allclose(
        fit_pca([x[:3], x[3:]], 12).project(x).var(axis=0, ddof=1), expected, rtol=0.05
    )


def test_equal_rows_keep_one_component_and_project_to_zero():
    pca = fit_pca([np.ones((4, 3), np.float32)], 2)
    assert pca.components.shape == (3, 1)
    assert not pca.project(np.ones((2, 3), np.float32)).any()


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="no rows"):
        fit_pca([], 2)
