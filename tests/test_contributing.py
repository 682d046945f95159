"""CONTRIBUTING.md, followed literally: its files make a plug-in, and what it shows runs as shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
FILE = re.compile(r"^```\w+\n# (seesay_colours/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```python\n(>>> .*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """Write the page's files and, as an installer would, a .dist-info folder with the entry points."""
    files = dict(FILE.findall(PAGE.read_text(encoding="utf-8")))
    (tmp_path / "seesay_colours").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    project = tomllib.loads(files["seesay_colours/pyproject.toml"])["project"]
    info = tmp_path / "seesay_colours-0.1.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    lines: list[str] = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {module}" for name, module in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_contributing_can_be_followed(plugin: Path) -> None:
    (plugin / "shown.txt").write_text("".join(SHOWN.findall(PAGE.read_text("utf-8"))), encoding="utf-8")
    program = "import doctest; raise SystemExit(doctest.testfile('shown.txt', module_relative=False)[0])"
    path = os.pathsep.join([str(plugin), str(PAGE.parent / "src"), str(PAGE.parent)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=plugin,
        env=os.environ | {"PYTHONPATH": path, "SEESAY_CACHE": str(plugin / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
