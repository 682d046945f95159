"""Re-ranking as a person runs it, with a small pair matcher trained on drawn scenes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.end_to_end.command import seesay

TEXT = "a red circle is above a blue square"


@pytest.fixture(scope="module")
def photos(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reranked") / "photos"
    folder.mkdir()
    for path in sorted((scenes / "images").iterdir())[:8]:
        shutil.copy(path, folder)
    return folder


@pytest.fixture(scope="module")
def index(photos: Path) -> Path:
    folder = photos.parent / "index"
    (photos.parent / "texts.txt").write_text("a red circle\na blue square\na green triangle\n")
    seesay("index", photos, "--out", folder, "--sentences", photos.parent / "texts.txt")
    return folder


def test_search(index: Path, pair_run: Path) -> None:
    plain = json.loads(seesay("search", index, TEXT, "--json").stdout)["results"]
    done = seesay("search", index, TEXT, "--rerank", pair_run, "-k", 5, "--shortlist", 6, "--json")
    rows = json.loads(done.stdout)["results"]
    assert re.search(r"^6 re-ranked in \d+\.\d\d s", done.stderr, re.MULTILINE)
    assert len(rows) == 5
    assert max(row["shortlist_rank"] for row in rows) <= 6
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    for row in rows:
        before = plain[row["shortlist_rank"] - 1]
        assert (row["path"], row["shortlist_score"]) == (before["path"], before["score"])
    lines = seesay("search", index, TEXT, "--rerank", pair_run, "-k", 5, "--shortlist", 6).stdout.splitlines()
    for line, row in zip(lines, rows, strict=True):
        score, was, path = re.split(r"  +", line, maxsplit=2)
        assert float(score) == pytest.approx(row["score"], abs=6e-4)
        assert (was, path) == (f"was {row['shortlist_rank']}", row["path"])


def test_sentences(index: Path, photos: Path, pair_run: Path) -> None:
    done = seesay("sentences", index, min(photos.iterdir()), "--rerank", pair_run, "--json")
    rows = json.loads(done.stdout)["results"]
    assert sorted(row["shortlist_rank"] for row in rows) == [1, 2, 3]
    assert {row["sentence"] for row in rows} == {"a red circle", "a blue square", "a green triangle"}
    assert "3 re-ranked in" in done.stderr


def test_files_that_are_gone_are_counted_and_stand_behind(
    index: Path, photos: Path, pair_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path))  # where no features are kept
    hidden = min(photos.iterdir())
    hidden.rename(tmp_path / hidden.name)
    done = seesay("search", index, TEXT, "--rerank", pair_run, "--json")
    (tmp_path / hidden.name).rename(hidden)
    assert "7 re-ranked" in done.stderr
    assert "features of 7 computed now" in done.stderr
    assert f"1 could not be re-ranked and come last:\n  {hidden.name}: the file is missing" in done.stderr
    last = json.loads(done.stdout)["results"][-1]
    assert Path(last["path"]).name == hidden.name
    assert "shortlist_rank" not in last


@pytest.mark.parametrize("command", [("search", TEXT), ("serve", "--port", 0)], ids=lambda it: it[0])
def test_a_run_that_is_not_there_is_told_in_one_line(index: Path, command: tuple[object, ...]) -> None:
    name, *more = command
    told = seesay(name, index, *more, "--rerank", "nowhere", code=2).stderr
    assert "nowhere: no run there" in told
    assert len(told.splitlines()) == 1


def test_a_shortlist_needs_a_run_that_re_ranks_it(index: Path) -> None:
    told = seesay("search", index, TEXT, "--shortlist", 6, code=2).stderr
    assert told == "seesay: --shortlist is for --rerank RUN; name the run.\n"
