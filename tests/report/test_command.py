"""`seesay report` as a person runs it."""

from __future__ import annotations

from pathlib import Path

from seesay.runs.run import Run
from tests.end_to_end.test_table import seesay


def test_the_corpus_is_that_of_training(runs: dict[str, Run], tmp_path: Path) -> None:
    done = seesay("report", runs["common"].folder, "--out", tmp_path / "r.html", cwd=tmp_path)
    assert done.stdout == f"{tmp_path / 'r.html'}\n"
    assert "1/1 common" in done.stderr
    assert "<h1>common on" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_what_goes_wrong_is_one_line_and_writes_nothing(runs: dict[str, Run], tmp_path: Path) -> None:
    common = runs["common"].folder
    for arguments, said in (
        ((common, "--out", tmp_path / "r.pdf"), "ends in .html"),
        ((common, common), "named twice"),
    ):
        done = seesay("report", *arguments, code=2, cwd=tmp_path)
        assert said in done.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())
