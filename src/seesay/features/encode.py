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
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import CorpusImage
from seesay.data.pixels import content_key, decode
from seesay.errors import ImageError
from seesay.features.encoder import Arrays, Encoder
from seesay.features.store import FeatureStore
from seesay.progress import progress

CHUNK = 8  # images a thread takes at a time
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
    chunks = [(images[i : i + CHUNK], names[i : i + CHUNK]) for i in range(0, len(images), CHUNK)]
    parts = list(in_threads(lambda chunk: _encode_chunk(encoders, *chunk), chunks))
    errors = [error for part in parts for error in part.errors]
    arrays = [
        {
            name: np.concatenate([np.zeros((0, dim), np.float32), *(part.arrays[e][name] for part in parts)])
            for name, dim in encoder.dims.items()
        }
        for e, encoder in enumerate(encoders)
    ]
    return Encoded(arrays, errors)


@dataclass
class FillReport:
    """What filling feature stores met: each image's key (None when broken), and counts."""

    keys: list[str | None] = field(default_factory=list)
    encoded: int = 0
    errors: list[ImageError] = field(default_factory=list)

    def add(self, chunk: _Chunk) -> None:
        """Count one more chunk."""
        self.keys += chunk.all_keys
        self.encoded += len(chunk.keys)
        self.errors += chunk.errors


@dataclass(frozen=True)
class _Chunk:
    """What became of a few images: each one's key, and the features of those that were missing."""

    all_keys: list[str | None]
    keys: list[str]
    good: list[int]
    encoded: Encoded
    errors: list[ImageError]


def fill_stores(encoders: Sequence[Encoder], folder: Path, images: Sequence[CorpusImage]) -> FillReport:
    """Make sure that every image's features are in the stores under `folder`; encode what is missing.

    Finished batches are kept whatever happens after them, so an interrupted call resumes.
    """
    stores = [FeatureStore(folder, e.name, e.fingerprint, e.dims) for e in encoders]
    report = FillReport()
    chunks = [images[i : i + CHUNK] for i in range(0, len(images), CHUNK)]
    waiting: list[_Chunk] = []

    def work(chunk: Sequence[CorpusImage]) -> _Chunk:
        return _missing_features(encoders, stores, chunk)

    with progress("Encoding", len(images), "images") as advance:
        try:
            for done in in_threads(work, chunks):
                report.add(done)
                waiting.append(done)
                advance(len(done.all_keys))
                if sum(len(chunk.keys) for chunk in waiting) >= STORED_AT_ONCE:
                    _keep(encoders, stores, waiting)
        finally:
            _keep(encoders, stores, waiting)
    return report


def _keep(encoders: Sequence[Encoder], stores: Sequence[FeatureStore], chunks: list[_Chunk]) -> None:
    keys = [key for chunk in chunks for key in chunk.keys]
    if keys:
        for e, (encoder, store) in enumerate(zip(encoders, stores, strict=True)):
            store.append(
                keys,
                {
                    name: np.concatenate([chunk.encoded.arrays[e][name][chunk.good] for chunk in chunks])
                    for name in encoder.dims
                },
            )
    chunks.clear()


def _missing_features(
    encoders: Sequence[Encoder], stores: Sequence[FeatureStore], images: Sequence[CorpusImage]
) -> _Chunk:
    keys: list[str | None] = []
    errors: list[ImageError] = []
    wanted: list[bytes] = []
    places: list[int] = []
    for place, image in enumerate(images):
        try:
            data = _bytes_of(image)
        except ImageError as error:
            errors.append(error)
            keys.append(None)
            continue
        key = content_key(data)
        keys.append(key)
        if any(key not in store for store in stores):
            wanted.append(data)
            places.append(place)
    encoded = _encode_chunk(encoders, wanted, [images[place].name for place in places])
    good = [i for i, error in enumerate(encoded.errors) if error is None]
    for place, broken in zip(places, encoded.errors, strict=True):
        if broken is not None:
            errors.append(broken)
            keys[place] = None
    fresh = [fine for i in good if (fine := keys[places[i]]) is not None]
    return _Chunk(keys, fresh, good, encoded, errors)


def _bytes_of(image: CorpusImage) -> bytes:
    if image.source is None:
        raise ImageError(f"{image.name}: the corpus comes with features and without this image.")
    return image.source.read()


def _encode_chunk(encoders: Sequence[Encoder], images: Sequence[bytes], names: Sequence[str]) -> Encoded:
    # Ten crops are taken from an image 256/224 larger than the crop.
    least = max(round(e.size * 256 / 224) if e.crop == "ten" else e.size for e in encoders)
    errors: list[ImageError | None] = [None] * len(images)
    decoded: list[NDArray[np.uint8]] = []
    good: list[int] = []
    for i, (data, name) in enumerate(zip(images, names, strict=True)):
        try:
            decoded.append(decode(data, name, least))
            good.append(i)
        except ImageError as error:
            errors[i] = error
    arrays: list[Arrays] = []
    for encoder in encoders:
        rows = {name: np.zeros((len(images), dim), np.float32) for name, dim in encoder.dims.items()}
        if good:
            features = encoder.encode(np.stack([encoder.crops(pixels) for pixels in decoded]))
            for name, values in features.items():
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
