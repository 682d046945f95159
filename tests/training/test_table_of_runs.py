"""Runs put beside each other: grouped by what they are, measured once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import fmean

import pytest

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.protocols.evaluate import evaluate
from seesay.recipes.load import load_recipe
from seesay.runs.run import Run
from seesay.training.measured import MEASURED
from seesay.training.table_of_runs import load_runs, measure_runs
from seesay.training.train import train

SMALL = ("encoders=[efficientnet-lite0]", "sentence_encoder=mean", "sentence_dim=20", "schedule.epochs=1")
WIDE = (*SMALL, "matcher.dim=16")


@pytest.fixture(scope="module")
def trained(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of one recipe, and another width of it."""
    folder = tmp_path_factory.mktemp("runs")
    spelt = ("encoders=['efficientnet-lite0']", *SMALL[1:])
    for name, changes, seed in (("one", SMALL, 1), ("two", spelt, 2), ("wide", WIDE, 1)):
        recipe = load_recipe("two-branch-linear", corpus.name, changes)
        train(recipe.model_copy(update={"seed": seed}), corpus, folder / name)
    return folder


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(trained, tmp_path / "runs"))


def table_of(corpus, *folders, split="test", protocol=None, **choice):
    loaded = load_runs([str(folder) for folder in folders])
    return measure_runs(loaded, corpus, split, protocol, lambda _: None, **choice)


def test_seeds_are_one_row_and_changes_another(corpus: Corpus, runs: Path) -> None:
    table = table_of(corpus, runs / "one", runs / "wide", runs / "two")
    plain, wide = table.lines
    assert [row.provenance.seed for row in plain.rows] == [1, 2]
    assert wide.name.startswith("two-branch-linear ")
    assert "matcher.dim=16" in wide.name
    alone = [Run.load(str(runs / name)) for name in ("one", "two")]
    expected = [evaluate(run, corpus, resamples=0).metrics["S R@1"] for run in alone]
    assert table.cells()[0][1].text.startswith(f"{fmean(expected):.1f} ± ")
    assert plain.published.system == "Embedding network, linear, bi-directional"


def test_a_run_is_measured_once(corpus: Corpus, runs: Path) -> None:
    (first,) = table_of(corpus, runs / "one").lines[0].rows
    (again,) = table_of(corpus, runs / "one").lines[0].rows
    assert again.to_dict() == first.to_dict()  # also the seconds that it took
    table_of(corpus, runs / "one", split="val")
    table_of(corpus, runs / "one", protocol="sentence-to-sentence")
    assert len(json.loads((runs / "one" / MEASURED).read_text(encoding="utf-8"))) == 3


def test_a_seed_that_repeats_is_named_after_its_folder(corpus: Corpus, runs: Path) -> None:
    shutil.copytree(runs / "one", runs / "again")
    table = table_of(corpus, runs / "one", runs / "again")
    assert [Path(line.name).name for line in table.lines] == ["one", "again"]


def test_rows_are_recorded(corpus: Corpus, runs: Path, tmp_path: Path) -> None:
    table_of(corpus, runs / "one", runs / "two", record=tmp_path, commit="abc")
    rows = [json.loads(line) for line in (tmp_path / "scenes.jsonl").read_text().splitlines()]
    assert [(row["recipe"], row["seed"], row["commit"]) for row in rows] == [
        ("two-branch-linear", seed, "abc") for seed in (1, 2)
    ]


def test_a_run_that_is_not_writable_is_measured_each_time(corpus: Corpus, runs: Path) -> None:
    (runs / "one" / MEASURED).mkdir()  # in its place no file can be written
    for _ in range(2):
        assert table_of(corpus, runs / "one").lines[0].rows
    assert (runs / "one" / MEASURED).is_dir()


def test_what_is_no_run_or_is_named_twice_is_said(runs: Path) -> None:
    with pytest.raises(SeesayError, match="named twice"):
        load_runs([str(runs / "one"), str(runs / "one" / ".")])
    with pytest.raises(SeesayError, match="nowhere"):
        load_runs([str(runs / "nowhere")])
