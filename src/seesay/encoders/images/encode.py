"""From encoded images to features: decoding in parallel with inference, broken images set aside.

Each thread decodes a few images and runs the network on them; both release the interpreter, so the cores are
busy with whichever is at hand, and memory holds a few chunks, never the corpus.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import CorpusImage
from seesay.data.pixels import content_key, decode
from seesay.encoders.feature_store import FeatureStore
from seesay.encoders.images.base import Arrays, ImageEncoder
from seesay.errors import ImageError
from seesay.progress import progress

CHUNK = 8  # images a thread takes at a time
# Side in pixels down to which a JPEG may be decoded for any packaged encoder: the features of an image must
# not depend on which other encoders it is decoded for.
SHARED_SIDE = 320
STORED_AT_ONCE = 256  # images between two writes, each of which waits for the disk

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True)
class Encoded:
    """Features of some images.

    Attributes:
        arrays: for each encoder its arrays, with zero rows for broken images.
        errors: for each image what is wrong with it, if anything is.
    """

    arrays: list[Arrays]
    errors: list[ImageError | None]


def encode_images(encoders: Sequence[ImageEncoder], images: Sequence[bytes], names: Sequence[str]) -> Encoded:
    """Compute features of images, each decoded once for all encoders.

    Args:
        encoders: of which the features are wanted.
        images: as encoded bytes, such as JPEG.
        names: of the images, for errors.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> from seesay.encoders import encode_images, load_image_encoder
        >>> Image.new("RGB", (64, 48), "red").save(png := io.BytesIO(), "PNG")
        >>> encoder = load_image_encoder("efficientnet-lite0")
        >>> encoded = encode_images([encoder], [png.getvalue(), b"no image"], ["red.png", "broken.png"])
        >>> encoded.arrays[0]["pooled"].shape, [error is None for error in encoded.errors]
        ((2, 1280), [True, False])
    """
    sources = _sources(encoders)
    chunks = [(images[i : i + CHUNK], names[i : i + CHUNK]) for i in range(0, len(images), CHUNK)]
    parts = list(in_threads(lambda chunk: _encode_chunk(list(sources.values()), *chunk), chunks))
    errors = [error for part in parts for error in part.errors]
    computed = {
        fingerprint: {
            name: np.concatenate([np.zeros((0, dim), np.float32), *(part.arrays[e][name] for part in parts)])
            for name, dim in source.dims.items()
        }
        for e, (fingerprint, source) in enumerate(sources.items())
    }
    arrays = [encoder.from_source(computed[encoder.source.fingerprint]) for encoder in encoders]
    broken = [i for i, error in enumerate(errors) if error is not None]
    for each in arrays:
        for rows in each.values():
            rows[broken] = 0
    return Encoded(arrays, errors)


def _sources(encoders: Sequence[ImageEncoder]) -> dict[str, ImageEncoder]:
    """The encoders whose features are computed from pixels, each once, by fingerprint."""
    return {encoder.source.fingerprint: encoder.source for encoder in encoders}


def _encode_chunk(encoders: Sequence[ImageEncoder], images: Sequence[bytes], names: Sequence[str]) -> Encoded:
    side = _decoded_side(encoders)
    errors: list[ImageError | None] = [None] * len(images)
    prepared: list[list[Any]] = [[] for _ in encoders]
    good: list[int] = []
    for i, (data, name) in enumerate(zip(images, names, strict=True)):
        try:
            pixels = decode(data, name, side)
        except ImageError as error:
            errors[i] = error
            continue
        good.append(i)
        # Cropped at once: a chunk of undiminished scans would be gigabytes.
        for encoder, mine in zip(encoders, prepared, strict=True):
            mine.append(encoder.prepare(pixels))
    arrays: list[Arrays] = []
    for encoder, mine in zip(encoders, prepared, strict=True):
        rows = {name: np.zeros((len(images), dim), np.float32) for name, dim in encoder.dims.items()}
        if good:
            for name, values in encoder.encode_prepared(mine).items():
                rows[name][good] = values
        arrays.append(rows)
    return Encoded(arrays, errors)


class DerivedStore:
    """Features that are computed from another encoder's stored ones whenever they are read."""

    def __init__(self, encoder: ImageEncoder, store: FeatureStore) -> None:
        self.folder = store.folder
        self._encoder, self._store = encoder, store

    def __contains__(self, key: str) -> bool:
        """Return whether the image with that content key is in the store."""
        return key in self._store

    def read(self, keys: Sequence[str], name: str) -> NDArray[np.float32]:
        """Read as `FeatureStore.read` does."""
        stored = {each: self._store.read(keys, each) for each in self._store.dims}
        return self._encoder.from_source(stored)[name]


@dataclass
class Filled:
    """The outcome of filling stores.

    Attributes:
        stores: the filled stores, one an encoder: opening one verifies all of it, so it is done once.
        keys: each image's key; None if it is broken.
        encoded: how many images were not in the stores.
        errors: what is wrong with the broken images.
    """

    stores: list[FeatureStore | DerivedStore] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    encoded: int = 0
    errors: list[ImageError] = field(default_factory=list)


@dataclass
class Chunk(Generic[Out]):
    """The outcome for a few images: keys and errors as in `Filled`, what was computed, for how many."""

    computed: Out
    keys: list[str | None] = field(default_factory=list)
    errors: list[ImageError] = field(default_factory=list)
    count: int = 0


def fill_stores(encoders: Sequence[ImageEncoder], folder: Path, images: Sequence[CorpusImage]) -> Filled:
    """Encode what is missing in the stores under `folder`.

    Finished batches are kept whatever happens after them, so an interrupted call resumes.
    """
    sources = _sources(encoders)
    opened = {key: FeatureStore(folder, e.name, e.fingerprint, e.dims) for key, e in sources.items()}
    stores = list(opened.values())
    claims = _Claims()

    def work(some: Sequence[CorpusImage]) -> Chunk[_Features]:
        return _missing_features(list(sources.values()), stores, claims, some)

    def keep(chunks: list[_Features]) -> None:
        for e, store in enumerate(stores):
            parts = [chunk[e] for chunk in chunks if chunk[e][0]]
            if parts:
                keys = [key for some, _ in parts for key in some]
                rows = {n: np.concatenate([arrays[n] for _, arrays in parts]) for n in store.dims}
                store.append(keys, rows)

    filled = fill("Encoding", images, CHUNK, work, keep, STORED_AT_ONCE)
    for encoder in encoders:
        store = opened[encoder.source.fingerprint]
        filled.stores.append(store if encoder.source is encoder else DerivedStore(encoder, store))
    return filled


def fill(
    label: str,
    images: Sequence[In],
    chunk: int,
    work: Callable[[Sequence[In]], Chunk[Out]],
    keep: Callable[[list[Out]], None],
    kept_at_once: int,
) -> Filled:
    """Compute what is missing in threads, and keep it whenever there is enough for a write.

    Args:
        label: of the progress shown.
        images: in the order of the outcome.
        chunk: images that a thread takes at a time.
        work: computes what is missing for a chunk.
        keep: stores what several chunks have computed; also called when something fails.
        kept_at_once: images between two writes.
    """
    filled, waiting, count = Filled(), [], 0
    chunks = [images[i : i + chunk] for i in range(0, len(images), chunk)]
    with progress(label, len(images), "images") as advance:
        try:
            for done in in_threads(work, chunks):
                filled.keys += done.keys
                filled.errors += done.errors
                filled.encoded += done.count
                waiting.append(done.computed)
                count += done.count
                advance(len(done.keys))
                if count >= kept_at_once:
                    now, waiting, count = waiting, [], 0
                    keep(now)
        finally:
            keep(waiting)
    return filled


class _Claims:
    """Contents that some thread has taken on, so that files that are equal are encoded once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._lock = Lock()

    def take(self, key: str) -> bool:
        """Return whether the caller is the first to ask."""
        with self._lock:
            first = key not in self._taken
            self._taken.add(key)
            return first


_Features = list[tuple[list[str], Arrays]]  # for each encoder the missing keys and their features


def _missing_features(
    encoders: Sequence[ImageEncoder],
    stores: Sequence[FeatureStore],
    claims: _Claims,
    images: Sequence[CorpusImage],
) -> Chunk[_Features]:
    side = _decoded_side(encoders)
    chunk: Chunk[_Features] = Chunk([])
    wanted: list[list[tuple[str, Any]]] = [[] for _ in encoders]
    for image in images:
        try:
            data = bytes_of(image)
            key = content_key(data)
            lacking = [e for e, store in enumerate(stores) if key not in store]
            # A broken file is an error under each of its names, so claims come after decoding.
            pixels = decode(data, image.name, side) if lacking else None
        except ImageError as error:
            chunk.errors.append(error)
            chunk.keys.append(None)
            continue
        chunk.keys.append(key)
        if pixels is not None and claims.take(key):
            chunk.count += 1
            for e in lacking:
                wanted[e].append((key, encoders[e].prepare(pixels)))
    chunk.computed = [
        ([key for key, _ in some], encoder.encode_prepared([each for _, each in some]) if some else {})
        for encoder, some in zip(encoders, wanted, strict=True)
    ]
    return chunk


def bytes_of(image: CorpusImage) -> bytes:
    """Read the encoded image; raise ImageError if the corpus comes without it."""
    if image.source is None:
        raise ImageError(f"{image.name}: the corpus comes without this image.")
    return image.source.read()


def _decoded_side(encoders: Sequence[ImageEncoder]) -> int:
    """The side down to which JPEGs may be decoded; ten crops are taken from an image 256/224 larger."""
    sides = [round(e.size * 256 / 224) if e.crop == "ten" else e.size for e in encoders]
    return max(SHARED_SIDE, *sides)


def in_threads(work: Callable[[In], Out], items: Iterable[In]) -> Iterator[Out]:
    """Apply `work` to every item, in order, with one thread a core, few items ahead of the reader."""
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
