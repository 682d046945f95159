"""Thumbnails, created when photos are indexed or first requested, and stored beside the index."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from PIL import Image

from seesay.data.decoders import read_apart
from seesay.data.images import DecodedImage
from seesay.encoders.images.encode import SHARED_SIDE
from seesay.errors import SeesayError
from seesay.paths import open_file, replacing
from seesay.seal import seal

HEIGHT = 440
"""Pixels: twice the height of a row of the page, for screens of double density."""

SIDE = SHARED_SIDE
"""The minimum shorter side, in pixels, of a photo that a thumbnail is made of, see `EncodedImage.decoded`."""


def make(photo: DecodedImage) -> bytes:
    """Return an upright JPEG at most `HEIGHT` high and four times as wide; smaller photos keep their size."""
    import cv2

    height, width = photo.pixels.shape[:2]
    scale = min(1.0, HEIGHT / height, 4 * HEIGHT / width)
    size = max(1, round(scale * width)), max(1, round(scale * height))
    # Down to half the size, linear interpolation uses every pixel, and takes an eighth of the time.
    how = cv2.INTER_AREA if scale < 0.5 else cv2.INTER_LINEAR
    small = photo.pixels if scale == 1 else cv2.resize(photo.pixels, size, interpolation=how)
    out = io.BytesIO()
    Image.fromarray(small).save(out, "JPEG", quality=82)
    return out.getvalue()


class Files(Protocol):
    """Where thumbnails are kept, by names of hexadecimal digits."""

    def read(self, name: str) -> bytes | None:
        """Return a thumbnail, or None without one."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Keep a thumbnail if that is possible."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Delete the thumbnails that there are."""
        ...


class ThumbnailFolder:
    """A folder of thumbnails.

    Args:
        folder: of the thumbnails, created on demand.
        check_in_place: raises a `SeesayError` if the index is no longer in its folder.
    """

    def __init__(self, folder: Path, check_in_place: Callable[[], None] = lambda: None) -> None:
        self._folder, self._check_in_place = folder.parent.resolve() / folder.name, check_in_place

    def _file(self, name: str) -> Path | None:
        """The file of a name; None if a link leads elsewhere."""
        file = self._folder / name[:2] / f"{name}.jpg"
        return file if file.resolve() == file else None

    def read(self, name: str) -> bytes | None:
        """See `Files`."""
        if (file := self._file(name)) is not None:
            with suppress(OSError), open_file(file, self._folder.parent) as kept:
                return kept.readall()
        return None

    def write(self, name: str, data: bytes) -> None:
        """See `Files`; on a full or read-only disk a thumbnail is made each time."""
        if (file := self._file(name)) is not None:
            with suppress(OSError, SeesayError):
                self._check_in_place()
                for folder in (self._folder, file.parent):  # but not that of an index deleted meanwhile
                    folder.mkdir(exist_ok=True)
                with replacing(file) as beside:
                    beside.write_bytes(data)

    def delete(self, names: Iterable[str]) -> None:
        """See `Files`."""
        for file in filter(None, map(self._file, names)):
            with suppress(OSError):
                file.unlink(missing_ok=True)


class Thumbnails:
    """The thumbnails of an index, named by the seal of the image's content key (see `seesay.seal`).

    Thumbnails in a copied index are therefore never found, and no key leads elsewhere.

    Args:
        files: where they are kept.
        identity: of the index.
    """

    def __init__(self, files: Files, identity: str) -> None:
        self._files, self._identity = files, identity

    def _name(self, key: str) -> str:
        """The name of a thumbnail; empty if this user's key cannot be read."""
        return seal(self._identity, f"thumbnail {key}")

    def get(self, key: str, read: Callable[[], bytes]) -> bytes:
        """Return the thumbnail of a content, created from the encoded image that `read` returns if missing.

        Raises:
            ImageError: the image cannot be decoded.
            OSError: `read` raised it.
        """
        name = self._name(key)
        if name and (kept := self._files.read(name)) is not None:
            return kept
        photo = read_apart(read(), "the image", SIDE)
        made = make(photo)
        if photo.key == key:  # otherwise the file has changed since it was indexed
            self.keep(key, made)
        return made

    def keep(self, key: str, made: bytes) -> None:
        """Keep the thumbnail of a content."""
        if name := self._name(key):
            self._files.write(name, made)

    def drop(self, keys: Iterable[str]) -> None:
        """Delete the thumbnails of removed contents."""
        self._files.delete(filter(None, map(self._name, keys)))
