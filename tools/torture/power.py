"""Power that fails at any moment: what the system had not yet written to the disk is lost, torn or zeros.

A command is run once while all that it changes is recorded (`recording.c`). The record is then played back to
a disk that keeps for certain only what was flushed by fsync: contents of files, and names by that of their
folder. Of the rest it keeps what is drawn.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeAlias

from PIL import Image

from seesay.data.images import content_key
from seesay.errors import SeesayError
from seesay.runs.folder import run_folder
from seesay.search.index import Index
from tests.search.colours import Colours
from tools.scenes import write_scenes
from tools.torture.base import ROOT, Outcome, Stage, attack
from tools.torture.kills import UPDATE, change, picture, training_processes

SOURCE = Path(__file__).with_name("recording.c")
SECTOR = 512  # bytes that a disk writes as a whole
LOSSES = ("dropped", "torn", "zeroed", "written")

TRAIN = """
import sys
from pathlib import Path
from tools.torture.kills import train_or_go_on
train_or_go_on(*map(Path, sys.argv[1:]))
"""
EXPORT = """
import sys
from seesay.cli import main
main(["export", sys.argv[1], "--out", sys.argv[2]])
"""


@dataclass(frozen=True)
class Change:
    """One change of a file or a name, as it was recorded."""

    what: str
    inode: int
    number: int
    path: str
    data: bytes


def recorded(log: Path) -> Iterator[Change]:
    """Read the record of a command."""
    with log.open("rb") as file:
        while head := file.readline():
            what, inode, number, size, path = head.decode().rstrip("\n").split(" ", 4)
            yield Change(what, int(inode), int(number), path, file.read(int(size)))


@dataclass
class Contents:
    """The bytes of a file that are on the disk, and what was written since: (place, bytes), or a new size."""

    flushed: bytes = b""
    later: list[tuple[int, bytes] | int] = field(default_factory=list)

    def flush(self) -> None:
        """Put all of it on the disk."""
        self.flushed, self.later = self.after("written", Random()), []

    def after(self, loss: str, draw: Random) -> bytes:
        """Return the bytes that are there once the power is back."""
        found = bytearray(self.flushed)
        for each in self.later:
            if loss == "dropped" or (loss == "torn" and draw.random() < 0.5):
                continue
            if isinstance(each, int):
                del found[each:]
                found += bytes(each - len(found))
                continue
            at, data = each
            if loss == "zeroed":  # the file is longer, but nothing was written there
                data = bytes(len(data)) if at + len(data) > len(found) else bytes(found[at : at + len(data)])
            elif loss == "torn" and draw.random() < 0.5:
                data = data[: draw.randrange(0, len(data) + 1, SECTOR)]
            found += bytes(max(at - len(found), 0))
            found[at : at + len(data)] = data
        return bytes(found)


Place: TypeAlias = tuple[int, str]  # a folder and a name in it


class Disk:
    """What a folder holds for its processes, and what of it is on the disk.

    Folders and files have numbers; the folder itself is 0.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._last = folder, 0
        self.files: dict[int, Contents] = {}
        self._inodes: dict[int, int] = {}
        self.names: dict[Place, int] = {}
        for path in sorted(folder.rglob("*")):
            self._last += 1
            self.names[self._place(str(path))] = self._last
            if path.is_file():
                self.files[self._last] = Contents(path.read_bytes())
                self._inodes[path.stat().st_ino] = self._last
        self.flushed = dict(self.names)
        self.later: list[dict[Place, int | None]] = []

    def make(self, change: Change) -> None:
        """Make a change."""
        what, path = change.what, change.path
        if change.inode and what in ("sync", "truncate", "write"):
            self._renamed(change)
        if what == "syncfolder":
            self._flush_names(self._number(path))
        elif what == "sync":
            self.files[self._inodes[change.inode]].flush()
        elif what == "truncate":
            self.files[self._inodes[change.inode]].later.append(change.number)
        elif what == "write":
            self.files[self._inodes[change.inode]].later.append((change.number, change.data))
        elif what in ("create", "mkdir"):
            self._last += 1
            if what == "create":
                self.files[self._last] = Contents()
                self._inodes[change.inode] = self._last
            self._name({self._place(path): self._last})
        elif what == "unlink":
            self._name({self._place(path): None})
        else:  # rename or link
            to = self._place(change.data.decode())
            gone = {self._place(path): None} if what == "rename" else {}
            self._name({**gone, to: self._number(path)})

    def crash(self, draw: Random, loss: str, to: Path) -> None:
        """Write what is there after the power failed to another folder."""
        names = dict(self.flushed)
        for step in self.later[: len(self.later) if loss == "written" else draw.randint(0, len(self.later))]:
            _rename(names, step)
        self._write(names, 0, to, lambda contents: contents.after(loss, draw))

    def _write(
        self, names: dict[Place, int], number: int, to: Path, read: Callable[[Contents], bytes]
    ) -> None:
        to.mkdir(parents=True)
        for (folder, name), each in names.items():
            if folder == number and each in self.files:
                (to / name).write_bytes(read(self.files[each]))
            elif folder == number:
                self._write(names, each, to / name, read)

    def _renamed(self, change: Change) -> None:
        """Notice by its path that a file was renamed past the C library, as safetensors does."""
        number = self._inodes[change.inode]
        if (
            not change.path.endswith(" (deleted)")
            and self.names.get(place := self._place(change.path)) != number
        ):
            former = [each for each, named in self.names.items() if named == number]
            self._name({**dict.fromkeys(former), place: number})

    def _name(self, step: dict[Place, int | None]) -> None:
        _rename(self.names, step)
        self.later.append(step)

    def _flush_names(self, number: int) -> None:
        for step in self.later:
            if any(folder == number for folder, _ in step):
                _rename(self.flushed, step)
        self.later = [step for step in self.later if all(folder != number for folder, _ in step)]

    def _place(self, path: str) -> Place:
        *above, name = Path(path).relative_to(self.folder).parts
        number = 0
        for part in above:
            number = self.names[number, part]
        return number, name

    def _number(self, path: str) -> int:
        return 0 if Path(path) == self.folder else self.names[self._place(path)]


def _rename(names: dict[Place, int], step: dict[Place, int | None]) -> None:
    for place, number in step.items():
        if number is None:
            names.pop(place, None)
        else:
            names[place] = number


class Recorder:
    """Runs code that changes a folder, and plays its changes back to disks whose power fails.

    Args:
        stage: of the attack.
        name: of the folder, which is the cache of what runs, too.
    """

    def __init__(self, stage: Stage, name: str) -> None:
        self.folder, self._log = stage.folder.resolve() / name, stage.folder.resolve() / f"{name}.log"
        self._library = stage.folder.resolve() / "recording.so"
        if not self._library.exists():
            command = ["cc", "-O1", "-w", "-shared", "-fPIC", "-o", str(self._library), str(SOURCE), "-ldl"]
            subprocess.run(command, check=True)
        self.folder.mkdir()
        self._before: Disk | None = None
        self._changes: list[Change] = []

    def run(self, code: str, *arguments: object) -> None:
        """Run code without a record."""
        self._run({}, code, *arguments)

    def record(self, code: str, *arguments: object) -> None:
        """Run code, and record what it changes."""
        self._before = self._before or Disk(self.folder)
        recording = {"RECORD_UNDER": str(self.folder), "RECORD_TO": str(self._log)}
        self._run({"LD_PRELOAD": str(self._library), **recording}, code, *arguments)
        self._changes = list(recorded(self._log))

    def crash(self, draw: Random, to: Path) -> str:
        """Let the power fail after some change, write what is left to a folder, and return what happened."""
        disk, at, loss = deepcopy(self._before), draw.randint(0, len(self._changes)), draw.choice(LOSSES)
        assert disk is not None
        for made in self._changes[:at]:
            disk.make(made)
        disk.crash(draw, loss, to)
        return f"{loss} after {at} of {len(self._changes)} changes"

    def _run(self, more: dict[str, str], code: str, *arguments: object) -> None:
        environment = os.environ | {
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "OMP_NUM_THREADS": "1",
            "SEESAY_CACHE": str(self.folder / "cache"),
        }
        command = [sys.executable, "-c", code, *map(str, arguments)]
        subprocess.run(command, env=environment | more, check=True, capture_output=True)


Trial: TypeAlias = Callable[[Path, str], None]  # checks what a power failure has left, and what it was


@contextmanager
def cached(folder: Path) -> Iterator[None]:
    """Let a folder be the cache."""
    before = os.environ.get("SEESAY_CACHE")
    os.environ["SEESAY_CACHE"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("SEESAY_CACHE")
        if before is not None:
            os.environ["SEESAY_CACHE"] = before


def updates(stage: Stage, outcome: Outcome) -> tuple[Recorder, Trial]:
    """Make an index and update it twice; it must hold what was there once, and then what the folder holds."""
    recorder, photos = Recorder(stage, "index"), stage.folder / "photos"
    photos.mkdir()
    for number in range(9):
        picture(stage, photos / f"{number}.png")
    ever = set[tuple[str, str]]()
    for _ in range(3):
        ever |= {(file.name, content_key(file.read_bytes())) for file in photos.iterdir()}
        recorder.record(UPDATE, recorder.folder / "made", photos)
        change(stage, photos)

    def check(left: Path, what: str) -> None:
        with cached(left / "cache"), Index.open_or_create(left / "made", Colours()) as index:
            known = {(item.path, item.key) for item in index.store.photos().values()}
            outcome.check(known <= ever, f"{what}: images that never were: {known - ever}")
            index.check_roots()  # which fails if the key is gone that says whose the index is
            index.search("red", 5)
            index.update_images(photos)
            contents = {(file.name, content_key(file.read_bytes())) for file in photos.iterdir()}
            found = {(item.path, item.key) for item in index.store.photos().values()}
            outcome.check(found == contents, f"{what}: other than the folder: {found ^ contents}")
            for item in index.store.photos().values():
                Image.open(io.BytesIO(index.thumbnail(item))).load()

    return recorder, check


def exports(stage: Stage, outcome: Outcome) -> tuple[Recorder, Trial]:
    """Export a run; its folder must be there as a whole, or not at all."""
    recorder = Recorder(stage, "export")
    recorder.run(EXPORT, run_folder("seesay-small"), stage.folder / "whole")  # which fills the cache
    recorder.record(EXPORT, run_folder("seesay-small"), recorder.folder / "given")
    files = [file.relative_to(stage.folder / "whole") for file in (stage.folder / "whole").rglob("*")]

    def check(left: Path, what: str) -> None:
        wrong = []
        for file in files if (left / "given").exists() and any((left / "given").iterdir()) else []:
            whole, given = stage.folder / "whole" / file, left / "given" / file
            same = whole.is_dir() or (given.is_file() and given.read_bytes() == whole.read_bytes())
            if not same:
                wrong.append(file.as_posix())
        outcome.check(not wrong, f"{what}: parts of an export: {wrong}")

    return recorder, check


def trainings(stage: Stage, outcome: Outcome) -> tuple[Recorder, Trial]:
    """Train a run; it must go on to the weights of one that nothing has interrupted."""
    recorder, corpus = Recorder(stage, "train"), stage.folder / "corpus"
    write_scenes(corpus, images=40, seed=7)
    cache = recorder.folder / "cache"
    recorder.run(TRAIN, corpus, stage.folder / "trained", cache)  # which fills the cache
    recorder.record(TRAIN, corpus, recorder.folder / "run", cache)
    expected = (stage.folder / "trained" / "weights.safetensors").read_bytes()
    training = training_processes(corpus)

    def check(left: Path, what: str) -> None:
        process = training(left / "run", left / "cache")
        process.join()
        weights = left / "run" / "weights.safetensors"
        same = weights.exists() and weights.read_bytes() == expected
        outcome.check(process.exitcode == 0 and same, f"{what}: exit {process.exitcode}, or other weights")

    return recorder, check


@attack(
    "power loss",
    "power failures during updates, exports and trainings, with writes since the last fsync dropped, torn or "
    "zeroed: an index that updates to the folder, all of an export or none, the weights of a whole training",
)
def power_loss(stage: Stage) -> Outcome:
    """Record each command once, then let the power fail at moments that are drawn."""
    outcome, tried = Outcome(), dict[str, int]()
    if sys.platform != "linux" or shutil.which("cc") is None:
        outcome.measured = "not tried: no C compiler here, or no Linux"
        return outcome
    kinds = (updates,) if stage.is_brief else (updates, exports, trainings)  # the others load networks
    for number, kind in enumerate(kinds, start=1):
        recorder, check = kind(stage, outcome)
        until = stage.started + stage.seconds * number / len(kinds)
        while time.monotonic() < until or kind.__name__ not in tried:
            tried[kind.__name__] = tried.get(kind.__name__, 0) + 1
            left = stage.folder / f"{kind.__name__} {tried[kind.__name__]}"
            what = f"{kind.__name__}: {recorder.crash(stage.draw, left)}"
            try:
                check(left, what)
            except (SeesayError, OSError) as error:
                outcome.check(False, f"{what}: {error}")
            shutil.rmtree(left)
    outcome.measured = ", ".join(f"{name} {count}" for name, count in tried.items())
    return outcome
