"""Trained runs have probabilities of their own, where the val split tells them."""

from __future__ import annotations

from pathlib import Path

from seesay.data.corpus import Corpus
from seesay.recipes.load import load_recipe
from seesay.runs.calibration import CALIBRATION, USUAL
from seesay.runs.run import Run
from seesay.training.train import train

CHANGES = ["encoders=[efficientnet-lite0]", "schedule.epochs=1", "min_count=1"]


def test_they_are_fitted_to_val(corpus: Corpus, tmp_path: Path) -> None:
    trained = train(load_recipe("vse++", changes=CHANGES), corpus, tmp_path / "run")
    assert trained.calibration != USUAL
    assert Run.load(str(tmp_path / "run")).calibration == trained.calibration


def test_pair_matchers_have_the_usual_ones(corpus: Corpus, tmp_path: Path) -> None:
    trained = train(load_recipe("mcnn-st", changes=CHANGES), corpus, tmp_path / "run")
    assert trained.calibration == USUAL
    assert not (tmp_path / "run" / CALIBRATION).exists()
