"""`seesay concepts` as a person runs it: of a corpus, of a run, of an image."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.end_to_end.command import seesay


@pytest.fixture(scope="module")
def run(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("concepts") / "run"
    changes = ("--set", "encoders=[efficientnet-lite0]", "--set", "schedule.epochs=3")
    done = seesay("train", "concepts", "--data", scenes, "--out", folder, *changes)
    assert "mAP" in done.stdout
    assert "of 256 concepts occur in enough sentences" in done.stderr
    return folder


def test_of_an_image_the_best_ten(run: Path, scenes: Path) -> None:
    image = min((scenes / "images").iterdir())
    found = json.loads(seesay("concepts", run, image, "--json").stdout)
    scores = [each["score"] for each in found]
    assert len(found) == 10
    assert scores == sorted(scores, reverse=True)
    first = seesay("concepts", run, image, "-k", 1).stdout.split()
    assert first == [f"{scores[0]:.3f}", found[0]["part_of_speech"], found[0]["word"]]


def test_a_run_is_measured_by_its_own_protocol(run: Path) -> None:
    measured = json.loads(seesay("evaluate", run, "--split", "val", "--json").stdout)
    assert measured["protocol"] == "concepts"
    assert measured["metrics"]["mAP"] > measured["metrics"]["training frequency: mAP"]
    assert "training frequency" in seesay("evaluate", run, "--split", "val").stdout


def test_what_is_wrong_is_told(run: Path, scenes: Path, tmp_path: Path) -> None:
    image = min((scenes / "images").iterdir())
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no image")
    assert "broken.jpg" in seesay("concepts", run, broken, code=2).stderr
    assert "predicts no concepts" in seesay("concepts", "seesay-small", image, code=2).stderr
    assert "no run there" in seesay("concepts", scenes, image, code=2).stderr
    standard = ("evaluate", run, "--data", scenes, "--protocol", "standard")
    assert "predicts concepts; the protocol for them is 'concepts'" in seesay(*standard, code=2).stderr
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    (copy / "concepts.json").unlink()
    assert "not a list of concepts" in seesay("concepts", copy, image, code=2).stderr
