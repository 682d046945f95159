"""Eq. 8 against loops."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seesay.evaluation.combine import combined, mean_over_phrases


@given(st.integers(0, 1000), st.floats(0, 1))
def test_combination_is_equation_eight(seed: int, alpha: float) -> None:
    generator = np.random.default_rng(seed)
    unique = ["a dog", "a man", "snow"]
    phrases = [list(generator.choice(unique, generator.integers(0, 3), replace=False)) for _ in range(5)]
    by_phrase = generator.uniform(0, 2, (4, 3)).astype(np.float32)
    distance = generator.uniform(0, 2, (4, 5)).astype(np.float32)
    value = combined(distance, mean_over_phrases(by_phrase, phrases, unique), alpha)
    for image in range(4):
        for sentence, some in enumerate(phrases):
            d = float(distance[image, sentence])
            if some:
                mean = sum(float(by_phrase[image, unique.index(phrase)]) for phrase in some) / len(some)
                d = (1 - alpha) * d + alpha * mean
            assert math.isclose(value[image, sentence], d, abs_tol=1e-5)
