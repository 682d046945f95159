"""The time and memory of a cold `seesay search`, compared with importing PyTorch and with a floor.

Every command runs in a process of its own, once to warm the disk cache, and then in turns with the others.
The floor is a Python process that imports what every search needs: NumPy, ONNX Runtime, tokenizers and
SQLite.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._harness import arguments, report
from seesay.data.scenes import write_scenes
from seesay.search import Index

QUERY = "two dogs play in the snow"
# A new process counts the memory of its parent until it runs its own program, so a small process starts it.
LAUNCHER = """
import os, sys, time
started = time.perf_counter()
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[
    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, status, used = os.wait4(process, 0)
print(time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(status and 1)
"""
FLOOR = "import numpy, onnxruntime, tokenizers, sqlite3"


class Cost(NamedTuple):
    """The cost of one process: wall and processor time in seconds, peak memory in MiB."""

    wall: float
    processor: float
    peak: float


def main() -> None:
    parser = arguments("A cold search: time and memory of the whole process")
    parser.add_argument("--photos", type=Path, help="a folder to index; 100 drawn scenes by default")
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        photos = options.photos or drawn(Path(folder) / "scenes")
        index = Path(folder) / "photos.seesay"
        with Index.create(index) as made:
            made.update_images(photos)
        rows = measure(index, options.turns)
    report("start", rows, options)


def drawn(folder: Path) -> Path:
    write_scenes(folder, images=100, seed=1)
    return folder


def measure(index: Path, turns: int) -> list[dict[str, Any]]:
    search = [sys.executable, "-m", "seesay.cli", "search", str(index), QUERY]
    commands = {
        "seesay search": search,
        "the floor": [sys.executable, "-c", FLOOR],
        "import torch": [sys.executable, "-c", "import torch"],
    }
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(turns + 1):
        for name, command in commands.items():
            cost = run(command)
            if turn:  # the first warms the disk cache
                costs[name].append(cost)
    best = {name: [min(each) for each in zip(*found, strict=True)] for name, found in costs.items()}
    torch = best["import torch"][0]
    return [
        {
            "what": name,
            "best s": round(best[name][0], 2),
            "median s": round(statistics.median(cost.wall for cost in costs[name]), 2),
            "processor s": round(best[name][1], 2),
            "peak MiB": round(best[name][2]),
            "of import torch": round(best[name][0] / torch, 2),
        }
        for name in commands
    ]


def run(command: list[str]) -> Cost:
    """Run a command to its end, without its output."""
    launched = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
    done = subprocess.run(launched, stdout=subprocess.PIPE, text=True, check=True)
    return Cost(*map(float, done.stdout.split()))


if __name__ == "__main__":
    main()
