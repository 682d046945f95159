"""The baselines' recipes: the papers' settings, and training them small on features that came as files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.losses.settings import LOSSES
from seesay.matchers.settings import MATCHERS
from seesay.recipes.load import load_recipe
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from seesay.training.train import train

CORPORA = ["flickr8k", "flickr30k", "coco"]
NAMES = ["red", "green", "blue", "yellow", "purple", "orange", "black", "pink"]
_FAST = ("schedule.patience=null", "schedule.shape=constant")
SMALL = {
    "devise": ("schedule.epochs=3", "optimizer.lr=0.1"),
    "order-embeddings": (
        *("matcher.dim=32", "matcher.word_dim=16", "matcher.image_dropout=0", "matcher.sentence_dropout=0"),
        *("schedule.epochs=5", "optimizer.lr=0.01"),
    ),
    "dcca": (
        "matcher.hidden=[32]",
        "matcher.dim=7",
        "schedule.epochs=5",
        "sentence_dim=10",
        "batch_size=100",
    ),
    "cca-mean": ("matcher.dim=7",),
    "dvsa": (
        *("matcher.dim=32", "matcher.hidden=16", "matcher.instances=4", "matcher.dropout=0"),
        *("schedule.epochs=5", "optimizer.lr=0.02"),
    ),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Images of three regions, each of one colour; a sentence names two of them."""
    folder = tmp_path_factory.mktemp("regions")
    generator = np.random.default_rng(0)
    for split, count in (("train", 60), ("dev", 20), ("test", 20)):
        features, captions = np.full((count, 3, len(NAMES)), 0.01, np.float32), []
        for image in range(count):
            shown = generator.choice(len(NAMES), 3, replace=False)
            features[image, np.arange(3), shown] = 1
            captions += [
                f"a {NAMES[shown[i % 3]]} ball and a {NAMES[shown[i % 3 - 1]]} ball" for i in range(5)
            ]
        features += generator.normal(0, 1e-3, features.shape).astype(np.float32)
        np.save(folder / f"{split}_ims.npy", features)
        (folder / f"{split}_caps.txt").write_text("\n".join(captions) + "\n")
    return read_corpus(folder)


@pytest.mark.parametrize("name", SMALL)
def test_it_learns_and_is_loaded_again(corpus: Corpus, tmp_path: Path, name: str) -> None:
    """Of 20 images a sentence's own is among its first five more often than by chance."""
    changes = ("encoders=[precomputed]", "batch_size=20", *_FAST, *SMALL[name])
    trained = train(load_recipe(name, changes=changes), corpus, tmp_path / "run")
    run = Run.load(str(tmp_path / "run"))
    inputs = split_inputs(run.recipe, corpus, "test", run.vocabulary, run.sentence_encoder)
    scores = run.score_prepared(inputs.features, inputs.sentences)
    expected = trained.score_prepared(inputs.features, inputs.sentences)
    np.testing.assert_allclose(scores, expected, atol=1e-4, rtol=1e-4)
    own = scores[inputs.image_of_sentence, np.arange(len(inputs.sentences))]
    assert ((scores > own).sum(axis=0) < 5).mean() > 0.45  # by chance a quarter


def test_the_loss_of_deep_cca_is_less_the_more_correlates(corpus: Corpus, tmp_path: Path) -> None:
    changes = ("encoders=[precomputed]", *_FAST, *SMALL["dcca"], "matcher.dropout=0")
    train(load_recipe("dcca", changes=changes), corpus, tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["loss"] < rows[0]["loss"] < 0
    assert rows[-1]["loss"] > -7  # of 7 outputs no more can correlate
    # What is kept is what val was measured with.
    correlations = load_file(tmp_path / "run" / "weights.safetensors")["projections.correlations"]
    assert torch.all((correlations >= 0) & (correlations <= 1))


@pytest.mark.parametrize("corpus_name", CORPORA)
def test_recipes_hold_the_papers_objectives(corpus_name: str) -> None:
    recipes = {name: load_recipe(f"{corpus_name}/{name}") for name in (*SMALL, "vse0", "mnlm")}
    assert recipes["vse0"].loss == recipes["mnlm"].loss == LOSSES["margin"].settings(margin=0.2)
    assert isinstance(recipes["vse0"].matcher, MATCHERS["vse++"].settings)
    assert recipes["order-embeddings"].loss == LOSSES["margin"].settings(margin=0.05)
    assert recipes["devise"].loss == LOSSES["hinge-rank"].settings(margin=0.1)
    assert isinstance(recipes["dcca"].loss, LOSSES["total-correlation"].settings)
    assert recipes["dvsa"].loss == LOSSES["margin"].settings(margin=1)
    assert all(recipe.departures for recipe in recipes.values())
