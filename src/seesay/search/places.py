"""Where an index is: a folder, or a schema of a database."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from seesay.errors import SeesayError, naming_extras
from seesay.search.store import Store


def is_address(place: str | Path) -> bool:
    """Return whether a place is that of a database, not a folder."""
    return str(place).startswith(("postgresql:", "postgres:"))


def store_exists(place: str | Path) -> bool:
    """Return whether there is an index at a place; a kill before the first transaction leaves none."""
    return _kind_of(place).exists(place)


def create_store(place: str | Path, embedder: str, fingerprint: str, dim: int) -> Store:
    """Create an empty store for the vectors of the run `embedder`, in a new folder or under a new address.

    Raises:
        SeesayError: there is one already, or it cannot be written.
    """
    about = {"embedder": embedder, "fingerprint": fingerprint, "dim": str(dim)}
    state = {"identity": uuid.uuid4().hex, "generation": "0", "changed": str(time.time()), "last_id": "0"}
    return _kind_of(place).create(place, about | state)


def store_for_copy(place: str | Path, meta: Mapping[str, str]) -> Store:
    """Return an empty store with the metadata of another one: a new one, or what a killed copy left.

    Raises:
        SeesayError: there is another index, or it cannot be written.
    """
    kind = _kind_of(place)
    store = kind.open(place) if kind.exists(place) else kind.create(place, {**meta, "generation": "0"})
    if (store.meta["identity"], store.generation()) != (meta["identity"], 0):
        store.close()
        raise SeesayError(f"{place}: already exists; copy to another place.")
    return store


def open_store(place: str | Path) -> Store:
    """Open a store.

    Raises:
        SeesayError: there is none, it is not an index, damaged, or made by another version of seesay.
    """
    return _kind_of(place).open(place)


def _kind_of(place: str | Path) -> type[Store]:
    if is_address(place):
        with naming_extras():
            from seesay.search.postgresql import DatabaseStore

            return DatabaseStore
    from seesay.search.file_store import FileStore

    return FileStore
