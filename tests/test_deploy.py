"""The files of deploy/ say what the project and its commands say."""

from __future__ import annotations

import json
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2 as httpx
import pytest
import yaml
from packaging.requirements import Requirement
from typer.main import get_command

from seesay import __version__
from seesay.cli import with_all_commands
from seesay.search.index import Index
from seesay.search.stores.qdrant import KEY
from tests.search.colours import Colours, gallery
from tests.search.stores import address

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


@pytest.mark.parametrize("name", ["Containerfile", "compose.yaml", "seesay.service"])
def test_commands_have_the_options_that_are_given(name: str) -> None:
    given = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", "\n".join(_commands(name))))
    assert given
    assert given <= options("serve") | options("index")


def _commands(name: str) -> list[str]:
    text = (DEPLOY / name).read_text(encoding="utf-8")
    if name == "compose.yaml":
        services = yaml.safe_load(text)["services"]
        return [" ".join(services["seesay"]["command"])]
    return re.findall(r"^(?:CMD|ExecStart=)(.*)$", text, re.MULTILINE)


def test_the_build_gets_what_it_copies_and_no_secret() -> None:
    kept = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    container = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    copied = [line.split()[1:-1] for line in re.findall(r"^COPY (?!--from).*$", container, re.MULTILINE)]
    assert {file for files in copied for file in files} == set(kept)


def test_the_server_believes_the_proxy_alone() -> None:
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    (network,) = composed["networks"]["inside"]["ipam"]["config"]
    assert f"--proxy={network['subnet']}" in composed["services"]["seesay"]["command"]
    assert composed["networks"]["inside"]["internal"] is True
    assert [name for name, each in composed["services"].items() if "inside" in each.get("networks", ())] == [
        "seesay",
        "proxy",
    ]


def test_services_have_no_rights() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert services["seesay"]["read_only"] is True
    assert services["seesay"]["cap_drop"] == ["ALL"]
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


KUBERNETES = DEPLOY / "kubernetes"
MANIFESTS = [
    each
    for file in sorted(KUBERNETES.glob("*.yaml"))
    for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))
]
RESOURCES = {(each["kind"], each["metadata"]["name"]): each for each in MANIFESTS}


def pods() -> list[dict[str, Any]]:
    return [each["spec"]["template"]["spec"] for each in MANIFESTS if "template" in each["spec"]]


def words_of(container: dict[str, Any]) -> list[str]:
    """The words of seesay's command that a container runs; none if it runs another program."""
    program = container.get("command", ["seesay"] if container["image"].startswith("seesay-qdrant:") else [])
    if program == ["sh", "-c"] and "seesay " in container["args"][0]:
        words = shlex.split(container["args"][0].partition("seesay ")[2])
        return words[: words.index("&&")]
    return container["args"] if program == ["seesay"] else []


def test_kubernetes_gives_commands_their_options_and_no_rights() -> None:
    commands = []
    for pod in pods():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        volumes = {each["name"] for each in pod.get("volumes", [])} | {"storage"}  # that of a stateful set
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert {each["name"] for each in container["volumeMounts"]} <= volumes
            if words := words_of(container):
                commands.append(words[0])
                given = {word.partition("=")[0] for word in words if word.startswith("--")}
                assert given
                assert given <= options(words[0])
    assert sorted(commands) == ["index", "index", "serve"]


def test_images_have_a_version_and_folders_in_memory_or_on_a_node_a_limit() -> None:
    for pod in pods():
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            name, _, version = container["image"].partition(":")
            assert version == __version__ if name.startswith("seesay") else version.startswith("v")
            assert container["imagePullPolicy"] == "IfNotPresent"
        volumes = {each["name"]: each for each in pod.get("volumes", [])}
        assert all(each["emptyDir"]["sizeLimit"] for each in volumes.values() if "emptyDir" in each)
        if any(container["image"].startswith("seesay-ray") for container in pod["containers"]):
            assert volumes["memory"]["emptyDir"]["medium"] == "Memory"  # Ray's objects, in /dev/shm


def size(text: str) -> float:
    """GB of a quantity such as 10Gi."""
    assert text.endswith("Gi")
    return int(text[:-2]) * 2**30 / 1e9


def test_claims_hold_a_million_photos_by_the_plan() -> None:
    rows = map(json.loads, (ROOT / "results" / "benchmarks.jsonl").read_text(encoding="utf-8").splitlines())
    (plan,) = (row for row in rows if row["benchmark"] == "scale-plan" and row["images"] == "1e6")
    claims = {
        name: size(each["spec"]["resources"]["requests"]["storage"])
        for (kind, name), each in RESOURCES.items()
        if kind == "PersistentVolumeClaim"
    }
    assert claims["index"] > 3 * plan["vectors and facts, GB"] + plan["thumbnails, GB"]
    for each in MANIFESTS:
        if each["kind"] in ("Job", "Deployment"):
            for volume in each["spec"]["template"]["spec"]["volumes"]:
                if volume["name"] == "copy":
                    needed = plan["vectors and facts, GB"] + plan["thumbnails, GB"]
                    assert size(volume["emptyDir"]["sizeLimit"]) > needed


def test_vectors_lie_on_two_servers_and_need_a_key() -> None:
    qdrant = RESOURCES["StatefulSet", "qdrant"]["spec"]
    assert RESOURCES["PodDisruptionBudget", "qdrant"]["spec"]["minAvailable"] == qdrant["replicas"] - 1 == 2
    (container,) = qdrant["template"]["spec"]["containers"]
    given = {each["name"]: each for each in container["env"]}
    assert given["QDRANT__STORAGE__COLLECTION__REPLICATION_FACTOR"]["value"] == "2"
    key = given["QDRANT__SERVICE__API_KEY"]["valueFrom"]
    asking = [
        each for pod in pods() for each in pod["containers"] if any("qdrant+" in w for w in words_of(each))
    ]
    assert len(asking) == 3
    for each in asking:
        assert {"name": KEY, "valueFrom": key} in each["env"]


def test_pods_of_one_kind_prefer_different_nodes() -> None:
    spread = [each for each in MANIFESTS if each["spec"].get("replicas", 1) > 1]
    assert {each["metadata"]["name"] for each in spread} == {"qdrant", "seesay", "ray-worker"}
    for each in spread:
        template = each["spec"]["template"]
        ((term,),) = template["spec"]["affinity"]["podAntiAffinity"].values()
        assert term["podAffinityTerm"] == {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": template["metadata"]["labels"]},
        }


@pytest.mark.parametrize(("host", "joins"), [("qdrant-0", False), ("qdrant-2", True)])
def test_the_first_server_of_vectors_begins_and_the_others_join(
    host: str, joins: bool, tmp_path: Path
) -> None:
    (container,) = RESOURCES["StatefulSet", "qdrant"]["spec"]["template"]["spec"]["containers"]
    (tmp_path / "entrypoint.sh").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "entrypoint.sh").chmod(0o700)
    command = [*container["command"], *container["args"]]
    done = subprocess.run(command, cwd=tmp_path, env={"HOSTNAME": host}, capture_output=True, text=True)
    bootstrap = "--bootstrap http://qdrant-0.qdrant:6335 " if joins else ""
    assert done.stdout == f"{bootstrap}--uri http://{host}.qdrant:6335\n"


def test_an_update_of_the_replicas_loses_no_query() -> None:
    deployment = RESOURCES["Deployment", "seesay"]["spec"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    (container,) = deployment["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "10"]
    assert RESOURCES["PodDisruptionBudget", "seesay"]["spec"]["minAvailable"] == deployment["replicas"] - 1


def test_only_pods_of_seesay_reach_the_vectors() -> None:
    (asking,) = RESOURCES["NetworkPolicy", "qdrant"]["spec"]["ingress"]
    (expression,) = asking["from"][0]["podSelector"]["matchExpressions"]
    owners = [each for each in MANIFESTS if each["kind"] in ("Job", "Deployment")]
    for each in owners:
        template = each["spec"]["template"]
        words = [word for container in template["spec"]["containers"] for word in words_of(container)]
        if any("qdrant" in word for word in words):
            assert template["metadata"]["labels"]["app"] in expression["values"]


def test_a_replica_searches_its_copy_of_the_index(tmp_path: Path) -> None:
    photos = gallery(tmp_path / "photos", "red.png", "green.png")
    store = address("qdrant", tmp_path)
    (copy,) = RESOURCES["Deployment", "seesay"]["spec"]["template"]["spec"]["initContainers"]
    jobs = [
        each["spec"]["template"]["spec"]["containers"][0]["args"][0]
        for each in MANIFESTS
        if each["kind"] == "Job"
    ]
    published = {shlex.split(job.partition("python -c")[2])[0] for job in jobs}
    assert len(published) == 1  # the job on Ray publishes as the other does
    with Index.create(tmp_path / "index" / "photos.seesay", Colours(), store) as index:
        index.update_images(photos)
        for script in (*published, copy["args"][0]):  # the index is still open
            here = re.sub(r"(?<=[\"'])/(?=index/|copy/)", f"{tmp_path}/", script)
            subprocess.run([sys.executable, "-c", here], check=True)
        with Index.open(tmp_path / "copy" / "photos.seesay", Colours(), photos, store) as replica:
            assert [hit.path for hit in replica.search("green")] == ["green.png", "red.png"]


@pytest.mark.slow
def test_the_manifests_fit_the_schemas_of_kubernetes() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for resource in MANIFESTS:
        validate.validate(resource, validate.latest_version(), strict=True)


REPLICA = """
import sys
from seesay.search import Index
from seesay.web.app import serve
from seesay.web.options import ServerOptions
from tests.search.colours import Colours
serve(Index.open(sys.argv[1], Colours()), port=0, options=ServerOptions(ground_run="seesay-ground"))
"""


@contextmanager
def replicas(folder: Path) -> Iterator[Callable[[], tuple[str, subprocess.Popen[str]]]]:
    """Starts servers, each of a copy of the index, and returns their addresses once they are ready."""
    with ExitStack() as processes:

        def start() -> tuple[str, subprocess.Popen[str]]:
            copy = shutil.copytree(folder, folder.parent / f"copy-{uuid4().hex}")
            command = [sys.executable, "-c", REPLICA, copy]
            process = processes.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            processes.callback(process.kill)
            address = process.stdout.readline().strip()
            assert httpx.get(f"{address}/readyz").status_code == 200
            return address, process

        yield start


@pytest.mark.slow
def test_no_query_is_lost_while_three_replicas_are_replaced(tmp_path: Path) -> None:
    """In the order of the manifests, whose ten seconds before the end of a replica are one here."""
    photos = gallery(tmp_path / "photos", "red.png", "green.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
    found, over = [], threading.Event()

    def ask() -> None:
        while not over.is_set():
            answer = httpx.get(
                f"{random.choice(tuple(service))}/api/v1/search", params={"q": "something blue"}
            )
            assert answer.status_code == 200, answer.text
            found.append(answer.json()["results"][0]["path"])

    with replicas(tmp_path / "index") as start, ThreadPoolExecutor(4) as clients:
        old = [start() for _ in range(3)]
        service = [address for address, _ in old]
        asking = [clients.submit(ask) for _ in range(4)]
        with Index.open(tmp_path / "index", Colours()) as index:
            index.update_images(gallery(photos, "blue.png"))
        for address, process in old:
            service.append(start()[0])
            time.sleep(0.5)  # the service has not heard yet that the old one is about to end
            service.remove(address)
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) in (0, -signal.SIGTERM)
        before = len(found)
        time.sleep(0.5)
        over.set()
        for each in asking:
            each.result()
    assert not found[0].endswith("blue.png")
    assert all(path.endswith("blue.png") for path in found[before + 4 :])  # four were on their way
    assert len(found) > before + 4
