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


@pytest.fixture(scope="module")
def f30k_precomp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """VSE++'s and SCAN's layout: features 128 long, as VGG-19's before its ReLU, and five sentences each."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("corpora") / "f30k_precomp"
    folder.mkdir()
    directions = rng.normal(size=(len(OBJECTS), 48))
    for split, images in (("train", 40), ("dev", 16), ("test", 16)):
        shown = np.array([rng.choice(len(OBJECTS), 2, replace=False) for _ in range(images)])
        rows = directions[shown].sum(axis=1) + 0.3 * rng.normal(size=(images, 48))
        np.save(
            folder / f"{split}_ims.npy",
            (128 * rows / np.linalg.norm(rows, axis=1)[:, None]).astype(np.float16),
        )
        unseen = ["xylophone"] if split == "test" else []
        lines = [
            " ".join([*rng.choice(FILL, 3), OBJECTS[a], *rng.choice(FILL, 2), OBJECTS[b], *unseen])
            for a, b in shown
            for _ in range(5)
        ]
        (folder / f"{split}_caps.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
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
