"""Captions as a person asks for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.command import seesay


@pytest.fixture(scope="module")
def run(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("caption") / "run"
    changes = ["encoders=[efficientnet-lite0]", "matcher.dim=48", "schedule.epochs=3", "optimizer.lr=5e-3"]
    options = [part for change in changes for part in ("--set", change)]
    seesay("train", "sco-ctx-gen", "--data", scenes, "--out", out, *options)
    return out


def test_a_sentence_with_its_log_likelihood(run: Path, scenes: Path) -> None:
    image = min(scenes.rglob("*.jpg"))
    rows = json.loads(seesay("caption", run, image, "-k", 3, "--json").stdout)
    assert [row.keys() for row in rows] == [{"sentence", "log_likelihood"}] * 3
    assert rows == sorted(rows, key=lambda row: -row["log_likelihood"])
    assert rows[0]["log_likelihood"] < 0
    lines = seesay("caption", run, image, "-k", 3).stdout.splitlines()
    assert lines == [f"{row['log_likelihood']:7.2f}  {row['sentence']}" for row in rows]


def test_mistakes_are_named(run: Path, scenes: Path, tmp_path: Path) -> None:
    image = min(scenes.rglob("*.jpg"))
    assert "no decoder" in seesay("caption", "seesay-small", image, code=2).stderr
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8 nothing")
    assert "broken.jpg" in seesay("caption", run, tmp_path / "broken.jpg", code=2).stderr
