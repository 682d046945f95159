"""Quick-Thought: its loss against a loop, what it draws, what it reads."""

from __future__ import annotations

import numpy as np
import pytest

from seesay.encoders.sentences.quick_thought import QuickThought, random_pairs
from seesay.encoders.sentences.word_vectors import Bags
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError

THINGS = ["dog", "man", "boat", "horse", "bird", "car", "child", "tree"]
WAYS = ["a {} outside", "one small {}", "the {} in the sun", "here is a {}"]
TEXTS = [way.format(thing) for thing in THINGS for way in WAYS]
IMAGES = np.repeat(np.arange(len(THINGS)), len(WAYS))

SETTINGS = EncoderSettings("quick-thought")


@pytest.fixture(scope="module")
def trained() -> QuickThought:
    found = QuickThought(SETTINGS)
    found.fit(TEXTS, IMAGES, width=32, steps=60, batch_size=16)
    return found


def test_pairs_are_two_sentences_of_one_image_with_known_words() -> None:
    texts = ["a dog", "qqzzx", "one dog", "a cat", "the boat", "a ship", "one boat"]
    images = np.array([7, 7, 7, 3, 9, 9, 9])
    ((one, other, which),) = random_pairs(Bags.from_texts(texts), images, 400, steps=1)
    assert (images[one] == images[other]).all()
    assert (one != other).all()
    assert set(one) == set(other) == {0, 2, 4, 5, 6}  # neither the unknown nor the only one
    assert len(set(zip(which.tolist(), images[one].tolist(), strict=True))) == 2


def test_like_sentences_are_near_and_unseen_words_count(trained: QuickThought) -> None:
    rows = trained.rows([*TEXTS, "a puppy outside", "one small pony"])
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    means = rows[: len(TEXTS)].reshape(len(THINGS), len(WAYS), -1).mean(axis=1)
    assert (rows[: len(TEXTS)] @ means.T).argmax(axis=1).tolist() == IMAGES.tolist()
    puppy, pony = rows[len(TEXTS) :] @ means.T
    assert THINGS[puppy.argmax()] == "dog"
    assert THINGS[pony.argmax()] == "horse"


def test_order_counts(trained: QuickThought) -> None:
    first, second = trained.rows(["a dog bites the man", "the man bites a dog"])
    assert np.abs(first - second).max() > 1e-3


def test_as_trained_again_and_as_kept(trained: QuickThought) -> None:
    assert set(trained.tensors()) == {
        f"lstm.{k}_l0" for k in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    again = QuickThought(SETTINGS)
    again.restore(trained.tensors())
    np.testing.assert_array_equal(again.rows(TEXTS), trained.rows(TEXTS))
    assert not again.rows(["qqzzx", ""]).any()


def test_sentences_without_neighbours_are_refused() -> None:
    with pytest.raises(SeesayError, match="sentence_encoder to mean"):
        QuickThought(SETTINGS).fit(TEXTS, np.arange(len(TEXTS)))
