"""Runs as folders that can be given away."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seesay.data.readers import read_corpus
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.runs.bundle import write_bundle
from seesay.runs.config import RunConfig
from seesay.runs.export import export_run, remove_export
from seesay.runs.folder import run_folder
from seesay.runs.run import Run
from seesay.training.train import train

TINY = ["schedule.epochs=1", "matcher.dim=20", "batch_size=20", "sentence_encoder=minilm"]


@pytest.fixture(scope="module")
def run(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of encoders in full precision, which `seesay[train]` brings."""
    folder = tmp_path_factory.mktemp("bundle") / "run"
    changes = [
        *TINY,
        "encoders=[efficientnet-lite0]",
        "matcher.kind=projection",
        "matcher.hidden=16",
    ]
    train(load_recipe("projection", "scenes", changes), read_corpus(scenes), folder)
    return folder


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_bundle_holds_all_that_the_run_needs_and_nothing_of_the_machine(
    run: Path, tmp_path: Path, scenes: Path
) -> None:
    bundle = tmp_path / "mine"
    assert write_bundle(str(run), bundle) is None
    assert _files(bundle) == {
        "vocabulary.json",
        "weights.safetensors",
        "run.json",
        "images.onnx",
        "sentences.onnx",
        *(f"encoders/{path.name}" for path in (bundle / "encoders").iterdir()),
    }
    assert sorted(path.name[:3] for path in (bundle / "encoders").iterdir()) == ["eff", "min"]
    assert sum(path.stat().st_size for path in bundle.rglob("*")) > 50e6
    assert str(scenes.parent) not in (bundle / "run.json").read_text()
    ours, theirs = Run.load(str(run)), Run.load(str(bundle))
    assert ours.fingerprint == theirs.fingerprint
    pixels = [np.full((40, 50, 3), 90, np.uint8)]
    np.testing.assert_array_equal(ours.embed_images(pixels), theirs.embed_images(pixels))


def test_a_disk_that_fails_when_the_folder_is_there_undoes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, stat = tmp_path / "given", Path.stat

    def failing(path: Path, **options: bool) -> os.stat_result:
        if out in path.parents:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", failing)
    write_bundle("seesay-small", out)
    monkeypatch.undo()
    write_bundle("seesay-small", tmp_path / "again")
    assert _files(out) == _files(tmp_path / "again")


def test_a_run_from_elsewhere_overwrites_nothing_outside_the_bundle(tmp_path: Path) -> None:
    run = Path(shutil.copytree(run_folder("seesay-small"), tmp_path / "download" / "a" / "run"))
    (tmp_path / "download" / "evil.onnx").write_bytes(b"evil")
    config = json.loads((run / "run.json").read_text())
    config["graphs"]["../../evil"] = config["graphs"]["images"]
    (run / "run.json").write_text(json.dumps(config))
    home = tmp_path / "home"
    home.mkdir()
    (home / "evil.onnx").write_bytes(b"precious")
    with pytest.raises(SeesayError, match=r"run\.json: damaged"):
        write_bundle(str(run), home / "out")
    assert [path.name for path in home.iterdir()] == ["evil.onnx"]
    assert (home / "evil.onnx").read_bytes() == b"precious"


def test_a_run_that_is_not_exported_is(run: Path, tmp_path: Path) -> None:
    remove_export(loaded := Run.load(str(run), "cpu"))
    write_bundle(str(run), tmp_path / "mine")
    assert RunConfig.load(tmp_path / "mine").graphs
    assert not RunConfig.load(run).graphs
    export_run(loaded)


def test_the_error_of_a_matcher_that_onnx_does_not_take_names_the_run(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no operator for this.\nAnd a graph of 300 lines")

    monkeypatch.setattr("seesay.runs.export._write", fail)
    remove_export(loaded := Run.load(str(run), "cpu"))
    said = re.escape(f"{run}: its matcher cannot be exported to ONNX (no operator for this); the run needs")
    with pytest.raises(SeesayError, match=f"^{said}"):
        write_bundle(str(run), tmp_path / "mine")
    monkeypatch.undo()
    export_run(loaded)


def test_shipped_weights_bring_no_encoders(tmp_path: Path) -> None:
    write_bundle("seesay-ground", tmp_path / "ground")
    assert not (tmp_path / "ground" / "encoders").exists()


def test_what_cannot_be_written_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "notes.txt").write_text("mine")
    with pytest.raises(SeesayError, match="already exists"):
        write_bundle(str(run), tmp_path / "there")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SeesayError, match="cannot be written"):
        write_bundle(str(run), tmp_path / "file" / "below")
    with pytest.raises(SeesayError, match="cannot be exported"):
        write_bundle("open_clip:ViT-B-32/laion2b_s34b_b79k", tmp_path / "clip")
    (run / "weights.safetensors").rename(run / "away")
    try:
        with pytest.raises(SeesayError):
            write_bundle(str(run), tmp_path / "mine")
    finally:
        (run / "away").rename(run / "weights.safetensors")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "there"]


def test_a_detector_of_ones_own_is_not_brought(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run_folder("seesay-ground"), folder)
    config = RunConfig.load(folder)
    replace(config, encoders=(EncoderSettings("detector").replaced(file="mine.onnx"),)).save(folder)
    with pytest.raises(SeesayError, match=r"{kind: detector, file: mine\.onnx} reads a file of yours"):
        write_bundle(str(folder), tmp_path / "given")
    assert not (tmp_path / "given").exists()


def test_a_run_that_reads_concepts_names_no_folder(scenes: Path, tmp_path: Path) -> None:
    corpus = read_corpus(scenes)
    tiny = ["schedule.epochs=1", "batch_size=20", "encoders=[efficientnet-lite0]"]
    train(
        load_recipe("concepts", "scenes", [*tiny, "matcher.count=10"]), corpus, tmp_path / "mine" / "concepts"
    )
    encoders = f"encoders=[efficientnet-lite0, {{kind: concepts, run: {tmp_path / 'mine' / 'concepts'}}}]"
    changes = ["schedule.epochs=1", "batch_size=20", encoders, "matcher.kind=projection", "matcher.hidden=16"]
    recipe = load_recipe("projection", "scenes", [*changes, "sentence_encoder=minilm"])
    train(recipe, corpus, tmp_path / "mine" / "run")
    write_bundle(str(tmp_path / "mine" / "run"), bundle := tmp_path / "given")
    assert str(tmp_path) not in (bundle / "run.json").read_text()
    shutil.rmtree(tmp_path / "mine")
    data = corpus.images[0].source.read()
    assert Run.load(str(bundle)).embed_images([data]).shape[0] == 1


def test_files_that_a_training_read_lose_their_folders(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    config = RunConfig.load(tmp_path / "run")
    matcher = {**config.matcher, "word_vectors": "/home/me/v.txt", "parts": [{"file": "/home/me/w.vec"}, "a"]}
    replace(config, matcher=matcher).save(tmp_path / "run")
    write_bundle(str(tmp_path / "run"), bundle := tmp_path / "given")
    brought = json.loads((bundle / "run.json").read_text())["matcher"]
    assert brought == {**config.matcher, "word_vectors": "v.txt", "parts": [{"file": "w.vec"}, "a"]}


def test_word_vectors_of_ones_own_are_not_brought(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    config = RunConfig.load(tmp_path / "run")
    replace(config, sentence_encoder=EncoderSettings("mean").replaced(file="/home/me/vectors.txt")).save(
        tmp_path / "run"
    )
    with pytest.raises(SeesayError, match=r"{kind: mean, file: /home/me/vectors\.txt} reads a file of yours"):
        write_bundle(str(tmp_path / "run"), tmp_path / "given")
