"""The files of deploy/ say what the project and its commands say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from typer.main import get_command

from seesay.cli import with_all_commands

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


def options(command: str) -> set[str]:
    found = get_command(with_all_commands()).commands[command]
    return {name for parameter in found.params for name in parameter.opts}


def test_the_lock_file_holds_every_dependency_with_hashes() -> None:
    text = (DEPLOY / "requirements.lock").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\$", text, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for line in project["dependencies"]:
        needed = Requirement(line)
        assert needed.specifier.contains(locked[needed.name]), line
    assert "torch" not in locked
    for entry in re.split(r"\n(?=[a-z])", text)[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}$", entry.strip()), entry


NAMES = ["Containerfile", "compose.yaml", "postgresql.yaml", "postgresql.sh", "seesay.service"]
COMPOSED = ["compose.yaml", "postgresql.yaml"]


@pytest.mark.parametrize("name", NAMES)
def test_commands_have_the_options_that_are_given(name: str) -> None:
    text = (DEPLOY / name).read_text(encoding="utf-8")
    variables = re.findall(r"SEESAY_SERVE_(\w+)", text)
    given = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", "\n".join(_commands(name))))
    given |= {f"--{each.lower().replace('_', '-')}" for each in variables}
    assert given
    assert given <= options("serve") | options("index")


def _commands(name: str) -> list[str]:
    text = (DEPLOY / name).read_text(encoding="utf-8")
    if name in COMPOSED:
        return [" ".join(server["command"]) for server in _servers(name).values()]
    if name.endswith(".sh"):
        return re.findall(r"^seesay (.*)&", text, re.MULTILINE)
    return re.findall(r"^(?:CMD|ExecStart=)(.*)$", text, re.MULTILINE)


def _servers(name: str) -> dict[str, dict[str, Any]]:
    services = yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))["services"]
    return {server: each for server, each in services.items() if each["image"] == "seesay"}


def test_the_build_gets_what_it_copies_and_no_secret() -> None:
    kept = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    container = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    copied = [line.split()[1:-1] for line in re.findall(r"^COPY (?!--from).*$", container, re.MULTILINE)]
    assert {file for files in copied for file in files} == set(kept)


@pytest.mark.parametrize("name", COMPOSED)
def test_the_servers_believe_the_proxy_alone(name: str) -> None:
    composed, servers = yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8")), _servers(name)
    (network,) = composed["networks"]["inside"]["ipam"]["config"]
    for each in servers.values():
        told = [*each["command"], f"--proxy={each.get('environment', {}).get('SEESAY_SERVE_PROXY')}"]
        assert f"--proxy={network['subnet']}" in told
        assert each["networks"] == ["inside"]
    assert composed["networks"]["inside"]["internal"] is True
    assert [server for server, each in composed["services"].items() if "ports" in each] == ["proxy"]
    proxied = composed["services"]["proxy"]["environment"]["SEESAY_SERVER"]
    assert proxied.split() == [f"{server}:8000" for server in servers]


@pytest.mark.parametrize("name", COMPOSED)
def test_services_have_no_rights(name: str) -> None:
    for server in _servers(name).values():
        assert server["read_only"] is True
        assert server["cap_drop"] == ["ALL"]
    container = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    assert re.findall(r"^USER (\w+)$", container, re.MULTILINE) == ["10001"]  # what runAsNonRoot can read
    copied = [each.split() for each in re.findall(r"^COPY (?!--)(.*)$", container, re.MULTILINE)]
    assert all((ROOT / source).exists() for line in copied for source in line[:-1])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_exposed_little() -> None:
    command = ["systemd-analyze", "security", "--offline=true", str(DEPLOY / "seesay.service")]
    done = subprocess.run(command, capture_output=True, text=True)
    exposure = re.search(r"exposure level for seesay.service: ([\d.]+)", done.stdout)
    if exposure is None:
        pytest.skip("this systemd-analyze cannot look at a file")
    assert float(exposure[1]) < 2


def test_the_licences_of_all_packages_are_listed() -> None:
    done = subprocess.run([sys.executable, "tools/licences.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^numpy \S+ +BSD", done.stdout, re.MULTILINE)
    assert "not stated" not in done.stdout
