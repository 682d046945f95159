"""The checks of a release: its version in one place, the contents of its wheel, and licences."""

from __future__ import annotations

import tomllib
import zipfile
from pathlib import Path

import pytest

import seesay
from tools.release import (
    NEEDED,
    problems_of_licences,
    problems_of_readme,
    problems_of_wheel,
    readme_of_index,
    version_of,
)

ROOT = Path(__file__).parents[2]


def test_the_version_is_in_one_place_and_the_changelog_dates_it() -> None:
    assert version_of(ROOT) == seesay.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" not in project
    assert "version" in project["dynamic"]


@pytest.mark.parametrize("first", ["## 0.1.0 (not yet released)", "## 0.0.9 (2026-01-01)", "# Changelog"])
def test_a_changelog_without_the_version_is_refused(tmp_path: Path, first: str) -> None:
    (tmp_path / "src" / "seesay").mkdir(parents=True)
    (tmp_path / "src" / "seesay" / "__init__.py").write_text('__version__ = "0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"{first}\n")
    with pytest.raises(SystemExit, match=r"0\.1\.0 \(YYYY-MM-DD\)"):
        version_of(tmp_path)


def test_a_wheel_has_what_it_needs_and_nothing_else(tmp_path: Path) -> None:
    right = [*NEEDED, "seesay-1.dist-info/licenses/LICENSE", "seesay-1.dist-info/METADATA"]
    for names, said in (
        (right, []),
        (right[1:], [f"{right[0]}: missing"]),
        ([*right, "tests/test_x.py"], ["tests: does not belong into a wheel"]),
        ([*right, "seesay/a.pyc"], ["seesay/a.pyc: compiled on this machine"]),
        (NEEDED, ["LICENSE: missing"]),
    ):
        with zipfile.ZipFile(tmp_path / "x.whl", "w") as made:
            for name in names:
                made.writestr(name, "")
        assert problems_of_wheel(tmp_path / "x.whl") == said


def test_the_readme_of_a_package_index_leads_to_the_documentation_or_nowhere(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    site = "https://docs.example.org/seesay/0.1.0"
    assert problems_of_readme(text, site, tmp_path)
    shown = readme_of_index(text, site)
    assert f"]({site}/benchmarks.html)" in shown
    assert f"]({site}/weights/seesay-small.html#limits)" in shown
    assert f"]({site}/images/page.png)" in shown
    missing = problems_of_readme(shown, site, tmp_path)
    assert len(missing) > 20
    assert all(each.endswith("is no page of the documentation") for each in missing)
    for each in missing:
        page = tmp_path / each.split()[1].partition("#")[0].removeprefix(f"{site}/")
        page.parent.mkdir(parents=True, exist_ok=True)
        page.touch()
    assert problems_of_readme(shown, site, tmp_path) == []
    plain = readme_of_index(text, None)
    assert problems_of_readme(plain, None, tmp_path) == []
    assert "![" not in plain
    assert "[measured]" not in plain


def test_licences_are_known_and_ask_nothing_of_seesay() -> None:
    lines = [
        "numpy 2  BSD-3-Clause",
        "psycopg 3  LGPL-3.0-only",
        "mystery 1  not stated",
        "x 1  GPL-3.0-only",
    ]
    assert problems_of_licences(lines) == lines[2:]
