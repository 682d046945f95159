"""Training that goes on from a run and keeps what it knows, in fewer numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from seesay.data.corpus import Corpus
from seesay.encoders.sentences.class_names import ClassPhrases
from seesay.errors import SeesayError
from seesay.matchers.projection import JointProjection
from seesay.recipes.load import load_recipe
from seesay.recipes.schema import KeepSettings, Recipe
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from seesay.training.start import Keeper, axes
from seesay.training.train import train

INPUTS = ("encoders=[efficientnet-lite0]", "sentence_encoder=minilm-int8", "min_count=1", "batch_size=40")
SIZES = "hidden: 16, word_dim: 8, members: 2, class_names: 1.5"


def small(dim: int, *changes: str) -> Recipe:
    matcher = f"matcher={{kind: joint-projection, dim: {dim}, {SIZES}, image_dropout: 0, hidden_dropout: 0}}"
    return load_recipe(
        "seesay-small",
        changes=[*INPUTS, matcher, "beside={}", "keep.phrases=100", "schedule.epochs=1", *changes],
    )


@pytest.fixture(scope="module", autouse=True)
def few_phrases() -> Iterator[None]:
    """Name few classes: sentence vectors of ten thousand phrases take a minute."""
    few = ClassPhrases(["a dog", "a tree", "a red car"] * 100, np.zeros(300, np.int64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seesay.training.start.class_phrases", lambda: few)
        yield


@pytest.fixture(scope="module")
def ensemble(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    matcher = f"matcher={{kind: projection, dim: 12, {SIZES}, image_dropout: 0}}"
    changes = [*INPUTS, matcher, "class_pairs=0", "schedule.epochs=6"]
    recipe = load_recipe("projection", changes=changes)
    return train(recipe, corpus, tmp_path_factory.mktemp("ensemble") / "run")


def test_it_goes_on_from_the_ensemble_in_fewer_numbers(corpus: Corpus, ensemble: Run, tmp_path: Path) -> None:
    run = train(small(60), corpus, tmp_path / "run", start_from=ensemble)
    assert (run.dim, ensemble.dim) == (60, 24 + 1000)
    assert run.vocabulary.words == ensemble.vocabulary.words
    assert any("Starts from the weights" in each for each in run.recipe.departures)


def test_axes_change_no_inner_product_of_vectors_that_need_no_more() -> None:
    draw = np.random.default_rng(0)
    images, sentences = draw.normal(size=(200, 4)) @ draw.normal(size=(4, 9)), draw.normal(size=(300, 9))
    moments = images.T @ images + 1e-9 * np.eye(9), sentences.T @ sentences
    of_images, of_sentences = (each.double().numpy() for each in axes(*moments, 4))
    found = (images @ of_images) @ (sentences @ of_sentences).T
    assert np.allclose(found, images @ sentences.T, atol=1e-3)


def test_the_run_itself_keeps_all(corpus: Corpus, ensemble: Run) -> None:
    keeper = Keeper(ensemble, KeepSettings(phrases=50))
    keeper.begin_epoch(1, 1)
    data = split_inputs(ensemble.recipe, corpus, "train", ensemble.vocabulary, ensemble.sentence_encoder)
    images = torch.from_numpy(data.features[:10]).float()
    sentences = data.sentences.take(np.arange(10)).to_tensors()
    assert float(keeper.loss(keeper.matcher, images, sentences)) == pytest.approx(0, abs=1e-5)
    other = JointProjection(
        data.image_dims, len(ensemble.vocabulary.words) + 1, 384, dim=8, hidden=8, word_dim=8, members=1
    )
    assert float(keeper.loss(other, images, sentences).detach()) > 0.01


def test_without_a_run_nothing_can_be_kept(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="name it with --from"):
        train(small(8), corpus, tmp_path / "run")


def test_an_ensemble_of_another_size_is_refused(corpus: Corpus, ensemble: Run, tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="starts from a projection of 3 members"):
        train(small(8, "matcher.members=3"), corpus, tmp_path / "run", start_from=ensemble)
    assert not (tmp_path / "run").exists()


def test_scores_of_no_run_are_kept_in_a_pair_matcher() -> None:
    with pytest.raises(SeesayError, match="key 'keep'"):
        load_recipe("mcnn-st", changes=["keep={}"])
