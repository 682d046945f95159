"""The plug-in: its entry points, its recipes, and what it puts into the package."""

from __future__ import annotations

import json
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from seesay.losses.settings import LOSSES
from seesay.recipes.load import load_recipe
from seesay.runs.run import Run
from seesay_weights.ship import ship

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "tools" / "weights"
PROJECT = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENTRY_POINTS = PROJECT["entry-points"]["seesay.losses"]
RECIPES = sorted((PLUGIN / "seesay_weights" / "recipes").glob("*.yaml"))


@pytest.mark.parametrize(("kind", "module"), ENTRY_POINTS.items())
def test_an_entry_point_names_the_module_that_registers_its_loss(kind: str, module: str) -> None:
    import_module(module)
    assert LOSSES[kind].implementation.__module__ == module


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_valid_and_named_like_its_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ENTRY_POINTS.values():
        import_module(module)
    monkeypatch.chdir(ROOT)  # it names its member and the runs of earlier steps from here
    recipe = load_recipe(str(path), "flickr8k")
    assert recipe.name == path.stem
    assert recipe.losses


def test_a_shipped_run_needs_no_plugin(tmp_path: Path) -> None:
    run = Run.load("seesay-small", "cpu")
    further = {"losses": [{"kind": "nouns", "count": 300, "weight": 0.3}]}
    folder = tmp_path / "trained"
    folder.mkdir()
    for path in run.folder.glob("[!r]*"):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "run.json").write_bytes((run.folder / "run.json").read_bytes())
    values = json.loads((run.folder / "recipe.json").read_text(encoding="utf-8"))
    (folder / "recipe.json").write_text(json.dumps(values | further), encoding="utf-8")
    ship(folder, tmp_path / "shipped")
    shipped = Run.load(str(tmp_path / "shipped"), "cpu")
    assert shipped.fingerprint == run.fingerprint
    assert shipped.recipe.losses == ()
