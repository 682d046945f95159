"""Phrases as a training task: what broken images and small splits must not do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.encoders.regions import Regions
from seesay.errors import SeesayError
from seesay.matchers.two_branch import SimilarityNetwork, TwoBranchEmbedding
from seesay.recipes.load import load_recipe
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import Inputs
from seesay.runs.prepare import PreparedSentences
from seesay.training.phrase_task import PhraseTask

DIM = 4
TRUTHS = np.array([[10, 10, 50, 60], [40, 30, 95, 90]], np.float32)
FAR = np.array([[70, 0, 90, 10], [0, 80, 20, 100]], np.float32)


def task(
    recipe: Recipe, images: int = 4, broken: frozenset[int] = frozenset(), far: bool = True
) -> PhraseTask:
    """Images with two phrases each; a region's features tell its image and its place there."""
    phrases: list[Sentence] = []
    regions: list[Regions] = []
    counts = np.zeros(images, np.int64)
    for image in range(images):
        truths = TRUTHS if far else TRUTHS[[0, 0]]
        for text, truth in zip(("a man", "a dog"), truths.tolist(), strict=True):
            phrases.append(Sentence(text, image, (tuple(truth),), chain=text))
        boxes = np.concatenate([FAR if far else truths, truths])
        if image in broken:
            boxes = boxes[:0]
        counts[image] = max(len(boxes) - 2, 0)
        features = np.full((len(boxes), DIM), image, np.float16)
        features[:, 0] = np.arange(len(boxes))
        regions.append(Regions(boxes, features))
    names = tuple(CorpusImage(f"{i}.jpg", "train", size=(100, 100)) for i in range(images))
    corpus = Corpus("drawn", Path("drawn"), names, tuple(phrases))
    m = len(phrases)
    ones = np.ones(m, np.int64)
    sentences = PreparedSentences(ones, ones, torch.randn(m, 3).numpy())
    owners, features = corpus.image_of_sentence(), np.zeros((images, 0), np.float32)
    of_regions = regions, counts, counts[owners] + np.tile([0, 1], images)
    data = Inputs(corpus, features, sentences, owners, [], (), *of_regions)
    return PhraseTask(recipe, data, data)


@pytest.mark.parametrize("broken", [frozenset({0}), frozenset({1, 2}), frozenset({3})])
def test_phrases_of_broken_images_are_in_no_pair(broken: frozenset[int]) -> None:
    found = [features for features, _ in task(load_recipe("ground-cca"), broken=broken).pairs()]
    features = torch.cat(found)
    whole = [image for image in range(4) if image not in broken]
    assert features[:, 1].tolist() == [image for image in whole for _ in range(2)]
    assert features[:, 0].tolist() == [2, 3] * len(whole)  # the true regions, behind the proposals


@pytest.mark.parametrize("name", ["ground-full", "ground-similarity"])
def test_a_last_phrase_alone_is_left_out(name: str) -> None:
    """Batch normalisation takes no batch of one."""
    recipe = load_recipe(name, changes=["batch_size=7"])
    learned = task(recipe)
    batches = learned.batches(1)
    assert [len(batch.phrases) for batch in batches] == [7]
    if name == "ground-similarity":
        matcher = SimilarityNetwork(DIM, 3, dim=8)
    else:
        matcher = TwoBranchEmbedding(DIM, 3, dim=8)
    (loss,) = learned.losses(matcher, batches[0], "cpu")
    assert torch.isfinite(loss)


def test_without_negatives_there_is_an_error() -> None:
    with pytest.raises(SeesayError, match=r"drawn: split 'train' has no two phrases .* regions.proposals"):
        task(load_recipe("ground-similarity"), far=False).batches(1)
    with pytest.raises(SeesayError, match="no two phrases"):
        task(load_recipe("ground-full"), images=1, broken=frozenset({0})).batches(1)


@pytest.mark.parametrize("changes", [(), ("regions.geometry=true",)])
def test_features_in_memory_are_those_of_the_store(changes: tuple[str, ...]) -> None:
    recipe = load_recipe("ground-full", changes=changes)
    kept = list(task(recipe, broken=frozenset({1})).pairs())
    reading = task(recipe, broken=frozenset({1}))
    reading.kept_on_cpu = 0
    read = list(reading.pairs())
    for (ours, _), (theirs, _) in zip(kept, read, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=0)
