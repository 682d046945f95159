"""Seals, which distinguish files that this user created from those in a copied index or run.

A server publishes the files under an index's roots, and an index from elsewhere can name any root and contain
any thumbnails. A run from elsewhere can name any network. Seals are made with a key in this user's data.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from functools import cache
from pathlib import Path

from seesay.errors import SeesayError
from seesay.paths import data_dir, flush, locked, unwritable_cache

_KEY_BYTES = 32
_PATIENCE = 30.0  # seconds, while another process makes the key


def seal(identity: str, what: Path | str) -> str:
    """Return the seal of a part of an index (such as a root or its store's address) or a run.

    It has 32 hexadecimal digits, or is empty (which seals nothing) if the key cannot be stored.
    """
    try:
        check_seals()
    except SeesayError:
        return ""
    key = _key(data_dir() / "index.key")
    return hashlib.blake2b(os.fsencode(f"{identity}\n{what}"), key=key, digest_size=16).hexdigest()


def check_seals() -> None:
    """Check that this user has a key; without one, everything seems to belong to somebody else.

    Raises:
        SeesayError: the folder of the key cannot be written.
    """
    file = data_dir() / "index.key"
    try:
        _key(file)
    except OSError as error:
        raise unwritable_cache(file, error) from error


def is_sealed(identity: str, what: Path | str, found: str) -> bool:
    """Return whether `found` is this user's seal of something of that index."""
    return found != "" and secrets.compare_digest(seal(identity, what).encode(), found.encode())


@cache
def _key(file: Path) -> bytes:
    """Read the key in a file, or make one; all processes get the same."""
    if key := _read(file):
        return key
    file.parent.mkdir(parents=True, exist_ok=True)
    with locked(file.with_suffix(".lock"), f"{file}: another process is writing it.", _PATIENCE):
        if key := _read(file):
            return key
        file.unlink(missing_ok=True)
        key = secrets.token_bytes(_KEY_BYTES)
        with open(file, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as opened:
            opened.write(key)
        for path in (file, file.parent, file.parent.parent):  # indexes are not confirmed once the key is lost
            flush(path)
        return key


def _read(file: Path) -> bytes:
    """Return the key in a file; empty if there is none, or if it is incomplete, as after a kill."""
    key = file.read_bytes() if file.exists() else b""
    return key if len(key) == _KEY_BYTES else b""
