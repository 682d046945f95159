"""Scores and embeddings from files: what they measure, and why some are refused."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.errors import SeesayError
from seesay.protocols.evaluate import evaluate
from tests.protocols import drawn
from tests.protocols.drawn import flat

COUNTS = (5, 5, 6, 7)  # sentences an image, as on COCO
N, M = len(COUNTS), sum(COUNTS)


def corpus(counts=COUNTS):
    """A split of images with so many sentences each, which stand in no order."""
    owners = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    images = [
        CorpusImage("other.jpg", "train"),
        *(CorpusImage(f"{i}.jpg", "test") for i in range(len(counts))),
    ]
    sentences = [Sentence(f"sentence {j}", int(i) + 1) for j, i in enumerate(owners)]
    return Corpus("drawn", Path("there"), tuple(images), tuple(sentences)), owners


def vectors(owners, seed=1, n=N):
    draw = np.random.default_rng(seed)
    images = draw.normal(size=(n, 6)).astype(np.float32)
    return images, (images[owners] + draw.normal(size=(len(owners), 6))).astype(np.float32)


def saved(folder, **arrays):
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def measured(name, whole, protocol="standard"):
    return flat(evaluate(str(name), whole, protocol, resamples=0))


def refused(name, whole, *said):
    with pytest.raises(SeesayError) as told:
        evaluate(str(name), whole)
    assert "\n" not in str(told.value)
    for part in said:
        assert part in str(told.value)


def test_a_matrix_and_its_embeddings_measure_as_the_arrays_do(tmp_path):
    whole, owners = corpus()
    images, sentences = vectors(owners)
    saved(tmp_path, scores=images @ sentences.T, images=images, sentences=sentences)
    expected = drawn.measured(images @ sentences.T, owners)
    assert measured(tmp_path / "scores.npy", whole) == expected
    both = f"{tmp_path / 'images.npy'},{tmp_path / 'sentences.npy'}"
    assert measured(both, whole) == expected
    assert measured(both, whole, "sentence-to-sentence")["queries"] == M
    with pytest.raises(SeesayError, match="compares embeddings"):
        measured(tmp_path / "scores.npy", whole, "sentence-to-sentence")
    with pytest.raises(SeesayError, match="'concepts' needs"):
        measured(tmp_path / "scores.npy", whole, "concepts")


def test_arrays_and_tensors_in_memory_measure_as_their_files_do():
    whole, owners = corpus()
    images, sentences = vectors(owners)
    expected = drawn.measured(images @ sentences.T, owners)
    tensors = torch.from_numpy(images).requires_grad_(), torch.from_numpy(sentences)
    for given in (images @ sentences.T, tensors[0] @ tensors[1].T, (images, sentences), tensors):
        assert flat(evaluate(given, whole, resamples=0)) == expected
    against = evaluate((images, sentences), whole, against=images @ sentences.T).against
    assert (against.name, against.metrics["mR"].difference) == ("scores", 0.0)
    both = flat(evaluate([images @ sentences.T, tensors], whole, combine="mean", resamples=0))
    assert {"scores: mR", "embeddings: mR"} <= both.keys()


def test_arrays_that_do_not_fit_are_named():
    whole, owners = corpus()
    images, sentences = vectors(owners)
    for given, said in (
        (images[0], r"scores: shape \(6,\); it must be"),
        (sentences @ images.T, r"scores \(23, 4\): split 'test' of there has 4 images and 23 sentences"),
        ((sentences, images), r"images \(23, 6\) and sentences \(4, 6\): .* expected scores \(4, 23\), or"),
        ((images, sentences[:, :5]), r"images \(4, 6\) and sentences \(23, 5\): split 'test'"),
        ([images, sentences], "combine"),
        ({"images": images}, "got dict"),
    ):
        with pytest.raises(SeesayError, match=said):
            evaluate(given, whole)


def test_files_of_both_tables_and_of_other_formats(tmp_path):
    whole, owners = corpus()
    images, sentences = vectors(owners)
    expected = drawn.measured(images @ sentences.T, owners)
    np.savez(tmp_path / "both.npz", images=images, sentences=sentences)
    np.savez(tmp_path / "one.npz", whatever=images @ sentences.T)
    saved(tmp_path, sentences=sentences)
    assert measured(tmp_path / "both.npz", whole) == measured(tmp_path / "one.npz", whole) == expected
    refused(f"{tmp_path / 'both.npz'},{tmp_path / 'sentences.npy'}", whole, "3 tables; name one matrix, or")


def test_half_precision_is_measured(tmp_path):
    whole, owners = corpus()
    images, sentences = vectors(owners)
    scores = (images @ sentences.T).astype(np.float16)
    np.save(tmp_path / "scores-test.npy", scores)
    assert measured(tmp_path / "scores-test.npy", whole) == drawn.measured(scores, owners)


def test_an_image_repeated_for_each_of_its_sentences_is_understood(tmp_path):
    whole, owners = corpus()
    images, sentences = vectors(owners)
    saved(tmp_path, images=images[owners], sentences=sentences, scores=images[owners] @ sentences.T)
    for name in ("scores.npy", "images.npy,{}"):
        told = measured(str(tmp_path / name).format(tmp_path / "sentences.npy"), whole)
        assert told == drawn.measured(images @ sentences.T, owners)
    wrong = images[owners]
    wrong[7] += 1
    saved(tmp_path, images=wrong)
    refused(
        f"{tmp_path / 'images.npy'},{tmp_path / 'sentences.npy'}", whole, "row", "is not that of its image's"
    )


def test_files_that_do_not_fit_are_refused(tmp_path):
    whole, owners = corpus()
    images, sentences = vectors(owners)
    saved(tmp_path, images=images, sentences=sentences[:, :5], few=np.zeros((3, M)), many=np.zeros((N, 24)))
    saved(tmp_path, flat=np.zeros(5), text=np.array([["a"]]), complex=np.zeros((N, M), complex))
    for name, shape in (("few", "(3, 23)"), ("many", "(4, 24)")):
        refused(
            tmp_path / f"{name}.npy", whole, shape, "4 images and 23 sentences", "expected scores (4, 23)"
        )
    refused(tmp_path / "none.npy", whole, "no such file")
    for name, said in (("flat", "must be (n, d)"), ("text", "real numbers"), ("complex", "real numbers")):
        refused(tmp_path / f"{name}.npy", whole, f"{name}.npy: ", said)
    both = f"{tmp_path / 'images.npy'},{tmp_path / 'sentences.npy'}"
    refused(both, whole, "images.npy (4, 6) and", "sentences.npy (23, 5)")
    sentences[9, 2] = np.nan
    saved(tmp_path, sentences=sentences, scores=images @ sentences.T)
    refused(both, whole, "NaN at [0, 9]")
    with pytest.raises(SeesayError, match=r"NaN at \[0, 9\]"):
        measured(tmp_path / "scores.npy", whole)


def test_scores_in_another_order_are_reported_as_chance(tmp_path):
    draw = np.random.default_rng(0)
    owners = np.repeat(np.arange(100), 2)
    scores = draw.normal(size=(100, 200)) + 4 * (np.arange(100)[:, None] == owners)
    whole = drawn.corpus_of(owners, 100)
    saved(
        tmp_path, right=scores, wrong=scores[:, draw.permutation(200)], few=scores[:20, draw.permutation(40)]
    )
    assert "notes" not in measured(tmp_path / "right.npy", whole)
    assert "order of the corpus" in measured(tmp_path / "wrong.npy", whole)["notes"][0]
    assert "notes" not in measured(tmp_path / "few.npy", drawn.corpus_of(owners[:40], 20))


def test_nothing_is_unpickled(tmp_path):
    whole, _ = corpus()
    path = tmp_path / "scores.npy"
    path.write_bytes(pickle.dumps([1, 2]))
    refused(path, whole, "no NumPy file of plain numbers", "numpy.save")
    np.save(path, np.array([[{}]]), allow_pickle=True)
    refused(path, whole, "no NumPy file of plain numbers")
    np.savez(tmp_path / "objects.npz", scores=np.array([[{}]]))
    refused(tmp_path / "objects.npz", whole, "no NumPy file of plain numbers")
    np.savez_compressed(tmp_path / "bomb.npz", scores=np.zeros((6_000, 6_000), np.float32))
    refused(tmp_path / "bomb.npz", whole, "expands to over 100 times its size")
    np.savez_compressed(tmp_path / "cut.npz", scores=np.random.default_rng(0).random((6, 6)))
    cut = bytearray((tmp_path / "cut.npz").read_bytes())
    start = cut.index(b"scores.npy") + len("scores.npy") + int.from_bytes(cut[28:30], "little")
    cut[start : start + 9] = b"\xff" * 9  # not what zlib writes
    (tmp_path / "cut.npz").write_bytes(cut)
    refused(tmp_path / "cut.npz", whole, "no NumPy file of plain numbers")
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("scores", "no array")
    refused(tmp_path / "text.npz", whole, "text.npz")
    np.savez(tmp_path / "others.npz", mine=np.zeros((2, 2)), yours=np.zeros((2, 2)))
    refused(tmp_path / "others.npz", whole, "contains mine, yours; expected images and sentences")
    path.write_bytes(b"")
    refused(path, whole, "no NumPy file of plain numbers")
    np.save(path, np.zeros((N, M)))
    path.write_bytes(path.read_bytes()[:-8])
    refused(path, whole, "no NumPy file of plain numbers")


def test_a_row_for_each_sentence_needs_sentences_of_all_images(tmp_path):
    whole, _ = corpus((2, 2, 0))
    saved(tmp_path, scores=np.zeros((4, 4)))
    refused(tmp_path / "scores.npy", whole, "3 images and 4 sentences")
