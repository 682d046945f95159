"""From encoded images to features: decoding in parallel with inference, broken images set aside.

Each thread decodes a few images and runs the network on them; both release the interpreter, so
the cores are busy with whichever is at hand and memory holds a few chunks, never the corpus.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import CorpusImage
from seesay.data.pixels import content_key, decode
from seesay.encoders.feature_store import FeatureStore
from seesay.encoders.images.encoder import Arrays, Encoder
from seesay.errors import ImageError
from seesay.progress import progress

CHUNK = 8  # images a thread takes at a time
# Pixels to which every packaged encoder lets a JPEG be decoded: what an encoder gives of an image
# must not depend on which others are asked along with it.
SHARED_SIDE = 320
STORED_AT_ONCE = 256  # images between two writes, each of which waits for the disk

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True)
class Encoded:
    """Features of some images: for each encoder its arrays, with zero rows for broken images."""

    arrays: list[Arrays]
    errors: list[ImageError | None]


def encode_images(encoders: Sequence[Encoder], images: Sequence[bytes], names: Sequence[str]) -> Encoded:
    """Features of images given as their encoded bytes, each decoded once for all encoders."""
    sources = _sources(encoders)
    chunks = [(images[i : i + CHUNK], names[i : i + CHUNK]) for i in range(0, len(images), CHUNK)]
    parts = list(in_threads(lambda chunk: _encode_chunk(list(sources.values()), *chunk), chunks))
    errors = [error for part in parts for error in part.errors]
    given = {
        fingerprint: {
            name: np.concatenate([np.zeros((0, dim), np.float32), *(part.arrays[e][name] for part in parts)])
            for name, dim in source.dims.items()
        }
        for e, (fingerprint, source) in enumerate(sources.items())
    }
    arrays = [encoder.from_source(given[encoder.source.fingerprint]) for encoder in encoders]
    broken = [i for i, error in enumerate(errors) if error is not None]
    for each in arrays:
        for rows in each.values():
            rows[broken] = 0
    return Encoded(arrays, errors)


def _sources(encoders: Sequence[Encoder]) -> dict[str, Encoder]:
    """The encoders whose features are computed from pixels, each once, by fingerprint."""
    return {encoder.source.fingerprint: encoder.source for encoder in encoders}


class DerivedStore:
    """Features that are computed from another encoder's stored ones whenever they are read."""

    def __init__(self, encoder: Encoder, store: FeatureStore) -> None:
        self.folder = store.folder
        self._encoder = encoder
        self._store = store

    def __contains__(self, key: str) -> bool:
        """Whether the image with that content key is there."""
        return key in self._store

    def read(self, keys: Sequence[str], name: str) -> NDArray[np.float32]:
        """As `FeatureStore.read`."""
        given = {each: self._store.read(keys, each) for each in self._store.dims}
        return self._encoder.from_source(given)[name]


@dataclass
class FillReport:
    """What filling feature stores met: each image's key (None when broken), and counts.

    `stores` are the filled stores, one an encoder: opening one verifies all of it, so it is done once.
    """

    stores: list[FeatureStore | DerivedStore] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    encoded: int = 0
    errors: list[ImageError] = field(default_factory=list)

    def add(self, chunk: _Chunk) -> None:
        """Count one more chunk."""
        self.keys += chunk.keys
        self.encoded += chunk.encoded
        self.errors += chunk.errors


@dataclass(frozen=True)
class _Chunk:
    """What became of a few images: each one's key, and for each encoder the features that were missing."""

    keys: list[str | None]
    features: list[tuple[list[str], Arrays]]
    encoded: int
    errors: list[ImageError]


class _Claims:
    """Contents that some thread has taken on, so that files that are equal are encoded once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._lock = Lock()

    def take(self, key: str) -> bool:
        """Whether the caller is the first to ask."""
        with self._lock:
            first = key not in self._taken
            self._taken.add(key)
            return first


def fill_stores(encoders: Sequence[Encoder], folder: Path, images: Sequence[CorpusImage]) -> FillReport:
    """Make sure that every image's features are in the stores under `folder`; encode what is missing.

    Finished batches are kept whatever happens after them, so an interrupted call resumes.
    """
    sources = _sources(encoders)
    opened = {key: FeatureStore(folder, e.name, e.fingerprint, e.dims) for key, e in sources.items()}
    given = [opened[encoder.source.fingerprint] for encoder in encoders]
    report = FillReport(
        [s if e.source is e else DerivedStore(e, s) for e, s in zip(encoders, given, strict=True)]
    )
    stores = list(opened.values())
    chunks = [images[i : i + CHUNK] for i in range(0, len(images), CHUNK)]
    waiting: list[_Chunk] = []
    claims = _Claims()

    def work(chunk: Sequence[CorpusImage]) -> _Chunk:
        return _missing_features(list(sources.values()), stores, claims, chunk)

    with progress("Encoding", len(images), "images") as advance:
        try:
            for done in in_threads(work, chunks):
                report.add(done)
                waiting.append(done)
                advance(len(done.keys))
                if sum(chunk.encoded for chunk in waiting) >= STORED_AT_ONCE:
                    _keep(stores, waiting)
        finally:
            _keep(stores, waiting)
    return report


def _keep(stores: Sequence[FeatureStore], chunks: list[_Chunk]) -> None:
    for e, store in enumerate(stores):
        parts = [chunk.features[e] for chunk in chunks if chunk.features[e][0]]
        if parts:
            keys = [key for some, _ in parts for key in some]
            store.append(keys, {n: np.concatenate([arrays[n] for _, arrays in parts]) for n in store.dims})
    chunks.clear()


def _missing_features(
    encoders: Sequence[Encoder],
    stores: Sequence[FeatureStore],
    claims: _Claims,
    images: Sequence[CorpusImage],
) -> _Chunk:
    side = _decoded_side(encoders)
    keys: list[str | None] = []
    errors: list[ImageError] = []
    wanted: list[list[tuple[str, Any]]] = [[] for _ in encoders]
    encoded = 0
    for image in images:
        try:
            data = bytes_of(image)
            key = content_key(data)
            lacking = [e for e, store in enumerate(stores) if key not in store]
            # A broken file is an error under each of its names, so claims come after decoding.
            pixels = decode(data, image.name, side) if lacking else None
        except ImageError as error:
            errors.append(error)
            keys.append(None)
            continue
        keys.append(key)
        if pixels is not None and claims.take(key):
            encoded += 1
            for e in lacking:
                wanted[e].append((key, encoders[e].prepare(pixels)))
    features = [
        ([key for key, _ in some], encoder.encode_prepared([each for _, each in some]) if some else {})
        for encoder, some in zip(encoders, wanted, strict=True)
    ]
    return _Chunk(keys, features, encoded, errors)


def bytes_of(image: CorpusImage) -> bytes:
    """The encoded image; raises ImageError where the corpus comes without it."""
    if image.source is None:
        raise ImageError(f"{image.name}: the corpus comes without this image.")
    return image.source.read()


def _decoded_side(encoders: Sequence[Encoder]) -> int:
    """The side down to which JPEGs may be decoded; ten crops are taken from an image 256/224 larger."""
    sides = [round(e.size * 256 / 224) if e.crop == "ten" else e.size for e in encoders]
    return max(SHARED_SIDE, *sides)


def _encode_chunk(encoders: Sequence[Encoder], images: Sequence[bytes], names: Sequence[str]) -> Encoded:
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


def in_threads(work: Callable[[In], Out], items: Iterable[In]) -> Iterator[Out]:
    """`work` of every item in order, computed by one thread a core, few items ahead of the reader."""
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
