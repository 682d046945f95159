"""Text files and JSON of a corpus, read so that a issue names its file and line."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from seesay.errors import SeesayError

T = TypeVar("T")


def decode_text(data: bytes, where: Path | str) -> str:
    """UTF-8, or UTF-16 where a byte order mark says so, without the mark.

    Raises:
        SeesayError: undecodable bytes; names the line.
    """
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SeesayError(
            f"{where}:{line}: byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8."
        ) from error


def read_text(path: Path) -> str:
    """A whole text file.

    Raises:
        SeesayError: missing, unreadable or not UTF-8.
    """
    try:
        return decode_text(path.read_bytes(), path)
    except OSError as error:
        raise SeesayError(f"{path}: cannot be read ({error.strerror}).") from error


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, split at line feeds only.

    `str.splitlines` also splits at form feeds and U+2028, which occur inside sentences: one of them would
    shift every later sentence of a file whose line numbers mean something.
    """
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def parse_json(text: str, where: Path | str) -> Any:
    """JSON from text.

    Raises:
        SeesayError: malformed; names line and column.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SeesayError(f"{where}:{error.lineno}:{error.colno}: malformed JSON ({error.msg}).") from error
    except RecursionError as error:
        raise SeesayError(f"{where}: JSON nested too deeply for a corpus.") from error


def read_json(path: Path) -> Any:
    """A whole JSON file; raises as `read_text` and `parse_json` do."""
    return parse_json(read_text(path), path)


def need(record: object, key: str, kind: type[T], where: str) -> T:
    """The value of `key` in a JSON object.

    Raises:
        SeesayError: not an object, no such key, or a value of another type.
    """
    if not isinstance(record, Mapping):
        raise SeesayError(f"{where}: an object is wanted, not {type(record).__name__}.")
    if key not in record:
        raise SeesayError(f"{where}: '{key}' is missing.")
    value = record[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise SeesayError(f"{where}: '{key}' is {type(value).__name__}, not {kind.__name__}.")
    return value
