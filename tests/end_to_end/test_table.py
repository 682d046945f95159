"""`seesay table` as a person runs it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from seesay.results.rows import record_row
from tests.end_to_end.command import seesay
from tests.results.made import row

CHANGES = ("encoders=[efficientnet-lite0]", "sentence_encoder=mean", "matcher.dim=16", "schedule.epochs=1")


def test_a_table_from_training_to_markdown(scenes: Path, tmp_path: Path) -> None:
    options = [part for change in CHANGES for part in ("--set", change)]
    table = ("table", "two-branch-2", "--data", scenes, "--rows", "two-branch-linear", *options)
    done = seesay(*table, "--seeds", "1,2", "--out", "table.md", "--record", "results", cwd=tmp_path)
    assert "row 1/1 two-branch-linear seed 2" in done.stderr
    assert "40.1" in done.stdout  # the paper's R@1
    assert "±" in done.stdout
    assert "`two-branch-linear`" in (tmp_path / "table.md").read_text(encoding="utf-8")
    assert (tmp_path / "table.png").is_file()
    assert len((tmp_path / "results" / "scenes.jsonl").read_text().splitlines()) == 2

    done = seesay(*table, "--seeds", "1,3", "--no-train", "--json", code=1, cwd=tmp_path)
    whole = json.loads(done.stdout)
    assert [row["seed"] for row in whole["rows"][0]["measured"]] == [1]
    assert "no finished run" in whole["failures"][0]

    runs = [f"runs/scenes/two-branch-linear-seed{seed}" for seed in (1, 2)]
    (line,) = json.loads(seesay("table", *runs, "--json", cwd=tmp_path).stdout)["rows"]
    assert line["measured"][0] == whole["rows"][0]["measured"][0]  # kept
    assert line["published"]["corpus"] == "flickr30k"


def test_recorded_rows_need_no_corpus(tmp_path: Path) -> None:
    record_row(tmp_path / "results", "flickr8k", row("irmatch-s", 28.0))
    shown = seesay("table", "flickr8k", "--out", "table.csv", cwd=tmp_path).stdout
    assert re.search(r"irmatch-s +28\.0 +30\.0 +48\.0 +60\.1", shown)
    ours = "seesay-small, seesay-small-tuned, seesay-small-frozen, projection"
    assert f"Not measured: {ours}, irmatch-h," in shown
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
            "table.png: tables are written as",
        ),
        (("two-branch-3", "--data", "SCENES"), "5000 images"),
        (("two-branch-1", "--data", "nowhere"), "nowhere"),
        (("two-branch-2",), "results/flickr30k.jsonl: no recorded rows"),
        (("two-branch-2", "--results", "coco"), "results/coco.jsonl: no recorded rows"),
        (("two-branch-2", "--set", "batch_size=7"), "--set needs a corpus to measure on"),
        (("flickr8k", "runs/one"), "flickr8k is a table, which is shown alone"),
        (("two-branch-2", "--protocol", "coco-1k"), "--protocol is for runs"),
        (("seesay-small", "--rows", "x"), "--rows is for tables"),
        (("seesay-small",), "name the one to measure on with --data"),
        (("runs/one", "runs/two"), "runs/one"),
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
