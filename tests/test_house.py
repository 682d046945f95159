"""The rules of the project that no linter holds by itself."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))}


def files_with(pattern: str) -> list[str]:
    found = re.compile(pattern)
    return [path.relative_to(ROOT).as_posix() for path, text in SOURCES.items() if found.search(text)]


def test_no_module_needs_what_windows_lacks():
    assert not files_with(r"(?m)^(import|from) (fcntl|pwd|resource)\b")


def test_the_architecture_lists_every_package_in_its_layer():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", page, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    wanted = {name: len(layers) - at for at, layer in enumerate(layers) for name in re.findall(r"\w+", layer)}
    assert {name: int(layer) for layer, name in rows} == wanted


def test_no_source_names_a_path_of_one_machine():
    assert len(SOURCES) > 30
    assert not files_with(r"shared/|/work/|/home/|/root/")


def test_nothing_is_unpickled():
    assert not files_with(r"\bimport pickle\b|pickle\.load|allow_pickle=True|weights_only=False|yaml\.load\(")


def test_every_dependency_is_documented():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {re.match(r"[\w.-]+", requirement)[0] for requirement in wanted} - {"seesay"}
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert names == set(re.findall(r"^\| `([\w.-]+)` \|", page, re.MULTILINE))


def tool(name: str) -> ModuleType:
    spec = spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def test_the_gallery_page_is_fresh():
    assert (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8") == tool("gallery").page()
