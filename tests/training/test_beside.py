"""Corpora beside the one that a recipe is trained on, on drawn scenes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.data.corpus import Corpus, Sentence
from seesay.data.readers import read_corpus
from seesay.data.scenes import write_scenes
from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.recipes.schema import BesideSettings, Recipe
from seesay.runs.inputs import Inputs
from seesay.runs.sentences import PreparedSentences
from seesay.runs.summary import TrainingSummary
from seesay.training.further import BesidePairs
from seesay.training.train import train

SMALL = ("encoders=[efficientnet-lite0]", "arrays=[pooled]", "class_pairs=0", "sentence_encoder=null")
TINY = (
    "matcher={kind: projection, dim: 8, hidden: 8, word_dim: 8, members: 2, class_names: 0}",
    "schedule.epochs=1",
)


def recipe(*changes: str) -> Recipe:
    return load_recipe("projection", changes=[*SMALL, *TINY, "batch_size=20", *changes])


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Scenes that are named "zebra" or "yak", and nothing else."""
    folder = tmp_path_factory.mktemp("named")
    write_scenes(folder / "scenes", images=12, seed=4)
    images = read_corpus(folder / "scenes").images
    rows = [
        {"image": each.name, "name": ("zebra", "yak")[number % 2], "split": "train"}
        for number, each in enumerate(images)
    ]
    (folder / "names.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_corpus(folder / "names.jsonl", images=folder / "scenes")


def inputs() -> Inputs:
    """Four images with a number as their feature; the first three sentences are of the first."""
    owners = np.array([0, 0, 0, 3, 1, 2])
    texts = ["owl", "an owl", "a photo of an owl", "owl", "a pear", "a plum"]
    words = np.arange(len(texts))
    corpus = Corpus("things", Path("things"), (), ())
    found = Inputs(
        corpus,
        np.arange(4, dtype=np.float32)[:, None],
        PreparedSentences(words, np.ones_like(words), np.zeros((len(words), 0), np.float32)),
        owners,
        [],
        (1,),
    )
    sentences = tuple(Sentence(text, owner) for text, owner in zip(texts, owners.tolist(), strict=True))
    return replace(found, corpus=replace(corpus, sentences=sentences))


def test_each_image_is_drawn_with_one_of_its_sentences() -> None:
    data = inputs()
    pairs = BesidePairs(data, BesideSettings(pairs=3), 0)
    seen = set()
    for _ in range(40):
        batch = pairs.draw("cpu")
        images = batch.images[:, 0].long().tolist()
        assert len(set(images)) == 3
        words = batch.sentences.words.tolist()
        assert [int(data.image_of_sentence[word]) for word in words] == images
        seen |= set(words)
    assert seen == set(range(6))


def test_images_with_one_first_sentence_are_no_negatives_of_each_other() -> None:
    batch = BesidePairs(inputs(), BesideSettings(pairs=9), 0).draw("cpu")  # there are only four
    subject = dict(zip(batch.images[:, 0].long().tolist(), batch.image_ids.tolist(), strict=True))
    assert subject[0] == subject[3]
    assert len(set(subject.values())) == 3


def test_draws_depend_on_seed_epoch_and_corpus_alone() -> None:
    first, other = (BesidePairs(inputs(), BesideSettings(pairs=3), number) for number in (0, 1))
    drawn = []
    for pairs, epoch in ((first, 1), (first, 1), (first, 2), (other, 1)):
        pairs.begin_epoch(1, epoch)
        drawn.append(torch.cat([pairs.draw("cpu").images[:, 0] for _ in range(5)]).tolist())
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
    assert drawn[0] != drawn[3]


def test_a_matcher_learns_the_words_of_both_corpora(corpus: Corpus, named: Corpus, tmp_path: Path) -> None:
    both = replace(corpus, beside=(named,))
    run = train(recipe("beside={names: {pairs: 6, weight: 2}}", "min_count=1"), both, tmp_path / "run")
    assert {"zebra", "yak"} < set(run.vocabulary.words)
    assert run.recipe.beside["names"].weight == 2
    assert TrainingSummary.load(run.folder).beside == {"names": 12}
    alone = train(recipe("min_count=1"), corpus, tmp_path / "alone")
    assert "zebra" not in alone.vocabulary.words


def test_corpora_and_recipe_must_name_the_same(corpus: Corpus, named: Corpus, tmp_path: Path) -> None:
    both = replace(corpus, beside=(named,))
    with pytest.raises(SeesayError, match=r"no settings for the additional corpus names; set beside\.names="):
        train(recipe(), both, tmp_path / "run")
    with pytest.raises(SeesayError, match="also learns from zoo; name each with a --data"):
        train(recipe("beside={zoo: {}}"), corpus, tmp_path / "run")
    with pytest.raises(SeesayError, match="Two corpora are named names"):
        train(recipe("beside={names: {}}"), replace(both, beside=(named, named)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["gvse-common-finetuned", "ground-full", "cca-mean"])
def test_other_kinds_of_training_take_no_corpus_beside(name: str) -> None:
    with pytest.raises(SeesayError, match="key 'beside'"):
        load_recipe(name, changes=["beside={names: {}}"])
