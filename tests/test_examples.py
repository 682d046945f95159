"""The example scripts run, on a small drawn corpus."""

from __future__ import annotations

import csv
import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


def example(name: str) -> ModuleType:
    spec = spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_own_captions(scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import seesay

    corpus, museum = seesay.read_corpus(scenes), tmp_path / "museum"
    shutil.copytree(scenes / "images", museum / "images")
    with (museum / "captions.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("image", "caption"))
        rows.writerows((f"images/{corpus.images[s.image].name}", s.text) for s in corpus.sentences)
    example("own_captions").main(museum / "captions.csv", tmp_path / "out", "a small red circle", epochs=2)
    printed = capsys.readouterr().out
    assert printed.startswith("60 images, 300 sentences\n")
    assert "mR" in printed
    assert printed.count(".jpg") == 3


def test_own_matcher(
    scenes: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import seesay
    from seesay.matchers.settings import MATCHERS

    monkeypatch.setattr(MATCHERS, "_known", {name: MATCHERS[name] for name in MATCHERS})  # for this test only
    module = example("own_matcher")
    module.main(scenes, tmp_path, "a small red circle", epochs=1)
    printed = capsys.readouterr().out
    assert "mR" in printed
    assert printed.count(".jpg") == 3
    run = seesay.load(tmp_path / "run")
    assert isinstance(run.matcher, module.BagOfWords)
    assert run.embed_sentences(["a small red circle"]).shape == (1, 256)


def test_external_embeddings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    owners, images = np.repeat(np.arange(40), 5), rng.normal(size=(40, 16))
    np.save(tmp_path / "owners.npy", owners)
    for name, noise in (("ours", 0.5), ("theirs", 3.0)):
        sentences = images[owners] + rng.normal(scale=noise, size=(200, 16))
        np.savez(tmp_path / f"{name}.npz", images=images, sentences=sentences)
    files = [tmp_path / name for name in ("owners.npy", "ours.npz", "theirs.npz")]
    example("external_embeddings").main(*files)
    *_, interval, test = capsys.readouterr().out.splitlines()
    assert interval.startswith("ours: image retrieval R@10, 95 % interval ")
    assert test.startswith("difference from theirs: +")
    assert float(test.rpartition(" ")[2]) < 0.001
