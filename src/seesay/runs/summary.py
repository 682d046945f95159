"""What a run's folder records of its training: a summary, and the history with a JSON line for each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue

from seesay.errors import SeesayError, first_line
from seesay.paths import replace_text, unusable
from seesay.runs.config import RunConfig
from seesay.runs.folder import RUN, WEIGHTS, included_runs

SUMMARY, METRICS = "training.json", "metrics.jsonl"

Size: TypeAlias = dict[str, int | float]


class _Summary(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CorpusPlace(_Summary):
    """The location of a training corpus, and the options by which it was read; see `Corpus.reading`."""

    name: str
    root: str
    images: str | None = None  # of phrases, if they are elsewhere
    format: str | None = None  # the reader, if it reads less than the one that recognises the files
    image_column: str | None = None
    caption_column: str | None = None
    subset: int | None = None  # the number of images that were drawn


class MemberSummary(_Summary):
    """A member of a composed matcher: a digest of its weights, its training, its best epoch on val."""

    weights: str
    seconds: float
    machine: str | None = None
    best_epoch: int | None
    best: float


class GateSummary(_Summary):
    """A gate of a fusion: its epoch, loss and AUC on val, scale and shift; or `why` there is none."""

    epoch: int
    loss: float | None = None
    auc: float | None = None
    scale: float | None = None
    shift: float | None = None
    recall: float | None = None  # with them
    why: str | None = None


class TrainingSummary(_Summary):
    """The summary of a training, with the best epoch on val."""

    recipe: str
    seed: int
    corpus: CorpusPlace
    epochs: int | None = None
    steps: int | None = None  # of the schedule, if it counts steps
    best_epoch: int | None = None
    seconds: float  # of training, the members' included
    train: Size  # `images`, `sentences` or `phrases`, and what the task counts, such as `shared_sentences`
    val: Size
    broken_images: tuple[str, ...] = ()
    concepts: dict[str, int] | None = None  # the numbers that were `wanted` and `kept`
    members: dict[str, MemberSummary] | None = None
    gates: dict[str, GateSummary] | None = None
    teacher: str | None = None  # its fingerprint
    vocabulary: int
    versions: dict[str, str]
    machine: str  # on which the training ended; members have their own
    monitor: str  # the val metric that chose the epoch
    best: float  # its value
    best_val: dict[str, JsonValue]  # the result of that epoch on val
    improving: bool | None = None  # the last epoch of the schedule was the best: more may help
    uncalibrated: str | None = None  # why no probabilities were fitted to val, if they were needed

    def save(self, folder: Path) -> None:
        """Write the summary into a run's folder."""
        replace_text(folder / SUMMARY, self.model_dump_json(indent=1, exclude_none=True) + "\n")

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the fields that are set as plain values for JSON."""
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def load(cls, folder: Path) -> TrainingSummary:
        """Read the summary in a run's folder.

        Raises:
            SeesayError: the training did not finish, or the file is damaged.
        """
        path = folder / SUMMARY
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as failure:  # ValueError: also from pydantic, and for invalid UTF-8
            reason = str(failure).splitlines()[0]
            otherwise = f"no summary of a finished training ({reason}); train again."
            raise unusable(path, failure, otherwise) from failure


def is_finished(folder: Path) -> bool:
    """Return whether the training in that folder was finished."""
    return (folder / SUMMARY).is_file()


def list_runs(folder: Path) -> list[tuple[str, str]]:
    """List the runs below a folder, by name, then the included ones, with a line about each."""
    there = sorted(path.parent for path in folder.glob(f"**/{RUN}"))
    names = [(path, str(path)) for path in there] + [(path, path.name) for path in included_runs()]
    return [(name, _line(path)) for path, name in names]


def _line(folder: Path) -> str:
    try:
        name = RunConfig.load(folder).name
        if not (folder / WEIGHTS).is_file():
            return f"{name}: not finished; train with --resume"
        if not is_finished(folder):
            return f"{name}, whose training is not recorded here"
        summary = TrainingSummary.load(folder)
    except SeesayError as failure:
        return f"unreadable: {failure}"
    about = f"{name} on {summary.corpus.name}"
    epoch = f" at epoch {summary.best_epoch}" if summary.best_epoch is not None else ""
    best = f"val {summary.monitor} {summary.best:.1f}{epoch}"
    return f"{about}, seed {summary.seed}, {best}, of {summary.val['images']:,} images"


class Epoch(BaseModel):
    """An epoch: its mean loss, its seconds and the val metrics.

    `metrics` are the matcher's own (`Matcher.metrics`). CCA has no epochs; each ridge takes the place of one.
    """

    epoch: int
    loss: float
    seconds: float
    val: dict[str, JsonValue]
    metrics: dict[str, float] | None = None
    ridge: float | None = None


def write_history(folder: Path, history: Sequence[Epoch]) -> None:
    """Write all epochs so far to `metrics.jsonl` in a run's folder."""
    lines = (epoch.model_dump_json(exclude_none=True) + "\n" for epoch in history)
    replace_text(folder / METRICS, "".join(lines))


def read_history(folder: Path) -> list[Epoch]:
    """Read the epochs of a run; without a file, as for included weights, there are none.

    Raises:
        SeesayError: the file is not a history.
    """
    path = folder / METRICS
    try:
        return [Epoch.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return []
    except ValueError as failure:  # also of pydantic, and of what is not UTF-8
        raise SeesayError(f"{path}: not a training history ({first_line(failure)}).") from None
