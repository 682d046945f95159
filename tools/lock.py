"""Write deploy/requirements.lock: every package that a container installs, with versions and hashes.

Versions are the newest that pyproject.toml allows, for one Python and two architectures: `make lock`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "deploy" / "requirements.lock"
PYTHON = "3.12"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64")
_OLDER = (
    "manylinux_2_27",
    "manylinux_2_26",
    "manylinux_2_24",
    "manylinux_2_17",
    "manylinux2014",
    "manylinux_2_5",
)


def main() -> None:
    """Resolve for each architecture, and write the union of the hashes."""
    hashes: dict[tuple[str, str], set[str]] = {}
    for platform in PLATFORMS:
        for name, version, digest in resolve(platform):
            hashes.setdefault((name, version), set()).add(digest)
    names = [name for name, _ in hashes]
    if len(set(names)) < len(names):
        sys.exit("The architectures resolve to different versions; bound them in pyproject.toml.")
    lines = [f"# Written by tools/lock.py for Python {PYTHON}, Linux on x86_64 and aarch64."]
    for (name, version), digests in sorted(hashes.items()):
        lines.append(
            " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{each}" for each in sorted(digests))])
        )
    LOCK.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{LOCK.relative_to(ROOT)}: {len(hashes)} packages")


def resolve(platform: str) -> list[tuple[str, str, str]]:
    """Return name, version and SHA-256 of each wheel that pip would install there."""
    machine = platform.rpartition("_2_28_")[2]
    older = [f"{each}_{machine}" for each in _OLDER]
    wanted = [f"--platform={each}" for each in (platform, *older)]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = project["dependencies"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--only-binary=:all:", f"--python-version={PYTHON}", f"--target={folder}/none"]
        subprocess.run([*command, f"--report={report}", *wanted, *requirements], check=True)
        installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    found = []
    for each in installed:
        name = re.sub(r"[-_.]+", "-", each["metadata"]["name"]).lower()
        digest = each["download_info"]["archive_info"]["hashes"]["sha256"]
        found.append((name, each["metadata"]["version"], digest))
    return found


if __name__ == "__main__":
    main()
