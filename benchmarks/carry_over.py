"""The shipped weights on photographs of other subjects than Flickr8k's.

Each photograph of the demo gallery is searched by a sentence that somebody might use for it. It is ranked
among the gallery and, if a corpus is given, also among up to 1,000 images of its val split:

    python -m benchmarks.carry_over [--among CORPUS]
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks._harness import arguments, report
from seesay.arrays import Vectors
from seesay.data.readers import read_corpus
from seesay.runs.run import Run
from tools.gallery import collect

SENTENCES = {
    "astronaut.png": "an astronaut in an orange space suit smiling",
    "bricks.png": "a brick wall",
    "cameraman.png": "a man photographing with a camera on a tripod",
    "cat.png": "a close up of a tabby cat",
    "clock.png": "a clock on the wall",
    "coffee.png": "a cup of coffee on a table",
    "coins.png": "ancient coins",
    "galaxies.jpg": "galaxies and stars in deep space",
    "grass.png": "green grass",
    "gravel.png": "small stones on the ground",
    "retina.jpg": "a medical image of an eye",
    "rocket.jpg": "a rocket standing on the launch pad",
    "flower.jpg": "an orange flower in a garden",
    "temple.jpg": "a chinese temple with a colorful roof",
    "officer.jpg": "a navy officer in uniform in front of a flag",
}
MOST_OTHERS = 1000


def main() -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--among", type=Path, help="a corpus whose val images are ranked too")
    options = parser.parse_args()
    run = Run.load("seesay-small")
    with TemporaryDirectory() as folder:
        collect(Path(folder))
        images = [(Path(folder) / name).read_bytes() for name in SENTENCES]
    gallery = run.embed_images(images)
    sentences = run.embed_sentences(list(SENTENCES.values()))
    others = np.zeros((0, run.dim), np.float32)
    if options.among is not None:
        chosen = read_corpus(options.among).split("val").images[:MOST_OTHERS]
        encoded = [image.source.read() for image in chosen if image.source is not None]
        others = run.embed_images(encoded)
    report("carry_over", rows(gallery, others, sentences), options)
    return 0


def rows(gallery: Vectors, others: Vectors, sentences: Vectors) -> list[dict[str, Any]]:
    """Return a row for each photograph: its rank in the gallery, and among the gallery and others, from 1."""
    scores = gallery @ sentences.T
    own = np.diag(scores)
    near = (scores >= own).sum(axis=0)
    far = near + (others @ sentences.T >= own).sum(axis=0)
    column = f"rank of {len(gallery) + len(others)}"
    found: list[dict[str, Any]] = []
    for i, (name, sentence) in enumerate(SENTENCES.items()):
        row: dict[str, Any] = {"photograph": name, "sentence": sentence}
        row[f"rank of {len(gallery)}"] = int(near[i])
        if len(others):
            row[column] = int(far[i])
        found.append(row)
    return found


if __name__ == "__main__":
    sys.exit(main())
