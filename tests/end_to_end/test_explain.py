"""`seesay explain` and the composition protocol as a person runs them, on drawn scenes."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.command import seesay

TEXT = "a red circle and a blue square zzyx"


@pytest.fixture(scope="module")
def image(scenes: Path) -> Path:
    return min((scenes / "images").iterdir())


def test_windows_are_printed_and_drawn(pair_run: Path, image: Path, tmp_path: Path) -> None:
    out = tmp_path / "why.html"
    done = seesay("explain", pair_run, image, TEXT, "-k", 3, "--out", out)
    found = json.loads(seesay("explain", pair_run, image, TEXT, "--json").stdout)
    (reading,) = found["readings"]
    assert (reading["level"], found["unknown"], found["cut"]) == ("wd", ["zzyx"], 0)
    assert found["score"] == reading["score"]
    assert [w["text"] for w in reading["windows"]][:2] == ["a red circle", "red circle and"]
    assert all(TEXT[w["start"] : w["end"]] == w["text"] for w in reading["windows"] + reading["words"])
    heading, *lines = done.stdout.splitlines()
    assert re.fullmatch(r"-?\d\.\d{3}  Windows of three words", heading)
    best = sorted(reading["windows"], key=lambda window: -abs(window["contribution"]))[:3]
    for line, window in zip(lines, best, strict=True):
        value, text = line.split("  ")
        assert float(value) == pytest.approx(window["contribution"], abs=6e-4)
        assert text == window["text"]
    assert "zzyx" in done.stderr
    assert image.name in out.read_text(encoding="utf-8")


@pytest.mark.slow
def test_on_a_terminal_the_sentence_is_coloured(pair_run: Path, image: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "seesay.cli", "explain", str(pair_run), str(image), TEXT]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    subprocess.run(
        command, stdout=theirs, env=environment, check=True, timeout=120, stderr=subprocess.DEVNULL
    )
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert re.search(r"\x1b\[(1;)?3[12]m", shown)  # red or green
    assert TEXT in re.sub(r"\x1b\[[\d;]*m", "", shown)


def test_shipped_weights_explain_by_words(image: Path) -> None:
    found = json.loads(seesay("explain", "seesay-small", image, "a red circle", "--json").stdout)
    assert [w["text"] for w in found["readings"][0]["windows"]] == ["a", "red", "circle"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("RUN", "IMAGE", "?!"), "contains no words"),
        (("RUN", "IMAGE", "a dog", "--out", "why.gif"), r"why\.gif: the name must end in"),
        (("RUN", "nothing.jpg", "a dog"), r"nothing\.jpg"),
        (("RUN", __file__, "a dog"), "unknown format"),
        (("nowhere", "IMAGE", "a dog"), "nowhere: no run there"),
        (("seesay-ground", "IMAGE", "a dog"), "matches phrases with regions"),
    ],
)
def test_mistakes_are_one_line(
    pair_run: Path, image: Path, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    filled = [{"RUN": pair_run, "IMAGE": image}.get(argument, argument) for argument in arguments]
    message = seesay("explain", *filled, code=2, cwd=tmp_path).stderr
    assert re.search(words, message)
    assert len(message.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_composition_is_measured_recorded_and_a_table(pair_run: Path, scenes: Path, tmp_path: Path) -> None:
    command = ("evaluate", pair_run, "--protocol", "composition", "--data", scenes)
    measured = json.loads(seesay(*command, "--record", tmp_path, "--json").stdout)
    metrics, sentences = measured["metrics"], measured["about"]["sentences"]
    assert metrics["shuffle: pairs"] == 3 * sentences == 90
    assert metrics["swap: pairs"] + metrics["swap: left out"] == sentences
    (row,) = [json.loads(line) for line in (tmp_path / "scenes.jsonl").read_text().splitlines()]
    assert row["metrics"] == metrics
    assert measured["intervals"]["shuffle: true order %"]
    assert "intervals" not in row
    shown = seesay(*command).stdout
    assert "6 images, 30 sentences, composition" in shown
    assert re.search(rf"shuffle\W+{metrics['shuffle: true order %']:.1f}\W", shown)

    small = (
        "encoders=[efficientnet-lite0]",
        "matcher.maps=[16, 16, 16]",
        "matcher.image=16",
        "matcher.hidden=16",
        "schedule.epochs=1",
        "batch_size=60",
    )
    changes = [part for change in small for part in ("--set", change)]
    table = ("table", "mcnn-4", "--data", scenes, "--rows", "mcnn-wd", *changes, "--out", "table.md")
    text = seesay(*table, cwd=tmp_path).stdout
    assert "shuffle: true order %" in (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "after Ma et al., 2015, table 4" in text


def test_cut_sentences_are_told(pair_run: Path, scenes: Path, tmp_path: Path) -> None:
    folder = tmp_path / "long"
    folder.mkdir()
    for source in sorted((scenes / "images").iterdir())[:2]:
        (folder / source.name).write_bytes(source.read_bytes())
    names = sorted(path.name for path in folder.iterdir())
    lines = ["image,sentence,split", f"{names[0]},{'a red circle ' * 11},test", f"{names[1]},a dog runs,test"]
    (folder / "sentences.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = ("evaluate", pair_run, "--data", folder / "sentences.csv")
    assert json.loads(seesay(*command, "--json").stdout)["about"]["cut_sentences"] == 1
    assert "Sentences longer than 30 words, which were cut: 1." in " ".join(seesay(*command).stdout.split())
