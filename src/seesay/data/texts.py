"""Text files: encodings, lines and JSON, with errors that name the line; spellings of characters."""

from __future__ import annotations

import codecs
import gzip
import json
import re
import unicodedata
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from seesay.errors import SeesayError

_TIMES, _MORE = 100, 1 << 20  # a compressed file may expand to this many times its size, plus so many bytes
LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""Matches half of a surrogate pair, which a text contains if it was made from bytes that are not UTF-8."""
_MOST_ACCENTS = 30  # in a row, as in Unicode's stream-safe format (UAX 15)


def decode_text(data: bytes, where: Path | str) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark, without the mark; an error names the line.

    Lines may also end in carriage returns alone.
    """
    try:
        text = data.decode("utf-16" if is_utf16(data) else "utf-8-sig")
    except UnicodeDecodeError as error:
        at = error.start + len(codecs.BOM_UTF8) * data.startswith(codecs.BOM_UTF8)  # counted after it
        line = data[:at].count(b"\n") + 1
        raise SeesayError(
            f"{where}:{line}: byte 0x{data[at]:02x} is not UTF-8; save the file as UTF-8."
        ) from error
    return with_line_feeds(text)


def is_utf16(data: bytes) -> bool:
    """Return whether data begin with the byte order mark of UTF-16."""
    return data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def with_line_feeds(text: str) -> str:
    """Return a text whose lines end in line feeds, if they end in carriage returns alone."""
    return text if "\n" in text else text.replace("\r", "\n")


def read_bytes(path: Path, limit: int = -1) -> bytes:
    """Read a file, or its first `limit` bytes, gzipped if its name ends in `.gz`.

    Raises:
        SeesayError: it cannot be read, is damaged, or expands too far.
    """
    try:
        with path.open("rb") as raw, gzip.open(raw) if path.suffix.lower() == ".gz" else raw as file:
            if limit >= 0 or file is raw:
                return file.read(limit)
            size = path.stat().st_size
            data = file.read(_MORE + _TIMES * size + 1)
            check_expansion(path, len(data))
            return data
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SeesayError(f"{path}: truncated or damaged gzip file ({error}); copy it again.") from error
    except OSError as error:
        raise SeesayError(f"{path}: cannot be read ({error.strerror}).") from error


def check_expansion(path: Path, size: int) -> None:
    """Raise SeesayError if a compressed file expands to a size in bytes that no text does."""
    if size > _MORE + _TIMES * path.stat().st_size:
        raise SeesayError(
            f"{path}: expands to over {_TIMES} times its size, far more than text does; unpack it."
        )


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file, gzipped if its name ends in `.gz`; see `split_lines`."""
    return split_lines(decode_text(read_bytes(path), path))


def split_lines(text: str) -> list[str]:
    """Split a text at line feeds only.

    `str.splitlines` also splits at form feeds and U+2028, which occur inside sentences and would shift all
    later line numbers.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def parse_json(text: str, where: Path | str) -> Any:
    """Parse JSON; an error names line and column."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SeesayError(f"{where}:{error.lineno}:{error.colno}: malformed JSON ({error.msg}).") from error
    except ValueError as error:  # Python reads integers of 4,300 digits at most
        raise SeesayError(f"{where}: a number in this JSON has too many digits.") from error
    except RecursionError as error:
        raise SeesayError(f"{where}: JSON is nested too deeply for a corpus.") from error


def json_or_none(text: str) -> Any:
    """Return the value of a JSON text; None if it is malformed."""
    with suppress(SeesayError):
        return parse_json(text, "")
    return None


def read_json(path: Path) -> Any:
    """Read a whole JSON file; raise SeesayError if it cannot be read."""
    return parse_json(decode_text(read_bytes(path), path), path)


def composed(text: str) -> str:
    """Return a text with its accents composed (NFC), since macOS may write them as separate characters.

    A text with more than 30 accents in a row is returned unchanged, because sorting n of them takes n² steps.

    >>> composed("cafe\N{COMBINING ACUTE ACCENT}") == "caf\N{LATIN SMALL LETTER E WITH ACUTE}"
    True
    """
    in_a_row = 0
    for letter in "" if text.isascii() else text:
        in_a_row = in_a_row + 1 if unicodedata.combining(letter) else 0
        if in_a_row > _MOST_ACCENTS:
            return text
    return unicodedata.normalize("NFC", text)


def printable(text: str) -> str:
    """Replace lone surrogates, as in a file name that is not UTF-8, by U+FFFD, which can be encoded."""
    return LONE_SURROGATE.sub("\ufffd", text)
