"""The feature stores of image encoders, of which some compute their features from those of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.feature_store import FeatureStore
from seesay.encoders.images.base import ImageEncoder
from seesay.errors import SeesayError


def sources_of(encoders: Sequence[ImageEncoder]) -> dict[str, ImageEncoder]:
    """Collect the encoders whose features are computed from pixels, each once, by fingerprint."""
    return {encoder.source.fingerprint: encoder.source for encoder in encoders}


class DerivedStore:
    """Features that are computed from another encoder's stored ones whenever they are read."""

    def __init__(self, encoder: ImageEncoder, store: FeatureStore) -> None:
        self.folder = store.folder
        self._encoder, self._store = encoder, store

    def __contains__(self, key: str) -> bool:
        return key in self._store

    def read(self, keys: Sequence[str], name: str) -> NDArray[np.float32]:
        stored = {each: self._store.read(keys, each) for each in self._store.dims}
        return self._encoder.from_source(stored)[name]


Stores = list[FeatureStore | DerivedStore]  # one an encoder


def opened_stores(encoders: Sequence[ImageEncoder], folder: Path) -> Stores | None:
    """Open the encoders' stores under `folder`; None unless all exist and can be read."""
    try:
        if all((folder / encoder.source.fingerprint).is_dir() for encoder in encoders):
            return one_an_encoder(encoders, open_stores(encoders, folder))
    except (SeesayError, OSError):  # a cache that only others may write to
        pass
    return None


def open_stores(encoders: Sequence[ImageEncoder], folder: Path) -> dict[str, FeatureStore]:
    """Open the stores of what is computed from pixels, by fingerprint; missing ones are created."""
    sources = sources_of(encoders).items()
    return {key: FeatureStore(folder, e.name, e.fingerprint, e.dims) for key, e in sources}


def one_an_encoder(encoders: Sequence[ImageEncoder], opened: Mapping[str, FeatureStore]) -> Stores:
    """Give each encoder its source's store, or what is computed from it."""
    stores = [opened[encoder.source.fingerprint] for encoder in encoders]
    return [
        store if encoder.source is encoder else DerivedStore(encoder, store)
        for encoder, store in zip(encoders, stores, strict=True)
    ]
