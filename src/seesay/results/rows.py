"""Results are data: one JSON line a measured row, in `results/<corpus>.jsonl`.

Every table in the docs is made from these files (`tables`), and only commands write them.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from seesay.errors import SeesayError
from seesay.paths import replace_text
from seesay.protocols.composition import COMPOSITION
from seesay.results.columns import BY_DIRECTION, BY_K, BY_KIND

# Two rows that agree in all of these are measurements of the same thing; the later one stays.
IDENTITY = (
    *("recipe", "seed", "encoder", "crops", "changes", "split", "protocol"),
    *("convention", "IoU", "shortlist", "judgements", "answers"),  # of some protocols
)


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class Direction(_Part):
    """Recalls in percent and the median rank of one direction of retrieval."""

    r1: float = Field(alias="R@1", ge=0, le=100)
    r5: float = Field(alias="R@5", ge=0, le=100)
    r10: float = Field(alias="R@10", ge=0, le=100)
    median_rank: float = Field(alias="Med r", ge=1)


class _Row(_Part):
    """What every row must hold: what was measured, and how. More keys may follow."""

    model_config = ConfigDict(extra="allow")

    recipe: str
    seed: int
    encoder: str
    crops: str | None = None
    changes: list[str] | None = None
    commit: str | None
    seconds: float = Field(ge=0)
    protocol: str
    split: str


class ResultRow(_Row):
    """A row of retrieval in both directions: the object of `evaluate --json`."""

    images: int = Field(gt=0)
    sentences: int = Field(gt=0)
    sentence_retrieval: Direction
    image_retrieval: Direction
    mean_recall: float = Field(alias="mR", ge=0, le=100)


class RecallRow(_Row):
    """A row of a protocol with one direction: its recalls, and the median rank or the proposals' bound."""

    r1: float = Field(alias="R@1", ge=0, le=100)
    r5: float = Field(alias="R@5", ge=0, le=100)
    r10: float = Field(alias="R@10", ge=0, le=100)
    median_rank: float | None = Field(None, alias="Med r", ge=1)
    upper_bound: float | None = Field(None, alias="upper bound", ge=0, le=100)


class ConceptsRow(_Row):
    """A row of the prediction of concepts: mean average precisions in percent."""

    images: int = Field(gt=0)
    concepts: int = Field(gt=0)
    precision: float | None = Field(alias="mAP", ge=0, le=100)
    image_precision: float | None = Field(alias="image mAP", ge=0, le=100)


class TrueOrder(_Part):
    """How often the true order of words scored higher, and by how many standard deviations."""

    true_order: float = Field(alias="true order", ge=0, le=100)
    standard_error: float | None = Field(alias="standard error", ge=0)
    ties: float = Field(ge=0, le=100)
    difference: float | None
    n: int = Field(gt=0)
    left_out: int = Field(alias="left out", ge=0)


class CompositionRow(_Row):
    """A row of composition: a kind of reordering each."""

    images: int = Field(gt=0)
    sentences: int = Field(gt=0)
    by_kind: dict[str, TrueOrder] = Field(alias=BY_KIND, min_length=1)


class AgreementRow(_Row):
    """A row of agreement with people: Kendall's τ times 100 over that many judged pairs."""

    judgements: str
    pairs: int = Field(gt=0)
    tau_b: float = Field(alias="tau-b", ge=-100, le=100)
    tau_c: float = Field(alias="tau-c", ge=-100, le=100)


class Graded(_Part):
    """nDCG, and precisions over several right answers, of one direction, in percent."""

    ndcg: float | None = Field(alias="nDCG@25", ge=0, le=100)
    by_chance: float | None = Field(alias="nDCG@25 by chance", ge=0, le=100)
    r_precision: float | None = Field(alias="R-precision", ge=0, le=100)
    map_at_r: float | None = Field(alias="mAP@R", ge=0, le=100)
    r1: float | None = Field(alias="R@1", ge=0, le=100)
    queries: int = Field(ge=0)


class GradedRow(_Row):
    """A row of graded relevance, a direction each."""

    images: int = Field(gt=0)
    sentences: int = Field(gt=0)
    by_direction: dict[str, Graded] = Field(alias=BY_DIRECTION, min_length=1)


class FewShot(_Part):
    """The recalls of one K, where some word is as uncommon."""

    n: int = Field(alias="N", ge=0)
    images: int = Field(ge=0)
    sentences: int = Field(ge=0)
    sentence_retrieval: Direction | None = None
    image_retrieval: Direction | None = None
    mean_recall: float | None = Field(None, alias="mR", ge=0, le=100)


class KShotRow(_Row):
    """A row of K-shot matching, a K each."""

    images: int = Field(gt=0)
    sentences: int = Field(gt=0)
    by_k: dict[str, FewShot] = Field(alias=BY_K, min_length=1)


def validate_row(row: Mapping[str, Any], where: str) -> None:
    """Check a row.

    Raises:
        SeesayError: a key is missing or its value cannot be; says where and which.
    """
    try:
        _shape(row).model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise SeesayError(f"{where}: key '{key}': {first['msg']}.") from None


def _shape(row: Any) -> type[_Row]:
    if not isinstance(row, Mapping):
        return ResultRow
    if row.get("protocol") == COMPOSITION:
        return CompositionRow
    if BY_K in row:
        return KShotRow
    if BY_DIRECTION in row:
        return GradedRow
    if "image mAP" in row:
        return ConceptsRow
    if "tau-b" in row:
        return AgreementRow
    return RecallRow if "R@1" in row else ResultRow


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All rows of a results file, checked; none where there is no file.

    Raises:
        SeesayError: a line is no JSON object or no result row; says which line.
    """
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise SeesayError(f"{where}: not JSON ({error.msg}); each line holds one object.") from None
        validate_row(row, where)
        rows.append(row)
    return rows


def record_row(folder: Path, corpus: str, row: Mapping[str, Any]) -> Path:
    """Put a row into `folder/<corpus>.jsonl`, in place of an earlier one with the same IDENTITY.

    Rows stay sorted by their identity, so that a new measurement changes one line of the file.

    Returns:
        The file, which was written beside and renamed.

    Raises:
        SeesayError: the row, the corpus' name or the file there is not as it must be.
    """
    if not re.fullmatch(r"[\w][\w.+-]*", corpus):
        raise SeesayError(
            f"corpus '{corpus}': no name for a results file; use letters, digits, '-', '+', '.'."
        )
    path = folder / f"{corpus}.jsonl"
    validate_row(row, f"row for {path}")
    same = identity(row)
    rows = [earlier for earlier in read_rows(path) if identity(earlier) != same]
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(kept, ensure_ascii=False) for kept in sorted([*rows, dict(row)], key=identity))
    replace_text(path, "".join(f"{line}\n" for line in lines))
    return path


def identity(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells a row from others, as text that sorts; a missing key counts as null."""
    # Numbers are padded so that seed 10 comes after seed 9.
    return tuple(
        f"{value:020d}" if isinstance(value, int) else json.dumps(value, sort_keys=True)
        for value in (_value(row, key) for key in IDENTITY)
    )


def kind(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The identity but for the seed: rows of one kind are repetitions of one measurement."""
    return identity({**row, "seed": None})


def source_commit(folder: Path) -> str | None:
    """The short git commit of a folder's source, with '+' when files differ from it; None outside git."""

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


def _value(row: Mapping[str, Any], key: str) -> Any:
    if key != "changes":
        return row.get(key)
    # A seed that was set on the command line is the row's seed, no change of what was measured.
    return [change for change in row.get(key) or () if not change.startswith("seed=")] or None
