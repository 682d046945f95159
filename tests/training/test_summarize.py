"""Trained runs have probabilities of their own, where the val split tells them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from seesay.cli.printing import print_training
from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.protocols.evaluate import open_corpus_of
from seesay.recipes.load import load_recipe
from seesay.results.records import row_of
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary
from seesay.training.train import train
from tests.results.made import RESULT

CHANGES = ["encoders=[efficientnet-lite0]", "schedule.epochs=1", "min_count=1"]


@pytest.fixture(autouse=True)
def few_images_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seesay.training.summarize.LEAST_IMAGES", 1)


def test_they_are_fitted_to_val(corpus: Corpus, tmp_path: Path) -> None:
    trained = train(load_recipe("vse++", changes=CHANGES), corpus, tmp_path / "run")
    assert trained.calibration is not None
    assert Run.load(str(tmp_path / "run")).calibration == trained.calibration
    assert TrainingSummary.load(tmp_path / "run").uncalibrated is None


def test_the_summary_says_why_there_are_none(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nounless = tuple(replace(each, text="is it there") for each in corpus.sentences)
    trained = train(
        load_recipe("vse++", changes=CHANGES), replace(corpus, sentences=nounless), tmp_path / "run"
    )
    assert trained.calibration is None
    summary = TrainingSummary.load(tmp_path / "run")
    assert "no sentence of split 'val' has a noun" in str(summary.uncalibrated)
    print_training(summary, tmp_path / "run", None)
    told = capsys.readouterr()
    assert ", 1 epoch in " in told.out
    assert "Probabilities were not fitted to val" in told.err


def test_a_few_images_give_no_probabilities(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    assert train(load_recipe("vse++", changes=CHANGES), corpus, tmp_path / "run").calibration is None
    told = str(TrainingSummary.load(tmp_path / "run").uncalibrated)
    assert "split 'val' has 6 images; probabilities need 20" in told


def test_any_other_failure_is_not_hidden(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise SeesayError("the scores contain NaN")

    monkeypatch.setattr("seesay.training.summarize.fit_calibration", fail)
    with pytest.raises(SeesayError, match="contain NaN"):
        train(load_recipe("vse++", changes=CHANGES), corpus, tmp_path / "run")


def test_a_format_that_reads_less_is_recorded(corpus: Corpus, tmp_path: Path) -> None:
    run = train(
        load_recipe("vse++", changes=CHANGES), replace(corpus, reading={"format": "table"}), tmp_path / "run"
    )
    assert TrainingSummary.load(run.folder).corpus.format == "table"
    assert row_of(RESULT, [run], 1.0).departures == [*run.recipe.departures, "the corpus as table"]
    with pytest.raises(SeesayError, match="no column caption"):
        open_corpus_of([run])  # it is read as it was, and the table of phrases is none of sentences


def test_pair_matchers_have_the_usual_ones(corpus: Corpus, tmp_path: Path) -> None:
    trained = train(load_recipe("mcnn-st", changes=CHANGES), corpus, tmp_path / "run")
    assert trained.calibration is None
    assert Run.load(str(tmp_path / "run")).config.calibration is None
