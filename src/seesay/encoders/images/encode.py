"""From encoded images to features: decoding in parallel with inference, skipping broken images.

Each thread decodes a few images and runs the network on them. Both release the GIL, so all cores are used,
and only a few chunks are in memory.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from seesay.arrays import Pixels
from seesay.data.images import content_key, decode
from seesay.encoders.images.base import TEN, Arrays, ImageEncoder, SharedPixels
from seesay.encoders.stores import ArrayStore, Rows, open_stores, sources_of
from seesay.errors import ImageError, UnavailableImageError
from seesay.progress import progress

if TYPE_CHECKING:
    from seesay.data.corpus import CorpusImage

CHUNK = 8  # images a thread takes at a time
# Side in pixels down to which a JPEG may be decoded for any packaged encoder: the features of an image must
# not depend on the other encoders for which it is decoded.
SHARED_SIDE = 320
STORED_AT_ONCE = 64  # images between two writes, each of which waits for the disk

In = TypeVar("In")
Out = TypeVar("Out")


def encode_images(
    encoders: Sequence[ImageEncoder], images: Sequence[bytes | Pixels], names: Sequence[str]
) -> list[Arrays]:
    """Compute the features of images, each decoded once for all encoders; return the arrays of each encoder.

    Images are encoded bytes, such as JPEG, or pixels (h, w, 3) uint8; error messages have their names.

    Raises:
        ImageError: an image is broken.
        UnavailableImageError: there is not enough memory now.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> from seesay.encoders import encode_images, load_image_encoder
        >>> Image.new("RGB", (64, 48), "red").save(png := io.BytesIO(), "PNG")
        >>> (arrays,) = encode_images([load_image_encoder("efficientnet-lite0")], [png.getvalue()], ["a.png"])
        >>> arrays["pooled"].shape
        (1, 1280)
    """
    sources, given = sources_of(encoders), list(zip(images, names, strict=True))
    chunks = [given[i : i + CHUNK] for i in range(0, len(given), CHUNK)]
    parts = list(in_threads(lambda chunk: _encoded(list(sources.values()), chunk), chunks))
    computed = {
        key: {
            name: np.concatenate([np.zeros((0, dim), np.float32), *(part[e][name] for part in parts)])
            for name, dim in source.dims.items()
        }
        for e, (key, source) in enumerate(sources.items())
    }
    return [encoder.from_source(computed[encoder.source.stored_as]) for encoder in encoders]


def _encoded(encoders: Sequence[ImageEncoder], images: Iterable[tuple[bytes | Pixels, str]]) -> list[Arrays]:
    side, prepared = decoded_side(encoders), []
    for data, name in images:
        pixels = data if isinstance(data, np.ndarray) else decode(data, name, side)
        shared = pixels.view(SharedPixels)
        try:  # cropped immediately: a chunk of full-size scans would take gigabytes
            prepared.append([encoder.prepare(shared) for encoder in encoders])
        except MemoryError as error:
            raise UnavailableImageError(f"{name}: not enough memory to crop it now.") from error
    columns = zip(*prepared, strict=True)
    return [encoder.encode_prepared(column) for encoder, column in zip(encoders, columns, strict=True)]


@dataclass
class Filled:
    """The result of filling stores, for all images or a few of them."""

    keys: list[str | None] = field(default_factory=list)  # content keys; None for a broken image
    errors: list[ImageError] = field(default_factory=list)  # of the broken images
    encoded: int = 0  # images that were not in the stores
    stores: list[ArrayStore] = field(default_factory=list)  # of each encoder's source


def fill_stores(encoders: Sequence[ImageEncoder], folder: Path, images: Sequence[CorpusImage]) -> Filled:
    """Encode the images that are missing in the stores under `folder`.

    Finished batches are stored, so an interrupted call can be resumed.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> from PIL import Image
        >>> import seesay
        >>> from seesay.encoders import fill_stores, load_image_encoder
        >>> squares = [Image.new("RGB", (64, 64), colour) for colour in ("red", "blue")]
        >>> images = seesay.corpus_of([(image, "a square", None) for image in squares]).images
        >>> filled = fill_stores([load_image_encoder("efficientnet-lite0")], Path(mkdtemp()), images)
        >>> len(filled.stores[0])
        2
    """
    sources, stores = list(sources_of(encoders).values()), open_stores(encoders, folder)
    opened = list(stores.values())
    claims: dict[str, object] = {}

    def work(some: Sequence[CorpusImage]) -> tuple[Filled, Features]:
        return missing_features(sources, opened, claims, some)

    filled = fill("Encoding", images, work, partial(store_features, opened))
    filled.stores = [stores[encoder.source.stored_as] for encoder in encoders]
    return filled


def fill(
    label: str,
    images: Sequence[In],
    work: Callable[[Sequence[In]], tuple[Filled, Out]],
    keep: Callable[[list[Out]], None],
) -> Filled:
    """Compute missing features in threads, a few images at a time, with a progress bar.

    The results of `work` are written after every 64 images, and at the end even after an error.
    """
    filled, waiting, count = Filled(), [], 0
    chunks = [images[i : i + CHUNK] for i in range(0, len(images), CHUNK)]
    with progress(label, len(images), "images") as advance:
        try:
            for done, computed in in_threads(work, chunks):
                filled.keys += done.keys
                filled.errors += done.errors
                filled.encoded += done.encoded
                waiting.append(computed)
                count += done.encoded
                advance(len(done.keys))
                if count >= STORED_AT_ONCE:
                    now, waiting, count = waiting, [], 0
                    keep(now)
        finally:
            keep(waiting)
    return filled


Features = list[dict[str, Rows]]  # for each encoder the features of missing images by content key


def store_features(stores: Sequence[ArrayStore], chunks: Sequence[Features]) -> None:
    """Store the features of some images, except those that are already stored."""
    for store, *parts in zip(stores, *chunks, strict=True):
        store.add({key: rows for part in parts for key, rows in part.items()})


def missing_features(
    encoders: Sequence[ImageEncoder],
    stores: Sequence[ArrayStore | frozenset[str]],
    claims: dict[str, object],
    images: Sequence[CorpusImage],
) -> tuple[Filled, Features]:
    """Encode those of a few images that are missing; return new keys and their features for each encoder.

    `stores` have the content keys that each encoder can skip; `claims`, which all threads share, marks the
    images that a thread encodes.
    """
    side, chunk = decoded_side(encoders), Filled()
    wanted: list[list[tuple[str, Any]]] = [[] for _ in encoders]
    for image in images:
        try:
            data = bytes_of(image)
            key = content_key(data)
            lacking = [e for e, store in enumerate(stores) if key not in store]
            # A broken file is an error for each of its names, so images are claimed after decoding.
            pixels = decode(data, image.name, side).view(SharedPixels) if lacking else None
        except ImageError as error:
            chunk.errors.append(error)
            chunk.keys.append(None)
            continue
        chunk.keys.append(key)
        # Equal files are encoded once, by the thread that comes first.
        if pixels is not None and claims.setdefault(key, claim := object()) is claim:
            chunk.encoded += 1
            for e in lacking:
                wanted[e].append((key, encoders[e].prepare(pixels)))
    computed: Features = [{} for _ in encoders]
    for encoder, some, rows_of in zip(encoders, wanted, computed, strict=True):
        arrays = encoder.encode_prepared([each for _, each in some]) if some else {}
        for i, (key, _) in enumerate(some):
            rows_of[key] = {name: rows[i : i + 1] for name, rows in arrays.items()}
    return chunk, computed


def bytes_of(image: CorpusImage) -> bytes:
    """Read the encoded image; raise ImageError if the corpus does not contain it."""
    if image.source is None:
        raise ImageError(f"{image.name}: the corpus does not contain this image.")
    return image.source.read()


def decoded_side(encoders: Sequence[ImageEncoder]) -> int:
    """Return the side in pixels down to which JPEGs may be decoded.

    Ten crops are from an image whose shorter side is 256/224 times as long.
    """
    sides = [round(e.size * 256 / 224) if e.crop == TEN else e.size for e in encoders]
    return max(SHARED_SIDE, *sides)


def in_threads(work: Callable[[In], Out], items: Iterable[In]) -> Iterator[Out]:
    """Apply `work` to every item, in order, with one thread per core, a few items ahead of the consumer."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[Out]] = deque()
        try:
            for item in items:
                ahead.append(pool.submit(work, item))
                if len(ahead) > 2 * threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
