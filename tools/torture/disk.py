"""A disk that fails at the n-th system call of a command on its own files, for every n of them."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seesay.data.scenes import write_scenes
from seesay.runs.folders import run_folder
from tests.search.colours import gallery
from tools.torture.base import ROOT, Outcome, Stage, attack

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS)
EVER_AFTER = 1 << 40
SOURCE = Path(__file__).with_name("failing.c")


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
def failing_process(folder: Path, preload: bool = True) -> Iterator[subprocess.Popen[str]]:
    """A process that runs commands; with the library, their calls under a folder fail as it is told."""
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
    module = [sys.executable, "-m", "tools.torture.failing_commands"]
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


def spread(count: int) -> list[int]:
    """The numbers from 1 to `count` in such an order that the first few are spread over all of them."""
    return sorted(range(1, count + 1), key=lambda number: int(f"{number:040b}"[::-1], 2))


@attack(
    "failing disk",
    "ENOSPC, EIO or EROFS in the file system calls of index, update, search, serve, evaluate and export, "
    "once or from then on: a one-line error, and the next run repairs",
)
def failing_disk(stage: Stage) -> Outcome:
    """Count the calls of each command, then let each of them fail, in an order that is cut short evenly."""
    outcome, folder = Outcome(), stage.folder.resolve() / "disk"
    if sys.platform != "linux" or shutil.which("cc") is None:
        outcome.measured = "not tried: no C compiler here, or no Linux"
        return outcome
    folder.mkdir()
    commands = _commands(folder)[: 4 if stage.is_brief else None]  # the others load networks
    reached: dict[str, tuple[int, int]] = {}
    with failing_process(folder) as process:
        ask(process, ("index", str(folder / "photos"), "--out", str(folder / "made")), 0, 0, 0)
        for command in commands[4:]:  # which fill the cache
            ask(process, command.arguments, 0, 0, 0)
        shutil.rmtree(folder / "given", ignore_errors=True)
        gallery(folder / "photos", "red-blue.png", "white.png")
        (folder / "photos" / "green.png").rename(folder / "photos" / "moved.png")
        (folder / "photos" / "blue.png").unlink()
        shutil.copytree(folder, folder.parent / "sound")
        jobs = []
        for command in commands:
            _restore(command, folder)
            counted = ask(process, command.arguments, 0, -1, errno.EIO)
            outcome.check(not wrong_with(counted, {0}), f"{command.name}: {wrong_with(counted, {0})}")
            reached[command.name] = 0, counted["calls"]
            jobs += [
                (place / counted["calls"], command, number)
                for place, number in enumerate(spread(counted["calls"]))
            ]
        for _, command, number in sorted(jobs, key=lambda job: job[0]):
            if not stage.goes_on:
                break
            _try(stage, outcome, process, command, number, folder)
            tried, calls = reached[command.name]
            reached[command.name] = tried + 1, calls
    outcome.measured = ", ".join(f"{name} {tried} of {calls}" for name, (tried, calls) in reached.items())
    return outcome


def _try(
    stage: Stage,
    outcome: Outcome,
    process: subprocess.Popen[str],
    command: Command,
    number: int,
    folder: Path,
) -> None:
    """Let one call fail, or all from it on; then run what repairs."""
    _restore(command, folder)
    error, last = stage.draw.choice(ERRORS), stage.draw.choice((number, EVER_AFTER))
    fault = (
        f"{command.name}: {errno.errorcode[error]} at call {number}{'' if last == number else ' and after'}"
    )
    ended = ask(process, command.arguments, number, last, error)
    wrong = wrong_with(ended, {0, 1, 2})
    outcome.check(not wrong, f"{fault}: {wrong}")
    for repair in () if command.once and ended["code"] == 0 else command.repairs:
        ended = ask(process, repair, 0, 0, 0)
        wrong = wrong_with(ended, {0})
        outcome.check(not wrong, f"{fault}: then {repair[0]}: {wrong}")


def wrong_with(ended: Any, codes: set[int]) -> str:
    """What is wrong with how a command ended; empty if nothing is."""
    said = ended["said"].strip()
    if ended["code"] not in codes or "Traceback" in said:
        return f"exit {ended['code']}, signal {ended['signal']}: {said[-700:]}"
    lines = [line for line in said.splitlines() if line.startswith("seesay: ")]
    return f"{len(lines)} lines: {said[-300:]}" if ended["code"] == 2 and len(lines) != 1 else ""


def _restore(command: Command, folder: Path) -> None:
    for path in (*command.writes, *command.removes):
        shutil.rmtree(path, ignore_errors=True)
    for path in command.writes:
        sound = folder.parent / "sound" / path.relative_to(folder)
        if sound.is_dir():
            shutil.copytree(sound, path)


def _commands(folder: Path) -> list[Command]:
    """Make what the commands read, and return them."""
    photos, made, new = folder / "photos", folder / "made", folder / "new"
    gallery(photos, *(f"{colour}.png" for colour in ("red", "green", "blue")))
    write_scenes(folder / "corpus", images=12, seed=0)
    shutil.copytree(run_folder("seesay-small"), folder / "run")
    cache, given = folder / "cache", folder / "given"
    evaluate = ("evaluate", str(folder / "run"), "--data", str(folder / "corpus"), "--json")
    export = ("export", str(folder / "run"), "--out", str(given))

    def found(out: Path) -> tuple[tuple[str, ...], ...]:
        return ("index", str(photos), "--out", str(out)), ("search", str(out), "red", "--json")

    return [
        Command("index", found(new)[0], (), found(new), (new, cache)),
        Command("update", found(made)[0], (made, cache), found(made)),
        Command("search", ("search", str(made), "red"), (made, cache), found(made)),
        Command("serve", ("serve", str(made)), (made, cache), found(made)),
        Command("evaluate", evaluate, (cache,), (evaluate,)),
        Command("export", export, (given, cache), (export,), once=True),
    ]
