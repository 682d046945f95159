"""What was measured of a run, kept in its folder for as long as its weights and the data are the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from seesay.data.corpus import Corpus
from seesay.data.phrases import PhraseCorpus
from seesay.errors import ImageError, SeesayError
from seesay.paths import replace_text
from seesay.runs.run import RECIPE, VOCABULARY, WEIGHTS

MEASURED = "measured.json"
_ROWS = 256


def kept_or_measured(
    folders: Sequence[Path], name: str, data: str, measure: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """A result row: the kept one of the first folder's `measured.json`, or measured now and kept there.

    In a folder that cannot be written to nothing is kept.

    Args:
        folders: of the runs that it is a row of.
        name: what was measured, how, and on which split.
        data: `data_digest` of what it is measured on.
        measure: gives the row.

    Raises:
        SeesayError: a run cannot be read, or measuring fails.
    """
    path = folders[0] / MEASURED
    of = _digest([folder / file for folder in folders for file in (RECIPE, VOCABULARY, WEIGHTS)]) + data
    kept = _read(path)
    if kept.get(name, {}).get("of") != of:
        kept[name] = {"of": of, "row": measure()}
        with suppress(OSError):  # a run that may not be written to is measured each time
            replace_text(path, json.dumps(kept, ensure_ascii=False, indent=1) + "\n")
    found: dict[str, Any] = kept[name]["row"]
    return found


def data_digest(corpus: Corpus | PhraseCorpus, split: str) -> str:
    """Of the measured split and of val, on which weights are chosen: images, texts and boxes."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted({split, "val"} & {image.split for image in corpus.images}):
        _digest_data(digest, corpus.split(name))
    return digest.hexdigest()


def _digest_data(digest: hashlib.blake2b, part: Corpus | PhraseCorpus) -> None:
    for image in part.images:
        try:
            content = image.source.read() if image.source else b""
        except ImageError as error:
            content = str(error).encode()
        digest.update(repr((image.name, image.split, hashlib.blake2b(content).digest())).encode())
    if isinstance(part, PhraseCorpus):
        digest.update(repr((part.phrases, part.sizes.tolist())).encode())
        return
    digest.update(repr(part.sentences).encode())
    if part.features is not None:
        rows = [image.row for image in part.images if image.row is not None]
        for start in range(0, len(rows), _ROWS):
            digest.update(
                np.ascontiguousarray(part.features[np.array(rows[start : start + _ROWS])]).tobytes()
            )


def _digest(files: Sequence[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        try:
            with file.open("rb") as opened:
                digest.update(hashlib.file_digest(opened, "blake2b").digest())
        except OSError as error:
            raise SeesayError(f"{file}: cannot be read ({error.strerror}); train again.") from error
    return digest.hexdigest()


def _read(path: Path) -> dict[str, Any]:
    """What was measured before; nothing where the file is missing or damaged."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}
