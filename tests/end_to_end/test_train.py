"""What somebody sees who trains, interrupts and resumes on the command line."""

from __future__ import annotations

import json
import re
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


def test_steps_the_best_epoch_and_the_included_weights(scenes: Path, tmp_path: Path) -> None:
    command = ("train", "irmatch-s", "--data", scenes, *SMALL[:4], "--set", "batch_size=16")
    told = seesay(*command, "--set", "steps=40", "--out", tmp_path / "run")
    assert ", 3 epochs in " in told.stdout  # of 15 steps each, the last one cut
    assert "The last epoch was the best; more may help: --set schedule.steps=80" in told.stderr
    images = len(read_corpus(scenes).split("val").images)
    said = r"^mR \d+\.\d against \d+\.\d of the included weights \(seesay-small\) "
    said += rf"on {images} val images, which also "
    assert re.search(
        said + r"chose this run's weights: (clearly (better|worse)|no clear difference) \(p [=<] ",
        told.stdout,
        re.M,
    )

    again = seesay(*command, "--set", "steps=40", "--out", tmp_path / "run", "--resume", "--json")
    compared = json.loads(again.stdout)["compared"]
    measured = seesay("evaluate", tmp_path / "run", "--split", "val", "--against", "seesay-small", "--json")
    assert compared["against"] == json.loads(measured.stdout)["against"]
    both = seesay(
        *command, "--set", "steps=40", "--set", "epochs=2", "--out", tmp_path / "two", code=2
    ).stderr
    assert "key 'schedule': epochs and steps both say how long training takes; name one of them" in both


def interrupted(*_: object) -> None:
    """Stand for Ctrl-C."""
    raise KeyboardInterrupt


def test_a_corpus_is_printed_as_one_line(scenes: Path) -> None:
    corpus = read_corpus(scenes)
    assert str(corpus) == f"<Corpus 'scenes': {len(corpus.images)} images, {len(corpus.sentences)} sentences>"
