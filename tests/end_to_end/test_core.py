"""Without the extras: what `pip install seesay` brings is enough to index, search, ground and evaluate."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tests.end_to_end.command import seesay
from tools.scenes import write_scenes

SOURCE = Path(__file__).parents[2] / "src"
RUN = """
import sys, seesay.cli
try:
    seesay.cli.main(sys.argv[1:])
finally:
    heavy = {"torch", "scipy", "matplotlib", "onnx", "arro3"} & set(sys.modules)
    assert not heavy, heavy
"""
COMMANDS = """
import sys, seesay.cli
sys.stderr = sys.stdout
code, *lines = sys.argv[1:]
for line in lines:
    print("$", line)
    try:
        seesay.cli.main(line.split())
        assert code == "0", line
    except SystemExit as ended:
        assert ended.code == int(code), (line, ended.code)
heavy = {"torch", "scipy", "matplotlib", "onnx", "arro3"} & set(sys.modules)
assert code != "0" or not heavy, heavy
"""


def requirements(name: str, seen: dict[str, object]) -> None:
    """Collect a distribution and those that it needs, without its extras."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in seen:
        return
    try:
        seen[name] = found = distribution(name)
    except PackageNotFoundError:  # for another platform or Python
        return
    for line in found.requires or ():
        if "extra ==" not in line:
            requirements(re.match(r"[\w.-]+", line)[0], seen)


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of links to the packages that `pip install seesay` brings, and to nothing else."""
    seen: dict[str, object] = {}
    requirements("seesay", seen)
    assert "torch" not in seen
    site = tmp_path_factory.mktemp("site")
    for name, found in seen.items():
        if name == "seesay":
            continue
        for top in {file.parts[0] for file in found.files if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(found.locate_file(top))
    return site


def run(core: Path, *arguments: str | Path, code: str = RUN, cache: Path | None = None) -> str:
    paths = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), SOURCE, core]
    start = (
        f"import sys; sys.path[:] = {[str(p) for p in paths]!r} + [p for p in sys.path if 'dynload' in p]\n"
    )
    command = [sys.executable, "-I", "-S", "-c", start + code, *map(str, arguments)]
    env = os.environ | ({"SEESAY_CACHE": str(cache)} if cache else {})
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("core") / "scenes"
    write_scenes(folder, images=12, seed=3)
    return folder


def test_photos_are_indexed_and_searched(core: Path, scenes: Path) -> None:
    index = scenes.parent / "photos.seesay"
    made = json.loads(run(core, "index", scenes, "--out", index, "--json"))
    assert made["images"] == 12
    found = json.loads(run(core, "search", index, "a red circle", "-k", "3", "--json"))["results"]
    assert len(found) == 3


def test_a_phrase_is_grounded(core: Path, scenes: Path) -> None:
    photo = next(scenes.rglob("*.png"), None) or next(scenes.rglob("*.jpg"))
    (phrase,) = json.loads(run(core, "ground", photo, "a dog", "--json"))["phrases"]
    assert phrase["boxes"]


def test_the_shipped_run_is_evaluated(core: Path, scenes: Path) -> None:
    found = json.loads(run(core, "evaluate", "seesay-small", "--data", scenes, "--split", "train", "--json"))
    assert 0 <= found["metrics"]["mR"] <= 100


@pytest.fixture(scope="module")
def bundle(scenes: Path) -> Path:
    """A run of encoders that only `seesay[train]` has, exported with them."""
    trained, out = scenes.parent / "trained", scenes.parent / "given"
    changes = [
        "encoders=[{kind: efficientnet-lite0, crops: ten}]",
        "sentence_encoder=minilm",
        "schedule.epochs=1",
    ]
    changes += ["matcher.dim=20", "matcher.hidden=16", "batch_size=10"]
    options = [part for change in changes for part in ("--set", change)]
    seesay("train", "projection", "--data", scenes, "--out", trained, *options)
    seesay("export", trained, "--out", out)
    return out


@pytest.mark.slow
def test_an_exported_run_brings_its_encoders(core: Path, scenes: Path, bundle: Path, tmp_path: Path) -> None:
    """The cache is empty: nothing but the folder has the networks."""
    cache, index = tmp_path / "cache", tmp_path / "photos.seesay"
    made = json.loads(run(core, "index", scenes, "--out", index, "--run", bundle, "--json", cache=cache))
    assert made["images"] == 12
    found = json.loads(run(core, "search", index, "a red circle", "-k", "3", "--json", cache=cache))
    ours = json.loads(seesay("search", index, "a red circle", "-k", "3", "--json").stdout)
    assert [hit["path"] for hit in found["results"]] == [hit["path"] for hit in ours["results"]]
    code = f"import seesay\nprint(seesay.load({str(bundle)!r}).embed_sentences(['a dog']).shape)"
    assert run(core, code=code, cache=cache) == "(1, 1060)\n"
    measured = run(core, "evaluate", bundle, "--data", scenes, "--split", "train", "--json", cache=cache)
    assert 0 <= json.loads(measured)["metrics"]["mR"] <= 100
    assert len(list((cache / "arrays").iterdir())) == 2, "features of images and vectors of sentences"
    run(core, "export", bundle, "--out", tmp_path / "again", cache=cache)
    ours, copied = (
        {path.relative_to(each) for path in each.rglob("*.*")} for each in (bundle, tmp_path / "again")
    )
    assert ours == copied


@pytest.mark.slow
def test_runs_with_networks_of_one_name_use_their_own(core: Path, bundle: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(bundle, other)
    network = next((other / "encoders").glob("minilm*"))
    network.write_bytes(b"no network")
    code = f"import seesay\nfirst = seesay.load({str(bundle)!r})\ntry:\n" + (
        f"    seesay.load({str(other)!r}).embed_sentences(['a dog'])\n"
        "except seesay.SeesayError as e:\n    print(e)\n"
        "print(first.embed_sentences(['a dog']).shape)"
    )
    refused, embedded = run(core, code=code, cache=tmp_path / "cache").splitlines()
    assert str(other) in refused
    assert embedded == "(1, 1060)"


def test_what_needs_an_extra_names_it(core: Path, scenes: Path) -> None:
    code = "import seesay\ntry:\n    seesay.matchers.IRMatch\nexcept seesay.SeesayError as e:\n    print(e)"
    assert run(core, code=code).endswith("[train]'.\n")
    code = f"import seesay\ntry:\n    seesay.train('vse++', {str(scenes)!r}, 'x')\n" + (
        "except seesay.SeesayError as e:\n    print(e)"
    )
    assert run(core, code=code).endswith("[train]'.\n")


def test_what_only_lists_needs_no_extra(core: Path, scenes: Path) -> None:
    lines = ("runs", "recipes", "encoders", f"data {scenes}")
    said = run(core, "0", *lines, code=COMMANDS).split("$ ")[1:]
    assert "seesay-small" in said[0]
    assert "irmatch-s" in said[1]
    assert [text.partition("\n")[0] for text in said] == list(lines)
    assert all(text.partition("\n")[2] for text in said)


def test_commands_that_need_an_extra_name_it(core: Path, scenes: Path, tmp_path: Path) -> None:
    extras = {
        f"train irmatch-s --data {scenes}": "train",
        f"table flickr8k --data {scenes}": "train",
        f"report seesay-small --data {scenes} --split train --out {tmp_path}/report.html": "train",
        f'features {scenes} --encoder {{"kind":"timm","model":"resnet18"}} --out {tmp_path}/features': "hub",
        f"index {scenes} --run open_clip:ViT-B-32/openai --out {tmp_path}/a.seesay": "hub",
        f"index {scenes} --cluster auto --out {tmp_path}/b.seesay": "cluster",
        f"index {scenes} --out postgresql://localhost/c#c": "postgresql",
    }
    said = run(core, "2", *extras, code=COMMANDS, cache=tmp_path / "cache")
    named = re.findall(r"^seesay: .*, which is not installed: pip install .*\[(\w+)\]'\.$", said, re.M)
    assert named == list(extras.values()), said


IMPORT_ALL = """
import importlib, pathlib, sys
root = pathlib.Path(sys.argv[1]) / "seesay"
make = {"losses", "matchers", "training", "report", "_api"}
for path in sorted(root.rglob("*.py")):
    parts = path.relative_to(root.parent).with_suffix("").parts
    name = ".".join(parts).removesuffix(".__init__")
    if len(parts) > 1 and parts[1] in make or path.name == "__main__.py":
        continue
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        print(name, missing.name)
"""
# They compute with PyTorch, and are imported where it is there.
NEED_PYTORCH = {
    "seesay.encoders.networks",
    "seesay.runs.export",
    "seesay.runs.torch_backend",
}
NEED_AN_EXTRA = {"seesay.search.postgresql"}


def test_what_uses_runs_imports_no_pytorch(core: Path) -> None:
    lines = run(core, SOURCE, code=IMPORT_ALL).splitlines()
    needed = {name for name, _ in map(str.split, lines)}
    assert needed == NEED_PYTORCH | NEED_AN_EXTRA, lines
