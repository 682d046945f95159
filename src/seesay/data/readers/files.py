"""Text and JSON of a corpus, with errors that name the file and line; names of splits."""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from seesay.data.corpus import Omission, in_seeded_order
from seesay.errors import SeesayError

MALFORMED_LINE = Omission("malformed line, dropped")
_TIMES, _MORE = 100, 1 << 20  # a compressed file may expand to this many times its size, plus so many bytes
_KINDS = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "a number",
    float: "a number",
    bool: "a boolean",
}

T = TypeVar("T")


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
    """Read the lines of a text file, gzipped if its name ends in `.gz`, split at line feeds only.

    `str.splitlines` also splits at form feeds and U+2028, which occur inside sentences and would shift all
    later line numbers.
    """
    lines = [line.removesuffix("\r") for line in decode_text(read_bytes(path), path).split("\n")]
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


def need(record: object, key: str, kind: type[T], where: str) -> T:
    """Return the value of `key` in a JSON object.

    Raises:
        SeesayError: not an object, no such key, or a value of another type.
    """
    if not isinstance(record, Mapping):
        raise SeesayError(f"{where}: expected an object, not {json_kind(record)}.")
    if key not in record:
        raise SeesayError(f"{where}: '{key}' is missing.")
    value = record[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise SeesayError(f"{where}: '{key}' is {json_kind(value)}, not {_KINDS[kind]}.")
    return value


def json_kind(value: object) -> str:
    """Return what JSON calls a value, such as "a list"."""
    return _KINDS.get(type(value), "null")


def need_text(record: object, key: str, where: str) -> str:
    """Return a sentence in a JSON object, "" if it is null; raise SeesayError as `need` does."""
    is_null = isinstance(record, Mapping) and key in record and record[key] is None
    return "" if is_null else need(record, key, str, where)


_ALIASES = (
    dict.fromkeys(("train", "training", "trn", "restval"), "train")  # COCO's restval is trained on
    | dict.fromkeys(("val", "valid", "validation", "dev"), "val")
    | dict.fromkeys(("test", "testing"), "test")
)
_WORD = re.compile(r"[a-z]+")


def canonical_split(name: str, where: str) -> str:
    """Return `train`, `val` or `test` for any of the usual names; raise SeesayError for other names."""
    split = _ALIASES.get(name.strip().lower())
    if split is None:
        raise SeesayError(f"{where}: split '{name}' is unknown; use train, val or test.")
    return split


def split_in_name(name: str) -> str | None:
    """Return the split in a file name such as `captions_val2014.json`; None if there is none or several."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    found = {_ALIASES[word] for word in _WORD.findall(spaced) if word in _ALIASES}
    return found.pop() if len(found) == 1 else None


def seeded_splits(names: Iterable[str]) -> dict[str, str]:
    """Split images 80/10/10 by a hash of their names; of three or more, each split has at least one."""
    ranked = in_seeded_order(names)
    tenth = max(len(ranked) // 10, 1) if len(ranked) >= 3 else 0
    return {
        name: "val" if rank < tenth else "test" if rank < 2 * tenth else "train"
        for rank, name in enumerate(ranked)
    }
