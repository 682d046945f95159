"""The example scripts run, on a small drawn corpus."""

from __future__ import annotations

import csv
import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from seesay.data.corpus import Corpus, CorpusImage, Sentence

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


def test_own_features_are_trained_and_measured_in_a_loop_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    owners, meant = np.repeat(np.arange(100), 5), rng.normal(size=(100, 16))
    given = {
        "regions": meant[:, None] + rng.normal(scale=0.5, size=(100, 36, 16)),
        "sentences": meant[owners] + rng.normal(scale=0.5, size=(500, 16)),
        "image_of_sentence": owners,
    }
    for name, values in given.items():
        np.save(tmp_path / f"{name}.npy", values)
    example("own_features").main(*(tmp_path / f"{name}.npy" for name in given))
    contrastive, soft_margin, interval, test = capsys.readouterr().out.splitlines()
    for line, name in ((contrastive, "contrastive"), (soft_margin, "soft margin")):
        assert line.startswith(f"{name}: i2t R@1 ")
        assert float(line.rpartition(" ")[2]) > 450  # of 600
    assert interval.startswith("contrastive: image retrieval R@10, 95 % interval ")
    assert test.startswith("difference from soft margin: ")


def test_features_of_a_corpus_are_pairs(tmp_path: Path) -> None:
    images = tuple(CorpusImage(f"{i}.jpg", "train", row=2 - i) for i in range(2))
    sentences = Sentence("a dog", 0), Sentence("a cat", 1), Sentence("two cats", 1)
    corpus = Corpus("x", tmp_path, images, sentences, features=np.arange(9, dtype=np.float32).reshape(3, 3))
    pairs = example("own_features").FeaturePairs.of(corpus)
    assert [(found.tolist(), text, row) for found, text, row in (pairs[i] for i in range(len(pairs)))] == [
        ([6, 7, 8], "a dog", 2),
        ([3, 4, 5], "a cat", 1),
        ([3, 4, 5], "two cats", 1),
    ]
