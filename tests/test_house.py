"""The rules of the house that no tool holds by itself."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 60


def functions(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def public_definitions(tree):
    """Modules' functions and classes, and the classes' methods, that do not begin with an underscore."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in tree.body:
        if isinstance(node, kinds) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node)


def tool(name):
    spec = spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    sys.modules[name] = module_from_spec(spec)  # dataclasses look their module up there
    spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def of_root(path):
    return path.relative_to(ROOT).as_posix()


def test_there_are_sources():
    assert len(SOURCES) > 30


def test_a_package_imports_only_those_below_it():
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", SOURCES, ids=of_root)
def test_files_and_functions_are_one_idea(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    long = {f.name: f.end_lineno - f.lineno + 1 for f in functions(path)}
    assert not {name: lines for name, lines in long.items() if lines > MOST_LINES_OF_A_FUNCTION}


@pytest.mark.parametrize("path", SOURCES, ids=of_root)
def test_what_is_public_has_a_docstring(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    assert not [node.name for node in public_definitions(tree) if not ast.get_docstring(node)]


def test_the_package_knows_nothing_of_this_machine():
    known = re.compile(r"shared/|/work/|/home/|/root/")
    named = [of_root(path) for path in SOURCES if known.search(path.read_text(encoding="utf-8"))]
    assert not named


def test_nothing_is_unpickled():
    unsafe = re.compile(r"\bimport pickle\b|pickle\.load|allow_pickle=True|weights_only=False|yaml\.load\(")
    assert not [of_root(path) for path in SOURCES if unsafe.search(path.read_text(encoding="utf-8"))]


def test_every_dependency_has_its_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {re.match(r"[\w.-]+", requirement)[0] for requirement in wanted}
    told = set(
        re.findall(r"^\| `([\w.-]+)` \|", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE)
    )
    assert names == told


def test_the_page_of_the_gallery_is_fresh():
    assert (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8") == tool("gallery").page()


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("def load_dataset(path):", "corpus"),
        ("a similarity matrix of", "score matrix"),
        ("the CNN backbone", "encoder"),
        ("reads dataset_flickr8k.json and WebDataset shards", None),
        ("the corpus and its score matrix", None),
        ("a dataset  # words: ok", None),
    ],
)
def test_one_word_for_one_thing(line, use):
    found = list(tool("check_words").breaches("src/seesay/any.py", line))
    assert len(found) == (use is not None)
    assert use is None or f"say '{use}'" in found[0]
