"""Features in the layout in which they are published, trained through the papers' tables at toy size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seesay.data.readers import read_corpus
from seesay.paths import file_digest
from seesay.recipes.table import load_table
from seesay.runs.config import WEIGHTS
from seesay.training.table import TableRuns, measure_table

OBJECTS = ["dog", "cat", "horse", "boy", "girl", "ball", "car", "boat", "tree", "house", "table", "bird"]
FILL = ["a", "the", "on", "near", "red", "blue", "small", "large", "runs", "sits", "plays", "with"]


class Precomp:
    """Draws splits of features, 128 long as VGG-19's before its ReLU, with five sentences an image.

    A row's direction tells the two objects that its sentences name.
    """

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.directions = self.rng.normal(size=(len(OBJECTS), 48))

    def rows(self, images: int, unseen: tuple[str, ...] = ()) -> tuple[np.ndarray, list[str]]:
        """Return the features (n, 48) of a split and its sentences, five for each row."""
        shown = np.array([self.rng.choice(len(OBJECTS), 2, replace=False) for _ in range(images)])
        rows = self.directions[shown].sum(axis=1) + 0.3 * self.rng.normal(size=(images, 48))
        lines = [
            " ".join([*self.rng.choice(FILL, 3), OBJECTS[a], *self.rng.choice(FILL, 2), OBJECTS[b], *unseen])
            for a, b in shown
            for _ in range(5)
        ]
        return (128 * rows / np.linalg.norm(rows, axis=1)[:, None]).astype(np.float16), lines


def write_split(folder: Path, split: str, rows: np.ndarray, lines: list[str]) -> None:
    np.save(folder / f"{split}_ims.npy", rows)
    (folder / f"{split}_caps.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def f30k_precomp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """VSE++'s and SCAN's layout of Flickr30k: a row for each image."""
    folder, drawn = tmp_path_factory.mktemp("corpora") / "f30k_precomp", Precomp()
    folder.mkdir()
    for split, images in (("train", 40), ("dev", 16), ("test", 16)):
        write_split(folder, split, *drawn.rows(images, ("xylophone",) if split == "test" else ()))
    return folder


@pytest.fixture(scope="module")
def coco_precomp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """VSE++'s layout of COCO: a row for each sentence; `test` is the first fold of `testall`."""
    folder, drawn = tmp_path_factory.mktemp("corpora") / "coco_precomp", Precomp()
    folder.mkdir()
    for split, images in (("train", 40), ("dev", 16), ("testall", 5000)):
        rows, lines = drawn.rows(images, ("xylophone",) if split == "testall" else ())
        write_split(folder, split, rows.repeat(5, axis=0), lines)
    write_split(folder, "test", rows[:1000].repeat(5, axis=0), lines[:5000])
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "rows", "changes"),
    [
        ("irmatch-3", ["cca-mean", "cca-gmm", "cca-lmm", "cca-hglmm"], ["matcher.dim=16"]),
        ("irmatch-3", ["irmatch-h", "irmatch-s"], []),
        ("mcnn-3", ["mcnn-st"], []),
        ("two-branch-2", ["two-branch-linear", "two-branch-one", "two-branch"], ["batch_size=50"]),
        ("two-branch-2", ["two-branch-sampling", "two-branch-full", "two-branch-lstm"], ["batch_size=50"]),
        ("two-branch-4", ["two-branch", "two-branch-sampling", "two-branch-full"], ["batch_size=50"]),
        ("sco-2", ["sco-ctx", "sco-ctx-gen-s", "sco-ctx-gen-e", "sco-ctx-gen"], []),
        ("gvse-1", ["gvse-common"], []),
        ("gvse-3", ["vse++"], []),
    ],
)
def test_rows_of_a_papers_table_are_trained_on_ones_own_features_and_differ(
    f30k_precomp: Path, tmp_path: Path, table: str, rows: list[str], changes: list[str]
) -> None:
    corpus = read_corpus(f30k_precomp)
    assert corpus.name == "flickr30k"
    asked = [
        "encoders=[precomputed]",
        "schedule.epochs=2",
        *changes,
    ]  # scheduled sampling begins with the second
    told: list[str] = []
    runs = TableRuns(load_table(table).only(rows), corpus, tmp_path, changes=asked, resamples=0)
    measured = measure_table(runs, [1], told.append)
    assert measured.failures == []
    assert told[0].startswith(f"{table}: settings for flickr30k")
    weights = {row: file_digest(tmp_path / "flickr30k" / f"{row}-seed1" / WEIGHTS) for row in rows}
    assert len(set(weights.values())) == len(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "protocol", "rows", "changes"),
    [
        ("irmatch-4", "coco-1k", ["irmatch-h", "irmatch-s"], []),
        ("irmatch-4", "coco-1k", ["cca-mean", "cca-hglmm"], ["matcher.dim=16"]),
        (
            "two-branch-3",
            "coco-1k",
            ["two-branch", "two-branch-full"],
            ["batch_size=50"],
        ),
        ("sco-2-coco", "coco-1k", ["sco-ctx", "sco-ctx-gen"], []),
        ("sco-5", "coco-5k", ["vse++"], []),
        ("gvse-1-coco", "0-shot", ["gvse-common"], []),
    ],
)
def test_rows_of_coco_are_measured_on_five_folds_or_on_all_test_images(
    coco_precomp: Path, tmp_path: Path, table: str, protocol: str, rows: list[str], changes: list[str]
) -> None:
    corpus = read_corpus(coco_precomp)
    assert corpus.name == "coco"
    asked = ["encoders=[precomputed]", "schedule.epochs=2", *changes]
    runs = TableRuns(load_table(table).only(rows), corpus, tmp_path, changes=asked, resamples=0)
    measured = measure_table(runs, [1], [].append)
    assert measured.failures == []
    results = [found.result for line in measured.lines for found in line.rows]
    assert [(result.protocol, result.about["images"]) for result in results] == [(protocol, 5000)] * len(rows)
    weights = {row: file_digest(tmp_path / "coco" / f"{row}-seed1" / WEIGHTS) for row in rows}
    assert len(set(weights.values())) == len(rows)
