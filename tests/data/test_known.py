"""Which published corpus a corpus is: by the sizes of its splits, by what a file states, by usual names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from seesay import read_corpus
from seesay.data.corpus import CorpusImage
from seesay.data.readers.builder import known_name


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("f30k_precomp", "flickr30k"),
        ("Flickr30K", "flickr30k"),
        ("flickr30k-images", "flickr30k"),
        ("dataset_flickr30k", "flickr30k"),
        ("f30k_butd", "flickr30k"),
        ("coco_precomp", "coco"),
        ("MS-COCO", "coco"),
        ("mscoco_2014", "coco"),
        ("f30k_vgg19_10crop", "flickr30k"),
        ("Flickr30k_HGLMM", "flickr30k"),
        ("coco_ims", "coco"),
        ("coco_resnet152_precomp", "coco"),
        ("f8k_precomp", "flickr8k"),
        ("Flickr_8k", "flickr8k"),
        ("coco-text", "coco-text"),
        ("chocolate", "chocolate"),
        ("images", "images"),
        ("flickr", "flickr"),
    ],
)
def test_the_usual_names_of_published_corpora_are_known(name: str, found: str) -> None:
    assert known_name(name, (), has_boxes=False) == found


@pytest.mark.parametrize("name", ["Flickr30kEntities", "flickr30k_entities", "Flickr30K"])
def test_phrases_of_flickr30k_are_entities(name: str) -> None:
    assert known_name(name, (), has_boxes=True) == "flickr30k-entities"


@pytest.mark.parametrize(
    ("train", "val", "found"),
    [
        (29_000, 1_014, "flickr30k"),
        (113_287, 5_000, "coco"),
        (82_783, 5_000, "coco"),
        (29_000, 1_000, "coco"),
    ],
)
def test_sizes_of_splits_are_trusted_more_than_names(train: int, val: int, found: str) -> None:
    splits = ["train"] * train + ["val"] * val + ["test"] * 1000
    images = [CorpusImage(str(number), split) for number, split in enumerate(splits)]
    assert known_name("mscoco", images, has_boxes=False) == found
    assert known_name("mine", images, has_boxes=False) == (
        found if (train, val) != (29_000, 1_000) else "mine"
    )


def test_a_folder_of_features_is_the_corpus_that_its_name_says(tmp_path: Path) -> None:
    folder = tmp_path / "f30k_precomp"
    folder.mkdir()
    np.save(folder / "train_ims.npy", np.eye(3, dtype=np.float32))
    (folder / "train_caps.txt").write_text("".join(f"sentence {n}\n" for n in range(15)))
    assert read_corpus(folder).name == "flickr30k"


def test_what_karpathys_file_states_is_trusted_more_than_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "flickr30k"
    folder.mkdir()
    images = [{"filename": "a.jpg", "split": "train", "sentences": [{"raw": "a dog"}]}]
    (folder / "dataset.json").write_text(json.dumps({"images": images, "dataset": "MSCOCO"}))
    np.save(folder / "features.npy", np.eye(1, dtype=np.float32))
    (folder / "a.jpg").write_bytes(b"not read")
    assert read_corpus(folder).name == "coco"


@pytest.mark.parametrize(
    ("folder", "file", "stated", "found"),
    [
        ("flickr30k", "dataset.json", None, "flickr30k"),
        ("flickr30k", "dataset.json", "", "flickr30k"),
        ("f30k", "dataset.json", "karpathy", "flickr30k"),
        ("mine", "dataset_coco.json", 7, "coco"),
        ("flickr30k", "dataset.json", "museum", "museum"),
        ("museum", "dataset.json", None, "museum"),
        ("musée", "dataset.json", "美術館", "美術館"),
        ("data", "dataset.json", None, "dataset"),
        ("coco数据集", "dataset.json", None, "coco"),
    ],
)
def test_the_first_name_that_says_something_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, file: str, stated: object, found: str
) -> None:
    (tmp_path / folder).mkdir()
    images = [{"filename": "a.jpg", "split": "train", "sentences": [{"raw": "a dog"}]}]
    (tmp_path / folder / file).write_text(json.dumps({"images": images, "dataset": stated}))
    (tmp_path / folder / "a.jpg").write_bytes(b"not read")
    assert read_corpus(tmp_path / folder).name == found
    monkeypatch.chdir(tmp_path / folder)
    assert {read_corpus(path).name for path in (".", file)} == {found}
