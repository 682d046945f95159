"""What a mini-batch takes of the train split: whole images."""

from __future__ import annotations

import numpy as np

from seesay.training.sentence_task import TrainImages


def test_rows_are_those_of_the_images() -> None:
    features = np.arange(12, dtype=np.float32).reshape(4, 3)
    taken = TrainImages(features).take(np.array([3, 0, 3]), "cpu")
    assert np.array_equal(taken, features[[3, 0, 3]])
