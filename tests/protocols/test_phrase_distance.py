"""Eq. 8 against loops."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seesay.data.images import FileSource, decode
from seesay.data.readers import read_corpus
from seesay.encoders.proposals import propose
from seesay.encoders.regions import load_region_encoder
from seesay.errors import SeesayError
from seesay.protocols.phrase_distance import combined, mean_over_phrases, nearest_regions
from seesay.runs.run import Run


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


def test_each_phrase_has_its_nearest_region(scenes: Path, grounding_run: Path) -> None:
    run, phrases = Run.load(str(grounding_run)), ["a red circle", "a small blue star"]
    corpus = read_corpus(scenes).split("val")
    broken = replace(corpus.images[1], source=FileSource(scenes / "gone.jpg"))
    corpus = replace(corpus, images=(corpus.images[0], broken, *corpus.images[2:]))
    nearest = nearest_regions(run, corpus, phrases)
    texts = run.embed_sentences(phrases)
    assert run.recipe.regions is not None
    encoder = load_region_encoder(run.recipe.encoders[0])
    for i, image in enumerate(corpus.images):
        if i == 1:
            assert (nearest[i] == -1).all()
            continue
        assert image.source is not None
        pixels = decode(image.source.read(), image.name)
        boxes = propose(pixels, run.recipe.regions.proposals)
        cosines = run.embed_features(encoder.encode(pixels, boxes)) @ texts.T
        for j in range(len(phrases)):
            best = max(float(cosine) for cosine in cosines[:, j])
            assert nearest[i, j] == pytest.approx(best, abs=2e-3)  # regions are kept in half precision


def test_regions_need_images(scenes: Path, grounding_run: Path) -> None:
    corpus = read_corpus(scenes).split("val")
    corpus = replace(corpus, images=tuple(replace(image, source=None) for image in corpus.images))
    with pytest.raises(SeesayError, match="no image has regions"):
        nearest_regions(Run.load(str(grounding_run)), corpus, ["a red circle"])
