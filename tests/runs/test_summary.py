"""The corpus that runs are measured on: named, or the one that they were trained on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from seesay.errors import SeesayError
from seesay.protocols.evaluate import open_corpus_of
from seesay.results.records import row_of
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary
from tests.results.made import RESULT


@pytest.fixture
def moved(pair_run: Path, tmp_path: Path):
    """Copies of a run whose summaries are changed."""

    def copy(name: str, **corpus: str) -> Run:
        folder = tmp_path / name
        shutil.copytree(pair_run, folder)
        path = folder / "training.json"
        summary = json.loads(path.read_text())
        summary["corpus"] |= corpus
        path.write_text(json.dumps(summary))
        return Run.load(str(folder))

    return copy


def test_runs_of_one_corpus_open_it(pair_run: Path, grounding_run: Path, scenes: Path) -> None:
    run, grounds = Run.load(str(pair_run)), Run.load(str(grounding_run))
    assert TrainingSummary.load(run.folder).corpus.root == str(scenes.resolve())
    assert open_corpus_of([run, Run.load("seesay-small")]).root == scenes.resolve()
    opened, place = open_corpus_of([grounds]), TrainingSummary.load(grounds.folder).corpus
    assert (str(opened.root), opened.reading.get("images")) == (place.root, place.images)
    assert open_corpus_of([], scenes).root == scenes


def test_what_names_no_one_corpus_is_refused(moved, grounding_run: Path, tmp_path: Path) -> None:
    small, grounds = Run.load("seesay-small"), Run.load(str(grounding_run))
    (tmp_path / "other").mkdir()
    with pytest.raises(SeesayError, match="seesay-small: no recorded corpus; name"):
        open_corpus_of([small])
    with pytest.raises(SeesayError, match="Score files have no corpus"):
        open_corpus_of([])
    with pytest.raises(SeesayError, match="cannot share a corpus"):
        open_corpus_of([small, grounds])
    with pytest.raises(SeesayError, match="corpus is not there"):
        open_corpus_of([moved("gone", root=str(tmp_path / "gone-corpus"))])
    with pytest.raises(SeesayError, match="The runs were trained on"):
        open_corpus_of([moved("one"), moved("two", root=str(tmp_path / "other"))])


def test_a_damaged_summary_is_named(moved) -> None:
    run = moved("damaged")
    assert row_of(RESULT, [run], 1.0).epochs == 4
    for content in (b"{", b"\xff\xfe{"):
        (run.folder / "training.json").write_bytes(content)
        with pytest.raises(SeesayError, match="no summary of a finished training"):
            row_of(RESULT, [run], 1.0)


def test_a_composed_run_names_the_machines_of_its_members(moved) -> None:
    run = moved("composed")
    path = run.folder / "training.json"
    summary = json.loads(path.read_text())
    member = {"weights": "0a", "seconds": 1.0, "best_epoch": 1, "best": 50.0}
    summary["members"] = {"mcnn-wd": member | {"machine": "x86_64, 16 cores, H100"}, "mcnn-st": member}
    path.write_text(json.dumps(summary))
    assert row_of(RESULT, [run], 1.0).machine == f"x86_64, 16 cores, H100; {summary['machine']}"
