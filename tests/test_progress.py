"""Progress: a line now and then where there is no terminal, a bar where there is."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys

import pytest
from PIL import Image

import seesay
from seesay import progress as module
from seesay.cli.printing import Screen, print_json
from seesay.progress import progress, progress_of


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, to be set by the test."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("plain")
def test_lines_tell_rate_and_time_left(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Encoding", 100, "images") as advance:
        for step in (20, 20, 20, 20, 20):
            clock[0] += 4
            advance(step)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "Encoding: 60/100 images, 5.0 images/s, 8 s left",
        "Encoding: 100/100 images, 5.0 images/s, 0 s left",
    ]


@pytest.mark.usefixtures("plain")
def test_quick_work_says_one_line(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Encoding", 3, "images") as advance:
        for _ in range(3):
            clock[0] += 1
            advance(1)
    assert capsys.readouterr().err == "Encoding: 3/3 images, 1.0 images/s, 0 s left\n"


def test_no_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Encoding", 0, "images") as advance:
        advance(0)
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Encoding", 3, "images") as advance:
        for _ in range(3):
            advance(1)
    out, err = capsys.readouterr()
    assert out == ""
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", err)
    assert "Encoding" in shown
    assert "3/3" in shown
    assert "images/s" in shown


@pytest.mark.usefixtures("terminal")
def test_a_bar_follows_a_total_that_grows(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_of("Checking", "images") as at:
        for done, total in ((1, 2), (2, 2), (2, 4), (4, 4)):
            at(done, total)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    assert "4/4" in shown


@pytest.mark.usefixtures("plain")
def test_work_done_before_the_first_report_takes_time(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_of("Checking", "images") as at:
        clock[0] += 4
        at(12, 12)
    assert capsys.readouterr().err == "Checking: 12/12 images, 3.0 images/s, 0 s left\n"


@pytest.mark.parametrize("terminal", ["0", "1"])
def test_progress_can_be_switched_off(
    terminal: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", terminal)
    monkeypatch.setenv("SEESAY_PROGRESS", "1")  # so that what the test changes is undone
    seesay.show_progress(False)
    with progress("Encoding", 3, "images") as advance, progress_of("Checking", "images") as at:
        advance(3)
        at(3, 3)
    assert capsys.readouterr() == ("", "")
    seesay.show_progress(True)
    with progress("Encoding", 3, "images") as advance:
        advance(3)
    assert "Encoding" in capsys.readouterr().err


@pytest.mark.usefixtures("plain")
def test_work_that_counts_for_itself(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress_of("Embedding", "photos") as at:
        for done in (0, 8, 8, 12):
            clock[0] += 2
            at(done, 12)
    # The clock starts with the first report, two seconds in.
    assert capsys.readouterr().err == "Embedding: 12/12 photos, 2.0 photos/s, 0 s left\n"
    with progress_of("Embedding", "photos"):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("plain")
def test_what_has_no_known_end_is_counted(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Listing photos", None, "files") as advance:
        for _ in range(5):
            clock[0] += 6
            advance(1000)
    assert capsys.readouterr().err.splitlines() == [
        "Listing photos: 2000 files",
        "Listing photos: 4000 files",
    ]


@pytest.mark.usefixtures("terminal")
def test_a_terminal_counts_in_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: True)
    with progress("Listing", None, "files") as advance:
        advance(7)
    assert "Listing" in capsys.readouterr().err


def test_nothing_but_colours_and_progress_controls_a_terminal():
    terminal = io.StringIO()
    screen = Screen(terminal)
    screen.write("\x1b[1mbold\x1b[0m é 😀\n\r\x1b[2K\x1b[1A\x1b[?25l")
    assert terminal.getvalue() == "\x1b[1mbold\x1b[0m é 😀\n\r\x1b[2K\x1b[1A\x1b[?25l"
    terminal.truncate(0)
    terminal.seek(0)
    screen.write("\x1b]0;title\x07 \x1b[2J \x9b2J \u202egpj.exe \x1bc")
    assert terminal.getvalue() == r"\x1b]0;title\x07 \x1b[2J \x9b2J \u202egpj.exe \x1bc"


def test_json_stays_json_whatever_the_names_in_it(capsys):
    name = "\x1b[2J \x9b2J \u202e\n é"
    print_json({"name": name})
    told = capsys.readouterr().out
    assert json.loads(told) == {"name": name}
    assert not set("\x1b\x9b\u202e") & set(told)
    assert "é" in told


@pytest.mark.parametrize("command", ["data", "runs", "info"])
def test_a_terminal_is_given_no_escape_sequences_of_names(command, tmp_path):
    """With a terminal of its own, as a shell runs it."""
    pty = pytest.importorskip("pty")
    folder = tmp_path / "evil\x1b]0;title\x07"
    folder.mkdir()
    Image.new("RGB", (60, 40)).save(folder / "a\x1b]0;title\x07.png")
    (folder / "a\x1b]0;title\x07.txt").write_text("a black picture\n")
    parent, child = pty.openpty()
    asked = [sys.executable, "-m", "seesay", command, str(folder)]
    process = subprocess.run(asked, stdout=child, stderr=child, timeout=60)
    os.close(child)
    told = os.read(parent, 100_000)
    os.close(parent)
    assert process.returncode in (0, 2)
    assert b"\x1b]" not in told
