"""Training at COCO's size: IRMatch and SCO on drawn features and sentences of 113,287 images or a share.

Features in half precision and five sentences per image are drawn and written as `{split}_ims.npy` and
`{split}_caps.txt`, with a small val split, so that the time of an epoch is in proportion to the images. Each
recipe is trained by a command of its own, which is killed after its first epoch; `--resume` then trains the
second, and the figures are those of that process. Nothing can be learned from drawn data, so no metric is
shown.

    python -m benchmarks.coco_size [--share 0.1] [--recipes irmatch-s,sco-ctx]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import arguments, report

IMAGES, VAL, WIDTH = 113_287, 200, 1280
WORDS = 10_000  # different words that occur at least five times in COCO's train split
LENGTH = 10.5  # words of a sentence, the mean
DEADLINE = 3 * 60 * 60


def main() -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--share", type=float, default=0.1, help="of COCO's train images that are drawn")
    parser.add_argument(
        "--recipes", default="irmatch-s,sco-ctx", help="recipes for COCO that read one encoder"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus, images = Path(folder) / "drawn", round(options.share * IMAGES)
        draw(corpus, {"train": images, "dev": VAL})
        rows = [measure(name, corpus, images, Path(folder) / name) for name in options.recipes.split(",")]
    report("coco-size", rows, options)
    return 0 if all(row["epochs after the kill"] == 2 for row in rows) else 1


def draw(folder: Path, splits: dict[str, int]) -> None:
    """Write a corpus of features, and of sentences whose word frequencies follow Zipf's law."""
    folder.mkdir()
    generator = np.random.default_rng(1)
    shares = 1 / np.arange(1, WORDS + 1)
    shares /= shares.sum()
    for split, images in splits.items():
        features = np.lib.format.open_memmap(
            folder / f"{split}_ims.npy", "w+", np.float16, shape=(images, WIDTH)
        )
        for start in range(0, images, 1 << 12):
            part = features[start : start + (1 << 12)]
            part[:] = np.abs(generator.standard_normal(part.shape, np.float32))
        features.flush()
        lengths = 1 + generator.poisson(LENGTH - 1, 5 * images)
        words = generator.choice(WORDS, int(lengths.sum()), p=shares)
        sentences = (" ".join(f"w{w}" for w in each) for each in np.split(words, np.cumsum(lengths)[:-1]))
        (folder / f"{split}_caps.txt").write_text("".join(f"{each}\n" for each in sentences))


def measure(recipe: str, corpus: Path, images: int, out: Path) -> dict[str, Any]:
    """Train the first epoch, kill the command, and measure the one that resumes."""
    command = [sys.executable, "-m", "seesay", "train", f"coco/{recipe}", "--data", str(corpus)]
    command += ["--out", str(out), "--set", "encoders=[precomputed]", "--set", "schedule.epochs=2"]
    load, history = os.getloadavg()[0], out / "metrics.jsonl"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        end = time.monotonic() + DEADLINE
        while not history.is_file() and first.poll() is None and time.monotonic() < end:
            time.sleep(0.2)
        first.kill()
    resumed = subprocess.Popen([*command, "--resume"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(resumed.pid, 0)
    resumed.returncode = os.waitstatus_to_exitcode(status)
    if not history.is_file():
        raise SystemExit(f"{recipe}: no epoch was finished within {DEADLINE:g} seconds, or training failed.")
    epochs = [json.loads(line) for line in history.read_text().splitlines()]
    return {
        "recipe": recipe,
        "images": images,
        "load before": load,
        "epochs after the kill": len(epochs) if resumed.returncode == 0 else 0,
        "an epoch with val, s": epochs[-1]["seconds"],
        "start, epoch and val, processor min": used.ru_utime / 60,
        "peak MiB": used.ru_maxrss / 1024,
        "corpus MB": _megabytes(corpus),
        "run MB": _megabytes(out),
    }


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


if __name__ == "__main__":
    sys.exit(main())
