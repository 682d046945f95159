"""What README and docstrings show runs as shown, and their links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = [
    p for p in sorted((ROOT / "src" / "seesay").rglob("*.py")) if ">>> " in p.read_text(encoding="utf-8")
]
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def test_readme_runs() -> None:
    failed, tried = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert tried >= 4
    assert failed == 0


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_docstrings_run(path: Path) -> None:
    dotted = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    failed, tried = doctest.testmod(importlib.import_module(dotted))
    assert tried
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
