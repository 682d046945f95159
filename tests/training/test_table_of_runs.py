"""Runs put beside each other: grouped by what they are, measured once, on the corpus they learned from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import fmean

import pytest

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.protocols.evaluate import evaluate
from seesay.recipes.load import load_recipe
from seesay.runs.corpus import open_corpus_of
from seesay.runs.run import Run
from seesay.training import table_of_runs
from seesay.training.measured import MEASURED
from seesay.training.table_of_runs import load_runs, measure_runs
from seesay.training.train import train

SMALL = ("encoders=[efficientnet-lite0]", "sentence_encoder=mean", "sentence_dim=20", "schedule.epochs=1")
WIDE = (*SMALL, "matcher.dim=16")


@pytest.fixture(scope="module")
def corpus(scenes: Path) -> Corpus:
    return read_corpus(scenes)


@pytest.fixture(scope="module")
def trained(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of one recipe, and another width of it."""
    folder = tmp_path_factory.mktemp("runs")
    for name, changes, seed in (("one", SMALL, 1), ("two", SMALL, 2), ("wide", WIDE, 1)):
        recipe = load_recipe("two-branch-linear", corpus.name, changes)
        train(recipe.model_copy(update={"seed": seed}), corpus, folder / name)
    return folder


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(trained, tmp_path / "runs"))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs that are measured from here on."""
    names: list[str] = []

    def noted(run, *arguments, **options):
        names.append(Path(run.name).name)
        return evaluate(run, *arguments, **options)

    monkeypatch.setattr(table_of_runs, "evaluate", noted)
    return names


def table_of(corpus, *folders, **choice):
    runs = load_runs([str(folder) for folder in folders])
    return measure_runs(
        runs, corpus, choice.pop("split", "test"), choice.pop("protocol", None), print, **choice
    )


def test_seeds_are_one_row_and_changes_another(corpus: Corpus, runs: Path, measured: list[str]) -> None:
    table = table_of(corpus, runs / "one", runs / "wide", runs / "two")
    plain, wide = table.lines
    assert [row["seed"] for row in plain.rows] == [1, 2]
    assert wide.name.startswith("two-branch-linear ")
    assert "matcher.dim=16" in wide.name
    alone = [Run.load(str(runs / name)) for name in ("one", "two")]
    expected = [
        evaluate(run, corpus, "standard", "test", resamples=0).to_dict()["sentence_retrieval"]["R@1"]
        for run in alone
    ]
    assert table.cells()[0][1].text.startswith(f"{fmean(expected):.1f} ± ")
    assert plain.published.system == "Embedding network, linear, bi-directional"
    assert measured == ["one", "wide", "two"]


def test_a_run_is_measured_once(corpus: Corpus, runs: Path, measured: list[str]) -> None:
    first = table_of(corpus, runs / "one").lines[0].rows
    assert table_of(corpus, runs / "one").lines[0].rows == first
    assert measured == ["one"]
    table_of(corpus, runs / "one", split="val")
    table_of(corpus, runs / "one", protocol="sentence-to-sentence")
    assert measured == ["one"] * 3
    assert len(json.loads((runs / "one" / MEASURED).read_text(encoding="utf-8"))) == 3


def test_a_seed_that_repeats_is_told_by_its_folder(corpus: Corpus, runs: Path) -> None:
    shutil.copytree(runs / "one", runs / "again")
    table = table_of(corpus, runs / "one", runs / "again")
    assert [Path(line.name).name for line in table.lines] == ["one", "again"]


def test_rows_are_recorded(corpus: Corpus, runs: Path, tmp_path: Path) -> None:
    table_of(corpus, runs / "one", runs / "two", record=tmp_path, commit="abc")
    rows = [json.loads(line) for line in (tmp_path / "scenes.jsonl").read_text().splitlines()]
    assert [(row["recipe"], row["seed"], row["commit"]) for row in rows] == [
        ("two-branch-linear", seed, "abc") for seed in (1, 2)
    ]


def test_a_run_that_cannot_be_written_to_is_measured_each_time(
    corpus: Corpus, runs: Path, measured: list[str]
) -> None:
    (runs / "one" / MEASURED).mkdir()  # stands for a folder without leave to write
    for _ in range(2):
        assert table_of(corpus, runs / "one").lines[0].rows
    assert measured == ["one", "one"]


def test_the_corpus_is_the_runs_own_or_the_one_named(corpus: Corpus, runs: Path, tmp_path: Path) -> None:
    loaded = load_runs([str(runs / "one"), str(runs / "two"), "seesay-small"])
    assert open_corpus_of(loaded, None).root == corpus.root
    with pytest.raises(SeesayError, match=r"none that they tell; name the corpus .* with --data"):
        open_corpus_of(loaded[2:], None)
    elsewhere = Path(shutil.copytree(corpus.root, tmp_path / "scenes"))
    assert open_corpus_of(loaded, elsewhere).root == elsewhere
    report = runs / "two" / "training.json"
    told = json.loads(report.read_text(encoding="utf-8"))
    told["corpus"]["root"] = str(elsewhere)
    report.write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(SeesayError, match=r"learned from .*scenes.*, .*scenes.*; name the corpus"):
        open_corpus_of(load_runs([str(runs / "one"), str(runs / "two")]), None)
    with pytest.raises(SeesayError, match="share no table"):
        open_corpus_of(load_runs([str(runs / "one"), "seesay-ground"]), None)


def test_what_is_no_run_or_stands_twice_is_said(runs: Path) -> None:
    with pytest.raises(SeesayError, match="twice"):
        load_runs([str(runs / "one"), str(runs / "one" / ".")])
    with pytest.raises(SeesayError, match="nowhere"):
        load_runs([str(runs / "nowhere")])
