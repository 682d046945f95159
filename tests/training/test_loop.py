"""The loop stops when it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.runs.summary import TrainingSummary
from seesay.training.train import train

SMALL = ("encoders=[efficientnet-lite0]", "matcher.dim=24", "matcher.word_dim=8", "batch_size=64")


def test_patience_stops(corpus: Corpus, tmp_path: Path) -> None:
    changes = [*SMALL, "schedule.epochs=50", "schedule.patience=1", "optimizer.lr=1e-7"]
    train(load_recipe("irmatch-s", changes=changes), corpus, tmp_path / "run")
    assert TrainingSummary.load(tmp_path / "run").epochs < 50


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
