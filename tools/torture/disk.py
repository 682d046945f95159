"""A disk that fails at the n-th system call of a command on its own files, for every n of them."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seesay.paths import file_digest
from seesay.runs.folder import run_folder
from tests.search.colours import gallery
from tools.scenes import write_scenes
from tools.torture.base import ROOT, Outcome, Stage, attack

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS)
EVER_AFTER = 1 << 40
SOURCE = Path(__file__).with_name("failing.c")

SMALL = ("encoders=[efficientnet-lite0-int8]", "matcher.dim=12", "matcher.word_dim=8", "schedule.epochs=2")


@dataclass(frozen=True)
class Command:
    """A command, the folders that it writes to, and a command that must then find all that there is.

    Attributes:
        name: for messages.
        arguments: of the command.
        writes: what is put back as it was before each try.
        repairs: the commands that follow without a failing disk, which must succeed.
        removes: what is removed before each try.
        once: whether it is not to be repeated where it succeeded, though a call failed.
    """

    name: str
    arguments: tuple[str, ...]
    writes: tuple[Path, ...]
    repairs: tuple[tuple[str, ...], ...]
    removes: tuple[Path, ...] = ()
    once: bool = False


@contextmanager
def failing_process(
    folder: Path, preload: bool = True, networks: bool = True
) -> Iterator[subprocess.Popen[str]]:
    """A process that runs commands; with the library, their calls under a folder fail as it is told.

    Commands that load networks start faster if the process has loaded what computes them.
    """
    library = folder.parent / "failing.so"
    if preload:
        command = ["cc", "-O1", "-w", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True)
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "OMP_NUM_THREADS": "1",
        **({"LD_PRELOAD": str(library)} if preload else {}),
        "FAILING_UNDER": str(folder),
        "SEESAY_CACHE": str(folder / "cache"),
    }
    module = [sys.executable, "-m", "tools.torture.failing_commands", *(["networks"] if networks else [])]
    process = subprocess.Popen(
        module, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ask(process: subprocess.Popen[str], arguments: Sequence[str], first: int, last: int, number: int) -> Any:
    """Run a command whose calls from the first to the last fail; return how it ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"arguments": arguments, "failing": [first, last, number]}) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def in_order(kinds: Sequence[str]) -> list[int]:
    """The numbers of calls, from 1 on: one of each kind first, then the others, spread over all of them."""
    rank, seen = dict[int, int](), Counter[str]()
    for number, kind in enumerate(kinds, start=1):
        rank[number] = seen[kind]
        seen[kind] += 1
    return sorted(rank, key=lambda number: (rank[number] > 0, int(f"{number:040b}"[::-1], 2)))


@attack(
    "failing disk",
    "ENOSPC, EIO or EROFS at every file system call of index, update, search and serve, once or from then "
    "on: one line, never advice to delete what the disk does not return, and the next run repairs",
)
def failing_disk(stage: Stage) -> Outcome:
    """Let each call of the commands fail that use an index."""
    return _fail_all(stage, _index_commands, networks=False)


@attack(
    "failing disk of runs",
    "ENOSPC, EIO or EROFS at every file system call of train, evaluate and export, once or from then on: the "
    "same, and a training resumes to the weights of an uninterrupted one",
)
def failing_disk_of_runs(stage: Stage) -> Outcome:
    """Let each call of the commands fail that use a run."""
    return _fail_all(stage, _run_commands, networks=True)


def _fail_all(
    stage: Stage, commands_in: Callable[[Path, subprocess.Popen[str]], list[Command]], networks: bool
) -> Outcome:
    """Count the calls of each command, then let each of them fail, until one is not reached any more."""
    outcome, folder = Outcome(), stage.folder.resolve() / "disk"
    if sys.platform != "linux" or shutil.which("cc") is None:
        outcome.measured = "not tried: no C compiler here, or no Linux"
        return outcome
    folder.mkdir()
    with failing_process(folder, networks=networks) as process:
        commands = commands_in(folder, process)
        shutil.copytree(folder, folder.parent / "sound")
        disk = _FailingDisk(stage, outcome, process, folder)
        kinds = {command.name: disk.kinds(command) for command in commands}
        jobs = [
            ((place >= len({*kinds[command.name]}), place / len(kinds[command.name])), command, number)
            for command in commands
            for place, number in enumerate(in_order(kinds[command.name]))
        ]
        for _, command, number in sorted(jobs, key=lambda job: job[0]):  # all kinds of all commands first
            if stage.goes_on and disk.fail(command, number):
                disk.reached[command.name].add(kinds[command.name][number - 1])
        for command in commands:  # clocks and threads can make it a call more than were counted
            while stage.goes_on and disk.fail(command, len(kinds[command.name]) + 1):
                kinds[command.name].append("one more")
    outcome.measured = "; ".join(
        f"{name} {disk.failed[name]} of {len(of)} calls, {len(disk.reached[name])} of {len({*of})} kinds"
        for name, of in kinds.items()
    )
    return outcome


@dataclass(frozen=True)
class _FailingDisk:
    """Lets calls of commands fail: `failed` counts them, and `reached` has their kinds."""

    stage: Stage
    outcome: Outcome
    process: subprocess.Popen[str]
    folder: Path
    failed: Counter[str] = field(default_factory=Counter)
    reached: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _repaired: set[tuple[str, str]] = field(default_factory=set)

    def kinds(self, command: Command) -> list[str]:
        """Count the calls of a command on its files, and check that it succeeds.

        The kind of a call is its name and its file, without what differs from file to file of one purpose.
        """
        self._restore(command)
        counted = ask(self.process, command.arguments, 0, -1, errno.EIO)
        wrong = wrong_with(counted, {0})
        self.outcome.check(not wrong, f"{command.name}: {wrong}")
        calls = sorted(
            (int(number), call) for number, call in (line.split("\t", 1) for line in counted["logged"])
        )
        return [re.sub("[0-9a-f]{8,}|[0-9]+", "#", call) for _, call in calls]

    def fail(self, command: Command, number: int) -> bool:
        """Let one call fail, or all from it on, and run what repairs; return whether it was reached."""
        self._restore(command)
        error, last = self.stage.draw.choice(ERRORS), self.stage.draw.choice((number, EVER_AFTER))
        and_after = "" if last == number else " and after"
        fault = f"{command.name}: {errno.errorcode[error]} at call {number}{and_after}"
        ended = ask(self.process, command.arguments, number, last, error)
        if ended["calls"] < number and not ended["signal"]:
            return False
        self.failed[command.name] += 1
        wrong = wrong_with(ended, {0, 1, 2})
        if re.search("damaged.*(delete|train again)", ended["said"]):
            wrong = f"advises to delete what is there: {ended['said'][-300:]}"
        self.outcome.check(not wrong, f"{fault}: {wrong}")
        left = command.name, _digest(command)
        if left in self._repaired or (command.once and ended["code"] == 0):
            return True
        for repair in command.repairs:
            ended = ask(self.process, repair, 0, 0, 0)
            wrong = wrong_with(ended, {0})
            self.outcome.check(not wrong, f"{fault}: then {repair[0]}: {wrong}")
        self._repaired.add(left)  # what leaves the same files behind is repaired alike
        return True

    def _restore(self, command: Command) -> None:
        """Put back what a command writes to, and remove what it left beside: the next try would do so."""
        for path in (*command.writes, *command.removes):
            for left in (path, *path.parent.glob(f"{path.name}.*.tmp")):
                shutil.rmtree(left, ignore_errors=True)
        for path in command.writes:
            sound = self.folder.parent / "sound" / path.relative_to(self.folder)
            if sound.is_dir():
                shutil.copytree(sound, path)


def _digest(command: Command) -> str:
    """Hash the names and contents of the files that a command has left."""
    digest = hashlib.sha256()
    for file in sorted(file for folder in (*command.writes, *command.removes) for file in folder.rglob("*")):
        digest.update(f"{file}\n{file_digest(file) if file.is_file() else ''}\n".encode())
    return digest.hexdigest()


def wrong_with(ended: Any, codes: set[int]) -> str:
    """What is wrong with how a command ended; empty if nothing is."""
    said = ended["said"].strip()
    if ended["code"] not in codes or "Traceback" in said:
        return f"exit {ended['code']}, signal {ended['signal']}: {said[-700:]}"
    lines = [line for line in said.splitlines() if line.startswith("seesay: ")]
    return f"{len(lines)} lines: {said[-300:]}" if ended["code"] == 2 and len(lines) != 1 else ""


def _index_commands(folder: Path, process: subprocess.Popen[str]) -> list[Command]:
    """Make an index, change its photos, and return the commands that use it."""
    photos, made, new, cache = (folder / name for name in ("photos", "made", "new", "cache"))
    gallery(photos, *(f"{colour}.png" for colour in ("red", "green", "blue")))

    def found(out: Path) -> tuple[tuple[str, ...], ...]:
        return ("index", str(photos), "--out", str(out)), ("search", str(out), "red", "--json")

    ask(process, found(made)[0], 0, 0, 0)
    gallery(photos, "red-blue.png", "white.png")
    (photos / "green.png").rename(photos / "moved.png")
    (photos / "blue.png").unlink()
    return [
        Command("index", found(new)[0], (), found(new), (new, cache)),
        Command("update", found(made)[0], (made, cache), found(made)),
        Command("search", ("search", str(made), "red"), (made, cache), found(made)),
        Command("serve", ("serve", str(made)), (made, cache), found(made)),
    ]


def _run_commands(folder: Path, process: subprocess.Popen[str]) -> list[Command]:
    """Make a corpus and a run, and return the commands that use them, each of which has filled the cache."""
    cache, given, run, corpus = (folder / name for name in ("cache", "given", "run", "corpus"))
    write_scenes(corpus, images=20, seed=0)
    shutil.copytree(run_folder("seesay-small"), run)
    trained, whole = str(folder / "trained"), str(folder.parent / "sound" / "trained")
    small = tuple(word for change in SMALL for word in ("--set", change))
    train = ("train", "irmatch-s", *small, "--data", str(corpus), "--out", trained)
    evaluate = ("evaluate", str(run), "--data", str(corpus), "--json")
    export = ("export", str(run), "--out", str(given))
    for arguments in (train, evaluate, export):
        ask(process, arguments, 0, 0, 0)
    shutil.rmtree(given)
    return [
        Command("train", train, (cache,), (("go on", whole, *train),), (folder / "trained",)),
        Command("evaluate", evaluate, (), (evaluate,), (cache,)),
        Command("export", export, (given, cache), (export,), once=True),
    ]
