"""The rows of a table on drawn scenes: trained once, resumed, kept, failing, forbidden to train."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from safetensors.torch import load_file

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.protocols.evaluate import evaluate, open_entries
from seesay.recipes.load import load_recipe
from seesay.recipes.table import TableRow, load_table
from seesay.results.comparison import compare_entries
from seesay.results.paper_table import PaperTable
from seesay.runs.config import run_recipe, save_recipe
from seesay.runs.run import Run
from seesay.training.table import TableRuns, measure_table, without_other_weights
from seesay.training.train import train
from tests.report.made import untrained
from tests.training.steps import counted_steps

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


def runs_of(corpus: Corpus, folder: Path, name: str = "two-branch-2", rows=ROWS, **changed) -> TableRuns:
    return TableRuns(load_table(name).only(rows), corpus, folder, **({"changes": CHANGES} | changed))


def measured(runs: TableRuns, seeds=(1,), record: Path | None = None) -> PaperTable:
    return measure_table(runs, seeds, lambda _: None, record)


@pytest.fixture(scope="module")
def finished(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both rows with two seeds."""
    folder = tmp_path_factory.mktemp("runs")
    assert measured(runs_of(corpus, folder), [1, 2]).failures == []
    return folder


@pytest.fixture
def runs(finished: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(finished, tmp_path / "runs"))


def weights(folder: Path) -> dict[str, int]:
    """When the weights of each run were written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("*/*/weights.safetensors")}


def test_rows_are_trained_once_in_order_and_two_seeds_become_a_mean(corpus: Corpus, finished: Path) -> None:
    before = weights(finished)
    assert sorted(before) == sorted(NAMES)
    lines: list[str] = []
    table = measure_table(runs_of(corpus, finished), [1, 2], lines.append)
    assert weights(finished) == before
    assert [line for line in lines if line.startswith("row")] == [
        f"row {number}/2 {row} seed {seed}" for number, row in enumerate(ROWS, start=1) for seed in (1, 2)
    ]
    recalls = []
    for seed in (1, 2):
        run = Run.load(str(finished / "scenes" / f"two-branch-seed{seed}"))
        recalls.append(evaluate(run, corpus, resamples=0).metrics["S R@1"])
        assert run.recipe.seed == seed
    assert table.cells()[1][1].text.startswith(f"{fmean(recalls):.1f} ± ")


def test_an_interrupted_row_is_resumed_to_the_same_weights(
    corpus: Corpus, finished: Path, tmp_path: Path
) -> None:
    steps = 2 * 4 + 4 + 2  # 240 pairs in batches of 60: the second epoch of the second row
    with pytest.raises(KeyboardInterrupt), counted_steps(last=steps):
        measured(runs_of(corpus, tmp_path))
    first = weights(tmp_path)
    assert measured(runs_of(corpus, tmp_path)).failures == []
    assert weights(tmp_path).items() >= first.items()
    whole, resumed = (
        load_file(folder / "scenes" / "two-branch-seed1" / "weights.safetensors")
        for folder in (finished, tmp_path)
    )
    assert all((whole[key] == resumed[key]).all() for key in whole)


def test_a_row_that_was_killed_after_its_weights_is_trained_again(corpus: Corpus, runs: Path) -> None:
    """As a solved one is, which has no checkpoint."""
    folder = runs / "scenes" / "two-branch-seed1"
    for file in ("training.json", "checkpoint.safetensors"):
        (folder / file).unlink(missing_ok=True)
    assert measured(runs_of(corpus, runs)).failures == []
    assert (folder / "training.json").is_file()


def test_tables_share_their_runs_and_rows_are_recorded(
    corpus: Corpus, finished: Path, tmp_path: Path
) -> None:
    before = weights(finished)
    table = measured(runs_of(corpus, finished, "two-branch-4", ["two-branch"]), record=tmp_path)
    assert weights(finished) == before
    (row,) = [json.loads(line) for line in (tmp_path / "scenes.jsonl").read_text().splitlines()]
    assert (row["recipe"], row["protocol"], row["seed"]) == ("two-branch", "sentence-to-sentence", 1)
    assert row["changes"] == sorted(CHANGES)
    assert (row["epochs"], row["best_epoch"] in (1, 2), row["train_seconds"] >= 0) == (2, True, True)
    assert [each.to_dict() for each in table.lines[0].rows] == [row]


def test_a_row_that_fails_does_not_stop_the_others(corpus: Corpus, runs: Path) -> None:
    table = measured(runs_of(corpus, runs, rows=["cca-mean", *ROWS]))  # CCA has no hidden layers to set
    assert [bool(line.rows) for line in table.lines] == [False, True, True]
    (failure,) = table.failures
    assert failure.startswith("cca-mean seed 1 failed: Table two-branch-2: ")
    assert "image_hidden" in failure


def test_included_weights_are_measured_and_not_trained(corpus: Corpus, tmp_path: Path) -> None:
    own, told = replace(corpus, name="flickr8k"), list[str]()
    runs = runs_of(own, tmp_path, "flickr8k", ["seesay-small"], changes=(), may_train=False)
    table = measure_table(runs, [2, 3], told.append)
    ((row,),) = [line.rows for line in table.lines]
    of_weights = evaluate(Run.load("seesay-small"), corpus, "standard", "test", resamples=0)
    assert row.metrics == pytest.approx(of_weights.metrics)
    assert "row 1/1 seesay-small" in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [("flickr8k", CHANGES, "which --set does not change"), ("scenes", (), "flickr8k")],
)
def test_included_weights_are_left_out_where_they_do_not_belong(
    corpus: Corpus, finished: Path, name: str, changes: tuple[str, ...], why: str
) -> None:
    told = list[str]()
    other = replace(corpus, name=name)
    runs = runs_of(other, finished, "flickr8k", ["seesay-small", "two-branch"], changes=changes)
    assert [row.name for row in without_other_weights(runs, told.append).definition.rows] == ["two-branch"]
    assert re.fullmatch(f"seesay-small: left out; included weights, .*{why}", told[0])
    with pytest.raises(SeesayError, match="no row is left"):
        without_other_weights(replace(runs, definition=runs.definition.only(["seesay-small"])), told.append)


def test_without_training_what_is_missing_is_named(corpus: Corpus, runs: Path) -> None:
    (runs / "scenes" / "two-branch-seed1" / "training.json").unlink()
    table = measured(runs_of(corpus, runs, may_train=False))
    assert [len(line.rows) for line in table.lines] == [1, 0]
    assert "no finished run, and training is switched off" in table.failures[0]


def test_a_variant_is_a_run_of_its_own(corpus: Corpus, runs: Path) -> None:
    before = weights(runs)
    rows = (
        TableRow(name="two-branch"),
        TableRow(name="wide", recipe="two-branch", changes=("matcher.dim=24",)),
    )
    here = runs_of(corpus, runs, changes=[c for c in CHANGES if c != "matcher.dim=16"])
    table = measured(replace(here, definition=here.definition.model_copy(update={"rows": rows})))
    assert "another recipe" in table.failures[0]  # the run of the plain row has 16 dimensions
    assert weights(runs).keys() - before.keys() == {"wide-seed1"}
    assert Run.load(str(runs / "scenes" / "wide-seed1")).recipe.matcher.dim == 24
    assert table.lines[1].published is None


PAIR = (
    "encoders=[efficientnet-lite0]",
    "matcher.maps=[8, 8, 8]",
    "matcher.image=8",
    "matcher.hidden=8",
    "schedule.epochs=1",
    "batch_size=60",
    "matcher.members=[mcnn-phs, mcnn-st]",
)


def test_the_members_of_a_variant_have_its_changes(corpus: Corpus, tmp_path: Path) -> None:
    rows = (
        TableRow(name="ours", recipe="mcnn-ens", changes=(*PAIR, "matcher.dropout=0.4", "optimizer.lr=0.02")),
    )
    here = runs_of(corpus, tmp_path, "mcnn-2", rows=(), changes=())
    here = replace(here, definition=here.definition.model_copy(update={"rows": rows}))
    table = measured(here)
    assert table.failures == []
    assert set(weights(tmp_path)) == {"ours-seed1", "ours-mcnn-phs-seed1", "ours-mcnn-st-seed1"}
    for name in ("mcnn-phs", "mcnn-st"):
        member = Run.load(str(tmp_path / "scenes" / f"ours-{name}-seed1")).recipe
        assert (member.matcher.dropout, member.optimizer.lr) == (0.4, 0.02)
    assert measured(replace(here, may_train=False)).failures == []
    # Given for the whole table, they are those of the row and of its members, too.
    plain = TableRow(name="mcnn-ens", recipe="mcnn-ens")
    definition = here.definition.model_copy(update={"rows": (plain,)})
    changed = replace(here, definition=definition, changes=(*PAIR, "optimizer.lr=0.03"))
    assert measured(changed).failures == []
    ensemble = Run.load(str(tmp_path / "scenes" / "mcnn-ens-seed1")).recipe
    assert ensemble.matcher.members == ("mcnn-phs", "mcnn-st")
    assert Run.load(str(tmp_path / "scenes" / "mcnn-st-seed1")).recipe.optimizer.lr == 0.03


def test_a_start_that_failed_before_its_first_epoch_is_begun_again(corpus: Corpus, tmp_path: Path) -> None:
    table = runs_of(corpus, tmp_path, rows=["two-branch-linear"])
    assert measured(table).failures == []
    folder = tmp_path / "scenes" / "two-branch-linear-seed1"
    for file in folder.iterdir():
        if file.name not in ("run.json", "vocabulary.json"):
            file.unlink()
    assert measured(table).failures == []


def test_a_combination_that_was_killed_is_made_again(corpus: Corpus, tmp_path: Path) -> None:
    rows = (TableRow(name="ours", recipe="mcnn-ens", changes=PAIR),)
    definition = load_table("mcnn-2").model_copy(update={"rows": rows})
    table = replace(runs_of(corpus, tmp_path, "mcnn-2", rows=(), changes=()), definition=definition)
    assert measured(table).failures == []
    folder = tmp_path / "scenes" / "ours-seed1"
    for left in ({"recipe.json", "run.json"}, {"recipe.json"}, set[str]()):
        for file in folder.iterdir():
            if file.name not in left:
                file.unlink()
        (folder / "run.json.1.2.tmp").touch()
        assert measured(table).failures == []


@pytest.mark.parametrize(("file", "said"), [("run.json", "run.json: damaged"), ("notes.txt", "other files")])
@pytest.mark.parametrize("composed", [False, True])
def test_a_file_that_no_training_wrote_is_left_alone(
    corpus: Corpus, tmp_path: Path, composed: bool, file: str, said: str
) -> None:
    table = runs_of(corpus, tmp_path, rows=["two-branch-linear"])
    if composed:
        rows = (TableRow(name="two-branch-linear", recipe="mcnn-ens", changes=PAIR),)
        definition = load_table("mcnn-2").model_copy(update={"rows": rows})
        table = runs_of(corpus, tmp_path, "mcnn-2", rows=(), changes=())
        table = replace(table, definition=definition)
    folder = tmp_path / "scenes" / "two-branch-linear-seed1"
    folder.mkdir(parents=True)
    (folder / file).write_text("my own\n", encoding="utf-8")
    (failure,) = measured(table).failures
    assert said in failure
    assert list(weights(tmp_path)) == []  # no member was trained
    assert [(each.name, each.read_text(encoding="utf-8")) for each in folder.iterdir()] == [
        (file, "my own\n")
    ]


def test_a_run_of_something_else_is_left_alone(corpus: Corpus, runs: Path) -> None:
    before = weights(runs)
    other = measured(runs_of(corpus, runs, changes=(*CHANGES, "loss.margin=0.3")))
    assert all("another recipe" in failure for failure in other.failures)
    sentences = tuple(replace(sentence, text="one dog") for sentence in corpus.sentences)
    elsewhere = measured(runs_of(replace(corpus, sentences=sentences), runs))
    assert all("other sentences" in failure for failure in elsewhere.failures)
    assert len(elsewhere.failures) == 2
    assert weights(runs) == before


@pytest.mark.parametrize(
    ("name", "changed", "said"),
    [
        ("two-branch-3", {}, "protocol 'coco-1k' is for 5000 images; split 'test'"),
        ("two-branch-1", {}, "phrases with boxes"),
        ("two-branch-2", {"split": "dev"}, "split 'dev'"),
        ("two-branch-2", {"changes": ("seed=3",)}, "changes: seed is not one"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_is_trained(
    corpus: Corpus, tmp_path: Path, name: str, changed: dict, said: str
) -> None:
    with pytest.raises(SeesayError, match=said):
        measured(runs_of(corpus, tmp_path, name, rows=(), **changed))
    assert not list(tmp_path.iterdir())


def test_an_unknown_protocol_is_said_before_anything_is_trained(corpus: Corpus, tmp_path: Path) -> None:
    here = runs_of(corpus, tmp_path)
    other = here.definition.model_copy(update={"protocol": "standrad"})
    with pytest.raises(SeesayError, match=r"'standrad'; did you mean 'standard'"):
        measured(replace(here, definition=other))
    assert not list(tmp_path.iterdir())


def test_a_combination_needs_one_grounding_run(corpus: Corpus, runs: Path) -> None:
    pair = TableRow(name="two-branch-regions", combine=("two-branch", "ground-full"))
    here = runs_of(corpus, runs, "two-branch-5", ["two-branch-regions"])
    here = replace(here, definition=here.definition.model_copy(update={"rows": (pair,)}))
    assert "needs one finished run of 'ground-full', seed 1, and found none" in measured(here).failures[0]
    # Not a grounding run: which two are combined is what is tested here.
    shutil.copytree(runs / "scenes" / "two-branch-seed2", runs / "scenes-phrases" / "ground-full-seed1")
    assert "failed: ground-full-seed1: matches whole images" in measured(here).failures[0]
    shutil.rmtree(runs / "scenes-phrases")
    phrases = runs / "scenes-phrases" / "ground-full-seed1"
    small = ("sentence_encoder=minilm", "matcher.dim=16", "matcher.image_hidden=16")
    small += ("matcher.sentence_hidden=16", "regions.proposals=20")
    untrained("ground-single", phrases, read_corpus(corpus.root, phrases=True), *small)
    shutil.copy(runs / "scenes" / "two-branch-seed1" / "training.json", phrases)
    (row,) = measured(here).lines[0].rows
    assert (row.recipe, row.system) == ("two-branch-regions", "two-branch-regions")
    assert set(Run.load(str(phrases)).recipe.departures) <= set(row.departures)
    assert 0 <= row.about["alpha"] <= 0.6
    shutil.copytree(runs / "scenes-phrases", runs / "scenes-more")
    assert "and found " in measured(here).failures[0]


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
def copies(trained: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(trained, tmp_path / "runs"))


def table_of(corpus, *folders, split="test", protocol=None, **choice):
    entries = open_entries([str(folder) for folder in folders])
    return compare_entries(entries, corpus, split, protocol, lambda _: None, **choice)


def test_seeds_are_one_row_and_changes_another(corpus: Corpus, copies: Path) -> None:
    table = table_of(corpus, copies / "one", copies / "wide", copies / "two")
    plain, wide = table.lines
    assert [row.seed for row in plain.rows] == [1, 2]
    assert wide.row.name.startswith("two-branch-linear ")
    assert "matcher.dim=16" in wide.row.name
    alone = [Run.load(str(copies / name)) for name in ("one", "two")]
    expected = [evaluate(run, corpus, resamples=0).metrics["S R@1"] for run in alone]
    assert table.cells()[0][1].text.startswith(f"{fmean(expected):.1f} ± ")
    assert plain.published is None  # the paper's row is of another corpus


def test_each_run_is_compared_with_the_first_or_with_another(corpus: Corpus, copies: Path) -> None:
    one, wide = copies / "one", copies / "wide"
    table = table_of(corpus, one, wide, resamples=0)
    results = [line.rows[0] for line in table.lines]
    assert results[0].against is None
    compared = results[1].against.metrics["mR"]
    assert compared.difference == pytest.approx(results[1].metrics["mR"] - results[0].metrics["mR"], abs=2e-3)
    shown = table.differences()
    assert [str(row[0]) for row in shown.rows] == [table.lines[1].row.name]
    assert re.search(r"\{\\scriptsize p (= [01]|\$<\$ 0)", shown.latex())
    assert shown.title.startswith(f"Differences from {table.lines[0].row.name} on the same queries")
    seeds = table_of(corpus, copies / "two", one, resamples=0)
    (both,) = seeds.lines
    assert [str(row[0]) for row in seeds.differences().rows] == [f"{both.row.name}, seed 1"]
    assert seeds.differences().title.startswith(f"Differences from {both.row.name}, seed 2 on")
    assert table_of(corpus, one, resamples=0).differences() is None


def test_a_seed_that_repeats_is_named_after_its_folder(corpus: Corpus, copies: Path) -> None:
    shutil.copytree(copies / "one", copies / "again")
    table = table_of(corpus, copies / "one", copies / "again")
    assert [Path(line.row.name).name for line in table.lines] == ["one", "again"]


def test_runs_that_learned_from_other_corpora_are_no_seeds_of_one(corpus: Corpus, copies: Path) -> None:
    recipe = run_recipe(copies / "two").model_copy(update={"corpus": "other"})
    save_recipe(recipe, copies / "two")
    table = table_of(corpus, copies / "one", copies / "two")
    assert [Path(line.row.name).name for line in table.lines] == ["one", "two"]


def test_intervals_are_drawn_only_where_they_are_shown(corpus: Corpus, copies: Path) -> None:
    drawn, plain = (table_of(corpus, copies / "one", **choice) for choice in ({}, {"resamples": 0}))
    assert drawn.lines[0].interval("mR") is not None
    assert plain.lines[0].interval("mR") is None
    assert plain.cells() == drawn.cells()


def test_what_is_no_run_or_is_named_twice_is_said(copies: Path) -> None:
    with pytest.raises(SeesayError, match="named twice"):
        open_entries([str(copies / "one"), str(copies / "one" / ".")])
    with pytest.raises(SeesayError, match="nowhere"):
        open_entries([str(copies / "nowhere")])
