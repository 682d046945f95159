from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from seesay.protocols.concepts import concept_metrics
from seesay.text.concepts import Concept, ConceptVocabulary


def _vocabulary() -> ConceptVocabulary:
    words = (Concept("dog", "noun", 9), Concept("run", "verb", 5), Concept("red", "adjective", 2))
    return ConceptVocabulary(words, 3, 10, 0)


def test_means_over_concepts_and_over_images() -> None:
    # "red" occurs in no image, and the last image has no concept.
    targets = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
    scores = np.random.default_rng(1).random((4, 3))
    measured = concept_metrics(scores, targets, _vocabulary())

    def mean(scores: np.ndarray, targets: np.ndarray) -> float:
        there = [c for c in range(targets.shape[1]) if targets[:, c].any()]
        return 100 * float(np.mean([average_precision_score(targets[:, c], scores[:, c]) for c in there]))

    assert measured["mAP"] == pytest.approx(mean(scores, targets))
    assert measured["image mAP"] == pytest.approx(mean(scores.T, targets.T))
    assert (measured["images"], measured["concepts"], measured["images_without_concepts"]) == (4, 2, 1)
    baseline = measured["baselines"]["training frequency"]
    assert baseline["mAP"] == pytest.approx(50)  # two of four images each
    assert baseline["image mAP"] == pytest.approx(mean(np.tile([9.0, 5, 2], (4, 1)).T, targets.T))
    assert measured["by kind"]["adjectives"] == {"mAP": None}
    assert "numbers" not in measured["by kind"]


def test_truth_is_a_hundred() -> None:
    targets = np.array([[1, 0, 0], [0, 1, 1]], bool)
    measured = concept_metrics(targets.astype(float), targets, _vocabulary())
    assert measured["mAP"] == measured["image mAP"] == 100
