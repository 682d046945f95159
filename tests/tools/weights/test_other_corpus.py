"""Mini-batches of another corpus than the one that a recipe is trained on, on drawn scenes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.data.corpus import Corpus, Sentence
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import Inputs
from seesay.runs.prepare import PreparedSentences
from seesay.runs.summary import read_history
from seesay.training.train import train
from seesay_weights.other_corpus import OtherCorpus
from tools.scenes import write_scenes

SMALL = ("encoders=[efficientnet-lite0]", "arrays=[pooled]", "sentence_encoder=null")
TINY = (
    "matcher={kind: projection, dim: 8, hidden: 8, word_dim: 8, members: 2, class_names: 0}",
    "schedule.epochs=1",
)


def recipe(*changes: str) -> Recipe:
    return load_recipe("projection", changes=[*SMALL, *TINY, "batch_size=20", *changes])


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scenes that are named "zebra" or "yak", and nothing else."""
    folder = tmp_path_factory.mktemp("named")
    write_scenes(folder / "scenes", images=12, seed=4)
    images = read_corpus(folder / "scenes").images
    rows = [
        {"image": each.name, "name": ("zebra", "yak")[number % 2], "split": "train"}
        for number, each in enumerate(images)
    ]
    table = folder / "scenes" / "names.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return table


def pairs_of(data: Inputs, count: int) -> OtherCorpus:
    found = OtherCorpus("things", pairs=count)
    found.learn(data)
    return found


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
    pairs = pairs_of(data, 3)
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
    batch = pairs_of(inputs(), 9).draw("cpu")  # there are only four
    subject = dict(zip(batch.images[:, 0].long().tolist(), batch.image_ids.tolist(), strict=True))
    assert subject[0] == subject[3]
    assert len(set(subject.values())) == 3


def test_draws_depend_on_seed_and_epoch_alone() -> None:
    pairs, drawn = pairs_of(inputs(), 3), []
    for epoch in (1, 1, 2):
        pairs.begin_epoch(1, epoch)
        drawn.append(torch.cat([pairs.draw("cpu").images[:, 0] for _ in range(5)]).tolist())
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_a_run_learns_from_another_corpus(corpus: Corpus, named: Path, tmp_path: Path) -> None:
    further = f"losses=[{{kind: other-corpus, data: {named}, pairs: 6, weight: 2, names: 0.5}}]"
    run = train(recipe(further, "min_count=1"), corpus, tmp_path / "run")
    alone = train(recipe("min_count=1"), corpus, tmp_path / "alone")
    assert run.vocabulary.words == alone.vocabulary.words
    losses = [read_history(each.folder)[0].loss for each in (run, alone)]
    assert losses[0] > losses[1] + 1


@pytest.mark.parametrize("name", ["cca-mean", "ground-full"])
def test_what_is_not_learned_from_pairs_of_a_batch_has_no_further_losses(name: str) -> None:
    with pytest.raises(SeesayError, match="key 'losses'"):
        load_recipe(name, changes=["losses=[{kind: other-corpus, data: names}]"])
