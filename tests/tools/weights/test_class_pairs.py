"""Class pairs of a linear classifier, whose features are known to carry its classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seesay.matchers.projection import CLASSES
from seesay.runs.prepare import PreparedSentences
from seesay_weights.class_pairs import ClassPairs

WIDTH, COUNT = 64, 40


@pytest.fixture(scope="module")
def weights() -> NDArray[np.float32]:
    drawn = np.random.default_rng(0).normal(size=(CLASSES, WIDTH)).astype(np.float32)
    return np.asarray(drawn - drawn.mean(axis=1, keepdims=True))


@pytest.fixture(scope="module")
def photographs(
    weights: NDArray[np.float32],
) -> NDArray[np.float32]:
    pooled = np.random.default_rng(1).uniform(0.5, 1.5, size=(600, WIDTH)).astype(np.float32)
    return np.concatenate([pooled, pooled @ weights.T], axis=1)


@pytest.fixture
def pairs(photographs: NDArray[np.float32]) -> ClassPairs:
    # Two phrases for each class: words 2c and 2c + 1.
    words = np.arange(2 * CLASSES)
    phrases = PreparedSentences(words, np.ones_like(words), np.zeros((len(words), 0), np.float32))
    found = ClassPairs(COUNT)
    found.learn(photographs, (WIDTH, CLASSES), phrases, words // 2)
    return found


def test_a_phrase_names_the_class_of_its_image(pairs: ClassPairs) -> None:
    drawn = pairs.draw(torch.rand(10, WIDTH + CLASSES))
    assert len(set(drawn.image_ids.tolist())) == len(drawn.images) == COUNT
    torch.testing.assert_close(drawn.sentences.words // 2, drawn.image_ids)


def test_the_classifier_sees_the_class_in_its_image(
    pairs: ClassPairs,
    photographs: NDArray[np.float32],
    weights: NDArray[np.float32],
) -> None:
    drawn = pairs.draw(torch.from_numpy(photographs))
    seen = drawn.images[:, :WIDTH] @ torch.from_numpy(weights).T
    rank = (seen > seen[torch.arange(COUNT), drawn.image_ids][:, None]).sum(dim=1)
    assert rank.float().median() < 20  # of 1,000


def test_no_classifier_has_seen_images_and_photographs_stay(
    pairs: ClassPairs, photographs: NDArray[np.float32]
) -> None:
    given = torch.from_numpy(photographs).clone()
    drawn = pairs.draw(given)
    assert not drawn.images[:, WIDTH:].any()
    assert (drawn.images[:, :WIDTH] >= 0).all()
    assert torch.equal(given, torch.from_numpy(photographs))


def test_seed_and_epoch_decide_what_is_drawn(pairs: ClassPairs) -> None:
    features = torch.rand(10, WIDTH + CLASSES)

    def classes(seed: int, epoch: int) -> list[int]:
        pairs.begin_epoch(seed, epoch)
        found: list[int] = pairs.draw(features).image_ids.tolist()
        return found

    assert classes(1, 2) == classes(1, 2)
    assert classes(1, 2) != classes(1, 3)
    assert classes(1, 2) != classes(2, 2)
