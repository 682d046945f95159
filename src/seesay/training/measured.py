"""Measured rows, kept in a run's folder for as long as its weights and the data are the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from seesay.data.corpus import Corpus
from seesay.errors import ImageError, SeesayError
from seesay.paths import replace_text
from seesay.results.rows import Row
from seesay.runs.config import RUN, VOCABULARY, WEIGHTS

MEASURED = "measured.json"
_ROWS = 256


def kept_or_measured(folders: Sequence[Path], name: str, data: str, measure: Callable[[], Row]) -> Row:
    """Return the row kept in the first folder's `measured.json`, or measure it and keep it there.

    Nothing is kept in a folder that is not writable.

    Args:
        folders: of the runs that the row is of.
        name: what was measured, how, and on which split.
        data: `data_digest` of what it is measured on.
        measure: measures the row.

    Raises:
        SeesayError: a run cannot be read, or measuring fails.
    """
    path = folders[0] / MEASURED
    of = _digest([folder / file for folder in folders for file in (RUN, VOCABULARY, WEIGHTS)]) + data
    kept = _read(path)
    found = kept.get(name)
    if isinstance(found, dict) and found.get("of") == of:
        with suppress(SeesayError):  # a row that an earlier version kept otherwise is measured again
            return Row.from_dict(found.get("row"), str(path))
    row = measure()
    kept[name] = {"of": of, "row": row.to_dict(uncertainty=True)}
    with suppress(OSError):
        replace_text(path, json.dumps(kept, ensure_ascii=False, indent=1) + "\n")
    return row


def data_digest(corpus: Corpus, split: str) -> str:
    """Return a digest of the measured split and of val, on which weights are chosen: images, texts, boxes."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted({split, "val"} & {image.split for image in corpus.images}):
        _add_split(digest, corpus.split(name))
    return digest.hexdigest()


def _add_split(digest: hashlib.blake2b, part: Corpus) -> None:
    for image in part.images:
        try:
            content = image.source.read() if image.source else b""
        except ImageError as error:
            content = str(error).encode()
        about = image.name, image.split, image.size, hashlib.blake2b(content).digest()
        digest.update(repr(about).encode())
    digest.update(repr(part.sentences).encode())
    if part.features is not None:
        rows = [image.row for image in part.images if image.row is not None]
        for start in range(0, len(rows), _ROWS):
            block = part.features[np.array(rows[start : start + _ROWS])]
            digest.update(np.ascontiguousarray(block).tobytes())


def _digest(files: Sequence[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        try:
            with file.open("rb") as opened:
                digest.update(hashlib.file_digest(opened, "blake2b").digest())
        except OSError as error:
            raise SeesayError(f"{file}: cannot be read ({error.strerror}); train again.") from error
    return digest.hexdigest()


def _read(path: Path) -> dict[str, JsonValue]:
    """What is kept; nothing if the file is missing or damaged."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}
