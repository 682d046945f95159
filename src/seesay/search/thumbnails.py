"""Thumbnails, created when photos are indexed or first requested, and stored in the index."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping

from PIL import Image

from seesay.data.images import DecodedImage
from seesay.encoders.images.encode import SHARED_SIDE
from seesay.seal import seal
from seesay.search.store import Store

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


class Thumbnails:
    """The thumbnails of an index, named by the seal of the image's content key (see `seesay.seal`).

    Thumbnails in a copied index are therefore never found, and no key leads elsewhere.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def _name(self, key: str) -> str:
        """The name of a thumbnail; empty if this user's key cannot be read."""
        return seal(self._store.meta["identity"], f"thumbnail {key}")

    def get(self, key: str, read: Callable[[], bytes]) -> bytes:
        """Return the thumbnail of a content, created from the encoded image that `read` returns if missing.

        Raises:
            ImageError: the image cannot be decoded.
            OSError: `read` raised it.
        """
        if (kept := self.kept(key)) is not None:
            return kept
        from seesay.data.decoders import PHOTOS  # pydantic is slow to import, and no search needs it

        photo = PHOTOS.decode(read(), "the image", SIDE)
        made = make(photo)
        if photo.key == key:  # otherwise the file has changed since it was indexed
            self.keep({key: made})
        return made

    def kept(self, key: str) -> bytes | None:
        """Return the thumbnail of a content, if it is kept."""
        name = self._name(key)
        return self._store.thumbnail(name) if name else None

    def keep(self, made: Mapping[str, bytes]) -> None:
        """Keep the thumbnails of contents, by their keys."""
        named = {name: data for key, data in made.items() if (name := self._name(key))}
        if named:
            self._store.keep_thumbnails(named)

    def drop(self, keys: Iterable[str]) -> None:
        """Delete the thumbnails of removed contents."""
        self._store.drop_thumbnails(filter(None, map(self._name, keys)))
