"""What training leaves in a run's folder beside its weights, and the runs that there are."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from seesay import __version__
from seesay.data.corpus import Corpus
from seesay.data.phrases import PhraseCorpus
from seesay.errors import SeesayError
from seesay.paths import replace_text
from seesay.recipes.load import read_recipe
from seesay.runs.run import RECIPE, WEIGHTS, Run, shipped_runs
from seesay.training.task import Task

REPORT = "training.json"


def read_report(folder: Path) -> dict[str, Any]:
    """The report of a finished training; SeesayError where there is none."""
    try:
        report: dict[str, Any] = json.loads((folder / REPORT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as failure:
        raise SeesayError(f"{folder / REPORT}: no report of a finished training ({failure}).") from failure
    return report


def write_report(
    run: Run, corpus: Corpus | PhraseCorpus, task: Task, history: Sequence[dict[str, Any]]
) -> None:
    """`training.json`: what was trained on what, and its best epoch on val."""
    best = max(history, key=lambda row: row["val"][task.monitor])
    course = {
        "best_epoch": best["epoch"],
        "epochs": len(history),
        "seconds": round(sum(row["seconds"] for row in history), 1),
    }
    _write_report(run, corpus, task, course, best["val"])


def write_composed_report(
    run: Run,
    corpus: Corpus | PhraseCorpus,
    task: Task,
    members: dict[str, dict[str, Any]],
    val: dict[str, Any],
    learned: dict[str, Any],
) -> None:
    """`training.json` of what members were put together to: these, by recipe, and its val measures.

    `learned` is what was trained when they were together: gates, or epochs and `seconds`.
    """
    seconds = sum(each["seconds"] for each in (*members.values(), learned) if "seconds" in each)
    _write_report(run, corpus, task, {"members": members} | learned | {"seconds": round(seconds, 1)}, val)


def _write_report(
    run: Run, corpus: Corpus | PhraseCorpus, task: Task, course: dict[str, Any], val: dict[str, Any]
) -> None:
    report = {
        "recipe": run.recipe.name,
        "seed": run.recipe.seed,
        "corpus": _where(corpus),
        **course,
        **task.about(),
        "vocabulary": len(run.vocabulary),
        "versions": {"seesay": __version__} | {n: version(n) for n in ("torch", "numpy", "onnxruntime")},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {run.device}",
        "monitor": task.monitor,
        "best": val[task.monitor],
        "best_val": val,
    }
    replace_text(run.folder / REPORT, json.dumps(report, indent=1) + "\n")


def list_runs(folder: Path) -> list[dict[str, str]]:
    """The runs below a folder, by name, then the shipped ones: name and a line about each."""
    there = sorted(path.parent for path in folder.glob(f"**/{RECIPE}"))
    return [_line(path, str(path)) for path in there] + [_line(path, path.name) for path in shipped_runs()]


def _where(corpus: Corpus | PhraseCorpus) -> dict[str, str]:
    place = {"name": corpus.name, "root": str(corpus.root.resolve())}
    if isinstance(corpus, PhraseCorpus):
        place["images"] = str(corpus.images_root.resolve())
    return place


def _line(folder: Path, name: str) -> dict[str, str]:
    try:
        recipe = read_recipe(folder / RECIPE)
    except SeesayError as failure:
        return {"name": name, "about": f"unreadable: {failure}"}
    if not (folder / WEIGHTS).is_file():
        return {"name": name, "about": f"{recipe.name} on {recipe.corpus}: not finished; train with --resume"}
    about = f"{recipe.name} on {recipe.corpus}"
    if (folder / REPORT).is_file():
        report = read_report(folder)
        monitor = report["monitor"]
        about += f", seed {report['seed']}, val {monitor} {report['best_val'][monitor]:.1f}"
        about += f" at epoch {report['best_epoch']}" if "best_epoch" in report else ""
    return {"name": name, "about": about}
