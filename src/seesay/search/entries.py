"""From encoded photos to what an index keeps of them; each is decoded once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seesay.data.decoders import read_apart
from seesay.data.images import Photo
from seesay.encoders.detector import Detection
from seesay.encoders.images.encode import CHUNK, in_threads
from seesay.errors import ImageError
from seesay.runs.embedder import Embedder
from seesay.search import thumbnails

_PIXEL_BYTES = 1 << 26  # of decoded photos that a thread holds before it embeds them

Content = tuple[str, str, bytes]
"""A content key, a name for error messages, and an encoded photo."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What an index keeps of a photo.

    Attributes:
        vector: (dim,).
        size: width and height of the upright photo, in pixels.
        taken: when, as `EncodedImage.taken` says.
        objects: that a detector saw in it.
        thumbnail: see `seesay.search.thumbnails.make`.
    """

    vector: NDArray[np.float32]
    size: tuple[int, int]
    taken: str
    objects: list[Detection]
    thumbnail: bytes


def entries_of(
    contents: Mapping[str, tuple[str, bytes]], embedder: Embedder
) -> dict[str, Entry | ImageError]:
    """Make the entries of photos, in threads, by their content keys.

    Args:
        contents: names for error messages, and encoded photos, by content key.
        embedder: that embeds them.

    Returns:
        An entry, or why there is none.
    """
    items = [(key, name, data) for key, (name, data) in contents.items()]
    chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]

    def work(chunk: Sequence[Content]) -> dict[str, Entry | ImageError]:
        found: dict[str, Entry | ImageError] = {}
        for photos in _decoded(chunk, max(embedder.side, thumbnails.SIDE), found):
            found |= _embedded(photos, embedder)
        return found

    return {key: entry for found in in_threads(work, chunks) for key, entry in found.items()}


def _decoded(
    contents: Iterable[Content], side: int, broken: dict[str, Entry | ImageError]
) -> Iterator[list[Photo]]:
    """Yield decoded photos, as many at a time as the memory holds; add to `broken` why one is not."""
    photos: list[Photo] = []
    for key, name, data in contents:
        try:
            photos.append(read_apart(data, name, side, key))
        except ImageError as error:
            broken[key] = error
        if sum(photo.pixels.nbytes for photo in photos) > _PIXEL_BYTES:
            yield photos
            photos = []
    if photos:
        yield photos


def _embedded(photos: Sequence[Photo], embedder: Embedder) -> dict[str, Entry | ImageError]:
    try:
        vectors, objects = embedder.embed_and_detect(photos)
    except ImageError as error:
        if len(photos) == 1:
            return {photos[0].key: error}
        return {key: entry for photo in photos for key, entry in _embedded([photo], embedder).items()}
    found: dict[str, Entry | ImageError] = {}
    for photo, vector, seen in zip(photos, vectors, objects, strict=True):
        if np.isfinite(vector).all() and vector.any():
            found[photo.key] = Entry(vector, photo.size, photo.taken, seen, thumbnails.make(photo))
        else:
            found[photo.key] = ImageError(f"{photo.name}: the matcher gave no embedding of it.")
    return found
