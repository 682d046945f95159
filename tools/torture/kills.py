"""SIGKILL during updates, writing of features and training; what is left is compared with a model."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seesay.data.images import content_key
from seesay.encoders.stores import ArrayStore
from seesay.search.index import Index
from tests.search.colours import Colours
from tools.scenes import write_scenes
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


TIMES = (
    0,
    1,
    2**31,
    2**32,
    253_402_300_800,
    -1,
)  # of files, by a clock that was wrong; the fifth is in 10000


def change(stage: Stage, photos: Path) -> None:
    """Add, change, move and delete a few photos, and let the clock jump."""
    there = sorted(photos.iterdir())
    stage.draw.shuffle(there)
    for number in range(stage.draw.randint(1, 6)):
        picture(stage, photos / f"{stage.draw.randrange(10**9)}-{number}.png")
    if len(there) > 8:
        picture(stage, there[0])
        there[1].rename(photos / f"moved {stage.draw.randrange(10**9)}.png")
        there[2].unlink()
        there[3].unlink()
        picture(stage, there[4])  # of the same size, and then of the same time or of one that cannot be
        os.utime(there[4], (0, stage.draw.choice(TIMES)))


@attack(
    "kill index",
    "SIGKILL during index updates, some files with impossible times: the index matches the folder",
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
            known = {item.path for item in index.store.photos().values()}
            index.search("red", 5)
            index.update_images(photos)
            contents = {file.name: content_key(file.read_bytes()) for file in photos.iterdir()}
            found = {item.path: item.key for item in index.store.photos().values()}
            wrong = contents.items() ^ found.items()
            outcome.check(not wrong, f"other than the folder: {wrong}; {len(known)} after the kill")
            left = [file.name for file in folder.iterdir() if file.name.endswith(".tmp")]
            outcome.check(not left, f"left behind: {left}")
    outcome.measured = f"{kills} kills"
    return outcome


DIM = 24


def features_of(key: str) -> NDArray[np.float32]:
    """The row (DIM,) that belongs to a key; exact in half precision."""
    return np.frombuffer(hashlib.sha256(key.encode()).digest()[:DIM], np.uint8).astype(np.float32)


def write_features(folder: Path, start: int, written: int) -> None:
    """Append rows for ever, three at a time, each number written to a pipe when it is done; never returns."""
    try:
        store = ArrayStore(folder, {"pooled": ("<f2", DIM)})
        for number in count(start):
            keys = [f"{3 * number + i:032x}" for i in range(3)]
            store.add({key: {"pooled": features_of(key)[None]} for key in keys})
            os.write(written, b"%d\n" % number)
    finally:
        os._exit(1)


@attack(
    "kill features", "SIGKILL while features are written: every row reported as written is there and correct"
)
def kill_features(stage: Stage) -> Outcome:
    """Fork a writer, kill it at a random moment, and read all that it said it had written."""
    outcome, folder, done = Outcome(), stage.folder / "features", -1
    while stage.goes_on:
        read, written = os.pipe()
        if (writer := os.fork()) == 0:
            write_features(folder, done + 1, written)
        os.close(written)
        time.sleep(stage.draw.random() * 0.05)
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        with os.fdopen(read) as pipe:
            done = max([done, *map(int, pipe.read().split())])
        store = ArrayStore(folder, {"pooled": ("<f2", DIM)})
        keys = [f"{number:032x}" for number in range(3 * (done + 1))]
        lost = [key for key in keys if key not in store]
        outcome.check(not lost, f"{len(lost)} of {len(keys)} rows lost")
        there = [key for key in keys if key in store]
        right = np.array_equal(store.read(there, "pooled"), [features_of(key) for key in there] or [])
        outcome.check(right or not there, "rows are not what was written")
        done = len(store) // 3 - 1  # the last ones may be there though nothing was said of them
    outcome.measured = f"{outcome.tried // 2} kills, {3 * (done + 1):,} rows"
    return outcome


def train_or_go_on(corpus: Path, out: Path, cache: Path) -> None:
    """Train a small run in silence, or go on with one that was killed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.environ["SEESAY_CACHE"] = str(cache)
    from seesay.data.readers import read_corpus
    from seesay.recipes.load import load_recipe
    from seesay.training.train import train

    changes = ["encoders=[efficientnet-lite0-int8]", "matcher.dim=60", "matcher.word_dim=16", "batch_size=64"]
    recipe = load_recipe("irmatch-s", changes=[*changes, "schedule.epochs=6"])
    train(recipe, read_corpus(corpus), out, resume=(out / "run.json").exists())


def training_processes(corpus: Path) -> Callable[[Path, Path], multiprocessing.context.ForkServerProcess]:
    """Return what starts a process that trains a run on a corpus, by the run's folder and the cache."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["seesay.training.train"])

    def start(out: Path, cache: Path) -> multiprocessing.context.ForkServerProcess:
        process = server.Process(target=train_or_go_on, args=(corpus, out, cache))
        process.start()
        return process

    return start


@attack(
    "kill train",
    "SIGKILL during training, then two resumed at once: the weights of an uninterrupted run",
)
def kill_train(stage: Stage) -> Outcome:
    """Kill a training a few times at random moments, let it end, and compare the files of weights."""
    outcome, kills = Outcome(), 0
    write_scenes(stage.folder / "corpus", images=40, seed=7)
    start = training_processes(stage.folder / "corpus")

    def training(out: Path) -> multiprocessing.context.ForkServerProcess:
        return start(out, stage.folder / "cache")

    took = []
    for name in ("first", "whole"):  # the first one also computes features
        started = time.monotonic()
        training(stage.folder / name).join()
        took.append(time.monotonic() - started)
    expected = (stage.folder / "whole" / "weights.safetensors").read_bytes()
    for number in count():
        out = stage.folder / str(number)
        for _ in range(stage.draw.randint(1, 3)):
            process = training(out)
            process.join(stage.draw.random() * took[-1])
            if process.is_alive():
                process.kill()
                kills += 1
            process.join()
            if process.exitcode == 0:
                break
        else:  # two at once, of which one goes on, and the other is refused or finds the run finished
            both = [training(out), training(out)]
            for process in both:
                process.join()
            codes = [process.exitcode for process in both]  # negative of one that crashed
            outcome.check(set(codes) in ({0}, {0, 1}), f"two that went on at once: exit {codes}")
        weights = out / "weights.safetensors"
        same = weights.exists() and weights.read_bytes() == expected
        outcome.check(same, "other weights than those of a run that nobody killed")
        if not stage.goes_on:
            break
    outcome.measured = f"{kills} kills"
    return outcome
