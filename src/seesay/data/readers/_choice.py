"""The choice among readers, of corpora or of phrases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from seesay.errors import SeesayError


class Named(Protocol):
    """What the choice needs to know of a reader."""

    NAME: str
    LOOKS_LIKE: str

    def recognises(self, path: Path) -> bool:
        """Whether the path looks like this format; cheap."""
        ...


Reader = TypeVar("Reader", bound=Named)


def choose(readers: Sequence[Reader], path: Path, format: str | None, what: str) -> Reader:
    """The reader named `format`, or the first that recognises the path.

    Raises:
        SeesayError: there is none; names all, and what each looks for. `what` is what they read.
    """
    for reader in readers:
        if format == reader.NAME or (format is None and reader.recognises(path)):
            return reader
    if format is not None:
        names = ", ".join(reader.NAME for reader in readers)
        raise SeesayError(f"format '{format}' is not known; use one of {names}.")
    known = "; ".join(f"{reader.NAME}: {reader.LOOKS_LIKE}" for reader in readers)
    raise SeesayError(f"{path}: no {what} that seesay recognises. It reads {known}.")
