"""Indexing photos of 12 megapixels, beside the least that it takes: decoding at a fraction, and the networks.

A photo gives its vector, size, time and thumbnail. Processor time of this process is measured, of all its
threads, in one run; the photos are made first, and have the EXIF of a camera. The bare decoding is
libjpeg-turbo's at the scale that seesay's encoders take, the networks are those of `seesay-small` on crops
that are ready.

    python -m benchmarks.indexing [--photos 100]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
from PIL import Image

from benchmarks._harness import arguments, report
from seesay.data.images import decode
from seesay.encoders.images.encode import SHARED_SIDE
from seesay.runs.run import Run
from seesay.search import Index

SIZE = (4000, 3000)
QUALITY = 90
CROPS_AT_ONCE = 8
MOST = 1.3  # times the bare decoding and the networks together


def make_photo(file: Path, seed: int) -> None:
    """Write a photo with large shapes, fine texture and a camera's EXIF; it has three to four megabytes."""
    draw = np.random.default_rng(seed)
    coarse = Image.fromarray(draw.integers(0, 256, (6, 8, 3), np.uint8))
    shapes = coarse.resize(SIZE, Image.Resampling.BICUBIC)
    texture = draw.integers(-9, 10, (SIZE[1], SIZE[0], 1), np.int16)
    exif = Image.Exif()
    exif[0x0112] = 1
    exif.get_ifd(0x8769)[0x9003] = f"2019:06:{1 + seed % 28:02} 12:00:00"
    pixels = (np.asarray(shapes, np.int16) + texture).clip(0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(file, quality=QUALITY, exif=exif)


def processor_ms(work: Callable[[], object], photos: int) -> float:
    """Return milliseconds of processor time a photo that some work takes."""
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start) / photos


def measured(folder: Path, count: int) -> dict[str, Any]:
    """Return what a photo takes in the ways that are compared."""
    photos = folder / "photos"
    photos.mkdir()
    for number in range(count):
        make_photo(photos / f"{number}.jpg", number)
    contents = [file.read_bytes() for file in sorted(photos.iterdir())]
    run = Run.load("seesay-small")
    crops = [
        [encoder.prepare(decode(data, "photo", SHARED_SIDE)) for data in contents[:CROPS_AT_ONCE]]
        for encoder in run.encoders
    ]
    for encoder, ready in zip(run.encoders, crops, strict=True):
        encoder.encode_prepared(ready)  # warm

    def networks() -> None:
        for start in range(0, count, CROPS_AT_ONCE):
            for encoder, ready in zip(run.encoders, crops, strict=True):
                encoder.encode_prepared(ready[: count - start])

    def bare() -> None:
        for data in contents:
            simplejpeg.decode_jpeg(data, min_height=2 * SHARED_SIDE, min_width=2 * SHARED_SIDE)

    def index(name: str = "index", photos: Path = photos) -> None:
        with Index.create(folder / name, run) as made:
            made.update_images(photos)
            made.prepare_thumbnails()
            assert made.count("image") == len(list(photos.iterdir()))

    (folder / "few").mkdir()
    make_photo(folder / "few" / "photo.jpg", count)
    index("warm", folder / "few")  # what is loaded and learned once is not a photo's
    decoding, encoding, ours = (processor_ms(work, count) for work in (bare, networks, index))
    return {
        "photos": count,
        "megabytes": sum(map(len, contents)) / count / 1e6,
        "bare decoding, ms": decoding,
        "networks, ms": encoding,
        "seesay, ms": ours,
        "times both": ours / (decoding + encoding),
    }


def main() -> int:
    """Measure, report, and fail if indexing takes too long."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--photos", type=int, default=100, help="number of photos that are made")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        row = measured(Path(folder), options.photos)
    report("indexing", [row], options)
    return 0 if row["times both"] <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
