"""Thumbnails of images, made when they are first wanted and kept beside the index."""

from __future__ import annotations

import io
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from PIL import Image

from seesay.data.pixels import content_key, decode
from seesay.paths import replacing

HEIGHT = 440
"""Pixels: twice the height of a row of the page, for screens of double density."""


def make(data: bytes, name: str) -> bytes:
    """Return an upright JPEG at most `HEIGHT` high and four times as wide; smaller images keep their size.

    Raises:
        ImageError: the image cannot be decoded.
    """
    image = Image.fromarray(decode(data, name, min_side=HEIGHT))
    image.thumbnail((4 * HEIGHT, HEIGHT), Image.Resampling.BICUBIC, reducing_gap=2)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=82, optimize=True)
    return out.getvalue()


class Thumbnails:
    """A folder of thumbnails, named after the content keys of their images."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.jpg"

    def get(self, key: str, source: Path) -> bytes:
        """Return the thumbnail of a content; it is made from the file `source` if it is not there yet.

        Raises:
            ImageError: the image cannot be decoded.
            OSError: the file cannot be read.
        """
        file = self._file(key)
        with suppress(OSError):
            return file.read_bytes()
        data = source.read_bytes()
        made = make(data, source.name)
        if content_key(data) != key:
            return made  # the file has changed since; another one may still hold this content
        with suppress(OSError):  # on a full or read-only disk it is only slower
            file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(file) as beside:
                beside.write_bytes(made)
        return made

    def drop(self, keys: Iterable[str]) -> None:
        """Delete the thumbnails of contents that are gone."""
        for key in keys:
            with suppress(OSError):
                self._file(key).unlink(missing_ok=True)
