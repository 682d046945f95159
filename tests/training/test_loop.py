"""The loop stops when it should."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.runs.summary import TrainingSummary
from seesay.training.train import train
from tests.training.steps import cosine, counted_steps

SMALL = ("encoders=[efficientnet-lite0]", "matcher.dim=24", "matcher.word_dim=8", "batch_size=64")


def test_patience_stops(corpus: Corpus, tmp_path: Path) -> None:
    changes = [*SMALL, "schedule.epochs=50", "schedule.patience=1", "optimizer.lr=1e-7"]
    train(load_recipe("irmatch-s", changes=changes), corpus, tmp_path / "run")
    assert TrainingSummary.load(tmp_path / "run").epochs < 50


def test_the_rate_falls_step_by_step_where_epochs_have_different_numbers(
    corpus: Corpus, tmp_path: Path
) -> None:
    """Mini-batches of whole images, which have one to five sentences."""
    seen = Counter[int]()
    kept = [
        each
        for each in corpus.sentences
        if not seen.update([each.image]) and seen[each.image] <= 1 + each.image % 5
    ]
    changes = [*SMALL[:3], "batch_size=4", "sampler=images", "schedule={steps: 150, shape: cosine}"]
    with counted_steps() as rates:
        recipe = load_recipe("irmatch-s", changes=[*changes, "optimizer.lr=0.001"])
        train(recipe, replace(corpus, sentences=tuple(kept)), tmp_path / "run")
    assert rates == pytest.approx(cosine(0.001, 150))


def test_a_loss_that_is_not_a_number_stops(corpus: Corpus, tmp_path: Path) -> None:
    recipe = load_recipe("irmatch-s", changes=[*SMALL, "optimizer.lr=1e37"])
    with pytest.raises(SeesayError, match=r"the loss is nan; lower optimizer\.lr"):
        train(recipe, corpus, tmp_path / "run")


def test_a_last_step_that_makes_scores_nan_is_answered_with_what_to_change(
    corpus: Corpus, tmp_path: Path
) -> None:
    one_batch = (
        "batch_size=1000",
        "schedule.epochs=1",
        "optimizer={kind: sgd, lr: 3e38}",
        "matcher.standardise=false",
    )
    recipe = load_recipe("irmatch-s", changes=[*SMALL, *one_batch])
    with pytest.raises(SeesayError, match=r"diverged; lower .* matcher\.standardise=length"):
        train(recipe, corpus, tmp_path / "run")
