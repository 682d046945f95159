"""A CLIP model by every command that takes a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from seesay.search import Index
from seesay.web.app import create_app
from tests.end_to_end.command import seesay

# Slow: every command is a process that imports a library of models.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_cache")]

RETRIEVAL = ("standard", "sentence-to-sentence", "k-shot")


@pytest.fixture(scope="module")
def towers(clip: Path, siglip: Path) -> tuple[str, str]:
    return f"open_clip:{clip}", f"open_clip:{siglip}"


@pytest.fixture(scope="module")
def index(clip: Path, scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("towers") / "index"
    (folder.parent / "texts.txt").write_text("a red circle\na blue square\n")
    options = ("--run", "open_clip:./clip", "--sentences", folder.parent / "texts.txt", "--json")
    done = seesay("index", scenes / "images", "--out", folder, *options, cwd=clip.parent)
    report = json.loads(done.stdout)
    assert (report["added"], report["sentences"]) == (60, 2)
    return folder


def test_index_and_searches(index: Path, scenes: Path, towers: tuple[str, str]) -> None:
    again = json.loads(seesay("index", scenes / "images", "--out", index, "--json").stdout)
    assert (again["added"], again["unchanged"]) == (0, 60)
    first = json.loads(seesay("search", index, "a red circle", "--json").stdout)["results"]
    assert len(first) == 10
    photo = scenes / "images" / Path(first[0]["path"]).name
    found = json.loads(seesay("sentences", index, photo, "--json").stdout)["results"]
    assert {hit["sentence"] for hit in found} == {"a red circle", "a blue square"}
    for reranked in towers[1], "seesay-small":
        done = seesay("search", index, "a red circle", "--rerank", reranked, "--json")
        scores = [hit["score"] for hit in json.loads(done.stdout)["results"]]
        assert scores == sorted(scores, reverse=True)


def test_serve(index: Path, towers: tuple[str, str]) -> None:
    app = create_app(Index.open(index))
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        answer = client.get("/api/v1/search", params={"q": "a red circle"}).json()
        assert answer["results"]
        assert client.get("/api/v1/status").json()["matcher"] == "open_clip:clip"  # no path of the server


@pytest.mark.parametrize("protocol", RETRIEVAL)
def test_evaluate_by_protocols_of_retrieval(protocol: str, scenes: Path, towers: tuple[str, str]) -> None:
    done = seesay("evaluate", towers[0], "--data", scenes, "--protocol", protocol, "--json")
    assert json.loads(done.stdout)["protocol"] == protocol


def test_evaluate_with_other_runs(scenes: Path, towers: tuple[str, str], tmp_path: Path) -> None:
    clip, _ = towers
    data = ("--data", scenes, "--json")
    together = json.loads(
        seesay("evaluate", clip, "seesay-small", "--combine", "learned", *data, "--record", tmp_path).stdout
    )
    named = f"open_clip:{Path(clip.partition(':')[2]).name}"  # what others may read names no folders
    assert set(together["about"]["weights"]) == {named, "seesay-small"}
    other = json.loads(seesay("evaluate", "seesay-small", "--against", clip, *data).stdout)
    assert other["against"]["name"] == named
    seesay("evaluate", clip, *data, "--record", tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "scenes.jsonl").read_text().splitlines()]
    assert [row["encoder"] for row in rows if row["recipe"] == named] == [named]


def _settings(name: str) -> str:
    """The settings of the encoders of a CLIP model that is named as a run."""
    return f"{{kind: open_clip, model: {name.removeprefix('open_clip:')}}}"


def test_compare_and_report(scenes: Path, towers: tuple[str, str], tmp_path: Path) -> None:
    alone = seesay("compare", towers[0], "--data", scenes).stdout
    assert f"open_clip:{Path(towers[0].partition(':')[2]).name}" in alone
    page = tmp_path / "report.html"
    seesay("report", towers[0], "seesay-small", "--data", scenes, "--out", page)
    text = re.sub(r"<[^>]+>", " ", page.read_text())
    assert "zero-shot" in text
    assert "× cosine" in text


def test_a_trained_run_learns_from_a_tower(scenes: Path, towers: tuple[str, str], tmp_path: Path) -> None:
    loss = f"loss={{kind: distillation, teacher: '{towers[0]}', scale: 30}}"
    changes = (f"encoders=[{_settings(towers[1])}]", loss, "schedule.epochs=1")
    options = [part for change in changes for part in ("--set", change)]
    seesay("train", "vse0", "--data", scenes, "--out", tmp_path / "run", *options)
    done = seesay("evaluate", tmp_path / "run", "--data", scenes, "--json")
    assert json.loads(done.stdout)["protocol"] == "standard"


def test_what_does_not_apply_says_so(scenes: Path, towers: tuple[str, str], tmp_path: Path) -> None:
    name, photo = towers[0], next((scenes / "images").iterdir())

    def refusal(*command: object) -> str:
        message = seesay(*command, code=2).stderr.strip().splitlines()
        return message[-1]

    assert "predicts no concepts" in refusal("concepts", name, photo)
    assert "matches whole images" in refusal("ground", photo, "a dog", "--run", name)
    assert "predicts no concepts" in refusal("evaluate", name, "--data", scenes, "--protocol", "concepts")
    assert "needs phrases" in refusal("evaluate", name, "--data", scenes, "--protocol", "grounding")
    assert "name the corpus to measure on" in refusal("evaluate", name)
    out = tmp_path / "run"
    assert "same inputs" in refusal("train", "vse0", "--data", scenes, "--from", name, "--out", out)
    tower = ("--set", f"encoders=[{_settings(name)}]")
    assert "can be fine-tuned" in refusal(
        "train", "concepts-finetuned", "--data", scenes, "--out", out, *tower
    )


def test_what_names_a_folder_with_a_model_is_not_exported(
    scenes: Path, towers: tuple[str, str], tmp_path: Path
) -> None:
    assert "cannot be exported" in seesay("export", towers[0], "--out", tmp_path / "given", code=2).stderr
    tower = _settings(towers[0])
    changes = [f"encoders=[{tower}]", f"sentence_encoder={tower}", "schedule.epochs=1", "matcher.dim=8"]
    options = [part for change in changes for part in ("--set", change)]
    seesay("train", "two-branch", "--data", scenes, "--out", tmp_path / "run", *options)
    assert (
        "reads a file of yours"
        in seesay("export", tmp_path / "run", "--out", tmp_path / "given", code=2).stderr
    )
    assert not (tmp_path / "given").exists()
