"""What a finished training says of itself, and the runs of a folder in a line each."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from seesay import __version__
from seesay.data.corpus import Corpus, PhraseCorpus
from seesay.errors import SeesayError
from seesay.protocols.base import Result
from seesay.recipes.load import read_recipe
from seesay.runs.run import RECIPE, WEIGHTS, Run, shipped_runs
from seesay.runs.summary import ConceptCount, CorpusPlace, TrainingSummary, is_finished
from seesay.training.task import Task


def summarize(
    run: Run, corpus: Corpus | PhraseCorpus, task: Task, best: Result, **course: Any
) -> TrainingSummary:
    """Summarize a training.

    Args:
        run: what was trained.
        corpus: on what.
        task: that it was trained for.
        best: the measures of the val split.
        **course: the fields of the summary that say how it went: `epochs`, `best_epoch`, `seconds`,
            `members`, `gates`.
    """
    train, val = task.sizes()
    wanted = run.recipe.matcher.concept_count if run.recipe.matcher.predicts_concepts else None
    return TrainingSummary(
        recipe=run.recipe.name,
        seed=run.recipe.seed,
        corpus=CorpusPlace(
            name=corpus.name,
            root=str(corpus.root.resolve()),
            images=str(corpus.images_root.resolve()) if isinstance(corpus, PhraseCorpus) else None,
        ),
        train=train,
        val=val,
        broken_images=task.broken_images(),
        concepts=ConceptCount(wanted=wanted, kept=len(run.vocabulary.words)) if wanted else None,
        vocabulary=len(run.vocabulary),
        versions={"seesay": __version__}
        | {name: version(name) for name in ("torch", "numpy", "onnxruntime")},
        machine=f"{platform.machine()}, {os.cpu_count()} cores, {run.device}",
        monitor=best.monitor_column,
        best=best.monitor,
        best_val=best.to_dict(),
        **course,
    )


def list_runs(folder: Path) -> list[tuple[str, str]]:
    """List the runs below a folder, by name, then the shipped ones: name and a line about each."""
    there = sorted(path.parent for path in folder.glob(f"**/{RECIPE}"))
    names = [(path, str(path)) for path in there] + [(path, path.name) for path in shipped_runs()]
    return [(name, _line(path)) for path, name in names]


def _line(folder: Path) -> str:
    try:
        recipe = read_recipe(folder / RECIPE)
        about = f"{recipe.name} on {recipe.corpus}"
        if not (folder / WEIGHTS).is_file():
            return f"{about}: not finished; train with --resume"
        if not is_finished(folder):
            return about
        summary = TrainingSummary.load(folder)
    except SeesayError as failure:
        return f"unreadable: {failure}"
    epoch = f" at epoch {summary.best_epoch}" if summary.best_epoch is not None else ""
    return f"{about}, seed {summary.seed}, val {summary.monitor} {summary.best:.1f}{epoch}"
