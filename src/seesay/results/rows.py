"""Recorded rows: a JSON line for each measurement, in `results/<corpus>.jsonl`.

Only commands write these files, and every table in the documentation is made from them.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seesay.errors import SeesayError
from seesay.paths import replace_text
from seesay.protocols.base import Result, read_result
from seesay.protocols.provenance import Provenance
from seesay.registry import describe

# Two rows that agree in all of these measure the same thing; the later one replaces the earlier.
IDENTITY = (
    *("recipe", "seed", "encoder", "crops", "changes", "split", "protocol"),
    *("convention", "IoU", "shortlist", "judgements", "answers"),  # of some protocols
)


@dataclass(frozen=True, slots=True)
class Row:
    """A measured row: what was measured, and the result."""

    provenance: Provenance
    result: Result

    @classmethod
    def from_dict(cls, values: object, where: str) -> Row:
        """Check a row read from a file.

        Raises:
            SeesayError: a key is missing, unknown or invalid; the message begins with `where`.
        """
        if not isinstance(values, Mapping):
            raise SeesayError(f"{where}: key 'protocol': a row is an object that names its protocol.")
        origin = {key: value for key, value in values.items() if key in Provenance.model_fields}
        try:
            result = read_result({key: value for key, value in values.items() if key not in origin})
            return cls(Provenance.model_validate(origin), result)
        except ValidationError as failure:
            raise SeesayError(f"{where}: {describe(failure, Provenance)}") from None
        except SeesayError as failure:
            raise SeesayError(f"{where}: {failure}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON-ready values."""
        return self.result.to_dict(uncertainty=False) | self.provenance.to_dict()

    @property
    def features(self) -> str:
        """The image encoders and their crops, in words."""
        return ", ".join(part for part in (self.provenance.encoder, self.provenance.crops) if part)

    @property
    def changes(self) -> list[str]:
        """The changes to the recipe, without the seed, which is the row's own."""
        return [change for change in self.provenance.changes or () if not change.startswith("seed=")]

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells the row from others, as text that sorts; a missing key counts as null."""
        values = self.to_dict() | {"changes": self.changes or None}
        return tuple(_sortable(values.get(key)) for key in IDENTITY)

    @property
    def repetition_of(self) -> tuple[str, ...]:
        """The identity without the seed: equal for repetitions of one measurement."""
        return tuple(text for key, text in zip(IDENTITY, self.identity, strict=True) if key != "seed")


def repetitions(rows: Iterable[Row]) -> list[list[Row]]:
    """Group rows that differ only in their seed, in order of appearance."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(row.repetition_of, []).append(row)
    return list(groups.values())


def read_rows(path: Path) -> list[Row]:
    """Read a results file; a missing file has no rows.

    Raises:
        SeesayError: a line is not a valid row; the message names it.
    """
    return [row for row, _ in _read(path)]


def record_row(folder: Path, corpus: str, row: Row) -> Path:
    """Write a row into `folder/<corpus>.jsonl`, in place of one with the same IDENTITY; return the path.

    Rows are sorted by their identity, so that a new measurement changes one line of the file.

    Raises:
        SeesayError: the corpus' name is not a file name, or the file there is invalid.
    """
    if not re.fullmatch(r"[\w][\w.+-]*", corpus):
        raise SeesayError(
            f"corpus '{corpus}': not a name for a results file; use letters, digits, '-', '+' and '.'."
        )
    path = folder / f"{corpus}.jsonl"
    lines = {earlier.identity: line for earlier, line in _read(path)}
    lines[row.identity] = json.dumps(row.to_dict(), ensure_ascii=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, "".join(f"{line}\n" for _, line in sorted(lines.items())))
    return path


def source_commit(folder: Path) -> str | None:
    """Return the short git commit of a folder, with `+` if files differ from it; None outside git."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", folder, *arguments], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    commit = git("rev-parse", "--short=10", "HEAD")
    changed = commit and git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results")
    return f"{commit}+" if changed else commit


def _read(path: Path) -> list[tuple[Row, str]]:
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        where = f"{path}:{number}"
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise SeesayError(f"{where}: not JSON ({error.msg}); each line holds one object.") from None
        rows.append((Row.from_dict(values, where), line))
    return rows


def _sortable(value: object) -> str:
    # Numbers are padded so that seed 10 comes after seed 9.
    return f"{value:020d}" if isinstance(value, int) else json.dumps(value, sort_keys=True)
