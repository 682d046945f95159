"""A matcher for tests: images are their colours, sentences the colours that they name."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seesay.data.images import DecodedImage, EncodedImage
from seesay.encoders.images.encode import SHARED_SIDE
from seesay.runs.run import Run
from seesay.search import Index, Query
from seesay.search.query import PreparedQuery

RGB = {
    "red": (220, 20, 20),
    "green": (20, 200, 20),
    "blue": (20, 20, 220),
    "yellow": (230, 220, 20),
    "black": (5, 5, 5),
    "white": (250, 250, 250),
}


def picture(*colours: str, size: tuple[int, int] = (60, 40), format: str = "PNG") -> bytes:
    """An image of vertical stripes."""
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    for stripe, colour in zip(np.array_split(np.arange(size[0]), len(colours)), colours, strict=True):
        pixels[:, stripe] = RGB[colour]
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format)
    return out.getvalue()


def photo_of(data: bytes) -> DecodedImage:
    """The photo in encoded bytes."""
    return EncodedImage(data, "x").decoded(SHARED_SIDE)


def gallery(folder: Path, *names: str) -> Path:
    """A folder with one image a name such as `red-blue.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        colours = Path(name).stem.split("-")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(picture(*colours))
    return folder


def prepared(index: Index, text: str) -> PreparedQuery:
    """The query of a text as it is searched for."""
    found = index.prepare(Query.parse(text))
    assert isinstance(found, PreparedQuery)
    return found


class Colours(Run):
    """Histograms of 4 × 4 × 4 colours, square roots so that they are unit rows."""

    name, fingerprint, dim = "colours", "1", 64
    side, calibration = SHARED_SIDE, None

    def __init__(self, fingerprint: str = "1") -> None:
        self.fingerprint = fingerprint
        self.embedded: list[str] = []
        self.seen: set[str] = set()
        self.misspelt: dict[str, str] = {}  # and what is meant

    def _row(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        histogram = np.zeros(64, np.float32)
        for rows in np.array_split(pixels.reshape(-1, 3), 1 + pixels.size // 3_000_000):  # memory is measured
            histogram += np.bincount((rows // 64) @ np.array([16, 4, 1]), minlength=64)
        row: NDArray[np.float32] = np.sqrt(histogram / histogram.sum()).astype(np.float32)
        return row

    def unknown_words(self, sentences: Sequence[str]) -> list[str]:
        return []

    def corrections(self, sentences: Sequence[str]) -> dict[str, str]:
        return self.misspelt

    def embed_photos(self, photos: Sequence[DecodedImage], query: bool = False) -> NDArray[np.float32]:
        self.embedded += [photo.name for photo in photos]
        self.seen |= {photo.key for photo in photos}
        return np.stack([self._row(photo.pixels) for photo in photos])

    def embed_sentences(self, sentences: Sequence[str], query: bool = False) -> NDArray[np.float32]:
        rows = []
        for sentence in sentences:
            named = [RGB[word] for word in sentence.lower().split() if word in RGB]
            rows.append(self._row(np.array(named or [(128, 128, 128)], np.uint8)))
        return np.stack(rows)


def opened(folder: Path, matcher: Colours | None = None) -> Index:
    """The index in a folder, which a `Colours` made."""
    return Index.open(folder, matcher or Colours())
