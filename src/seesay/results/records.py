"""Recorded rows: a JSON line for each measurement, in `results/<corpus>.jsonl`.

A row is a result with its origin: recipe, features, source and training. Only commands write these files;
all tables in the documentation are generated from them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from pydantic import Field, StrictInt

from seesay.errors import SeesayError, without_folders
from seesay.paths import is_file_name, lock_of, locked, replace_text
from seesay.protocols.base import Result
from seesay.recipes.load import settings_digest

if TYPE_CHECKING:
    from seesay.protocols.evaluate import Entry
    from seesay.recipes.schema import Recipe

_SOURCE = Path(__file__).parents[1]
_PATIENCE = 60.0  # seconds to wait for other processes, each of which records within a fraction of one
# Rows that agree in these measure the same thing; the later one replaces the earlier. The last two are how
# boxes were compared.
_ORIGIN = ("recipe", "seed", "encoder", "crops", "changes")
_MEASURED = ("split", "protocol", "content", "convention", "IoU")
_TRAINING = ("epochs", "best_epoch", "train_seconds", "machine", "teacher")  # of a single run

_CROPS = {"": "squash", "ten": "ten crops", "own": "its own crop"}


class Row(Result):
    """A recorded row: a result with its origin.

    Attributes:
        recipe: its name, or in a table that of external scores, for which the training is unknown.
        changes: the changes to the recipe.
        settings_digest: the digest of the settings for training; rows of earlier versions have none.
        seconds: the time of measuring.
        commit: the commit of seesay's source, with "+" if files differed from it; None outside git.
        epochs: the epochs of training; `best_epoch` is the best of them on val.
        train_seconds: the time of training.
        machine: where the training ended, such as "x86_64, 2 cores, cpu", after the machines of members.
        teacher: the fingerprint of the run whose scores it learned from.
    """

    recipe: str
    system: str | None = None
    seed: StrictInt = 0
    encoder: str = ""
    crops: str | None = None
    changes: list[str] | None = None
    departures: list[str] = Field(default_factory=list)
    settings_digest: str | None = None
    seconds: float = Field(ge=0)
    commit: str | None
    epochs: StrictInt | None = Field(None, ge=0)
    best_epoch: StrictInt | None = Field(None, ge=0)
    train_seconds: float | None = Field(None, ge=0)
    machine: str | None = None
    teacher: str | None = None

    def to_dict(self, uncertainty: bool = False) -> dict[str, Any]:
        """Return the row as JSON-ready values, without unknown facts of the training.

        Args:
            uncertainty: include the notes, intervals and comparison of the result.
        """
        origin = Row.model_fields.keys() - Result.model_fields.keys()
        values = super().to_dict(uncertainty)
        measured = {key: value for key, value in values.items() if key not in origin}
        return measured | self.model_dump(mode="json", include=origin & self.model_fields_set)

    @property
    def features(self) -> str:
        """The image encoders and their crops, in words."""
        return ", ".join(part for part in (self.encoder, self.crops) if part)

    @property
    def variant(self) -> list[str]:
        """The changes to the recipe, except for the seed."""
        return sorted(each for each in self.changes or () if not each.startswith("seed="))

    @property
    def identity(self) -> dict[str, str]:
        """The values that identify the row, as text that sorts; a missing one counts as null."""
        values = self.about | self.to_dict() | {"changes": self.variant or None}
        # Numbers are padded so that seed 10 comes after seed 9.
        return {
            key: f"{value:020d}"
            if isinstance(value := values.get(key), int)
            else json.dumps(value, sort_keys=True)
            for key in (*_ORIGIN, *_MEASURED)
        }


def repetitions(rows: Iterable[Row]) -> list[list[Row]]:
    """Group rows that differ only in their seed, in order of appearance.

    Rows with other settings, another teacher or other departures are no repetitions, even under the same
    name: a recipe that has changed in the meantime is another one.
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        same = {**row.identity, "seed": ""}.values()
        groups.setdefault((*same, row.settings_digest, row.teacher, *row.departures), []).append(row)
    return list(groups.values())


def read_rows(path: Path) -> list[Row]:
    """Read a results file; a missing file has no rows.

    Raises:
        SeesayError: a line is not a valid row; the message names it.
    """
    return [row for row, _ in _read(path)]


def recorded_rows(corpus: str) -> Path:
    """Return the file of a corpus's recorded rows: `results/CORPUS.jsonl` here, or else the included one."""
    # A wheel has them beside this module, a clone of the repository in a folder of its own.
    folders = Path("results"), Path(__file__).parent / "recorded", Path(__file__).parents[3] / "results"
    paths = [folder / f"{corpus}.jsonl" for folder in folders]
    return next(filter(Path.is_file, paths), paths[0])


def make_record(folder: Path, corpus: str, entries: Sequence[Entry] = ()) -> Path:
    """Create a folder of rows before anything is measured, and return the file of a corpus in it.

    Raises:
        SeesayError: the corpus's name cannot be a file name, the folder cannot be written, or an entry has no
            recipe, as external scores have none.
    """
    from seesay.runs.run import Run

    for entry in entries:
        if not isinstance(entry, Run):
            raise SeesayError(
                "Only rows of recipes are recorded, and files of scores have none; keep their result as JSON."
            )
        entry.recipe  # noqa: B018 — raises an error if its file is missing
    source_commit()  # before anybody changes the source
    if not is_file_name(corpus):
        raise SeesayError(f"corpus '{corpus}': not a name for a results file; rename its folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SeesayError(f"{folder}: cannot hold rows ({error.strerror}); choose another folder.") from error
    return folder / f"{corpus}.jsonl"


def record_row(folder: Path, corpus: str, row: Row) -> Path:
    """Write a row into `folder/<corpus>.jsonl`, in place of one with the same identity; return the path.

    Rows are sorted by their identity, so that a new measurement changes one line of the file. Processes that
    share a cache folder wait for each other.

    Raises:
        SeesayError: see `make_record`; the file is invalid, or another process does not finish in time.
    """
    path = make_record(folder, corpus)
    with locked(lock_of(path), f"{path}: another process is recording there.", _PATIENCE):
        lines = {tuple(earlier.identity.values()): line for earlier, line in _read(path)}
        lines[tuple(row.identity.values())] = json.dumps(row.to_dict(), ensure_ascii=False)
        replace_text(path, "".join(f"{line}\n" for _, line in sorted(lines.items())))
    return path


def row_of(result: Result, entries: Sequence[Entry], seconds: float, named: str | None = None) -> Row:
    """Return the row of a result of one entry, or of several combined, which took so many seconds to measure.

    `named` is the name of a combination, by default after what is combined and how.
    """
    first, *others = origins = [_origin(entry) for entry in entries]
    if others:
        several = len({each["seed"] for each in origins}) > 1
        parts = (each["recipe"] + f" seed {each['seed']}" * several for each in origins)
        name = named or f"{result.about['combined']} of {' + '.join(parts)}"
        # What tells the members apart is joined; the training is left out, as it differs.
        first = {key: value for key, value in first.items() if key not in _TRAINING}
        first |= {"recipe": name, "system": name}
        for key in ("encoder", "crops", "settings_digest"):
            found = (each[key] for each in origins if each[key])
            first[key] = " + ".join(found if key == "settings_digest" else dict.fromkeys(found))
        for key in ("changes", "departures"):
            first[key] = [*dict.fromkeys(chain(*(each[key] for each in origins)))]
    measured = {"seconds": round(seconds, 1), "commit": source_commit()}
    row = Row.model_validate(dict(result) | first | measured)
    row._samples = result._samples
    return row


def _origin(entry: Entry) -> dict[str, Any]:
    """Return the keys of a row that an entry determines."""
    from seesay.runs.run import Run
    from seesay.runs.summary import TrainingSummary, is_finished

    if not isinstance(entry, Run) or not entry.has_recipe:
        return {"recipe": entry.title}
    recipe, departures = entry.recipe, [*entry.recipe.departures]
    encoder, crops = encoder_and_crops(recipe)
    training: dict[str, Any] = {}
    if is_finished(entry.folder):  # not for included weights
        summary = TrainingSummary.load(entry.folder)
        machines = [member.machine for member in (summary.members or {}).values()] + [summary.machine]
        if summary.corpus.format:
            departures.append(f"the corpus as {summary.corpus.format}")
        training = {
            "epochs": summary.epochs,
            "best_epoch": summary.best_epoch,
            "train_seconds": summary.seconds,
            "machine": "; ".join(dict.fromkeys(filter(None, machines))),
            "teacher": summary.teacher,
        }
    return {
        "recipe": recipe.name,
        "system": recipe.system,
        "seed": recipe.seed,
        "encoder": encoder,
        "crops": crops,
        "changes": recorded_changes(recipe),
        "departures": departures,
        "settings_digest": settings_digest(recipe),
        **{name: value for name, value in training.items() if value is not None},
    }


def recorded_changes(recipe: Recipe) -> list[str]:
    """Return the changes to a recipe, without the folders of files and runs that they name."""
    return [without_folders(change) for change in recipe.changes]


def encoder_and_crops(recipe: Recipe) -> tuple[str, str]:
    """Return the names of the recipe's image encoders and of their crops, for tables.

    Encoders that were fine-tuned with different seeds have the same name. Concepts and instances have no
    crops of their own, and those of precomputed features are unknown.
    """
    from seesay.encoders.images.concepts import CONCEPT_ENCODERS
    from seesay.encoders.images.instances import INSTANCES
    from seesay.encoders.regions import DETECTOR, MAPS, NETWORK, POOLING
    from seesay.encoders.settings import PRECOMPUTED

    networks, crops = [], []
    for encoder in recipe.encoders:
        kind, file = encoder.kind, Path(encoder.get("file")).stem
        if kind in (DETECTOR, POOLING):
            networks += [encoder.get("network") or (MAPS if file else NETWORK), *([file] if file else [])]
            crops.append("pooled regions")
        elif kind == INSTANCES:  # of proposals or of a grid
            networks.append(encoder.title)
        elif kind in CONCEPT_ENCODERS:
            networks.append(kind)
        elif kind == PRECOMPUTED:
            networks.append(f"{encoder.get('is') or kind} {Path(encoder.get('file')).name}".strip())
        else:
            name = without_folders(encoder.untuned.title) if encoder.is_tower else kind
            networks.append(name + (" fine-tuned" if encoder.get("tuned") else ""))
            crops.append(_CROPS[encoder.get("crops") or ("own" if encoder.is_tower else "")])
    return "+".join(networks), ", ".join(dict.fromkeys(crops))


def differences(recipe: Recipe) -> list[str]:
    """Describe how a run differs from the published system."""
    return [*recipe.departures, *(f"--set {change}" for change in recipe.changes)]


@cache
def source_commit(folder: Path = _SOURCE) -> str | None:
    """Return the short git commit of a folder, with `+` if its files differ; None if git tracks none of them.

    It is that of the first call, as the source may change while its code runs.
    """

    def git(*arguments: str) -> str | None:
        command = ["git", "-C", str(folder), *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return None

    commit = git("rev-parse", "--short=10", "HEAD") if git("ls-files", "--", ".") else None
    changed = commit and git("status", "--porcelain", "--untracked-files=no", "--", ".")
    return f"{commit}+" if changed else commit


def _read(path: Path) -> list[tuple[Row, str]]:
    """Return the rows of a file, each with its line."""
    if not path.exists():
        return []
    rows, number = [], 0
    try:
        # Not `splitlines`: names may contain other line separators, such as U+2028.
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):  # noqa: B007
            if line.strip():
                rows.append((Row.read(json.loads(line)), line))
    except SeesayError as failure:
        raise SeesayError(f"{path}:{number}: {failure}") from None
    except (OSError, ValueError, RecursionError) as error:
        where = f"{path}:{number}" if number else str(path)
        raise SeesayError(f"{where}: cannot be read as JSON lines ({error}).") from None
    return rows
