"""Content keys of images at URLs, so that none is fetched again whose features are stored."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from seesay.data.corpus import CorpusImage, Placed
from seesay.data.images import content_key
from seesay.encoders.array_store import alone, append

FILE = "places.txt"  # in the folder of the stores: a hash of place and version, and the content key, a line


class KnownKeys:
    """The content keys of images that were read before, by where they are and in which version.

    Images of this machine are read instead, which is quick and certain.

    Args:
        folder: of the feature stores, where they are kept; a line that is damaged does not count.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._lock = Lock()
        self._new: dict[str, str] = {}
        lines = (
            self._file.read_text(encoding="ascii", errors="replace").split("\n")
            if self._file.exists()
            else []
        )
        self._keys = {line[:32]: line[33:] for line in lines if len(line) == 65}

    def key(self, image: CorpusImage) -> str | None:
        """Return the content key of an image; None if it must be read."""
        place = _place(image)
        return self._keys.get(place) if place else None

    def note(self, image: CorpusImage, key: str) -> None:
        """Remember the content key of an image that was read."""
        if place := _place(image):
            with self._lock:
                self._keys[place] = self._new[place] = key

    def keep(self) -> None:
        """Write what is new."""
        with self._lock:
            new, self._new = self._new, {}
        if new:
            with alone(self._file.parent):
                append(self._file, "".join(f"{place} {key}\n" for place, key in new.items()).encode())


def _place(image: CorpusImage) -> str:
    place = image.source.place() if isinstance(image.source, Placed) else ""
    return content_key(place.encode()) if place else ""
