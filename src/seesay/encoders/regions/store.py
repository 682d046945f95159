"""The store of region features: boxes of each image with their features, computed once.

There is one folder for each region encoder and version of the proposals; a row is a region.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import CorpusImage
from seesay.data.images import content_key, decode
from seesay.encoders.array_store import ArrayStore
from seesay.encoders.images.base import Pixels
from seesay.encoders.images.encode import Filled, bytes_of, fill
from seesay.encoders.regions import proposals
from seesay.encoders.regions.base import Boxes, RegionEncoder
from seesay.errors import ImageError

CHUNK = 4  # images a thread takes at a time
STORED_AT_ONCE = 64  # images between two writes, each of which waits for the disk


class Regions(NamedTuple):
    """Regions of one image: boxes (r, 4) float32 in its pixels, features (r, dim) float16."""

    boxes: NDArray[np.float32]
    features: NDArray[np.float16]


class RegionFill(NamedTuple):
    """Regions of some images, in their order."""

    keys: list[str | None]  # each image's; None if it is broken
    errors: list[ImageError]  # of the broken images
    regions: list[Regions]  # proposals, then the image's extra boxes; none for a broken image


class RegionStore(ArrayStore):
    """Regions of images by key (32 hexadecimal digits), under the folder of all stores."""

    def __init__(self, folder: Path, encoder: RegionEncoder) -> None:
        made = f"{encoder.fingerprint} proposals v{proposals.VERSION}"
        name = hashlib.blake2b(made.encode(), digest_size=8).hexdigest()
        super().__init__(folder / name, made, {"features": ("<f2", encoder.dim), "boxes": ("<f4", 4)})

    def regions(self, key: str) -> Regions:
        """Return the regions with that key; raise SeesayError if they are missing."""
        return Regions(**self[key])

    def append(self, items: Mapping[str, Regions]) -> None:
        """Add regions; keys that are already stored are unchanged."""
        self.add({key: regions._asdict() for key, regions in items.items()})


def fill_regions(
    encoder: RegionEncoder,
    folder: Path,
    images: Sequence[CorpusImage],
    extra_boxes: Sequence[Boxes] | None = None,
    count: int = 200,
) -> RegionFill:
    """Read at most `count` regions of every image from the store under `folder`; compute missing ones.

    `extra_boxes` are for each image further boxes (k, 4), such as the true ones: its last k regions. Finished
    batches are kept, so an interrupted call can be resumed.
    """
    store = RegionStore(folder, encoder)
    extras = [np.zeros((0, 4), np.float32)] * len(images) if extra_boxes is None else extra_boxes
    pairs = list(zip(images, extras, strict=True))

    def work(some: Sequence[tuple[CorpusImage, Boxes]]) -> tuple[Filled, dict[str, Regions]]:
        return _missing_regions(encoder, store, some, count)

    def keep(chunks: list[dict[str, Regions]]) -> None:
        store.append({key: regions for chunk in chunks for key, regions in chunk.items()})

    filled = fill("Regions", pairs, CHUNK, work, keep, STORED_AT_ONCE)
    none = Regions(np.zeros((0, 4), np.float32), np.zeros((0, encoder.dim), np.float16))
    regions = [none if key is None else store.regions(key) for key in filled.keys]
    return RegionFill(filled.keys, filled.errors, regions)


def _missing_regions(
    encoder: RegionEncoder, store: RegionStore, images: Sequence[tuple[CorpusImage, Boxes]], count: int
) -> tuple[Filled, dict[str, Regions]]:
    chunk = Filled()
    wanted: dict[str, tuple[Pixels, Boxes]] = {}
    for image, extra in images:
        try:
            data = bytes_of(image)
            key = _key(data, extra, count)
            if key not in store:
                pixels = decode(data, image.name)
                boxes = np.concatenate([encoder.propose(pixels, count), np.reshape(extra, (-1, 4))])
                wanted[key] = pixels, boxes.astype("<f4")
        except ImageError as error:
            chunk.errors.append(error)
            chunk.keys.append(None)
            continue
        chunk.keys.append(key)
    rows = encoder.encode_images([p for p, _ in wanted.values()], [b for _, b in wanted.values()])
    chunk.encoded = len(wanted)
    regions = zip(wanted.items(), rows, strict=True)
    return chunk, {key: Regions(boxes, each.astype("<f2")) for (key, (_, boxes)), each in regions}


def _key(data: bytes, extra: Boxes, count: int) -> str:
    """Hash what determines an image's regions: its content, extra boxes, and the number of proposals."""
    what = f"{content_key(data)} {count} ".encode() + np.asarray(extra, "<f4").tobytes()
    return hashlib.blake2b(what, digest_size=16).hexdigest()
