"""The corpora that runs were trained on, and the one that runs are measured on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.data.remote import is_remote, path_of
from seesay.errors import SeesayError
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary, is_finished


class Training(TypedDict, total=False):
    """The epochs, seconds, machine and teacher of a training, under the keys of recorded rows."""

    epochs: int
    best_epoch: int
    train_seconds: float
    machine: str
    teacher: str


def trained_on(run: Run) -> tuple[Path, Path | None]:
    """Return the corpus that a run was trained on, and the folder of its phrases' images if elsewhere.

    Raises:
        SeesayError: the run does not record it, as for shipped weights, or the corpus was moved.
    """
    if not is_finished(run.folder):
        raise SeesayError(f"{run.name}: records no corpus; name the corpus to measure on.")
    corpus = TrainingSummary.load(run.folder).corpus
    root = path_of(corpus.root)
    if not is_remote(root) and not root.exists():
        raise SeesayError(f"{run.name}: its corpus is not at {root}; name the corpus to measure on.")
    return root, path_of(corpus.images) if corpus.images else None


def training_of(run: Run) -> Training:
    """Return how a run was trained, as a row records it; empty without a summary, as for shipped weights."""
    if not is_finished(run.folder):
        return {}
    summary = TrainingSummary.load(run.folder)
    machines = [member.machine for member in (summary.members or {}).values()] + [summary.machine]
    machine = "; ".join(dict.fromkeys(filter(None, machines)))
    found = Training(train_seconds=summary.seconds, machine=machine)
    if summary.epochs is not None and summary.best_epoch is not None:
        found |= {"epochs": summary.epochs, "best_epoch": summary.best_epoch}
    if summary.teacher is not None:
        found["teacher"] = summary.teacher
    return found


def open_corpus_of(
    runs: Sequence[Run], data: Path | None = None, images: Path | None = None, format: str | None = None
) -> Corpus:
    """Open the corpus to measure on: the one named, or the one that all runs were trained on.

    Without runs, as for external scores, it must be named.

    Raises:
        SeesayError: it cannot be read, or the runs name no corpus or several, or cannot share one.
    """
    grounds = {run.config.regions is not None for run in runs}
    if len(grounds) > 1:
        raise SeesayError("Runs that ground phrases and runs that match sentences cannot share a corpus.")
    phrases = True in grounds
    if data is not None:
        return read_corpus(data, phrases=phrases, images=images, format=format)
    if not runs:
        raise SeesayError("Score files do not name their corpus; name it with --data.")
    places = {trained_on(run) for run in runs if not run.pretrained}
    if not places:
        names = ", ".join(run.name for run in runs)
        raise SeesayError(f"{names}: no corpus of yours; name the one to measure on with --data.")
    if len(places) > 1:
        roots = ", ".join(sorted(str(root) for root, _ in places))
        raise SeesayError(f"The runs were trained on {roots}; name the corpus to measure on with --data.")
    root, beside = places.pop()
    return read_corpus(root, phrases=phrases, images=images or beside, format=format)
