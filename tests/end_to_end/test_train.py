"""What somebody sees who trains, interrupts and resumes on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from seesay.data.readers import read_corpus
from seesay.runs.run import Run
from tests.end_to_end.command import seesay
from tools.scenes import write_scenes

SMALL = ("--set", "encoders=[efficientnet-lite0]", "--set", "dim=24", "--set", "epochs=1")


def test_interrupted_then_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_scenes(tmp_path / "museum", images=12, seed=1)
    out = tmp_path / "run"
    command = ("train", "irmatch-s", "--data", tmp_path / "museum", "--out", out)
    with monkeypatch.context() as patch:
        patch.setattr("seesay.training.loop.Loop.run", interrupted)
        told = seesay(*command, *SMALL, code=130).stderr.splitlines()
    assert told[-1].startswith("seesay: stopped; to continue: seesay train irmatch-s")
    assert told[-1].endswith(" --resume")

    said = seesay(*command, *SMALL, "--resume", "--set", "epochs=80", code=2).stderr
    assert "this run used schedule.epochs=1, you asked for 80" in said
    assert "encoders" not in said  # which are the same

    seesay(*command, *SMALL, "--resume")
    recipe = Run.load(str(out)).recipe
    assert (recipe.corpus, recipe.schedule.epochs) == ("scenes", 1)


def interrupted(*_: object) -> None:
    """Stand for Ctrl-C."""
    raise KeyboardInterrupt


def test_a_corpus_is_printed_as_one_line(scenes: Path) -> None:
    corpus = read_corpus(scenes)
    assert str(corpus) == f"<Corpus 'scenes': {len(corpus.images)} images, {len(corpus.sentences)} sentences>"
