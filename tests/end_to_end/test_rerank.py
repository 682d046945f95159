"""Re-ranking as a person runs it, with a small pair matcher trained on drawn scenes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from seesay.runs.run import Run
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


def test_the_other_run_orders_the_best_results_of_a_search(index: Path, pair_run: Path) -> None:
    plain = json.loads(seesay("search", index, TEXT, "--json").stdout)["results"]
    options = ("--rerank", pair_run, "-k", 5)
    done = seesay("search", index, TEXT, *options, "--json")
    rows = json.loads(done.stdout)["results"]
    assert "8 re-ranked" in done.stderr
    assert len(rows) == 5
    assert {row["path"] for row in rows} < {row["path"] for row in plain}
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    run = Run.load(str(pair_run))
    np.testing.assert_allclose(
        [row["score"] for row in rows], run.score([row["path"] for row in rows], [TEXT])[:, 0], atol=1e-4
    )
    lines = seesay("search", index, TEXT, *options).stdout.splitlines()
    for line, row in zip(lines, rows, strict=True):
        score, path = line.split("  ", 1)
        assert float(score) == pytest.approx(row["score"], abs=6e-4)
        assert path == row["path"]


def test_the_other_run_orders_the_sentences_of_an_image(index: Path, photos: Path, pair_run: Path) -> None:
    done = seesay("sentences", index, min(photos.iterdir()), "--rerank", pair_run, "--json")
    rows = json.loads(done.stdout)["results"]
    assert {row["sentence"] for row in rows} == {"a red circle", "a blue square", "a green triangle"}
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    assert "3 re-ranked" in done.stderr


def test_images_whose_files_are_gone_come_last(
    index: Path, photos: Path, pair_run: Path, tmp_path: Path
) -> None:
    hidden = min(photos.iterdir())
    hidden.rename(tmp_path / hidden.name)
    done = seesay("search", index, TEXT, "--rerank", pair_run, "--json")
    (tmp_path / hidden.name).rename(hidden)
    assert "7 re-ranked" in done.stderr
    assert "1 of these files are missing" in done.stderr
    last = json.loads(done.stdout)["results"][-1]
    assert (Path(last["path"]).name, last["gone"]) == (hidden.name, True)


@pytest.mark.parametrize("query", [f"{TEXT} + a red circle", "id:1"])
def test_only_a_single_sentence_can_be_re_ranked(index: Path, pair_run: Path, query: str) -> None:
    told = seesay("search", index, query, "--rerank", pair_run, code=2).stderr
    assert told.startswith("seesay: --rerank needs a query of a single sentence")


def test_a_run_that_is_not_there_is_told_in_one_line(index: Path) -> None:
    told = seesay("search", index, TEXT, "--rerank", "nowhere", code=2).stderr
    assert "nowhere: no run there" in told
    assert len(told.splitlines()) == 1
