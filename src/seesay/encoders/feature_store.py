"""The features of images, computed once for all runs. Some encoders derive theirs from another encoder's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import CorpusImage, Placed
from seesay.data.images import content_key
from seesay.encoders.array_store import ArrayStore, alone, append
from seesay.errors import SeesayError
from seesay.onnx import network_cache

if TYPE_CHECKING:
    from seesay.encoders.images.base import ImageEncoder

PLACES = "places.txt"  # beside the stores: a hash of place and version, and the content key, a line


def stores_folder() -> Path:
    """Return the folder of feature and region stores, which all runs share."""
    return network_cache("arrays")


class FeatureStore(ArrayStore):
    """Features of images by content key (32 hexadecimal digits), in half precision.

    Args:
        folder: the parent of the store's folder, which is named after the fingerprint.
        encoder: the name of the encoder, for people.
        fingerprint: of the encoder.
        dims: width of each array.

    Raises:
        SeesayError: the folder has other contents.

    Example:
        >>> import numpy as np, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = FeatureStore(pathlib.Path(folder), "mean-colour", "f00d", {"pooled": 3})
        ...     store.append(["0" * 32], {"pooled": np.ones((1, 3), np.float32)})
        ...     print(len(store), store.read(["0" * 32], "pooled"))
        1 [[1. 1. 1.]]
    """

    def __init__(self, folder: Path, encoder: str, fingerprint: str, dims: Mapping[str, int]) -> None:
        self.dims = dict(dims)
        super().__init__(folder / fingerprint, encoder, {name: ("<f2", dim) for name, dim in dims.items()})

    def append(self, keys: Sequence[str], arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Add rows (n, width) of n images; images that are already stored keep their rows."""
        self.add({key: {name: arrays[name][i : i + 1] for name in self.dims} for i, key in enumerate(keys)})

    def read(self, keys: Sequence[str], name: str) -> NDArray[np.float32]:
        """Read the rows of one array, (n, width); raise SeesayError if an image is not in the store."""
        return self.first_rows(list(keys), name).astype(np.float32)


def sources_of(encoders: Sequence[ImageEncoder]) -> dict[str, ImageEncoder]:
    """Collect the distinct encoders whose features are computed from pixels, by fingerprint."""
    return {encoder.source.fingerprint: encoder.source for encoder in encoders}


class DerivedStore:
    """Features that are computed on reading from another encoder's stored features."""

    def __init__(self, encoder: ImageEncoder, store: FeatureStore) -> None:
        self.folder = store.folder
        self._encoder, self._store = encoder, store

    def __contains__(self, key: str) -> bool:
        """Return whether there are features of that image."""
        return key in self._store

    def read(self, keys: Sequence[str], name: str) -> NDArray[np.float32]:
        """Compute the rows of one array, (n, width)."""
        stored = {each: self._store.read(keys, each) for each in self._store.dims}
        return self._encoder.from_source(stored)[name]


Stores = list[FeatureStore | DerivedStore]  # one an encoder


def opened_stores(encoders: Sequence[ImageEncoder], folder: Path) -> Stores | None:
    """Open the encoders' stores under `folder`; return None unless all exist and are readable."""
    try:
        if all((folder / encoder.source.fingerprint).is_dir() for encoder in encoders):
            return one_an_encoder(encoders, open_stores(encoders, folder))
    except (SeesayError, OSError):  # a cache that only others may write to
        pass
    return None


def open_stores(encoders: Sequence[ImageEncoder], folder: Path) -> dict[str, FeatureStore]:
    """Open, or create, the stores of encoders that are computed from pixels, by fingerprint."""
    sources = sources_of(encoders).items()
    return {key: FeatureStore(folder, e.name, e.fingerprint, e.dims) for key, e in sources}


def one_an_encoder(encoders: Sequence[ImageEncoder], opened: Mapping[str, FeatureStore]) -> Stores:
    """Return the store of each encoder, or a store derived from its source."""
    stores = [opened[encoder.source.fingerprint] for encoder in encoders]
    return [
        store if encoder.source is encoder else DerivedStore(encoder, store)
        for encoder, store in zip(encoders, stores, strict=True)
    ]


class SortedKeys:
    """Content keys in an array, which processes can share.

    Args:
        keys: (n,), 32 bytes each, sorted.
    """

    def __init__(self, keys: NDArray[np.bytes_]) -> None:
        self._keys = keys

    def __contains__(self, key: str) -> bool:
        """Return whether a key is among them."""
        at = np.searchsorted(self._keys, np.bytes_(key, "ascii"))
        return bool(at < len(self._keys) and self._keys[at] == np.bytes_(key, "ascii"))


class KnownKeys:
    """The content keys of remote images that were read before, by place and version.

    Local images are always read, which is fast and certain.

    Args:
        folder: of the feature stores, which contains them. Damaged lines are ignored.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / PLACES
        self._lock = Lock()
        self._new: dict[str, str] = {}
        text = self._file.read_text(encoding="ascii", errors="replace") if self._file.exists() else ""
        self._keys = {line[:32]: line[33:] for line in text.split("\n") if len(line) == 65}

    def key(self, image: CorpusImage) -> str | None:
        """Return the content key of an image, or None if it must be read."""
        place = _place(image)
        return self._keys.get(place) if place else None

    def note(self, image: CorpusImage, key: str) -> None:
        """Remember the content key of an image that was read."""
        if place := _place(image):
            with self._lock:
                self._keys[place] = self._new[place] = key

    def keep(self) -> None:
        """Write new keys."""
        with self._lock:
            new, self._new = self._new, {}
        if new:
            with alone(self._file.parent):
                append(self._file, "".join(f"{place} {key}\n" for place, key in new.items()).encode())


def _place(image: CorpusImage) -> str:
    place = image.source.place() if isinstance(image.source, Placed) else ""
    return content_key(place.encode()) if place else ""
