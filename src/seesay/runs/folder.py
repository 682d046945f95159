"""A run's folder: where it is, and what its files are called."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from seesay.errors import SeesayError, did_you_mean
from seesay.paths import RUN, WEIGHTS, home_expanded

__all__ = ["GRAPHS", "RECIPE", "RUN", "VOCABULARY", "WEIGHTS", "included_runs", "is_included", "run_folder"]

RECIPE, VOCABULARY = "recipe.json", "vocabulary.json"
GRAPHS = ("images", "sentences", "query_images", "query_sentences", "pairs")  # NAME.onnx, if it is exported
_INCLUDED = Path(str(files("seesay"))) / "weights"


def included_runs() -> list[Path]:
    """Return the folders of the included weights, by name."""
    return sorted(path.parent for path in _INCLUDED.glob(f"*/{RUN}"))


def is_included(folder: Path) -> bool:
    """Return whether a run's folder is one of the included weights."""
    return folder.parent == _INCLUDED


def run_folder(name: str) -> Path:
    """Return the folder of a run or of included weights.

    Raises:
        SeesayError: there is none.
    """
    path = home_expanded(name)
    if (path / RUN).is_file():
        return path
    included = {folder.name: folder for folder in included_runs()}
    if name in included:
        return included[name]
    from seesay.recipes.files import included_recipes

    if name in included_recipes():
        raise SeesayError(
            f"{name}: a recipe and not yet a run; train it, and name the folder of its run, such as "
            f"runs/{name}: seesay train {name} --data CORPUS"
        )
    raise SeesayError(
        f"{name}: no run there (no {RUN}), and no included weights of that name"
        f"{did_you_mean(name, included) or '.'} Included: {', '.join(included) or 'none'}."
    )
