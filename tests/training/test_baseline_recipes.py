"""The baselines' recipes: the papers' settings, and training them small on features that came as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
    "vse++": (
        *("matcher.dim=32", "matcher.word_dim=16", "matcher.standardise=false"),
        *("schedule.epochs=5", "optimizer.lr=0.01"),
    ),
    "cca-mean": ("matcher.dim=7",),
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


@pytest.mark.parametrize("corpus_name", CORPORA)
def test_recipes_hold_the_papers_objectives(corpus_name: str) -> None:
    recipes = {name: load_recipe(f"{corpus_name}/{name}") for name in (*SMALL, "vse0")}
    assert recipes["vse0"].loss == LOSSES["margin"](margin=0.2)
    assert isinstance(recipes["vse0"].matcher, MATCHERS["vse++"])
    assert recipes["vse++"].loss == LOSSES["soft-margin"](margin=0.2, top_k=1)
    assert all(recipe.departures for recipe in recipes.values())
