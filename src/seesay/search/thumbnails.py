"""Thumbnails, made when photos are indexed or first wanted and kept beside the index; results as a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from seesay import html
from seesay.data.decoders import read_apart
from seesay.data.images import Photo
from seesay.encoders.images.encode import SHARED_SIDE
from seesay.errors import ImageError, SeesayError
from seesay.paths import replacing, writing
from seesay.search.seal import seal

if TYPE_CHECKING:
    from seesay.search.hits import Hit
    from seesay.search.index import Index

HEIGHT = 440
"""Pixels: twice the height of a row of the page, for screens of double density."""

SIDE = SHARED_SIDE
"""Pixels that a thumbnail needs of the shorter side of a photo, as `Photo.read` takes them."""

_BODY = """<h1>{title}</h1>
<p>{count} of {all_} images in {folder}, best first</p>
<ol>
{rows}
</ol>"""

_ROW = """<li><a href="{link}"><img src="data:image/jpeg;base64,{data}" alt="{path}">
<b>{score:.3f}</b>{path}</a></li>"""


def make(photo: Photo) -> bytes:
    """Return an upright JPEG at most `HEIGHT` high and four times as wide; smaller photos keep their size."""
    import cv2

    height, width = photo.pixels.shape[:2]
    scale = min(1.0, HEIGHT / height, 4 * HEIGHT / width)
    size = max(1, round(scale * width)), max(1, round(scale * height))
    # To more than half the size, linear interpolation leaves no pixel out, and takes an eighth of the time.
    how = cv2.INTER_AREA if scale < 0.5 else cv2.INTER_LINEAR
    small = photo.pixels if scale == 1 else cv2.resize(photo.pixels, size, interpolation=how)
    out = io.BytesIO()
    Image.fromarray(small).save(out, "JPEG", quality=82)
    return out.getvalue()


class Thumbnails:
    """A folder of thumbnails, each named by the seal of its image's content key (see `seesay.search.seal`).

    So those that came with a copy of an index are never found, and no key leads out of the folder.

    Args:
        folder: that holds them; it is made when it is needed.
        identity: of the index.
        check_in_place: raises a `SeesayError` if the index is no longer in its folder.
    """

    def __init__(
        self, folder: Path, identity: str, check_in_place: Callable[[], None] = lambda: None
    ) -> None:
        self._folder = folder.parent.resolve() / folder.name
        self._identity, self._check_in_place = identity, check_in_place

    def _file(self, key: str) -> Path | None:
        """The file of a content's thumbnail; None if it cannot be kept, or a link leads to another place."""
        name = seal(self._identity, f"thumbnail {key}")
        file = self._folder / name[:2] / f"{name}.jpg"
        return file if name and file.resolve() == file else None

    def get(self, key: str, source: Path) -> bytes:
        """Return the thumbnail of a content; it is made from the file `source` if it is not there yet.

        Raises:
            ImageError: the image cannot be decoded.
            OSError: the file cannot be read.
        """
        file = self._file(key)
        if file is not None:
            with suppress(OSError):
                return file.read_bytes()
        photo = read_apart(source.read_bytes(), source.name, SIDE)
        made = make(photo)
        if photo.key == key:  # a file that has changed since is not in the index like that
            self.keep(key, made)
        return made

    def keep(self, key: str, made: bytes) -> None:
        """Keep the thumbnail of a content that is in the index, if that is possible."""
        if (file := self._file(key)) is not None:
            with suppress(OSError, SeesayError):  # on a full or read-only disk it is only slower
                self._check_in_place()
                for folder in (self._folder, file.parent):  # but no index that was deleted meanwhile
                    folder.mkdir(exist_ok=True)
                with replacing(file) as beside:
                    beside.write_bytes(made)

    def drop(self, keys: Iterable[str]) -> None:
        """Delete the thumbnails of contents that are gone."""
        for key in keys:
            if (file := self._file(key)) is not None:
                with suppress(OSError):
                    file.unlink(missing_ok=True)


def sheet(index: Index, sentence: str, hits: Sequence[Hit]) -> str:
    """Return the page of a sentence's images; those that can no longer be read are left out."""
    rows = [row for hit in hits if (row := _row(index, hit))]
    body = _BODY.format(
        title=escape(sentence),
        count=len(rows),
        all_=index.count("image"),
        folder=escape(", ".join(str(root.folder) for root in index.roots()) or str(index.folder)),
        rows="\n".join(rows),
    )
    return html.page(sentence, files(__package__).joinpath("sheet.css").read_text(encoding="utf-8"), body)


def write_sheet(index: Index, sentence: str, hits: Sequence[Hit], file: Path) -> None:
    """Write the page.

    Raises:
        SeesayError: the file cannot be written.
    """
    with writing(file) as beside:
        beside.write_text(sheet(index, sentence, hits), encoding="utf-8")


def _row(index: Index, hit: Hit) -> str | None:
    item = index.item(hit.id)
    file = index.file_of(item) if item else None
    if item is None or file is None:
        return None
    try:
        data = index.thumbnails.get(item.key, file)
    except (ImageError, OSError):
        return None
    encoded = base64.b64encode(data).decode()
    return _ROW.format(link=escape(file.as_uri()), data=encoded, path=escape(hit.path or ""), score=hit.score)
