"""Images: bombs of every format within budgets of time and memory, and damage at random places."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tools.torture.base import Outcome, Stage, attack, command

SECONDS = 10.0  # of one core, after which the process that decodes an image is ended
BYTES = 2_000_000_000  # beside its pixels, (h, w, 3); Pillow has an address for each row
SHRUNK = 4  # times shorter are the sides of bombs if there is little time
SHRUNK_BYTES = BYTES // SHRUNK**2 + 100_000_000  # for what takes as much whatever the size of an image

# Decodes a file as photos are, in a process that is ended if it takes too long; prints its seconds of the
# processor and its peak of memory beyond the result, both without those of a process that decodes one pixel.
MEASURE = """
import io, json, resource, sys
from PIL import Image
from seesay.data.decoders import Decoders
from seesay.errors import ImageError
def decoded(data):
    decoders, size = Decoders(float(sys.argv[2])), 0
    try:
        size, said = decoders.decode(data, "image").pixels.nbytes, "decoded"
    except ImageError as error:
        said = str(error)
    decoders.close()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, size, said
Image.new("RGB", (1, 1)).save(pixel := io.BytesIO(), "PNG")
start, before, _, _ = decoded(pixel.getvalue())
with open(sys.argv[1], "rb") as file:
    seconds, peak, size, said = decoded(file.read())
print(json.dumps([seconds - 2 * start, peak - before - size, said]))
"""


def bombs(shrunk: int = 1) -> Iterator[tuple[str, bytes]]:
    """Small files that claim much: one of each format near the most that is read, and a few built by hand.

    Args:
        shrunk: how many times shorter their sides are.
    """
    side, strip = 13_377 // shrunk, 11_000 // shrunk
    arrays: list[tuple[str, str, np.ndarray, dict[str, object]]] = [
        ("16-bit PNG", "PNG", np.zeros((side, side), np.uint16), {}),
        ("one-bit PNG", "PNG", np.zeros((side, side), bool), {}),
        ("RGBA PNG", "PNG", np.zeros((side, side, 4), np.uint8), {}),
        ("float TIFF of one strip", "TIFF", np.zeros((strip, strip), np.float32), _strip(strip)),
        ("32-bit TIFF of one strip", "TIFF", np.zeros((strip, strip), np.int32), _strip(strip)),
        ("WebP", "WEBP", _black(7900 // shrunk), {"lossless": True, "method": 0}),
        ("JPEG 2000", "JPEG2000", _black(6400 // shrunk), {}),
        ("grey JPEG", "JPEG", np.zeros((side, side), np.uint8), {"progressive": True}),
    ]
    for name, format, array, options in arrays:
        out = io.BytesIO()
        Image.fromarray(array).save(out, format, **options)
        yield name, out.getvalue()
    out = io.BytesIO()
    Image.fromarray(_black(9900 // shrunk)).save(out, "JPEG", progressive=True)
    data = out.getvalue()
    last = data.rindex(b"\xff\xda")
    for times in (5, 99, 300):
        yield f"JPEG, its last scan {times} times", data[:-2] + data[last:-2] * times + data[-2:]
    length = 178_000_000 // shrunk**2
    yield "PNG of one row", _png(length, 1)
    yield "PNG of one column", _png(1, length)


def _black(side: int) -> NDArray[np.uint8]:
    return np.zeros((side, side, 3), np.uint8)


def _strip(rows: int) -> dict[str, object]:
    return {"compression": "tiff_deflate", "tiffinfo": {278: rows}}


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    packer, rows = zlib.compressobj(9), bytes(1 << 20)
    left = (width + 1) * height
    parts = []
    while left > 0:
        parts.append(packer.compress(rows[: min(left, len(rows))]))
        left -= len(rows)
    body = b"".join([*parts, packer.flush()])
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@attack(
    "bombs",
    f"decompression bombs: pixels, or an error after {SECONDS:g} s; {BYTES / 1e9:g} GB besides the pixels",
)
def bombs_within_budgets(stage: Stage) -> Outcome:
    """Decode every bomb in a process of its own."""
    outcome, slowest, largest, ended = Outcome(), 0.0, 0, 0
    most = SHRUNK_BYTES if stage.is_brief else BYTES
    for name, data in bombs(SHRUNK if stage.is_brief else 1):
        if not stage.goes_on:
            break
        file = stage.folder / "bomb"
        file.write_bytes(data)
        try:
            seconds, peak, said = _measured(file)
        except subprocess.CalledProcessError as error:
            outcome.check(False, f"{name}: exit {error.returncode}: {error.stderr[-200:]}")
            continue
        is_ended = "longer" in said or "within" in said
        ended += is_ended
        slowest, largest = max(slowest, 0 if is_ended else seconds), max(largest, peak)
        # The limit is in whole seconds.
        outcome.check(seconds <= SECONDS + 2, f"{name}: {seconds:.1f} s ({said})")
        outcome.check(peak <= most, f"{name}: {peak / 1e9:.2f} GB ({said})")
    outcome.measured = f"slowest {slowest:.1f} s, {ended} ended, most {largest / 1e9:.2f} GB"
    return outcome


def _measured(file: Path) -> tuple[float, int, str]:
    """Decode a file in a process of its own; return seconds, bytes and what came of it."""
    done = command("-c", MEASURE, file, SECONDS)
    done.check_returncode()
    seconds, peak, said = json.loads(done.stdout)
    return seconds, peak, said


# Decodes variants of one image until the time is over; anything but pixels or an ImageError ends it.
FUZZ = """
import io, random, sys, time
import numpy as np
from PIL import Image
from seesay.data.images import EncodedImage
from seesay.errors import ImageError
import warnings
warnings.filterwarnings("ignore")
draw, until = random.Random(int(sys.argv[1])), time.monotonic() + float(sys.argv[2])
pixels = Image.fromarray(np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8))
seeds = []
for format in ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "PPM", "JPEG2000", "AVIF"):
    out = io.BytesIO()
    try:
        pixels.save(out, format)
    except (KeyError, OSError):
        continue
    seeds.append(out.getvalue())
tried = slowest = 0
while time.monotonic() < until:
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.randint(1, 8)):
        at = int(len(data) * draw.random() ** draw.choice((1, 4)))
        kind = draw.randrange(4)
        if kind == 0:
            data[at : at + 1] = draw.randbytes(1)
        elif kind == 1:
            data[at : at + draw.randint(1, 8)] = draw.randbytes(draw.randint(0, 8))
        elif kind == 2:
            del data[at : at + draw.randint(1, 64)]
        else:
            data[at:at] = data[at // 2 : at // 2 + draw.randint(1, 64)]
        if not data:
            data = bytearray(draw.choice(seeds))
    started = time.process_time()
    image = EncodedImage(bytes(data), "image")
    for read in (image.pixels, lambda: image.size, lambda: EncodedImage(bytes(data), "image").size):
        try:
            read()
        except ImageError:
            pass
    slowest = max(slowest, time.process_time() - started)
    tried += 1
print(tried, slowest)
"""


@attack("damage", "randomly damaged images: pixels or an error, no crash")
def damage(stage: Stage) -> Outcome:
    """Fuzz in processes of their own, so that a crash is seen."""
    outcome, slowest = Outcome(), 0.0
    while stage.goes_on:
        seed, share = stage.draw.randrange(2**31), min(20.0, stage.seconds)
        done = command("-c", FUZZ, seed, share, seconds=share + 60)
        if done.returncode:
            outcome.check(False, f"seed {seed}: exit {done.returncode}: {done.stderr[-300:]}")
            continue
        tried, seconds = done.stdout.split()
        outcome.tried += int(tried)
        slowest = max(slowest, float(seconds))
        if float(seconds) > SECONDS:
            outcome.failures.append(f"seed {seed}: an image took {float(seconds):.1f} s")
    outcome.measured = f"slowest {slowest:.2f} s"
    return outcome
