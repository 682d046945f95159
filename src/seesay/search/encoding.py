"""New photos: files are read ahead, and what the index does not have is decoded and embedded in threads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from seesay.data import decoders
from seesay.data.images import DecodedImage, content_key
from seesay.data.sources import FileSource
from seesay.encoders.images.encode import CHUNK, in_threads
from seesay.errors import ImageError, UnavailableImageError
from seesay.runs.run import Run
from seesay.search import thumbnails
from seesay.search.photo import FileState, NewPhoto
from seesay.search.preparing import is_finite

_PIXEL_BYTES = 1 << 26  # of decoded photos that a thread holds before it embeds them
_BATCH_FILES = 64
_BATCH_BYTES = 64 * 2**20

Batch = dict[str, bytes | OSError]
"""The bytes of files by path, or why they cannot be read."""

EncodedElsewhere = Callable[
    [Callable[[str], FileSource], Mapping[str, FileState], Collection[str]], Iterator[dict[str, NewPhoto]]
]
"""Encodes files elsewhere, given a function from path to file, states by path, and known content keys."""


def read_ahead(file_of: Callable[[str], FileSource], files: Mapping[str, FileState]) -> Iterator[Batch]:
    """Yield the files' bytes in batches; a thread reads the next batch while the caller works on this one.

    Args:
        file_of: returns the file of a path.
        files: to read.
    """
    batches = _batches(file_of, files)
    with ThreadPoolExecutor(1, thread_name_prefix="seesay-read") as reader:
        ahead = reader.submit(next, batches, None)
        while (batch := ahead.result()) is not None:
            ahead = reader.submit(next, batches, None)
            yield batch


def _batches(file_of: Callable[[str], FileSource], files: Mapping[str, FileState]) -> Iterator[Batch]:
    """Yield as many files at a time as fit into memory."""
    batch, room = Batch(), _BATCH_BYTES
    for path, state in files.items():
        try:
            with file_of(path).open() as file:
                batch[path] = file.readall()
        except OSError as error:
            batch[path] = error
        room -= state.size
        if len(batch) == _BATCH_FILES or room <= 0:
            yield batch
            batch, room = Batch(), _BATCH_BYTES
    if batch:
        yield batch


def new_photos(
    batch: Batch, embedder: Run, known: Callable[[Iterable[str]], set[str]]
) -> dict[str, NewPhoto]:
    """Encode files; return their contents by path.

    Args:
        batch: the files.
        embedder: of the index.
        known: returns those of some content keys that the index has; only other contents are embedded.
    """
    found, keys = dict[str, NewPhoto](), dict[str, str]()
    contents = dict[str, tuple[str, str, bytes]]()  # key, the path that errors name, and bytes
    for path, data in batch.items():
        if isinstance(data, OSError):
            found[path] = NewPhoto("", fault=data.strerror or str(data), lasts=False)
        else:
            keys[path] = key = content_key(data)
            contents.setdefault(key, (key, path, data))
    photos = {key: NewPhoto(key) for key in known(contents)}
    new = [content for key, content in contents.items() if key not in photos]
    chunks = [new[start : start + CHUNK] for start in range(0, len(new), CHUNK)]
    for encoded in in_threads(lambda chunk: list(_encoded(chunk, embedder)), chunks):
        photos |= {photo.key: photo for photo in encoded}
    return found | {path: photos[key] for path, key in keys.items()}


def _encoded(contents: Sequence[tuple[str, str, bytes]], embedder: Run) -> Iterator[NewPhoto]:
    """Decode photos and embed them, as many at a time as fit into memory."""
    images, side = list[DecodedImage](), max(embedder.side, thumbnails.SIDE)
    for key, name, data in contents:
        try:
            images.append(decoders.PHOTOS.decode(data, name, side, key=key))
        except ImageError as error:
            yield _faulty(key, name, error)
        if sum(image.pixels.nbytes for image in images) > _PIXEL_BYTES:
            yield from _embedded(images, embedder)
            images = []
    if images:
        yield from _embedded(images, embedder)


def _embedded(images: Sequence[DecodedImage], embedder: Run) -> Iterator[NewPhoto]:
    try:
        vectors = embedder.embed_photos(images)
    except ImageError as error:
        if len(images) == 1:
            yield _faulty(images[0].key, images[0].name, error)
        else:
            for image in images:
                yield from _embedded([image], embedder)
        return
    for image, vector in zip(images, vectors, strict=True):
        if is_finite(vector) and vector.any():
            yield NewPhoto(image.key, vector, image.size, image.taken, thumbnails.make(image))
        else:
            yield NewPhoto(image.key, fault="the matcher returned no embedding.")


def _faulty(key: str, name: str, error: ImageError) -> NewPhoto:
    lasts = not isinstance(error, UnavailableImageError)
    return NewPhoto(key, fault=str(error).removeprefix(f"{name}: "), lasts=lasts)
