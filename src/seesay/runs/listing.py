"""The runs below a folder, each in a line."""

from __future__ import annotations

from pathlib import Path

from seesay.errors import SeesayError
from seesay.runs.config import RUN, WEIGHTS, RunConfig
from seesay.runs.folders import shipped_runs
from seesay.runs.summary import TrainingSummary, is_finished


def list_runs(folder: Path) -> list[tuple[str, str]]:
    """List the runs below a folder, by name, then the shipped ones: name and a line about each."""
    there = sorted(path.parent for path in folder.glob(f"**/{RUN}"))
    names = [(path, str(path)) for path in there] + [(path, path.name) for path in shipped_runs()]
    return [(name, _line(path)) for path, name in names]


def _line(folder: Path) -> str:
    try:
        config = RunConfig.load(folder)
        about = f"{config.name} on {config.recipe['corpus']}"
        if not (folder / WEIGHTS).is_file():
            return f"{about}: not finished; train with --resume"
        if not is_finished(folder):
            return about
        summary = TrainingSummary.load(folder)
    except SeesayError as failure:
        return f"unreadable: {failure}"
    epoch = f" at epoch {summary.best_epoch}" if summary.best_epoch is not None else ""
    return f"{about}, seed {summary.seed}, val {summary.monitor} {summary.best:.1f}{epoch}"
