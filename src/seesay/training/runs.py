"""What training leaves in a run's folder beside its weights, and the runs that there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from seesay.errors import SeesayError
from seesay.matchers.run import RECIPE, WEIGHTS, Run, shipped_runs
from seesay.recipes.load import read_recipe

REPORT = "training.json"


def read_report(folder: Path) -> dict[str, Any]:
    """The report of a finished training; SeesayError where there is none."""
    try:
        report: dict[str, Any] = json.loads((folder / REPORT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as failure:
        raise SeesayError(f"{folder / REPORT}: no report of a finished training ({failure}).") from failure
    return report


def trained_on(run: Run) -> Path:
    """The corpus a run was trained on; SeesayError when it is not there any more."""
    root = Path(read_report(run.folder)["corpus"]["root"])
    if not root.exists():
        raise SeesayError(f"{run.name}: its corpus is not at {root}; name one with --data.")
    return root


def list_runs(folder: Path) -> list[dict[str, str]]:
    """The runs below a folder, by name, then the shipped ones: name and a line about each."""
    there = sorted(path.parent for path in folder.glob(f"**/{RECIPE}"))
    return [_line(path, str(path)) for path in there] + [_line(path, path.name) for path in shipped_runs()]


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
        about += (
            f", seed {report['seed']}, val mR {report['best_val']['mR']:.1f} at epoch {report['best_epoch']}"
        )
    return {"name": name, "about": about}
