"""The line between likely and less likely images: metrics against plain loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.errors import SeesayError
from seesay.protocols.evaluate import measure
from seesay.protocols.no_match import MANY, line_samples
from seesay.runs.calibration import FITS, chances, unrelated_sentences, usual_unit
from seesay.text.vocabulary import Vocabulary
from tests.protocols.drawn import Embedding, flat, run_subject

COMMON, RARE = ("dog", "cat", "car"), ("boat", "tree")


def test_metrics_against_loops(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    names = draw.choice(COMMON, 40)
    texts = [
        f"a {name} and the {RARE[i // 20]}" if i % 7 == 0 else f"a {name}" for i, name in enumerate(names)
    ]
    vocabulary = Vocabulary(["a", "and", "the", *COMMON, *RARE])
    about = run_subject(Embedding(), texts, list(range(40)), 40, tmp_path, vocabulary=vocabulary)
    found = flat(measure(about, "many-matches"))

    run, features = about.run, about.inputs.features
    unrelated = run.embed_prepared(run.prepare(unrelated_sentences()), query=True)
    images = run.embed_features(features)
    unit = usual_unit(images @ unrelated.T)
    above, right, told = [], [], []
    for noun in COMMON:
        assert sum(noun in text for text in texts) >= MANY
        scores = run.score_prepared(features, run.prepare([noun]))[:, 0].tolist()
        for image, chance in enumerate(chances(scores, scores, 40, unit)):
            above.append(chance >= FITS)
            right.append(noun in texts[image])
            told.append(chance)
    both = sum(a and r for a, r in zip(above, right, strict=True))
    assert found["recall"] == pytest.approx(100 * both / sum(right), abs=1e-3)
    assert found["precision"] == pytest.approx(100 * both / sum(above), abs=1e-3)
    error = 0.0
    for low in range(10):
        inside = [i for i, chance in enumerate(told) if low <= 10 * chance < low + 1]
        error += abs(sum(told[i] - right[i] for i in inside))
    assert found["ECE"] == pytest.approx(100 * error / len(told), abs=1e-3)
    assert (found["images"], found["queries"]) == (40, len(COMMON))


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_weights_count_images_as_often(seed: int) -> None:
    draw = np.random.default_rng(seed)
    n, q = (int(each) for each in draw.integers(2, 20, 2))
    probabilities, right = draw.uniform(0, 1, (n, q)), draw.integers(0, 2, (n, q)).astype(bool)
    weights = draw.integers(0, 3, (1, n))
    often = np.repeat(np.arange(n), weights[0])
    if not len(often):
        return
    repeated = line_samples(probabilities[often], right[often])
    for sample, again in zip(line_samples(probabilities, right), repeated, strict=True):
        expected = again.metrics(np.ones((1, len(often)), np.int64))
        np.testing.assert_allclose(sample.metrics(weights), expected)


def test_a_split_without_common_nouns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="no noun that 10 images share"):
        measure(run_subject(Embedding(), ["a dog", "a cat"], [0, 1], 2, tmp_path), "many-matches")
