"""The store of region features: boxes of each image with their features, computed once.

One folder a region encoder and version of the proposals. `features.f16` and `boxes.f32` hold rows, one a
region, and are only ever appended to; `images.bin` says for each image its key, how many rows are its own
and their checksum. An image counts when its record is complete, so a kill loses at most the images
being written; damaged rows are found on reading, and computed again.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import CorpusImage
from seesay.data.pixels import content_key, decode
from seesay.encoders.append_only import append, check_meta, cut, locked, read_records, size
from seesay.encoders.images.crops import Pixels
from seesay.encoders.images.encode import bytes_of, in_threads
from seesay.encoders.regions import proposals
from seesay.encoders.regions.encoder import Boxes, RegionEncoder
from seesay.encoders.regions.proposals import propose
from seesay.errors import ImageError, SeesayError
from seesay.progress import progress

RECORD = np.dtype([("key", "V16"), ("rows", "<u4"), ("crc", "<u4")])
VERSION = 1
CHUNK = 4  # images a thread takes at a time
STORED_AT_ONCE = 64  # images between two writes, each of which waits for the disk


class Regions(NamedTuple):
    """Regions of one image: boxes (r, 4) float32 in its pixels, features (r, dim) float16 on the disk."""

    boxes: NDArray[np.float32]
    features: NDArray[np.float16]


@dataclass(frozen=True)
class RegionFill:
    """Regions of some images, in their order.

    Attributes:
        keys: each image's content key; None where it is broken.
        errors: what is wrong with the broken ones.
        regions: proposals, then the image's extra boxes; none for a broken image.
    """

    keys: list[str | None]
    errors: list[ImageError]
    regions: list[Regions]


class RegionStore:
    """Regions of images by key (32 hexadecimal digits)."""

    def __init__(self, folder: Path, encoder: RegionEncoder) -> None:
        """Open the store of that encoder, making it where there is none.

        Raises:
            SeesayError: the folder holds something else.
        """
        made = f"{encoder.fingerprint} proposals v{proposals.VERSION}"
        self.folder = folder / hashlib.blake2b(made.encode(), digest_size=8).hexdigest()
        self._dim = encoder.dim
        self._widths = {"features.f16": 2 * encoder.dim, "boxes.f32": 16}
        self._ranges: dict[str, tuple[int, int, int]] = {}  # start, stop, checksum
        self._records = 0
        self._rows = 0
        self._sound: set[str] = set()
        meta = {"version": VERSION, "encoder": encoder.name, "dim": encoder.dim, "made": made}
        with locked(self.folder):
            check_meta(self.folder, meta)
            self._refresh()

    def __contains__(self, key: str) -> bool:
        """Whether the regions with that key are there and undamaged."""
        if key not in self._sound and key in self._ranges:
            if _checksum(self._read(key)) != self._ranges[key][2]:
                del self._ranges[key]
                return False
            self._sound.add(key)
        return key in self._sound

    def __getitem__(self, key: str) -> Regions:
        """The regions with that key.

        Raises:
            SeesayError: they are not in the store.
        """
        if key not in self:
            raise SeesayError(f"{self.folder}: regions {key} are not in this store.")
        return self._read(key)

    def append(self, items: Mapping[str, Regions]) -> None:
        """Add regions; those that are there already, from this process or another, are left as they are."""
        with locked(self.folder):
            self._refresh()
            fresh = {
                key: Regions(np.asarray(boxes, "<f4"), np.asarray(features, "<f2"))
                for key, (boxes, features) in items.items()
                if key not in self
            }
            # A process that was killed in its append has left rows that never counted.
            for name, width in self._widths.items():
                cut(self.folder / name, self._rows * width)
            cut(self.folder / "images.bin", self._records * RECORD.itemsize)
            append(self.folder / "features.f16", b"".join(r.features.tobytes() for r in fresh.values()))
            append(self.folder / "boxes.f32", b"".join(r.boxes.tobytes() for r in fresh.values()))
            records = np.zeros(len(fresh), RECORD)
            records["key"] = np.array([np.void(bytes.fromhex(key)) for key in fresh], "V16")
            records["rows"] = [len(r.boxes) for r in fresh.values()]
            records["crc"] = [_checksum(r) for r in fresh.values()]
            # The records come last: they are what makes the rows count.
            append(self.folder / "images.bin", records.tobytes())
            self._refresh()

    def _read(self, key: str) -> Regions:
        start, stop, _ = self._ranges[key]
        return Regions(self._boxes[start:stop], self._features[start:stop])

    def _refresh(self) -> None:
        """Take note of what has been added since last time; records whose rows are not all there end it."""
        whole = min(size(self.folder / name) // width for name, width in self._widths.items())
        ranges = {}
        for record in read_records(self.folder / "images.bin", RECORD, self._records):
            stop = self._rows + int(record["rows"])
            if stop > whole:
                break
            ranges[bytes(record["key"]).hex()] = (self._rows, stop, int(record["crc"]))
            self._records, self._rows = self._records + 1, stop
        # The maps come first: other threads read by these ranges while one appends.
        self._features = _mapped(self.folder / "features.f16", "<f2", self._rows, self._dim)
        self._boxes = _mapped(self.folder / "boxes.f32", "<f4", self._rows, 4)
        self._sound.difference_update(ranges)
        self._ranges |= ranges


def fill_regions(
    encoder: RegionEncoder,
    folder: Path,
    images: Sequence[CorpusImage],
    extra_boxes: Sequence[Boxes] | None = None,
    count: int = 200,
) -> RegionFill:
    """Regions of every image from the store under `folder`; what is missing is computed and kept.

    Finished batches are kept whatever happens after them, so an interrupted call resumes.

    Args:
        encoder: of the regions.
        folder: of stores.
        images: of which regions are wanted.
        extra_boxes: for each image further boxes (k, 4), such as the true ones: its last k regions.
        count: of proposals an image, at most.

    Raises:
        SeesayError: an extra box outside its image.
    """
    store = RegionStore(folder, encoder)
    extras = [np.zeros((0, 4), np.float32)] * len(images) if extra_boxes is None else extra_boxes
    pairs = list(zip(images, extras, strict=True))
    keys: list[str | None] = []
    errors: list[ImageError] = []
    waiting: dict[str, Regions] = {}

    def work(chunk: Sequence[tuple[CorpusImage, Boxes]]) -> _Chunk:
        return _missing_regions(encoder, store, chunk, count)

    with progress("Regions", len(images), "images") as advance:
        try:
            for done in in_threads(work, [pairs[i : i + CHUNK] for i in range(0, len(pairs), CHUNK)]):
                keys += done.keys
                errors += done.errors
                waiting |= done.regions
                advance(len(done.keys))
                if len(waiting) >= STORED_AT_ONCE:
                    store.append(waiting)
                    waiting = {}
        finally:
            store.append(waiting)
    none = Regions(np.zeros((0, 4), np.float32), np.zeros((0, encoder.dim), np.float16))
    return RegionFill(keys, errors, [none if key is None else store[key] for key in keys])


class _Chunk(NamedTuple):
    """What became of a few images: their keys, and the regions that were missing."""

    keys: list[str | None]
    errors: list[ImageError]
    regions: dict[str, Regions]


def _missing_regions(
    encoder: RegionEncoder, store: RegionStore, images: Sequence[tuple[CorpusImage, Boxes]], count: int
) -> _Chunk:
    keys: list[str | None] = []
    errors: list[ImageError] = []
    wanted: dict[str, tuple[Pixels, Boxes]] = {}
    for image, extra in images:
        try:
            data = bytes_of(image)
            key = _key(data, extra, count)
            if key not in store:
                pixels = decode(data, image.name)
                boxes = np.concatenate([propose(pixels, count).boxes, np.reshape(extra, (-1, 4))])
                wanted[key] = pixels, boxes.astype("<f4")
        except ImageError as error:
            errors.append(error)
            keys.append(None)
            continue
        keys.append(key)
    rows = encoder.encode_images([p for p, _ in wanted.values()], [b for _, b in wanted.values()])
    regions = {k: Regions(b, r.astype("<f2")) for (k, (_, b)), r in zip(wanted.items(), rows, strict=True)}
    return _Chunk(keys, errors, regions)


def _key(data: bytes, extra: Boxes, count: int) -> str:
    """What decides an image's regions: its content, the boxes that come with it, how many are proposed."""
    what = f"{content_key(data)} {count} ".encode() + np.asarray(extra, "<f4").tobytes()
    return hashlib.blake2b(what, digest_size=16).hexdigest()


def _mapped(path: Path, kind: str, rows: int, width: int) -> NDArray[Any]:
    """A plain array over the mapped file: slicing one is several times cheaper than slicing a memmap."""
    if rows == 0:
        return np.zeros((0, width), kind)
    return np.asarray(np.memmap(path, kind, "r", shape=(rows, width)))


def _checksum(regions: Regions) -> int:
    return zlib.crc32(regions.boxes.tobytes(), zlib.crc32(regions.features.tobytes()))
