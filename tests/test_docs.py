"""What the documents and docstrings show runs as shown, and links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest
import typer

from seesay.cli import with_all_commands
from seesay.recipes.table import list_tables

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = [p for p in sorted((ROOT / "src" / "seesay").rglob("*.py")) if ">>> " in p.read_text("utf-8")]
PUBLIC = ("seesay", "seesay.losses", "seesay.metrics", "seesay.matchers", "seesay.encoders")
COMMAND = re.compile(r"^ {4}seesay (\w+)(.*)$", re.MULTILINE)
SHOWING_COMMANDS = [page for page in PAGES if COMMAND.search(page.read_text("utf-8"))]
RUNNABLE = [p for p in PAGES if ">>> " in p.read_text("utf-8") and p.name != "CONTRIBUTING.md"]
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
INCLUDE = re.compile(r'^--8<-- "(.+)"$', re.MULTILINE)


def is_exempt(name: str, item: object) -> bool:
    """Return True for errors, and for the decorators that CONTRIBUTING.md shows: they register for good."""
    return name.startswith("register_") or (inspect.isclass(item) and issubclass(item, Exception))


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda path: path.stem)
def test_documents_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(
        str(page), module_relative=False, encoding="utf-8", optionflags=doctest.ELLIPSIS
    )
    assert tried
    assert failed == 0


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_docstrings_run(path: Path) -> None:
    dotted = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    failed, tried = doctest.testmod(importlib.import_module(dotted), optionflags=doctest.ELLIPSIS)
    assert tried
    assert failed == 0


@pytest.mark.parametrize("package", PUBLIC)
def test_every_public_name_has_an_example(package: str) -> None:
    module = importlib.import_module(package)
    public = {name: getattr(module, name) for name in module.__all__}
    shown = {name: item for name, item in public.items() if callable(item) and not is_exempt(name, item)}
    assert shown
    assert not [name for name, item in shown.items() if ">>> " not in (inspect.getdoc(item) or "")]


def test_the_reference_has_every_metric() -> None:
    """They are listed by hand: Griffe takes a module for the function of the same name."""
    metrics = importlib.import_module("seesay.metrics")
    page = (ROOT / "docs" / "api" / "metrics.md").read_text(encoding="utf-8")
    listed = re.findall(r"^::: seesay\.metrics\.\w+\.(\w+)$", page, re.MULTILINE)
    assert sorted(listed) == sorted(metrics.__all__)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert not [target for target in targets if not (page.parent / target).exists()]


def test_each_papers_table_is_listed_with_its_command() -> None:
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    listed = re.findall(
        r"`(?:seesay table )?((?:irmatch|mcnn|sco|gvse|two-branch)-\d(?:-coco)?)(?:`| --data)", page
    )
    assert {*listed} == {table.name for table in list_tables() if table.paper}


@pytest.mark.parametrize("page", SHOWING_COMMANDS, ids=lambda path: path.name)
def test_commands_have_the_options_shown(page: Path) -> None:
    commands = typer.main.get_command(with_all_commands()).commands
    for name, arguments in COMMAND.findall(page.read_text(encoding="utf-8")):
        known = {option for part in commands[name].params for option in (*part.opts, *part.secondary_opts)}
        shown = set(re.findall(r"(?<=\s)--?[a-z][\w-]*", arguments.partition("#")[0]))
        assert shown <= known, f"seesay {name}{arguments}"


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_an_example_has_a_page_that_includes_it(script: Path) -> None:
    page = ROOT / "docs" / "examples" / f"{script.stem.replace('_', '-')}.md"
    assert INCLUDE.findall(page.read_text(encoding="utf-8")) == [f"examples/{script.name}"]
