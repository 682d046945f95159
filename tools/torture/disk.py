"""A disk that is full or fails at the n-th system call of an update, by strace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from seesay.search.index import Index
from tests.search.colours import Colours
from tools.torture.base import ROOT, Outcome, Stage, attack
from tools.torture.kills import change, picture

CALLS = ("pwrite64", "fsync", "fdatasync", "ftruncate", "rename", "write", "openat")
ERRORS = ("ENOSPC", "EIO", "EROFS")

UPDATE = """
import sys
from seesay.errors import SeesayError
from seesay.search import update
from seesay.search.index import Index
from tests.search.colours import Colours
update._BATCH_FILES = 4
print("begins", flush=True)
try:
    with Index.open_or_create(sys.argv[1], Colours()) as index:
        index.update_images(sys.argv[2])
except SeesayError as error:
    sys.exit(f"said: {error}")
"""


@attack(
    "failing disk",
    "ENOSPC, EIO or EROFS at the n-th call of an update: one line, and the next update repairs",
)
def failing_disk(stage: Stage) -> Outcome:
    """Let one system call fail, then all of its kind from there on, then update as if nothing had been."""
    outcome, folder, photos = Outcome(), stage.folder / "index", stage.folder / "photos"
    if shutil.which("strace") is None:
        outcome.measured = "not tried: no strace here"
        return outcome
    photos.mkdir()
    for number in range(12):
        picture(stage, photos / f"{number}.png")
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    injected = 0
    while stage.goes_on:
        change(stage, photos)
        call, error = stage.draw.choice(CALLS), stage.draw.choice(ERRORS)
        # What opens files while Python starts is no business of ours.
        first = stage.draw.randint(400, 440) if call == "openat" else stage.draw.randint(1, 20)
        when = f"{first}{stage.draw.choice(('', '+'))}"
        fault = f"inject={call}:error={error}:when={when}"
        log = stage.folder / "strace"
        command = ["strace", "-f", "-qq", "-o", str(log), "-e", f"trace={call}", "-e", fault, sys.executable]
        done = subprocess.run(
            [*command, "-c", UPDATE, str(folder), str(photos)],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
        )
        hit = log.exists() and "INJECTED" in log.read_text(encoding="utf-8", errors="replace")
        injected += hit
        # Where messages cannot be written either, or Python itself cannot be read, nobody can say it.
        mute = call == "write" or "begins" not in done.stdout
        said = done.returncode == 0 or "said: " in done.stderr
        outcome.check(mute or said, f"{fault}: exit {done.returncode}: {done.stderr[-300:]}")
        with Index.open_or_create(folder, Colours()) as index:
            index.update_images(photos)
            found = {item.path for item in index.store.items().values()}
            names = {file.name for file in photos.iterdir()}
            lost = {name: index.store.skipped().get(name) for name in names - found}
            outcome.check(found == names, f"{fault}: not indexed afterwards: {lost}")
            hits = {hit.path for hit in index.search("red", len(names) + 1)}
            outcome.check(hits == names, f"{fault}: found {len(hits)} of {len(names)}")
    outcome.measured = f"{injected} calls failed"
    return outcome
