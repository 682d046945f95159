"""Indexing photos of 12 megapixels, compared with the least work: decoding at a fraction, and the networks.

Indexing a photo finds its vector, size, time and thumbnail. Processor time is measured in one run: that of
all threads of this process, and of the processes that decode photos for it (on Linux, from `/proc`). The
photos are made first, with the EXIF of a camera. The bare decoding is libjpeg-turbo's at the scale for
seesay's encoders, and the networks are those of `seesay-small` on prepared crops.

    python -m benchmarks.indexing [--photos 100]
"""

from __future__ import annotations

import os
import resource
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
from seesay.encoders.stores import CHUNK
from seesay.runs.run import Run
from seesay.search import Index

SIZE = (4000, 3000)
QUALITY = 90
MOST = 1.3  # times the bare decoding and the networks together


def make_photo(file: Path, seed: int) -> None:
    """Write a photo of three to four megabytes with large shapes, fine texture and a camera's EXIF."""
    draw = np.random.default_rng(seed)
    coarse = Image.fromarray(draw.integers(0, 256, (6, 8, 3), np.uint8))
    shapes = coarse.resize(SIZE, Image.Resampling.BICUBIC)
    texture = draw.integers(-9, 10, (SIZE[1], SIZE[0], 1), np.int16)
    exif = Image.Exif()
    exif[0x0112] = 1
    exif.get_ifd(0x8769)[0x9003] = f"2019:06:{1 + seed % 28:02} 12:00:00"
    pixels = (np.asarray(shapes, np.int16) + texture).clip(0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(file, quality=QUALITY, exif=exif)


def processor_seconds() -> float:
    """Return the processor time of this process and those that it has started, in seconds."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _state, parent, *facts = stat.read_text().rpartition(")")[2].split()
        except OSError:  # a process that has ended meanwhile
            continue
        if int(parent) == os.getpid():
            ticks += int(facts[9]) + int(facts[10])  # of the user and of the system, see proc(5)
    running = ticks / os.sysconf("SC_CLK_TCK")
    return time.process_time() + ended.ru_utime + ended.ru_stime + running


def processor_ms(work: Callable[[], object], photos: int) -> float:
    """Return the processor time of a call in milliseconds per photo."""
    start = processor_seconds()
    work()
    return 1e3 * (processor_seconds() - start) / photos


def measured(folder: Path, count: int) -> dict[str, Any]:
    """Return the row of times per photo."""
    photos = folder / "photos"
    photos.mkdir()
    for number in range(count):
        make_photo(photos / f"{number}.jpg", number)
    contents = [file.read_bytes() for file in sorted(photos.iterdir())]
    run = Run.load("seesay-small")
    crops = [
        [encoder.prepare(decode(data, "photo", SHARED_SIDE)) for data in contents[:CHUNK]]
        for encoder in run.encoders
    ]
    for encoder, ready in zip(run.encoders, crops, strict=True):
        encoder.encode(ready)  # warm

    def networks() -> None:
        for start in range(0, count, CHUNK):
            for encoder, ready in zip(run.encoders, crops, strict=True):
                encoder.encode(ready[: count - start])

    def bare() -> None:
        for data in contents:
            simplejpeg.decode_jpeg(data, min_height=2 * SHARED_SIDE, min_width=2 * SHARED_SIDE)

    (folder / "few").mkdir()
    for number in range(CHUNK * (os.cpu_count() or 1)):  # a chunk for each thread
        make_photo(folder / "few" / f"{number}.jpg", count + number)
    with Index.create(folder / "index", run) as made:
        few = made.update_images(folder / "few").added  # leaves out what is started and learned once
        decoding, encoding = processor_ms(bare, count), processor_ms(networks, count)
        ours = processor_ms(lambda: made.update_images(photos), count)
        assert made.count("image") == few + count
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
