"""The corpora that runs were trained on, and the one that runs are measured on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from seesay.data.corpus import Corpus, PhraseCorpus
from seesay.data.readers import open_corpus
from seesay.errors import SeesayError
from seesay.runs.run import Run, shipped_runs
from seesay.runs.summary import TrainingSummary, is_finished


class Training(TypedDict, total=False):
    """What a run's summary says of the course of its training, as recorded rows name it."""

    epochs: int
    best_epoch: int
    train_seconds: float


def trained_on(run: Run) -> tuple[Path, Path | None]:
    """Return the corpus that a run was trained on, and where the images of its phrases lie.

    Raises:
        SeesayError: the run does not say, as of shipped weights, or the corpus is not there any more.
    """
    if not is_finished(run.folder):
        raise SeesayError(f"{run.name}: does not say what it was trained on; name a corpus with --data.")
    corpus = TrainingSummary.load(run.folder).corpus
    root = Path(corpus.root)
    if not root.exists():
        raise SeesayError(f"{run.name}: its corpus is not at {root}; name one with --data.")
    return root, Path(corpus.images) if corpus.images else None


def training_of(run: Run) -> Training:
    """Return what a run's summary says of its training; nothing without one, as of shipped weights."""
    if not is_finished(run.folder):
        return {}
    summary = TrainingSummary.load(run.folder)
    found = Training(train_seconds=summary.seconds)
    if summary.epochs is not None and summary.best_epoch is not None:
        found |= {"epochs": summary.epochs, "best_epoch": summary.best_epoch}
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
