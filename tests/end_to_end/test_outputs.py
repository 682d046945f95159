"""No command destroys a file that it did not make."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import typer.main
from PIL import Image

from seesay.cli import main, with_all_commands
from tools.scenes import write_scenes

MINE = b"the only copy"

# The options of each command that writes one file, and the name of a file that it reads in a folder.
FILES = {
    "compare": (["seesay-small", "--data", "rows.json"], "rows.json", ".json"),
    "ground": (["mine.jpg", "a square"], "mine.jpg", ".jpg"),
    "report": (["seesay-small", "--data", "scenes"], "scenes/page.html", ".html"),
    "table": (["headline", "--results", "rows.json"], "rows.json", ".json"),
}
FOLDERS = {
    "export": ["seesay-small"],
    "features": ["scenes", "--encoder", "efficientnet-lite0"],
    "index": ["scenes/images"],
    "train": ["cca-mean", "--data", "scenes"],
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_scenes(tmp_path / "scenes", images=10, seed=0)
    Image.new("RGB", (64, 48), "red").save("mine.jpg")
    (tmp_path / "rows.json").write_bytes(MINE)
    (tmp_path / "scenes/page.html").write_bytes(MINE)
    return tmp_path


def run(*arguments: str) -> str | int | None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


def itself(read: Path, _: Path) -> Path:
    return read


def by_a_link(read: Path, out: Path) -> Path:
    out.symlink_to(read)
    return out


def by_a_hard_link(read: Path, out: Path) -> Path:
    os.link(read, out)
    return out


def of_somebody(_: Path, out: Path) -> Path:
    out.write_bytes(MINE)
    return out


def to_nothing(_: Path, out: Path) -> Path:
    out.symlink_to("nowhere")
    return out


def test_every_command_with_an_output_is_known_here() -> None:
    group = typer.main.get_command(with_all_commands())
    writing = {
        name
        for name, command in group.commands.items()  # type: ignore[attr-defined]
        if any("--out" in each.opts for each in command.params)
    }
    assert writing == FILES.keys() | FOLDERS.keys()


@pytest.mark.parametrize("command", FILES)
@pytest.mark.parametrize("made", [itself, by_a_link, by_a_hard_link, of_somebody, to_nothing])
def test_a_file_that_is_there_stays(
    here: Path, capsys: pytest.CaptureFixture[str], command: str, made: Callable[[Path, Path], Path]
) -> None:
    options, name, suffix = FILES[command]
    read, before = here / name, (here / name).read_bytes()
    out = made(read, here / f"out{suffix}")
    there = out.lstat()
    assert run(command, *options, "--out", str(out)) == 2
    assert os.path.samestat(out.lstat(), there)
    assert read.read_bytes() == before
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("command", FILES)
@pytest.mark.parametrize("made", [itself, by_a_link, by_a_hard_link])
def test_what_a_command_reads_is_not_even_replaced_if_the_user_says_so(
    here: Path, capsys: pytest.CaptureFixture[str], command: str, made: Callable[[Path, Path], Path]
) -> None:
    options, name, suffix = FILES[command]
    if command == "report" and made is by_a_hard_link:
        return  # it reads a folder, in which a page keeps its name
    out = made(here / name, here / f"out{suffix}")
    there = out.lstat()
    assert run(command, *options, "--out", str(out), "--overwrite") == 2
    assert os.path.samestat(out.lstat(), there)
    assert "this command reads it, or its folder" in capsys.readouterr().err


@pytest.mark.parametrize("command", FOLDERS)
def test_nothing_is_written_into_a_folder_of_other_files(
    here: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    album = here / "album"
    album.mkdir()
    shutil.copy("mine.jpg", album)
    for name in ("index.sqlite", "run.json", "config.json"):
        (album / name).touch()
    before = sorted(album.iterdir())
    assert run(command, *FOLDERS[command], "--out", "album") == 2
    assert sorted(album.iterdir()) == before
    assert "seesay: album" in capsys.readouterr().err


def test_a_picture_and_a_table_are_replaced_if_the_user_says_so(here: Path) -> None:
    out = of_somebody(here, here / "out.png")
    assert run("ground", "mine.jpg", "a square", "--out", "out.png") == 2
    assert run("ground", "mine.jpg", "a square", "--out", "out.png", "--overwrite") in (0, 1)
    assert Image.open(out).size == (64, 48)
    table = of_somebody(here, here / "out.csv")
    assert run("table", "headline", "--out", "out.csv", "--overwrite") == 0
    assert table.read_bytes() != MINE


def test_a_report_is_written_again_over_the_report_that_seesay_wrote(here: Path) -> None:
    options = "seesay-small", "--data", "scenes", "--out", "scenes/report.html"
    for _ in range(2):
        assert run("report", *options) == 0
    (here / "scenes/report.html").write_bytes(MINE)
    assert run("report", *options) == 2


def test_an_index_is_updated_and_features_are_added_in_the_same_folder(here: Path) -> None:
    for _ in range(2):
        assert run("index", "scenes/images", "--out", "index") == 0
        assert run("features", "scenes", "--encoder", "efficientnet-lite0", "--out", "features") == 0


@pytest.mark.parametrize("command", FILES)
def test_a_device_or_pipe_is_never_replaced_by_a_file(
    command: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, _, suffix = FILES[command]
    pipe = here / f"pipe{suffix}"
    os.mkfifo(pipe)
    assert run(command, *arguments, "--out", str(pipe), "--overwrite") == 2
    assert "is no file" in capsys.readouterr().err
    assert pipe.is_fifo()
