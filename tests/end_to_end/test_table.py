"""`seesay table` and `seesay compare` as a person runs them."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from seesay.data.readers import read_corpus
from seesay.results.records import record_row
from tests.end_to_end.command import seesay
from tests.results.made import row

CHANGES = ("encoders=[efficientnet-lite0]", "sentence_encoder=mean", "matcher.dim=16", "schedule.epochs=1")


def test_a_table_from_training_to_markdown(scenes: Path, tmp_path: Path) -> None:
    options = [part for change in CHANGES for part in ("--set", change)]
    table = ("table", "two-branch-2", "--data", scenes, "--rows", "two-branch-linear", *options)
    done = seesay(*table, "--seeds", "1,2", "--out", "table.md", "--record", "results", cwd=tmp_path)
    assert "row 1/1 two-branch-linear seed 2" in done.stderr
    assert "40.1" in done.stdout  # the paper's R@1, under the name of its corpus
    assert "Flickr30k" in done.stdout
    assert "±" in done.stdout
    assert "`two-branch-linear`" in (tmp_path / "table.md").read_text(encoding="utf-8")
    assert len((tmp_path / "results" / "scenes.jsonl").read_text().splitlines()) == 2

    done = seesay(*table, "--seeds", "1,3", "--no-train", "--json", code=1, cwd=tmp_path)
    whole = json.loads(done.stdout)
    assert [row["seed"] for row in whole["rows"][0]["measured"]] == [1]
    assert "no finished run" in whole["failures"][0]

    runs = [f"runs/scenes/two-branch-linear-seed{seed}" for seed in (1, 2)]
    (line,) = json.loads(seesay("compare", *runs, "--json", cwd=tmp_path).stdout)["rows"]
    (kept,) = whole["rows"][0]["measured"]
    assert line["measured"][0] | {"seconds": 0} == kept | {"seconds": 0}  # all but its time
    assert line["measured"][1]["against"]["name"] == f"{line['row']}, seed 1"
    assert line["published"] is None  # a paper's row of another corpus does not stand beside one's own


def test_runs_scores_and_embeddings_have_rows_with_intervals(scenes: Path, tmp_path: Path) -> None:
    part = read_corpus(scenes).split("test")
    right = np.eye(len(part.images), dtype=np.float32)
    np.save(tmp_path / "scores.npy", right[:, part.image_of_sentence()])
    np.save(tmp_path / "images.npy", right)
    np.save(tmp_path / "sentences.npy", np.roll(right, 1, axis=0)[part.image_of_sentence()])
    entries = ("seesay-small", "scores.npy", "images.npy,sentences.npy")
    table = ("compare", *entries, "--data", scenes, "--metrics", "R@1, mR", "--intervals")

    shown = seesay(*table, "--out", "table.tex", cwd=tmp_path).stdout
    assert "Differences from seesay-small on the same queries" in shown
    assert re.search(r"^ ?scores\.npy +\+\d+\.\d p <? ?=? ?0\.\d{3}", shown, re.M)
    tex = (tmp_path / "table.tex").read_text(encoding="utf-8")
    assert r"recipe & R@1 & R@1 & mR \\" in tex  # neither other metrics nor a paper's
    perfect = r"\textbf{100.0} {\scriptsize [100.0, 100.0]}"
    assert f"scores.npy & {' & '.join([perfect] * 3)}" in tex
    assert re.search(r"images.npy,sentences.npy & 0\.0 \{\\scriptsize \[0\.0, 0\.0\]\}", tex)
    assert r"\toprule" in tex
    evaluated = json.loads(seesay("evaluate", entries[0], "--data", scenes, "--json").stdout)
    mean, ends = evaluated["metrics"]["mR"], evaluated["intervals"]["mR"]
    assert rf"{mean:.1f} {{\scriptsize [{ends[0]:.1f}, {ends[1]:.1f}]}} \\" in tex

    whole = json.loads(seesay(*table, "--json", cwd=tmp_path).stdout)
    assert [row["measured"][0]["metrics"]["S R@1"] for row in whole["rows"][1:]] == [100.0, 0.0]
    assert whole["rows"][0]["measured"][0]["intervals"]["mR"] == ends
    first, perfect, _ = (row["measured"][0] for row in whole["rows"])
    assert "against" not in first
    assert perfect["against"]["metrics"]["mR"]["difference"] == pytest.approx(100 - mean, abs=1e-3)
    seesay(*table, "--out", "table.csv", cwd=tmp_path)
    with (tmp_path / "table.csv").open(encoding="utf-8") as file:
        first = next(csv.DictReader(file))
    assert (float(first["mR low"]), float(first["mR high"])) == tuple(ends)
    typo = seesay(*table[:-2], "R@7", code=2, cwd=tmp_path).stderr
    assert typo.startswith("seesay: No metric 'R@7'")  # before a row is measured


def test_a_first_table_of_a_subset_says_so_in_each_row(scenes: Path, tmp_path: Path) -> None:
    options = [part for change in CHANGES for part in ("--set", change)]
    table = (
        "table",
        "two-branch-2",
        "--data",
        scenes,
        "--subset",
        40,
        "--rows",
        "two-branch-linear",
        *options,
    )
    test = read_corpus(scenes, subset=40).split("test")
    size = f"{len(test.images)} images, {len(test.sentences)} sentences"
    shown = seesay(*table, "--record", "results", "--out", "table.csv", cwd=tmp_path).stdout
    assert size in shown
    assert size in (tmp_path / "table.csv").read_text(encoding="utf-8")
    (recorded,) = (tmp_path / "results" / "scenes-40.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(recorded)["content"]["images"] == len(test.images)
    run = "runs/scenes-40/two-branch-linear-seed1"
    measured = json.loads(seesay("evaluate", run, "--json", cwd=tmp_path).stdout)  # on the same images
    assert measured["content"] == json.loads(recorded)["content"]
    assert "scenes-40" in seesay("runs", "runs", cwd=tmp_path).stdout


@pytest.mark.parametrize("suffix", [".md", ".tex", ".csv", ".json"])
def test_no_file_names_a_folder_of_this_machine(scenes: Path, tmp_path: Path, suffix: str) -> None:
    part = read_corpus(scenes).split("test")
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "scores.npy", np.eye(len(part.images))[:, part.image_of_sentence()])
    entries = [tmp_path / folder / "scores.npy" for folder in ("ours", "theirs")]
    out = tmp_path / f"table{suffix}"
    shown = seesay("compare", *entries, "--data", scenes, "--out", out)
    for text in (shown.stdout, out.read_text(encoding="utf-8")):
        assert str(tmp_path) not in text
        assert "scores.npy (1)" in text  # and the other
        assert str(scenes) not in text
    missing = ("table", "two-branch-2", "--data", scenes, "--rows", "two-branch-linear", "--no-train")
    failed = seesay(*missing, "--runs", tmp_path / "runs", "--json", code=1)
    assert str(tmp_path) in failed.stderr
    assert str(tmp_path) not in failed.stdout


@pytest.mark.parametrize("suffix", [".md", ".tex", ".csv", ".json"])
def test_a_table_whose_rows_all_failed_is_not_written(scenes: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"table{suffix}"
    missing = ("table", "two-branch-2", "--data", scenes, "--no-train", "--out", out)
    last = seesay(*missing, "--rows", "two-branch-linear", code=2, cwd=tmp_path).stderr.splitlines()[-1]
    assert last.startswith(f"seesay: {out}: not written, because every row failed; the first: two-branch-")
    assert "no finished run" in last
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["compare", "report"])
def test_what_fails_writes_no_file(scenes: Path, tmp_path: Path, command: str) -> None:
    out = tmp_path / ("report.html" if command == "report" else "table.md")
    np.save(tmp_path / "scores.npy", np.eye(3))
    error = seesay(command, "seesay-small", tmp_path / "scores.npy", "--data", scenes, "--out", out, code=2)
    assert "scores.npy (3, 3)" in error.stderr.splitlines()[-1]
    assert not out.exists()


def test_recorded_rows_need_no_corpus(tmp_path: Path) -> None:
    record_row(tmp_path / "results", "flickr8k", row("irmatch-s", 28.0))
    shown = seesay("table", "flickr8k", "--out", "table.csv", cwd=tmp_path).stdout
    assert re.search(r"irmatch-s +28\.0 +30\.0 +48\.0 +60\.1", shown)
    assert "Not measured: seesay-small, projection, irmatch-h," in shown
    with (tmp_path / "table.csv").open(encoding="utf-8") as file:
        lines = {line["recipe"]: line for line in csv.DictReader(file)}
    assert (lines["irmatch-s"]["seeds"], lines["sco-full"]["seeds"]) == ("1", "0")


def test_the_shipped_rows_are_shown_from_any_folder(tmp_path: Path) -> None:
    shown = seesay("table", "flickr8k", cwd=tmp_path).stdout
    assert re.search(r"seesay-small +\d", shown)
    assert not re.search(r"Not measured: .*seesay-small,", shown)
    other = seesay("table", "mcnn-2", "--results", "flickr8k", cwd=tmp_path).stdout
    assert re.search(r"mcnn-ens-plus +\d", other)
    assert not list(tmp_path.iterdir())


def test_tables_are_listed() -> None:
    listed = [line.split()[0] for line in seesay("table").stdout.splitlines()]
    assert {"gvse-2", "mcnn-2", "sco-2", "two-branch-1", "two-branch-2"} <= set(listed)
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("two-branch-7",), "No table 'two-branch-7'"),
        (("two-branch-2", "--seeds", "x"), "--seeds x"),
        (("two-branch-2", "--rows", "x"), "no row 'x'"),
        (
            ("two-branch-2", "--data", "SCENES", "--out", "table.png"),
            "table.png: the name must end in",
        ),
        (("two-branch-3", "--data", "SCENES"), "5000 images"),
        (("two-branch-1", "--data", "nowhere"), "nowhere"),
        (("two-branch-2",), "results/flickr30k.jsonl: no recorded rows"),
        (("two-branch-2", "--results", "coco"), "results/coco.jsonl: no recorded rows"),
        (
            ("two-branch-2", "--data", "SCENES", "--metrics", "R@7"),
            "No metric 'R@7' in this table; there are:",
        ),
        (("two-branch-2", "--set", "batch_size=7"), "--seeds and --no-train need a corpus"),
        (("two-branch-2", "--seeds", "77", "--no-train"), "--seeds and --no-train need a corpus"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    scenes: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    argv = [scenes if argument == "SCENES" else argument for argument in arguments]
    error = seesay("table", *argv, code=2, cwd=tmp_path).stderr
    assert said in error
    assert len(error.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("seesay-small",), "name the corpus to measure on with --data"),
        (("runs/one", "runs/two"), "runs/one"),
        (("seesay-small", "--out", "table.png"), "table.png: the name must end in"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    error = seesay("compare", *arguments, code=2, cwd=tmp_path).stderr
    assert said in error
    assert len(error.splitlines()) == 1
