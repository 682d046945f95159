"""Algorithm 1: its mini-batches keep its rules, whatever is drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.data.boxes import iou, jittered
from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.encoders.regions import Regions
from seesay.matchers.sentences import Sentences
from seesay.recipes.schema import RegionSettings
from seesay.runs.inputs import NEAR, Inputs
from seesay.training.phrase_task import FAR, PhraseSampler

SIDE = 100


def inputs(seed: int, images: int = 4, proposals: int = 30) -> Inputs:
    """Images with two true boxes; three phrases each, of which two name the same box."""
    generator = np.random.default_rng(seed)
    phrases: list[Sentence] = []
    regions: list[Regions] = []
    for image in range(images):
        truths = np.array([[10, 10, 50, 60], [40, 30, 95, 90]], np.float32)
        near = truths[generator.integers(2, size=6)] + generator.uniform(-4, 4, (6, 4))
        corners = np.sort(generator.uniform(0, SIDE, (proposals - 6, 2, 2)), axis=1)
        boxes = np.concatenate([near, corners.reshape(-1, 4), truths]).astype(np.float32)
        regions.append(Regions(boxes, np.zeros((len(boxes), 3), np.float16)))
        for text, box, chain in (("a man", 0, "m"), ("he", 0, "m"), ("a dog", 1, "d")):
            phrases.append(Sentence(text, image, (tuple(truths[box].tolist()),), chain=chain))
    names = tuple(CorpusImage(f"{i}.jpg", "train", size=(SIDE, SIDE)) for i in range(images))
    corpus = Corpus("drawn", Path(), names, tuple(phrases))
    m = len(phrases)
    words = Sentences(torch.ones(m, dtype=torch.int64), torch.ones(m, dtype=torch.int64), torch.zeros(m, 0))
    true_region = np.tile([proposals, proposals, proposals + 1], images)
    owners, features = corpus.image_of_sentence(), np.zeros((images, 0), np.float32)
    of_regions = regions, np.full(images, proposals), true_region
    return Inputs(corpus, features, words, owners, [], (), *of_regions)


def overlaps(data: Inputs, sampler: PhraseSampler, regions: np.ndarray, phrases: np.ndarray):
    """IoU of each region with each phrase's true box, (n, m); -1 across images."""
    owner = np.searchsorted(sampler.first_region, regions, side="right") - 1
    boxes = np.stack(
        [
            data.regions[i].boxes[r - sampler.first_region[i]]
            for i, r in zip(owner.tolist(), regions.tolist(), strict=True)
        ]
    )
    value = iou(boxes, data.corpus.enclosing_boxes()[phrases])
    same = owner[:, None] == data.corpus.image_of_sentence()[phrases][None, :]
    return np.where(same, value, -1)


@settings(max_examples=25)
@given(st.integers(0, 1000), st.sampled_from(["single", "augmented", "jittered"]), st.booleans())
def test_triplets_are_what_the_algorithm_says(seed: int, positives: str, neighbours: bool) -> None:
    data = inputs(seed)
    sampler = PhraseSampler(data, RegionSettings(positives=positives, negatives=5))
    chosen = np.random.default_rng(seed).permutation(12)[:7]
    regions, phrases, relations = sampler.triplets(chosen, neighbours, np.random.default_rng(seed))
    matching, other_phrases, other_regions = (each.numpy() for each in relations)
    value = overlaps(data, sampler, regions, phrases)
    min_iou = 1.0 if positives == "single" else NEAR
    assert (value[matching] >= min_iou - 1e-6).all()
    assert (value[other_regions] < FAR).all()
    assert (value[other_regions] >= 0).all()  # of the same image
    assert (other_regions.sum(axis=0) <= 5).all()
    assert set(chosen) <= set(phrases[matching.any(axis=0)])
    chain = [(p.image, p.chain) for p in data.corpus.sentences]
    for i, j in np.argwhere(other_phrases):
        matched = {chain[phrases[k]] for k in np.flatnonzero(matching[i])}
        assert matched
        assert chain[phrases[j]] not in matched


@settings(max_examples=25)
@given(st.integers(0, 1000))
def test_neighbourhood_sampling_gives_every_target_two_matches(seed: int) -> None:
    data = inputs(seed)
    sampler = PhraseSampler(data, RegionSettings(positives="augmented"))
    men = np.array([0, 3])  # "a man" of images 0 and 1: each has "he" beside it
    _, phrases, relations = sampler.triplets(men, True, np.random.default_rng(seed))
    first = [int(np.flatnonzero(phrases == man)[0]) for man in men]
    there = [min(2, len(sampler.near[man])) for man in men]
    assert (relations.matching.numpy()[:, first].sum(axis=0) >= there).all()
    assert {1, 4} <= set(phrases.tolist())
    added = [int(np.flatnonzero(phrases == he)[0]) for he in (1, 4)]  # which the step itself has added
    there = [min(2, len(sampler.near[he])) for he in (1, 4)]
    assert (relations.matching.numpy()[:, added].sum(axis=0) >= there).all()


def test_boxes_drawn_around_true_ones_are_positives_and_no_negatives() -> None:
    data = inputs(5)
    drawn = [jittered(box, SIDE, SIDE, 9, NEAR) for box in data.regions[0].boxes[-2:]]
    regions = [
        Regions(boxes := np.concatenate([r.boxes, *drawn]), np.zeros((len(boxes), 3), np.float16))
        for r in data.regions
    ]
    data = replace(data, regions=regions)
    plain, many = (PhraseSampler(data, RegionSettings(positives=kind)) for kind in ("augmented", "jittered"))
    for few, more in zip(plain.near, many.near, strict=True):
        assert set(few) < set(more)
        assert len(more) >= len(few) + 9
    assert all((a == b).all() for a, b in zip(plain.far, many.far, strict=True))


@pytest.mark.parametrize("positives", ["single", "augmented"])
def test_pairs_are_balanced_and_of_one_image(positives: str) -> None:
    data = inputs(3)
    sampler = PhraseSampler(data, RegionSettings(positives=positives))
    regions, phrases, pairs = sampler.pairs(np.arange(12), np.random.default_rng(1))
    images, sentences, labels = (each.numpy() for each in pairs)
    assert labels.sum() == 0
    value = np.diagonal(overlaps(data, sampler, regions[images], phrases[sentences]))
    assert (value[labels > 0] >= (1 - 1e-6 if positives == "single" else NEAR)).all()
    assert (value[labels < 0] < FAR).all()
    assert (value >= 0).all()
    assert (len(labels) == 24) == (positives == "single")


def test_a_phrase_without_far_regions_gives_no_pairs() -> None:
    data = inputs(3, images=1)
    data.regions[0].boxes[:] = data.regions[0].boxes[-1]
    sampler = PhraseSampler(data, RegionSettings())
    _, phrases, _ = sampler.pairs(np.arange(len(data.sentences)), np.random.default_rng(1))
    assert set(phrases) == set(range(len(data.sentences))) - {2}
