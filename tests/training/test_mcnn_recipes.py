"""The m-CNN recipes: the paper's settings, and training them small on drawn scenes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seesay.data.corpus import Corpus
from seesay.encoders.sentences.word_vectors import word_vectors
from seesay.errors import SeesayError
from seesay.losses.settings import LOSSES
from seesay.matchers.settings import MATCHERS
from seesay.recipes.load import load_recipe
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary
from seesay.training.train import train

SMALL = (
    "encoders=[efficientnet-lite0]",
    "matcher.maps=[32, 48, 48]",
    "matcher.image=32",
    "matcher.hidden=64",
    "matcher.word_vectors=glove",
    "optimizer.lr=0.02",
    "schedule.epochs=20",
    "schedule.average=null",
    "batch_size=20",
)


@pytest.mark.parametrize("corpus_name", ["flickr8k", "flickr30k", "coco"])
@pytest.mark.parametrize("level", ["wd", "phs", "phl", "st"])
def test_recipes_hold_the_settings_of_the_paper(corpus_name: str, level: str) -> None:
    recipe = load_recipe(f"{corpus_name}/mcnn-{level}")
    assert isinstance(recipe.matcher, MATCHERS["mcnn"])
    assert (recipe.matcher.level, recipe.matcher.maps) == (level, (200, 300, 300))
    assert (recipe.matcher.image, recipe.matcher.hidden) == (256, 400)
    assert isinstance(recipe.loss, LOSSES["pair-margin"])
    assert recipe.loss.margin == 0.5
    assert recipe.optimizer.kind == "sgd"
    assert 100 <= recipe.batch_size <= 150
    assert recipe.departures


@pytest.mark.slow
@pytest.mark.parametrize("level", ["wd", "phs", "phl", "st"])
def test_it_learns_and_is_loaded_again(corpus: Corpus, tmp_path: Path, level: str) -> None:
    """A sentence's own image scores above others more often than not."""
    run = train(load_recipe(f"mcnn-{level}", changes=SMALL), corpus, tmp_path / "run")
    inputs = split_inputs(run.recipe, corpus, "train", run.vocabulary)  # val is too small to tell
    scores = run.score_prepared(inputs.features, inputs.sentences)
    owners = inputs.image_of_sentence
    matching = scores[owners, np.arange(len(owners))]
    others = np.arange(len(scores))[:, None] != owners
    assert (matching > scores)[others].mean() > 0.6  # chance is a half
    again = Run.load(str(tmp_path / "run"))
    np.testing.assert_allclose(again.score_prepared(inputs.features, inputs.sentences), scores, atol=1e-4)
    assert TrainingSummary.load(tmp_path / "run").train["cut_sentences"] == 0
    start, known = word_vectors(run.vocabulary.words)
    table = run.matcher.get_parameter("words.weight").detach().cpu().numpy()[1:]
    tuned = np.linalg.norm(table - start, axis=1)[known]
    assert tuned.max() > 1e-3
    assert tuned.max() < 3  # it began at GloVe, whose vectors are about 5 long


@pytest.mark.parametrize("length", [10, 150])
def test_features_of_the_printed_kind_do_not_make_the_loss_diverge(
    corpus: Corpus, tmp_path: Path, length: int
) -> None:
    """As those of VGG-19 before their ReLU: 128 long, where those of the other corpora's recipes are 16."""
    rows = np.random.default_rng(1).normal(size=(len(corpus.images), 64)).astype(np.float32)
    rows *= length / np.sqrt(np.square(rows).sum(axis=1).mean())
    images = tuple(replace(image, row=row) for row, image in enumerate(corpus.images))
    given = replace(corpus, images=images, features=rows)
    changes = [*SMALL, "encoders=[precomputed]", "optimizer.lr=0.3", "schedule.epochs=2"]
    run = train(load_recipe("flickr30k/mcnn-phl", corpus.name, changes), given, tmp_path / "run")
    train_rows = rows[[image.split == "train" for image in corpus.images]]
    factor = 16 / np.sqrt(np.square(train_rows, dtype=np.float64).sum(axis=1).mean())
    assert float(run.matcher.get_buffer("standard.factor")) == pytest.approx(factor, rel=1e-4)
    assert any("one constant" in line for line in run.recipe.departures)
    if length > 100:
        recipe = load_recipe("mcnn-phl", corpus.name, [*changes, "optimizer.lr=30"])
        with pytest.raises(SeesayError, match=r"optimizer.lr \(30\), .* matcher\.standardise=length\."):
            train(recipe, given, tmp_path / "other")
