from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seesay.matchers.projection import CLASSES
from seesay.training.words import class_names, class_vectors


def number_of(name: str) -> int:
    return [each.lower() for each in class_names()].index(name)


def test_a_thousand_names_in_the_order_of_the_logits() -> None:
    names = class_names()
    assert len(names) == CLASSES
    # Three of ImageNet's classes whose numbers everybody knows.
    assert names[1] == "goldfish"
    assert names[207].lower() == "golden retriever"
    assert names[817].lower() == "sports car"


def test_a_class_lies_between_its_name_and_its_description() -> None:
    read: list[list[str]] = []

    def encode(sentences: Sequence[str]) -> NDArray[np.float32]:
        read.append(list(sentences))
        rows = np.random.default_rng(len(read)).standard_normal((len(sentences), 8)).astype(np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    vectors = class_vectors(encode)
    names, described, _ = read
    assert names == class_names()
    assert all(text.startswith(name) for name, text in zip(names, described, strict=True))
    assert described[number_of("goldfish")].startswith("goldfish: ")
    of_names = np.random.default_rng(1).standard_normal((len(names), 8))
    of_names /= np.linalg.norm(of_names, axis=1, keepdims=True)
    assert np.median(np.abs(np.linalg.norm(vectors, axis=1) - 1)) < 1e-5
    assert ((vectors * of_names).sum(axis=1) > 0).all()


def test_a_hot_dog_is_moved_away_from_dogs() -> None:
    axes = {"dog": 0, "hot": 1, "bear": 2, "teddy": 3}

    def encode(sentences: Sequence[str]) -> NDArray[np.float32]:
        rows = np.full((len(sentences), 50), 0.01, np.float32)
        for row, text in zip(rows, sentences, strict=True):
            for word in text.lower().replace(":", " ").split():
                row[axes.get(word, 4 + len(word) % 46)] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    vectors = class_vectors(encode)
    centred = vectors - vectors.mean(axis=0)

    def near(name: str, word: str) -> float:
        own, other = centred[number_of(name)], encode([word])[0] - vectors.mean(axis=0)
        return float(own @ other / np.linalg.norm(own) / np.linalg.norm(other))

    assert near("hot dog", "dog") < 0.8 * near("brittany dog", "dog")
    assert near("teddy bear", "bear") < 0.8 * near("polar bear", "bear")
