"""A joint projection that goes on from an ensemble and keeps its scores, in fewer numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.losses import Batch
from seesay.matchers.projection import JointProjection, Projection
from seesay.matchers.sentences import Sentences
from seesay.recipes.load import load_recipe
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from seesay.training.train import train
from seesay_weights.class_phrases import ClassPhrases
from seesay_weights.keep import Keep
from seesay_weights.reduce import axes, reduce, take_over

INPUTS = ("encoders=[efficientnet-lite0]", "sentence_encoder=minilm-int8", "min_count=1", "batch_size=40")
SIZES = "hidden: 16, word_dim: 8, members: 2, class_names: 1.5"


def small(dim: int, *changes: str) -> Recipe:
    matcher = f"matcher={{kind: joint-projection, dim: {dim}, {SIZES}, image_dropout: 0, hidden_dropout: 0}}"
    return load_recipe("seesay-small", changes=[*INPUTS, matcher, "schedule.epochs=1", *changes])


@pytest.fixture(scope="module", autouse=True)
def few_phrases() -> Iterator[None]:
    """Name few classes: sentence vectors of ten thousand phrases take a minute."""
    few = ClassPhrases(["a dog", "a tree", "a red car"] * 100, np.zeros(300, np.int64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seesay_weights.keep.class_phrases", lambda: few)
        yield


@pytest.fixture(scope="module")
def ensemble(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    matcher = f"matcher={{kind: projection, dim: 12, {SIZES}, image_dropout: 0}}"
    recipe = load_recipe("projection", changes=[*INPUTS, matcher, "schedule.epochs=6"])
    return train(recipe, corpus, tmp_path_factory.mktemp("ensemble") / "run")


def test_it_goes_on_from_the_ensemble_in_fewer_numbers(corpus: Corpus, ensemble: Run, tmp_path: Path) -> None:
    start = reduce(small(60), ensemble, [corpus], tmp_path / "reduced")
    keep = f"losses=[{{kind: keep, run: {ensemble.folder}, count: 100}}]"
    run = train(small(60, keep), corpus, tmp_path / "run", start_from=Run.load(str(start.folder)))
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


def test_on_all_axes_nothing_is_lost_but_the_different_lengths_of_vectors() -> None:
    dims, sizes = (5, 1000, 7, 1000), {"hidden": 6, "word_dim": 4, "members": 2, "class_names": 0.5}
    torch.manual_seed(0)
    ensemble = Projection(dims, 20, 384, dim=8, **sizes).eval()
    ensemble.evidence.prepare(functional.normalize(torch.randn(1000, 384), dim=1))
    joint = JointProjection(dims, 20, 384, dim=1016, **sizes).eval()
    images, vectors = torch.randn(3, sum(dims)), functional.normalize(torch.randn(1, 384), dim=1)
    image, sentence = images[:1], Sentences(torch.tensor([3]), torch.tensor([1]), vectors)
    take_over(joint, ensemble, (torch.eye(1016), torch.eye(1016)), image, sentence)
    torch.testing.assert_close(joint(image, sentence), ensemble(image, sentence), atol=1e-4, rtol=0)
    torch.testing.assert_close(joint.embed_images(images).norm(dim=1), torch.ones(3))


def test_the_run_itself_keeps_all(corpus: Corpus, ensemble: Run) -> None:
    kept = Keep("run", count=50)
    kept.learn(ensemble)
    data = split_inputs(ensemble.recipe, corpus, "train", ensemble.vocabulary, ensemble.sentence_encoder)
    images = torch.from_numpy(data.features[:10]).float()
    given = Batch(images, data.sentences.take(np.arange(10)).to_tensors(), torch.arange(10))
    assert float(kept.batch_losses(ensemble.matcher, given)[0]) == pytest.approx(0, abs=1e-5)
    other = JointProjection(
        data.image_dims, len(ensemble.vocabulary.words) + 1, 384, dim=8, hidden=8, word_dim=8, members=1
    )
    assert float(kept.batch_losses(other, given)[0].detach()) > 0.01


def test_an_ensemble_of_another_size_is_refused(corpus: Corpus, ensemble: Run, tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="starts from a projection of 3 members"):
        reduce(small(8, "matcher.members=3"), ensemble, [corpus], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_scores_of_no_run_are_kept_in_a_pair_matcher() -> None:
    with pytest.raises(SeesayError, match="key 'losses': keep needs a matcher with embed_images"):
        load_recipe("mcnn-st", changes=["losses=[{kind: keep, run: runs/other}]"])
