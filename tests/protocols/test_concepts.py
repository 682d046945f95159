from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from seesay.metrics.precision import PrecisionSample, precisions_of_targets
from seesay.protocols.concepts import baseline
from seesay.text.concepts import Concept

CONCEPTS = [Concept("dog", "noun", 9), Concept("run", "verb", 5), Concept("red", "adjective", 2)]


def test_the_baseline_is_the_frequency_of_concepts() -> None:
    # "red" occurs in no image, and the last image has no concept.
    targets = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
    scores = np.random.default_rng(1).random((4, 3))
    measured = baseline(targets, CONCEPTS)

    def mean(scores: np.ndarray, targets: np.ndarray) -> float:
        there = [c for c in range(targets.shape[1]) if targets[:, c].any()]
        return 100 * float(np.mean([average_precision_score(targets[:, c], scores[:, c]) for c in there]))

    expected = mean(np.tile([9.0, 5, 2], (4, 1)).T, targets.T)
    assert measured["training frequency: image mAP"] == pytest.approx(expected, abs=1e-3)
    assert measured["training frequency: mAP"] == pytest.approx(50)  # two of four images each
    sample = PrecisionSample(precisions_of_targets(scores, targets))
    assert sample.metrics(np.ones((1, 4), np.int32))[0, 0] == pytest.approx(mean(scores, targets))
