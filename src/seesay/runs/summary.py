"""The summary of a finished training, which stands in a run's folder."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from seesay.errors import SeesayError
from seesay.paths import replace_text

SUMMARY = "training.json"


class _Summary(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CorpusPlace(_Summary):
    """Where the corpus of a training was; `images` is set for phrases whose images lie elsewhere."""

    name: str
    root: str
    images: str | None = None


class SplitSize(_Summary):
    """What a split had: images, and sentences or phrases; how many sentences were cut to `max_length`."""

    images: int
    sentences: int | None = None
    phrases: int | None = None
    cut_sentences: int | None = None
    max_length: int | None = None
    images_without_concepts: int | None = None


class ConceptCount(_Summary):
    """How many concepts were wanted, and how many the train split has."""

    wanted: int
    kept: int


class MemberSummary(_Summary):
    """A member of a composed matcher: a digest of its weights, its training, its best epoch on val."""

    weights: str
    seconds: float
    machine: str | None = None
    best_epoch: int | None
    best: float


class GateSummary(_Summary):
    """A gate of a fusion: the epoch kept, its loss, AUC and calibration on val; or `why` there is none."""

    epoch: int
    loss: float | None = None
    auc: float | None = None
    scale: float | None = None
    shift: float | None = None
    recall: float | None = None
    why: str | None = None


class TrainingSummary(_Summary):
    """What was trained on what, and the best epoch on val.

    Attributes:
        monitor: the measure of the val split that chose the epoch; `best` is its value.
        best_val: all measures of that epoch, as the protocol's result gives them.
        seconds: of training, the members' included.
        machine: where the training ended; members have their own.
        teacher: the fingerprint of the run whose scores were learned from.
        uncalibrated: why no probabilities were fitted to val; None if they were, or none are needed.
    """

    recipe: str
    seed: int
    corpus: CorpusPlace
    epochs: int | None = None
    best_epoch: int | None = None
    seconds: float
    train: SplitSize
    val: SplitSize
    broken_images: tuple[str, ...] = ()
    concepts: ConceptCount | None = None
    members: dict[str, MemberSummary] | None = None
    gates: dict[str, GateSummary] | None = None
    teacher: str | None = None
    vocabulary: int
    versions: dict[str, str]
    machine: str
    monitor: str
    best: float
    best_val: dict[str, JsonValue]
    uncalibrated: str | None = None

    def save(self, folder: Path) -> None:
        """Write the summary into a run's folder."""
        replace_text(folder / SUMMARY, self.model_dump_json(indent=1, exclude_none=True) + "\n")

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the fields that are set, as JSON has them."""
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
        except (OSError, ValidationError) as failure:
            reason = str(failure).splitlines()[0]
            raise SeesayError(
                f"{path}: no summary of a finished training ({reason}); train again."
            ) from failure


def is_finished(folder: Path) -> bool:
    """Return whether the training in that folder was finished."""
    return (folder / SUMMARY).is_file()
