"""`seesay ground` as a person runs it, on a drawn scene."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.end_to_end.command import seesay

TEXT = "a red circle and a blue square, zzyx"


@pytest.fixture(scope="module")
def image(scenes: Path) -> Path:
    return min((scenes / "images").iterdir())


def test_phrases_boxes_and_scores_are_printed_and_drawn(
    image: Path, grounding_run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "boxed.png"
    done = seesay("ground", image, TEXT, "--run", grounding_run, "-k", 2, "--out", out)
    lines = [re.fullmatch(r"(-?\d\.\d{3})((?: +\d+){4})  (.+)", line) for line in done.stdout.splitlines()]
    assert [line[3] for line in lines if line] == ["a red circle"] * 2 + ["a blue square"] * 2
    assert "zzyx" in done.stderr
    found = json.loads(seesay("ground", image, TEXT, "--run", grounding_run, "-k", 2, "--json").stdout)
    assert (found["width"], found["height"]) == (160, 128)
    boxes = [box for phrase in found["phrases"] for box in phrase["boxes"]]
    for line, box in zip(lines, boxes, strict=True):
        assert line is not None
        assert float(line[1]) == pytest.approx(box["probability"], abs=6e-4)
        assert np.array(line[2].split(), float) == pytest.approx(box["box"], abs=0.56)
    for phrase in found["phrases"]:
        assert TEXT[phrase["start"] : phrase["end"]] == phrase["phrase"]
    with Image.open(out) as drawn, Image.open(image) as plain:
        assert drawn.size == plain.size
        assert (np.asarray(drawn) != np.asarray(plain)).any()


def test_several_runs_are_compared(image: Path, grounding_run: Path, tmp_path: Path) -> None:
    both = ["--run", grounding_run, "--run", "seesay-ground"]
    done = seesay("ground", image, TEXT, *both, "--out", tmp_path / "both.png")
    titles = [line for line in done.stdout.splitlines() if line.endswith(":")]
    assert titles == [f"{grounding_run}:", "seesay-ground:"]
    found = json.loads(seesay("ground", image, TEXT, *both, "--json").stdout)
    assert [len(each["phrases"]) for each in found.values()] == [3, 3]
    with Image.open(tmp_path / "both.png") as drawn, Image.open(image) as plain:
        assert drawn.size[0] > 2 * plain.size[0]


def test_a_grounding_run_makes_no_index(scenes: Path, grounding_run: Path, tmp_path: Path) -> None:
    told = seesay("index", scenes / "images", "--out", tmp_path / "ix", "--run", grounding_run, code=2).stderr
    assert "'ground-single' matches phrases with regions" in told
    assert not (tmp_path / "ix").exists()


def test_nothing_found_exits_1(image: Path, grounding_run: Path) -> None:
    assert "knows none of its words" in seesay("ground", image, "zzyx", "--run", grounding_run, code=1).stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--run", "nowhere"), "nowhere: no run there"),
        (("--out", "boxed.gif"), r"boxed\.gif: the name must end in"),
    ],
)
def test_mistakes_are_one_line(image: Path, tmp_path: Path, more: tuple[str, ...], words: str) -> None:
    told = seesay("ground", image, "a red circle", *more, code=2, cwd=tmp_path).stderr
    assert re.search(words, told)
    assert len(told.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_an_image_that_is_none(grounding_run: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.jpg").write_text("no image")
    told = seesay("ground", tmp_path / "notes.jpg", "a dog", "--run", grounding_run, code=2).stderr
    assert "notes.jpg: unsupported or damaged" in told
