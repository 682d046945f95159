"""`seesay report` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seesay.runs.run import Run
from tests.end_to_end.command import seesay


def test_the_corpus_is_that_of_training(runs: dict[str, Run], tmp_path: Path) -> None:
    done = seesay("report", runs["common"].folder, "--out", tmp_path / "r.html", cwd=tmp_path)
    assert done.stdout == f"{tmp_path / 'r.html'}\n"
    assert "1/1 common" in done.stderr
    assert "<h1>common on" in (tmp_path / "r.html").read_text(encoding="utf-8")
    told = json.loads(seesay("report", runs["common"].folder, "--json", cwd=tmp_path).stdout)
    assert told["report"] == "report.html"
    assert told["results"]["common"]["metrics"]["mR"] > 0


@pytest.mark.parametrize(
    ("more", "said"), [(("--out", "r.pdf"), "must end in .html"), (("COMMON",), "named twice")]
)
def test_a_mistake_is_one_line_and_writes_nothing(
    runs: dict[str, Run], tmp_path: Path, more: tuple[str, ...], said: str
) -> None:
    common = runs["common"].folder
    parts = [common if part == "COMMON" else part for part in more]
    (line,) = seesay("report", common, *parts, code=2, cwd=tmp_path).stderr.splitlines()
    assert said in line
    assert not list(tmp_path.iterdir())
