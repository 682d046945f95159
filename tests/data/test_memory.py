"""Corpora from memory, and subsets of corpora."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import seesay
from seesay.data.images import decode
from seesay.errors import SeesayError
from seesay.protocols.evaluate import open_corpus_of
from seesay.runs.summary import TrainingSummary
from tests.data.readers.conftest import jpeg
from tools.scenes import write_scenes


def test_images_of_every_kind_with_sentences(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(jpeg("a"))
    array = np.full((4, 6, 3), 77, np.uint8)
    rows = [
        (tmp_path / "a.jpg", ["one", "two"], "train"),
        (jpeg("b"), "three", "validation"),
        (array, "four", "test"),
        (Image.fromarray(array), "the same image", "test"),
        ({"bytes": jpeg("c"), "path": "c.jpg"}, ["five"], "train"),
        ({"bytes": None, "path": str(tmp_path / "a.jpg")}, ["six"], "train"),
        (Image.fromarray(array).convert("RGBA"), "seven", "test"),
    ]
    corpus = seesay.corpus_of(iter(rows), name="mine")
    assert corpus.name == "mine"
    assert [len(corpus.split(name).sentences) for name in ("train", "val", "test")] == [4, 1, 3]
    assert len(corpus.images) == 5
    sources = [image.source for image in corpus.split("test").images]
    assert all(source and (decode(source.read(), "a") == array).all() for source in sources)


def test_a_folder_of_the_same_name_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.jpg").write_bytes(jpeg("a"))
    corpus = seesay.corpus_of([(jpeg("b"), "a cat", "train")], name="mine")
    assert (corpus.name, dict(corpus.issues.counts)) == ("mine", {})
    assert not corpus.root.exists()  # where a run of it would be measured


@pytest.mark.parametrize("row", [("a dog",), (3, "a", None), (b"x", 3, None), ({"path": None}, "a", None)])
def test_what_is_no_row_is_named(row: tuple[object, ...]) -> None:
    with pytest.raises(SeesayError, match=r"rows\[1\]: expected image, sentences and split"):
        seesay.corpus_of([(jpeg("a"), "a cat", "train"), row])


def test_a_run_is_trained_on_rows_and_on_a_subset(tmp_path: Path) -> None:
    write_scenes(tmp_path / "scenes", images=40, seed=1)
    whole = seesay.read_corpus(tmp_path / "scenes")
    rows = [
        (
            image.source and image.source.read(),
            [s.text for s in whole.sentences if s.image == at],
            image.split,
        )
        for at, image in enumerate(whole.images)
    ]
    small: dict[str, Any] = {"epochs": 1, "encoders": ["efficientnet-lite0"], "matcher": {"dim": 24}}
    run = seesay.train("irmatch-s", seesay.corpus_of(rows), tmp_path / "rows", **small)
    seesay.evaluate(run, seesay.corpus_of(rows))
    with pytest.raises(
        SeesayError, match=r"memory \(in memory\): the runs. corpus is not there; name the corpus"
    ):
        open_corpus_of([run])
    part = seesay.read_corpus(tmp_path / "scenes", subset=20)
    seesay.train("irmatch-s", part, tmp_path / "part", **small)
    assert TrainingSummary.load(tmp_path / "part").corpus.subset == 20


def test_a_subset_is_the_same_each_time_and_says_so(tmp_path: Path) -> None:
    write_scenes(tmp_path, images=50, seed=1)
    whole, part = seesay.read_corpus(tmp_path), seesay.read_corpus(tmp_path, subset=20)
    assert part.name == f"{whole.name}-20"
    assert [len(part.split(split).images) for split in ("train", "val", "test")] == [16, 2, 2]
    kept = {image.name for image in part.images}
    assert [s.text for s in part.sentences] == [
        s.text for s in whole.sentences if whole.images[s.image].name in kept
    ]
    assert part.images == seesay.read_corpus(tmp_path, subset=20).images
    assert {image.name for image in whole.subset(10).images} < kept
    for count in range(3, 51):  # whatever the sizes of the splits
        assert len(whole.subset(count).images) == count
    for count in (2, 51):
        with pytest.raises(SeesayError, match=f"a subset has 3 to 50 images, not {count}"):
            whole.subset(count)
