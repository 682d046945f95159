"""The rows of a table on drawn scenes: trained once, resumed, kept, failing, forbidden to train."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from safetensors.torch import load_file

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.protocols.evaluate import evaluate
from seesay.recipes.table import TableRow, load_table
from seesay.runs.run import Run
from seesay.training import loop
from seesay.training import table as table_of_runs
from seesay.training import train as training
from seesay.training.measured import MEASURED
from seesay.training.table import TableRuns, measure_table

CHANGES = (
    "encoders=[efficientnet-lite0]",
    "sentence_encoder=mean",
    "sentence_dim=50",
    "matcher.image_hidden=32",
    "matcher.sentence_hidden=32",
    "matcher.dim=16",
    "schedule.epochs=2",
    "batch_size=60",
)
ROWS = ("two-branch-linear", "two-branch")
NAMES = [f"{row}-seed{seed}" for row in ROWS for seed in (1, 2)]


@pytest.fixture(scope="module")
def corpus(scenes: Path) -> Corpus:
    return read_corpus(scenes)


def runs_of(corpus: Corpus, folder: Path, name: str = "two-branch-2", rows=ROWS, **changed) -> TableRuns:
    return TableRuns(load_table(name).only(rows), corpus, folder, **({"changes": CHANGES} | changed))


@pytest.fixture(scope="module")
def finished(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both rows with two seeds."""
    folder = tmp_path_factory.mktemp("runs")
    assert measure_table(runs_of(corpus, folder), [1, 2], lambda _: None).failures == []
    return folder


@pytest.fixture
def runs(finished: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(finished, tmp_path / "runs"))


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs that are trained from here on, with `+` where resumed."""
    names: list[str] = []

    def noted(recipe, corpus, out, resume=False):
        names.append(out.name + "+" * resume)
        return training.train(recipe, corpus, out, resume)

    monkeypatch.setattr(table_of_runs, "train", noted)
    return names


class Killed(Exception):
    """Stands for a kill."""


def test_rows_are_trained_once_in_order_and_two_seeds_become_a_mean(
    corpus: Corpus, finished: Path, trained: list[str]
) -> None:
    assert sorted(path.name for path in (finished / "scenes").iterdir()) == sorted(NAMES)
    lines: list[str] = []
    table = measure_table(runs_of(corpus, finished), [1, 2], lines.append)
    assert trained == []
    assert [line for line in lines if line.startswith("row")] == [
        f"row {number}/2 {row} seed {seed}" for number, row in enumerate(ROWS, start=1) for seed in (1, 2)
    ]
    recalls = []
    for seed in (1, 2):
        run = Run.load(str(finished / "scenes" / f"two-branch-seed{seed}"))
        recalls.append(
            evaluate(run, corpus, "standard", "test", resamples=0).to_dict()["sentence_retrieval"]["R@1"]
        )
        assert run.recipe.seed == seed
    assert table.cells()[1][1].text.startswith(f"{fmean(recalls):.1f} ± ")


def test_a_kill_in_the_middle_of_row_2_is_resumed_to_the_same_weights(
    corpus: Corpus, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: list[str]
) -> None:
    steps = {"left": 2 * 4 + 4 + 2}  # 240 pairs in batches of 60: the second epoch of the second row
    step = loop.Loop._step

    def dies(self, *args) -> float:
        steps["left"] -= 1
        if steps["left"] < 0:
            raise Killed
        return step(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(loop.Loop, "_step", dies)
        with pytest.raises(Killed):
            measure_table(runs_of(corpus, tmp_path), [1], lambda _: None)
    assert trained == ["two-branch-linear-seed1", "two-branch-seed1"]
    assert measure_table(runs_of(corpus, tmp_path), [1], lambda _: None).failures == []
    assert trained[2:] == ["two-branch-seed1+"]
    whole, resumed = (
        load_file(folder / "scenes" / "two-branch-seed1" / "weights.safetensors")
        for folder in (finished, tmp_path)
    )
    assert all((whole[key] == resumed[key]).all() for key in whole)


def test_a_measure_is_kept_until_weights_or_data_change(
    corpus: Corpus, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def noted(run, *arguments, **options):
        measured.append(Path(run.name).name)
        return evaluate(run, *arguments, **options)

    monkeypatch.setattr(table_of_runs, "evaluate", noted)
    here = runs_of(corpus, runs)
    assert measure_table(here, [1, 2], lambda _: None).failures == []
    assert measured == []
    weights = runs / "scenes" / "two-branch-seed2" / "weights.safetensors"
    shutil.copy(runs / "scenes" / "two-branch-seed1" / "weights.safetensors", weights)
    measure_table(here, [1, 2], lambda _: None)
    assert measured == ["two-branch-seed2"]
    (runs / "scenes" / "two-branch-linear-seed1" / MEASURED).write_text("{", encoding="utf-8")
    measure_table(here, [1], lambda _: None)
    assert measured[1:] == ["two-branch-linear-seed1"]
    measure_table(runs_of(corpus, runs, split="val"), [1], lambda _: None)
    assert measured[2:] == ["two-branch-linear-seed1", "two-branch-seed1"]
    test = next(i for i, image in enumerate(corpus.images) if image.split == "test")
    said = tuple(
        replace(sentence, text="a dog") if sentence.image == test else sentence
        for sentence in corpus.sentences
    )
    measure_table(runs_of(replace(corpus, sentences=said), runs), [1], lambda _: None)
    assert measured[4:] == ["two-branch-linear-seed1", "two-branch-seed1"]


def test_other_pixels_are_other_data(corpus: Corpus, scenes: Path, tmp_path: Path) -> None:
    copy = read_corpus(shutil.copytree(scenes, tmp_path / "scenes"))
    before = runs_of(copy, tmp_path)._data_digest
    assert runs_of(corpus, tmp_path)._data_digest == before  # where it lies is no matter
    image = next(image for image in copy.images if image.split == "test")
    image.source.path.write_bytes(b"broken")
    broken = runs_of(copy, tmp_path)._data_digest
    image.source.path.unlink()
    assert len({before, broken, runs_of(copy, tmp_path)._data_digest}) == 3


def test_tables_share_their_runs_and_rows_are_recorded(
    corpus: Corpus, finished: Path, tmp_path: Path, trained: list[str]
) -> None:
    four = runs_of(corpus, finished, "two-branch-4", ["two-branch"])
    table = measure_table(four, [1], lambda _: None, tmp_path)
    assert trained == []
    (row,) = [json.loads(line) for line in (tmp_path / "scenes.jsonl").read_text().splitlines()]
    assert (row["recipe"], row["protocol"], row["seed"]) == ("two-branch", "sentence-to-sentence", 1)
    assert row["changes"] == sorted(CHANGES)
    assert table.lines[0].rows == [row]


def test_a_row_that_fails_does_not_stop_the_others(corpus: Corpus, runs: Path, trained: list[str]) -> None:
    here = runs_of(corpus, runs, rows=["cca-mean", *ROWS])  # CCA has no hidden layers to set
    table = measure_table(here, [1], lambda _: None)
    assert [bool(line.rows) for line in table.lines] == [False, True, True]
    (failure,) = table.failures
    assert failure.startswith("cca-mean seed 1 failed: table two-branch-2: ")
    assert "image_hidden" in failure
    assert trained == []


def test_without_training_what_is_missing_is_said(corpus: Corpus, runs: Path, trained: list[str]) -> None:
    (runs / "scenes" / "two-branch-seed1" / "training.json").unlink()
    table = measure_table(runs_of(corpus, runs, may_train=False), [1], lambda _: None)
    assert trained == []
    assert [len(line.rows) for line in table.lines] == [1, 0]
    assert "no finished run" in table.failures[0]
    assert "--no-train" in table.failures[0]


def test_a_variant_is_a_run_of_its_own(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def noted(recipe, corpus, out, resume=False):
        begun.append((out.name, recipe.name, recipe.matcher.dim, recipe.seed))
        raise SeesayError("enough")

    monkeypatch.setattr(table_of_runs, "train", noted)
    wide = TableRow(name="wide", recipe="two-branch", changes=("matcher.dim=24",))
    plain = TableRow(name="two-branch")
    definition = load_table("two-branch-2").model_copy(update={"rows": (plain, wide)})
    changes = [change for change in CHANGES if "matcher.dim" not in change]
    here = TableRuns(definition, corpus, tmp_path, changes=changes)
    table = measure_table(here, [3], lambda _: None)
    assert begun == [("two-branch-seed3", "two-branch", 512, 3), ("wide-seed3", "two-branch", 24, 3)]
    assert table.lines[1].published is None


def test_a_failed_start_is_no_run(corpus: Corpus, tmp_path: Path, trained: list[str]) -> None:
    here = runs_of(corpus, tmp_path, rows=["two-branch-linear"])
    folder = tmp_path / "scenes" / "two-branch-linear-seed1"
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text("name: left by a kill\n", encoding="utf-8")
    (folder / "vocabulary.json").write_text("{}", encoding="utf-8")
    assert measure_table(here, [1], lambda _: None).failures == []
    assert trained == ["two-branch-linear-seed1"]


def test_a_run_of_something_else_is_left_alone(corpus: Corpus, runs: Path, trained: list[str]) -> None:
    other = runs_of(corpus, runs, changes=(*CHANGES, "loss.margin=0.3"))
    assert all("another recipe" in failure for failure in measure_table(other, [1], lambda _: None).failures)
    said = tuple(replace(sentence, text="one dog") for sentence in corpus.sentences)
    elsewhere = measure_table(runs_of(replace(corpus, sentences=said), runs), [1], lambda _: None)
    assert all("other sentences" in failure for failure in elsewhere.failures)
    assert len(elsewhere.failures) == 2
    assert trained == []


@pytest.mark.parametrize(
    ("name", "changed", "said"),
    [
        ("two-branch-3", {}, "protocol 'coco-1k' is for 5000 images; split 'test'"),
        ("two-branch-1", {}, "phrases with boxes"),
        ("two-branch-2", {"split": "dev"}, "split 'dev'"),
        ("two-branch-2", {"changes": ("seed=3",)}, "--seeds"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_trained(
    corpus: Corpus, tmp_path: Path, trained: list[str], name: str, changed: dict, said: str
) -> None:
    with pytest.raises(SeesayError, match=said):
        measure_table(runs_of(corpus, tmp_path, name, rows=(), **changed), [1], lambda _: None)
    assert trained == []


def test_an_unknown_protocol_is_told_before_anything_is_trained(
    corpus: Corpus, tmp_path: Path, trained: list[str]
) -> None:
    here = runs_of(corpus, tmp_path)
    other = here.definition.model_copy(update={"protocol": "recalls"})
    with pytest.raises(SeesayError, match=r"'recalls'; there are: standard, .*grounding"):
        measure_table(replace(here, definition=other), [1], lambda _: None)
    assert trained == []


def test_a_combination_takes_both_runs(
    corpus: Corpus, runs: Path, monkeypatch: pytest.MonkeyPatch, trained: list[str]
) -> None:
    definition = load_table("two-branch-5")
    pair = TableRow(name="two-branch-regions", combine=("two-branch", "ground-full"))
    here = replace(runs_of(corpus, runs), definition=definition.model_copy(update={"rows": (pair,)}))
    missing = measure_table(here, [1], lambda _: None).failures[0]
    assert "one finished run of 'ground-full', seed 1, is wanted, found none" in missing
    # Stands for a grounding run: what is combined with what is the matter here.
    shutil.copytree(runs / "scenes" / "two-branch-seed2", runs / "scenes-phrases" / "ground-full-seed1")
    calls = []

    def combined(sentence_run, phrase_run, corpus, split):
        calls.append((Path(sentence_run.name).name, Path(phrase_run.name).name, split))
        result = evaluate(sentence_run, corpus, "standard", split, resamples=0)
        return result.model_copy(update={"alpha": 0.3})

    monkeypatch.setattr(table_of_runs, "measure_combined", combined)
    for _ in range(2):
        (row,) = measure_table(here, [1], lambda _: None).lines[0].rows
    assert calls == [("two-branch-seed1", "ground-full-seed1", "test")]
    assert (row["recipe"], row["alpha"]) == ("two-branch-regions", 0.3)
    shutil.copytree(runs / "scenes-phrases", runs / "scenes-more")
    assert "found" in measure_table(here, [1], lambda _: None).failures[0]
