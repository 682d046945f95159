"""The corpora that runs were trained on, and the one that runs are measured on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from pydantic import BaseModel, ConfigDict, ValidationError

from seesay.data.corpus import Corpus
from seesay.data.open import open_corpus
from seesay.data.phrases import PhraseCorpus
from seesay.errors import SeesayError
from seesay.runs.run import Run, shipped_runs
from seesay.runs.summary import SUMMARY, CorpusPlace


class Training(TypedDict, total=False):
    """What a run's summary says of the course of its training, as recorded rows name it."""

    epochs: int
    best_epoch: int
    train_seconds: float


class _Summary(BaseModel):
    """The part of a training's summary that is needed here."""

    model_config = ConfigDict(extra="ignore")

    corpus: CorpusPlace
    epochs: int | None = None
    best_epoch: int | None = None
    seconds: float | None = None


def trained_on(run: Run) -> tuple[Path, Path | None]:
    """Return the corpus that a run was trained on, and where the images of its phrases lie.

    Raises:
        SeesayError: the run does not say, as of shipped weights, or the corpus is not there any more.
    """
    if (summary := _summary(run)) is None:
        raise SeesayError(f"{run.name}: does not say what it was trained on; name a corpus with --data.")
    root = Path(summary.corpus.root)
    if not root.exists():
        raise SeesayError(f"{run.name}: its corpus is not at {root}; name one with --data.")
    return root, Path(summary.corpus.images) if summary.corpus.images else None


def training_of(run: Run) -> Training:
    """Return what a run's summary says of its training; nothing without one, as of shipped weights."""
    if (summary := _summary(run)) is None:
        return {}
    found = Training()
    if summary.epochs is not None:
        found["epochs"] = summary.epochs
    if summary.best_epoch is not None:
        found["best_epoch"] = summary.best_epoch
    if summary.seconds is not None:
        found["train_seconds"] = summary.seconds
    return found


def open_corpus_of(
    runs: Sequence[Run], data: Path | None = None, images: Path | None = None, format: str | None = None
) -> Corpus | PhraseCorpus:
    """Open the corpus to measure on: the one named, or the one that all runs were trained on.

    Without runs, as of external scores, it must be named.

    Raises:
        SeesayError: it cannot be read, nothing or not one thing says which it is, or the runs cannot share
            one.
    """
    grounds = {run.recipe.regions is not None for run in runs}
    if len(grounds) > 1:
        raise SeesayError("Runs that ground phrases and runs that match sentences cannot share a corpus.")
    phrases = True in grounds
    if data is not None:
        return open_corpus(data, phrases=phrases, images=images, format=format)
    if not runs:
        raise SeesayError("Files of scores do not say of which corpus they are; name it with --data.")
    places = {trained_on(run) for run in runs if run.folder not in shipped_runs()}
    if len(places) != 1:
        roots = ", ".join(sorted(str(root) for root, _ in places)) or "none that they name"
        raise SeesayError(f"The runs were trained on {roots}; name the corpus to measure on with --data.")
    root, beside = places.pop()
    return open_corpus(root, phrases=phrases, images=images or beside, format=format)


def _summary(run: Run) -> _Summary | None:
    path = run.folder / SUMMARY
    if not path.is_file():
        return None
    try:
        return _Summary.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as failure:
        reason = str(failure).splitlines()[0]
        raise SeesayError(f"{path}: no summary of a finished training ({reason}); train again.") from failure
