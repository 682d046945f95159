"""A seal on an index's root, by which the user who indexed the folder is told from whoever made a copy.

A server publishes the files under an index's root, and an index from elsewhere can name any root. The seal is
made with a key that only this user's cache holds.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from seesay.paths import cache_dir

_KEY_BYTES = 32


def seal(identity: str, root: Path | str) -> str:
    """Return the seal of an index's root, or of its store's address.

    It is empty if no key can be kept, which seals nothing.
    """
    try:
        key = _key()
    except OSError:
        return ""
    return hashlib.blake2b(os.fsencode(f"{identity}\n{root}"), key=key, digest_size=16).hexdigest()


def is_sealed(identity: str, root: Path | str, found: str) -> bool:
    """Return whether this user sealed that root or address for that index."""
    return found != "" and secrets.compare_digest(seal(identity, root), found)


def _key() -> bytes:
    file = cache_dir() / "index.key"
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        key = file.read_bytes()
        if len(key) != _KEY_BYTES:
            raise OSError(f"{file}: damaged") from None
        return key
    with os.fdopen(descriptor, "wb") as opened:
        key = secrets.token_bytes(_KEY_BYTES)
        opened.write(key)
    return key
