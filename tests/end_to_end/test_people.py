"""What people said, from files, on the command line: agreement, right answers, images described alike."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from seesay.data.readers import read_corpus
from tests.end_to_end.command import seesay


def evaluate(*arguments: object, code: int = 0) -> str:
    """What `seesay evaluate` prints, on standard error if it fails."""
    done = seesay("evaluate", *arguments, code=code)
    return done.stderr if code else done.stdout


@pytest.fixture(params=["test"])
def given(scenes: Path, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[object, ...]:
    """Embeddings of a split that find every image, and the corpus."""
    part = read_corpus(scenes).split(request.param)
    vectors = np.random.default_rng(0).normal(size=(len(part.images), 8))
    np.save(tmp_path / "images.npy", vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    np.save(tmp_path / "sentences.npy", np.load(tmp_path / "images.npy")[part.image_of_sentence()])
    files = f"{tmp_path / 'images.npy'},{tmp_path / 'sentences.npy'}"
    return files, "--data", scenes, "--split", request.param, "--protocol"


def test_agreement(given: tuple[object, ...], scenes: Path, tmp_path: Path) -> None:
    names = [image.name for image in read_corpus(scenes).split("test").images]
    lines = [f"{a}\t{b}#0\t{int(a == b)}\t{3 * (a == b)}\t{3 * (a != b)}" for a in names for b in names]
    judged = tmp_path / "CrowdFlowerAnnotations.txt"
    judged.write_text("\n".join([*lines, f"gone.jpg\t{names[0]}#0\t1\t3\t0", ""]))
    measured = json.loads(evaluate(*given, "agreement", "--judgements", judged, "--json"))
    assert measured["about"]["pairs"] == len(names) ** 2
    assert measured["about"]["left out"] == {"image not in the split": 1}
    # Own pairs score 1, all others less and no two the same: all of the order that can be told is right.
    assert measured["metrics"]["tau-b"] > 30
    assert "reports tau-b" in evaluate(*given, "agreement", "--judgements", judged)
    assert "by judgements (--judgements): Flickr8k" in evaluate(*given, "agreement", code=2)
    judged.write_text("a\tb\n")
    assert f"{judged}:1: expected five columns" in evaluate(
        *given, "agreement", "--judgements", judged, code=2
    )


def test_graded_relevance(given: tuple[object, ...], scenes: Path, tmp_path: Path) -> None:
    own = json.loads(evaluate(*given, "graded", "--json"))["metrics"]
    assert own["S mAP@R"] == own["I R@1"] == 100
    names = [image.name for image in read_corpus(scenes).split("test").images]
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps({f"{names[0]}#0": names[:2]}))
    told = json.loads(evaluate(*given, "graded", "--answers", answers, "--json"))["metrics"]
    assert told["I queries"] == 1
    assert told["I mAP@R"] >= 50
    text = evaluate(*given, "graded", "--answers", answers)
    assert "right answers are those of the file" in text
    assert "answers is for protocol 'graded'" in evaluate(*given, "standard", "--answers", answers, code=2)
