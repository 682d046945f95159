"""Build a release in dist/, check it, and try its wheel in its own environment: python tools/release.py.

A package index only shows the README. Its links are changed to the pages of the documentation, below the
address in pyproject.toml under `urls`; if there is none, they become text, and pictures are left out.

Nothing is tagged or published; the last lines of the output say how. The sources are those of the last
commit, so that nothing is released that is not committed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

from tools.docs_hook import ELSEWHERE, IMAGE, LINK

ROOT = Path(__file__).parent.parent
TOOLS = ("build", "twine", "check-wheel-contents")
NEEDED = (
    "seesay/py.typed",
    "seesay/weights/seesay-small/weights.safetensors",
    "seesay/weights/seesay-ground/weights.safetensors",
    "seesay/web/static/index.html",
    "seesay/results/recorded/flickr8k.jsonl",
)
_MOST_BYTES = 100_000_000  # the largest file that the Python package index accepts
_DATED = re.compile(r"^## (?P<version>\S+) \((?P<date>\d{4}-\d{2}-\d{2})\)$", re.MULTILINE)
# Not the LGPL, the licence of libraries that are linked.
_COPYLEFT = re.compile(r"\bA?GPL|(?<!Lesser )General Public", re.IGNORECASE)


def version_of(tree: Path) -> str:
    """Return the version in the sources, which must be that of the first entry of the changelog, with a date.

    Raises:
        SystemExit: the changelog has another one, or no date.
    """
    [version] = re.findall(
        r'^__version__ = "(.+)"$', (tree / "src/seesay/__init__.py").read_text(), re.MULTILINE
    )
    first = _DATED.search((tree / "CHANGELOG.md").read_text(encoding="utf-8"))
    if first is None or first["version"] != version:
        raise SystemExit(f"CHANGELOG.md: its first entry must be '## {version} (YYYY-MM-DD)'.")
    return str(version)


def problems_of_wheel(wheel: Path) -> list[str]:
    """Return what is wrong with the contents of a wheel."""
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    found = [f"{each}: missing" for each in NEEDED if each not in names]
    if not any(re.fullmatch(r"seesay-[^/]+\.dist-info/licenses/LICENSE", each) for each in names):
        found.append("LICENSE: missing")
    tops = {each.partition("/")[0] for each in names}
    found += [
        f"{each}: does not belong into a wheel" for each in sorted(tops) if not each.startswith("seesay")
    ]
    found += [f"{each}: compiled on this machine" for each in names if each.endswith((".pyc", ".so"))]
    if wheel.stat().st_size > _MOST_BYTES:
        found.append(f"{wheel.stat().st_size / 1e6:.0f} MB, more than a package index takes")
    return found


def readme_of_index(text: str, site: str | None) -> str:
    """Return the README for a package index, which has none of the files that it links.

    Args:
        text: the text of the README, whose links are relative to the repository.
        site: the address of this version's documentation, if it has one.
    """

    def address(target: str) -> str | None:
        path, mark, anchor = target.partition("#")
        if not path or ":" in path:
            return target
        page = ELSEWHERE.get(path, path.removeprefix("docs/"))
        return site and f"{site}/{page.removesuffix('.md')}{'.html' * page.endswith('.md')}{mark}{anchor}"

    def link(found: re.Match[str]) -> str:
        there = address(found["target"])
        return f"[{found['text']}]({there})" if there else found["text"]

    def image(found: re.Match[str]) -> str:
        there = address(found["target"])
        return f"{found[1]}{there})" if there else ""

    return LINK.sub(link, IMAGE.sub(image, text))


def problems_of_readme(text: str, site: str | None, built: Path) -> list[str]:
    """Return the links of the README that do not work on a package index.

    Args:
        text: the description in the wheel.
        site: see `readme_of_index`.
        built: the folder of the documentation that will be at that address.
    """
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path = target.partition("#")[0]
        if not re.match("https?://", target):
            found.append(f"README: {target} leads nowhere on a package index")
        elif site and path.startswith(f"{site}/") and not (built / path.removeprefix(f"{site}/")).is_file():
            found.append(f"README: {target} is no page of the documentation")
    return found


def problems_of_licences(lines: Iterable[str]) -> list[str]:
    """Return the lines of `tools/licences.py` whose licence is unknown or copyleft."""
    return [line for line in lines if line.endswith("not stated") or _COPYLEFT.search(line)]


def main() -> None:
    """Build, check and try a release."""
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        tree = _exported(work / "seesay")
        version = version_of(tree)
        project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        home = project.get("urls", {}).get("Documentation")
        site = home and f"{home.rstrip('/')}/{version}"
        _document(tree, version, dist / "site")
        readme = tree / "README.md"
        readme.write_text(readme_of_index(readme.read_text(encoding="utf-8"), site), encoding="utf-8")
        python = _environment(work / "tools")
        _run(python, "-m", "pip", "install", "-q", *TOOLS)
        _run(python, "-m", "build", "--outdir", dist, tree)
        [wheel], [source] = dist.glob("*.whl"), dist.glob("*.tar.gz")
        _run(python, "-m", "twine", "check", "--strict", wheel, source)
        _run(python, "-m", "check_wheel_contents", wheel)
        _refuse(problems_of_wheel(wheel))
        _refuse(problems_of_readme(_description(wheel), site, dist / "site" / version))
        for made in (wheel, source):
            print(f"{made.name}: {made.stat().st_size / 1e6:.1f} MB")
        _try(wheel, work)
    if site is None:
        print("pyproject.toml names no address of the documentation: the links of the README became text.")
    print(f"\nChecked: dist/{wheel.name}, dist/{source.name} and dist/site. To release them:")
    print(f"  git tag -a v{version} -m 'seesay {version}' && git push origin v{version}")
    print("  python -m twine upload dist/*.whl dist/*.tar.gz")


def _description(wheel: Path) -> str:
    """The text that a package index shows."""
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (each for each in opened.namelist() if each.endswith(".dist-info/METADATA"))
        return opened.read(name).decode().partition("\n\n")[2]


def _exported(folder: Path) -> Path:
    """Extract the files of the last commit into a folder."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    _run("git", "-C", ROOT, "archive", "--output", archive, "HEAD")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder


def _environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def _try(wheel: Path, work: Path) -> None:
    """Install only the wheel, and index, search and evaluate drawn photos as a new user does."""
    here = work / "empty"
    here.mkdir()
    python = _environment(work / "alone")
    _run(python, "-m", "pip", "download", "-q", "-d", work / "packages", wheel, cwd=here)
    _run(
        python, "-m", "pip", "install", "-q", "--no-index", "--find-links", work / "packages", wheel, cwd=here
    )
    licences = subprocess.run(
        [python, ROOT / "tools" / "licences.py"], capture_output=True, text=True, check=True
    )
    _refuse(problems_of_licences(licences.stdout.splitlines()))
    print(f"{len(licences.stdout.splitlines()) - 2} packages, all of known licences")
    _run(
        python,
        "-c",
        f"import sys; sys.path.append({str(ROOT)!r}); from tools.scenes import write_scenes; "
        "write_scenes('scenes', images=40, seed=1)",
        cwd=here,
    )
    seesay = python.with_name("seesay")
    _run(seesay, "--version", cwd=here)
    _run(seesay, "index", "scenes/images", "--out", "scenes.seesay", cwd=here)
    _run(seesay, "search", "scenes.seesay", "a red circle", "-k", "3", cwd=here)
    _run(seesay, "evaluate", "seesay-small", "--data", "scenes", cwd=here)
    _run(seesay, "ground", next((here / "scenes" / "images").iterdir()), "a red circle", cwd=here)


def _document(tree: Path, version: str, site: Path) -> None:
    """Build the documentation into a folder of its version, beside the list of versions for its menu."""
    (tree / "release.yml").write_text(
        f"INHERIT: mkdocs.yml\nsite_dir: {site / version}\nextra: {{version: {{provider: mike}}}}\n"
    )
    _run(sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", "release.yml", cwd=tree)
    known = [{"version": version, "title": version, "aliases": ["latest"]}]
    (site / "versions.json").write_text(json.dumps(known) + "\n")
    (site / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={version}/index.html">\n')


def _run(*command: object, cwd: Path | None = None) -> None:
    shown = " ".join(map(str, command[:1] if command[0] == sys.executable else command))
    started, before = time.monotonic(), _processor()
    done = subprocess.run(list(map(str, command)), cwd=cwd)
    if done.returncode:
        raise SystemExit(f"failed: {shown}")
    name, *arguments = map(str, command[:4])
    took = f"{time.monotonic() - started:.1f} s, {_processor() - before:.1f} s of processor"
    print(f"  {took}: {Path(name).name} {' '.join(arguments)}", flush=True)


def _processor() -> float:
    """The processor time of all commands so far, in seconds."""
    times = os.times()
    return times.children_user + times.children_system


def _refuse(problems: list[str]) -> None:
    if problems:
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    main()
