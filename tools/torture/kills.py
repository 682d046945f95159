"""SIGKILL in the middle of updates of an index, whose state is compared with a model after each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from seesay.search.index import Index
from tests.search.colours import Colours
from tools.torture.base import ROOT, Outcome, Stage, attack

UPDATE = """
import sys
from seesay.search import update
from seesay.search.index import Index
from tests.search.colours import Colours
update._BATCH_FILES = 4
with Index.open_or_create(sys.argv[1], Colours()) as index:
    index.update_images(sys.argv[2])
"""


def picture(stage: Stage, file: Path) -> None:
    """Write a small picture of noise."""
    pixels = np.frombuffer(stage.draw.randbytes(16 * 12 * 3), np.uint8).reshape(12, 16, 3)
    Image.fromarray(pixels).save(file)


def change(stage: Stage, photos: Path) -> None:
    """Add, change, move and delete a few photos."""
    there = sorted(photos.iterdir())
    stage.draw.shuffle(there)
    for number in range(stage.draw.randint(1, 6)):
        picture(stage, photos / f"{stage.draw.randrange(10**9)}-{number}.png")
    if len(there) > 8:
        picture(stage, there[0])
        there[1].rename(photos / f"moved {stage.draw.randrange(10**9)}.png")
        there[2].unlink()
        there[3].unlink()


@attack(
    "kill index", "SIGKILL during updates of an index: what it holds is of the folder, and nothing is lost"
)
def kill_index(stage: Stage) -> Outcome:
    """Kill an update at a random moment, then finish it and compare the index with the folder."""
    outcome, folder, photos = Outcome(), stage.folder / "index", stage.folder / "photos"
    photos.mkdir()
    for number in range(20):
        picture(stage, photos / f"{number}.png")
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    kills = 0
    while stage.goes_on:
        change(stage, photos)
        process = subprocess.Popen([sys.executable, "-c", UPDATE, str(folder), str(photos)], env=environment)
        try:
            process.wait(0.1 + stage.draw.random() * 0.7)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        with Index.open_or_create(folder, Colours()) as index:
            known = {item.path for item in index.store.items().values()}
            index.search("red", 5)
            index.update_images(photos)
            names = {file.name for file in photos.iterdir()}
            found = {item.path for item in index.store.items().values()}
            outcome.check(found == names, f"{len(found)} images of {len(names)}; {len(known)} after the kill")
            left = [file.name for file in folder.iterdir() if file.name.endswith(".tmp")]
            outcome.check(not left, f"left behind: {left}")
    outcome.measured = f"{kills} kills"
    return outcome
