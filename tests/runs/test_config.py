"""`run.json`: what is written is read, and what is damaged is named."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seesay.encoders.images.tuned import save_tuned
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError
from seesay.paths import data_dir
from seesay.runs.calibration import Calibration
from seesay.runs.config import RunConfig, run_recipe
from seesay.runs.folder import RECIPE, RUN, WEIGHTS, run_folder

SHIPPED = run_folder("seesay-small")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (RUN, RECIPE, WEIGHTS):
        (tmp_path / name).write_bytes((SHIPPED / name).read_bytes())
    return tmp_path


def test_what_is_written_is_read(folder: Path) -> None:
    config = RunConfig.load(folder)
    changed = replace(config, calibration=Calibration(-1.0, 0.5), logit_scale=100.0, logit_bias=-10)
    changed.save(folder)
    assert RunConfig.load(folder) == changed != config
    recipe = run_recipe(folder)
    assert (recipe.name, recipe.encoders, recipe.arrays) == (config.name, config.encoders, config.arrays)
    assert recipe.matcher.kind == config.kind == "joint-projection"


@pytest.mark.parametrize("change", ["other", "cut", "gone"])
def test_graphs_of_other_weights_are_left_out(folder: Path, change: str) -> None:
    path = folder / WEIGHTS
    weights = bytearray(path.read_bytes())
    path.unlink()
    if change == "other":
        weights[-1] ^= 1
        path.write_bytes(weights)
    elif change == "cut":
        path.write_bytes(weights[:-1])
    assert not RunConfig.load(folder).graphs


def test_towers_of_the_hub_need_no_seal(folder: Path) -> None:
    config = RunConfig.load(folder)
    towers = EncoderSettings.parse({"kind": "open_clip", "model": "ViT-B-32", "weights": "openai"})
    replace(config, encoders=(towers, EncoderSettings("minilm")), sentence_encoder=towers).save(folder)
    assert "seal" not in json.loads((folder / RUN).read_text())
    found = RunConfig.load(folder)
    assert (found.encoders, found.sentence_encoder) == ((towers, EncoderSettings("minilm")), towers)


@pytest.mark.parametrize("key", ["encoders", "sentence_encoder"])
@pytest.mark.parametrize(
    "name",
    [
        {"kind": "open_clip", "model": "/models/clip"},
        {"kind": "open_clip", "model": "./towers/../../private"},
        {"kind": "open_clip", "model": "~/clip"},
        {"kind": "open_clip", "model": "ViT-B-32", "weights": "../a.pt"},
    ],
)
def test_a_path_outside_the_run_counts_only_where_it_was_made_here(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, name: dict[str, str]
) -> None:
    config = RunConfig.load(folder)
    spec = EncoderSettings.parse(name)
    replace(config, **{key: (spec,) if key == "encoders" else spec}).save(folder)
    assert EncoderSettings.parse(name) in (
        *RunConfig.load(folder).encoders,
        RunConfig.load(folder).sentence_encoder,
    )
    restored, key_of = tmp_path / "restored", data_dir() / "index.key"
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "another user's"))
    told = r"run\.json: was not made here by you, and names files outside .*, put that machine's `index.key`"
    with pytest.raises(SeesayError, match=told):
        RunConfig.load(folder)
    restored.mkdir()
    shutil.copy(key_of, restored)
    monkeypatch.setenv("SEESAY_CACHE", str(restored))
    assert EncoderSettings.parse(name) in (
        *RunConfig.load(folder).encoders,
        RunConfig.load(folder).sentence_encoder,
    )


@pytest.mark.parametrize(
    "read", [{"kind": "open_clip", "model": "/models/clip"}, {"kind": "open_clip", "model": "../clip"}]
)
def test_a_path_that_a_head_reads_counts_only_where_it_was_made_here(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: dict[str, str]
) -> None:
    about, weights = {"encoder": json.dumps(read)}, {"classifier.0.weight": np.zeros((3, 4))}
    head = save_tuned(EncoderSettings("concepts"), weights, folder, about)
    config = RunConfig.load(folder)
    replace(config, encoders=(head,)).save(folder)
    assert RunConfig.load(folder).encoders == (head,)
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "another user's"))
    with pytest.raises(SeesayError, match=rf"outside its folder \({EncoderSettings.parse(read)}\)"):
        RunConfig.load(folder)


def test_a_seal_is_of_the_paths_that_it_was_made_for(folder: Path) -> None:
    config = RunConfig.load(folder)
    replace(config, encoders=(EncoderSettings("open_clip").replaced(model="/models/clip"),)).save(folder)
    text = (folder / RUN).read_text()
    (folder / RUN).write_text(text.replace("/models/clip", "/models/private"))
    with pytest.raises(SeesayError, match=r"folder \({kind: open_clip, model: /models/private}\)"):
        RunConfig.load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}', '{"format": 2}', "[" * 10_000])
def test_a_damaged_file_is_named(folder: Path, text: str) -> None:
    (folder / RUN).write_text(text)
    with pytest.raises(SeesayError, match=r"run\.json: damaged \(.*\); restore it, or train again"):
        RunConfig.load(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("encoders", [3]),
        ("encoders", "abc"),
        ("encoders", [{"kind": "open_clip", "model": 7}]),
        ("arrays", "abc"),
        ("sentence_encoder", 3),
        ("sentence_encoder", 0),
        ("sentence_encoder", {"kind": "open_clip", "tuned": "./../private"}),
        ("regions", 3),
        ("name", 3),
        ("name", {}),
        ("matcher", []),
        ("matcher", {}),
        ("matcher", {"kind": [1]}),
        ("image_dims", "x"),
        ("image_dims", [float("inf")]),
        ("sentence_dim", None),
        ("image_dims", [-1]),
        ("image_dims", [True]),
        ("image_dims", ["5"]),
        ("image_dims", {"5": 1}),
        ("sentence_dim", -1),
        ("sentence_dim", False),
        ("embeds", "yes"),
        ("embeds", 1),
        ("predicts_concepts", 0),
        ("instances", 0),
        ("max_words", -1),
        ("max_words", 0),
        ("max_words", True),
        ("dim", 2.5),
        ("dim", -7),
        ("dim", True),
        ("logit_scale", float("nan")),
        ("logit_scale", True),
        ("logit_bias", "1"),
        ("calibration", {"intercept": 1}),
        ("calibration", {"intercept": float("nan"), "slope": 1}),
        ("graphs", {"images": 3}),
        ("graphs", {"images": {"digest": "0"}}),
        ("graphs", {"images": {"digest": 0, "weights": [], "error": 0}}),
        ("graphs", {"images": {"digest": "0", "weights": "abc", "error": 0}}),
        ("graphs", {"../../images": {"digest": "0", "weights": [], "error": 0}}),
        ("graphs", {"other": {"digest": "0", "weights": [], "error": 0}}),
        ("unknown", 1),
    ],
)
def test_a_wrong_value_is_named(folder: Path, key: str, value: object) -> None:
    values = json.loads((folder / RUN).read_text())
    (folder / RUN).write_text(json.dumps(values | {key: value}))
    with pytest.raises(SeesayError, match=r"run\.json: damaged") as caught:
        RunConfig.load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["encoders", "arrays"])
def test_a_run_reads_something(folder: Path, key: str) -> None:
    values = json.loads((folder / RUN).read_text())
    values[key] = []
    (folder / RUN).write_text(json.dumps(values))
    with pytest.raises(SeesayError, match=rf"run\.json: damaged \({key} is \[\]\)"):
        RunConfig.load(folder)


def test_features_wider_than_any_are_refused_before_a_matcher_is_made(folder: Path) -> None:
    values = json.loads((folder / RUN).read_text()) | {"image_dims": [10**12]}
    (folder / RUN).write_text(json.dumps(values))
    with pytest.raises(SeesayError, match=r"run\.json: damaged \(image_dims is"):
        RunConfig.load(folder)


def test_a_run_without_its_recipe_says_what_it_lacks(folder: Path) -> None:
    (folder / RECIPE).unlink()
    assert RunConfig.load(folder).name == "seesay-small"
    with pytest.raises(SeesayError, match=r"recipe\.json: missing; the run can be searched and measured"):
        run_recipe(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 10_000, '{"name": 3}'])
def test_a_damaged_recipe_is_named(folder: Path, text: str) -> None:
    (folder / RECIPE).write_text(text)
    with pytest.raises(SeesayError, match=r"recipe\.json: "):
        run_recipe(folder)


def test_a_recipe_of_other_encoders_is_refused(folder: Path) -> None:
    others = [{"kind": "open_clip", "model": "/models/private"}]
    values = json.loads((folder / RECIPE).read_text()) | {"encoders": others}
    (folder / RECIPE).write_text(json.dumps(values))
    with pytest.raises(SeesayError, match=r"recipe\.json: names other encoders than run\.json"):
        run_recipe(folder)
