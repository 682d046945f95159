"""Features in the layout in which they are published, trained through the papers' tables at toy size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seesay.data.boxes import clip, iou
from seesay.data.images import decode
from seesay.data.readers import read_corpus
from seesay.encoders import load_sentence_encoder
from seesay.encoders.proposals import propose
from seesay.encoders.regions import pool_regions
from seesay.paths import file_digest
from seesay.recipes.load import load_recipe
from seesay.recipes.table import load_table
from seesay.runs.config import WEIGHTS
from seesay.runs.inputs import NEAR, split_inputs
from seesay.text.chunker import noun_phrases
from seesay.text.vocabulary import Vocabulary
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
    results = [found for line in measured.lines for found in line.rows]
    assert [(result.protocol, result.about["images"]) for result in results] == [(protocol, 5000)] * len(rows)
    weights = {row: file_digest(tmp_path / "coco" / f"{row}-seed1" / WEIGHTS) for row in rows}
    assert len(set(weights.values())) == len(rows)


PROPOSALS = 12


@pytest.fixture(scope="module")
def authors_boxes(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two-branch authors' inputs: 12 boxes an image with a feature each, and vectors of every text.

    The true boxes follow the proposals where an image is of the train split.
    """
    folder, rng = tmp_path_factory.mktemp("authors"), np.random.default_rng(0)
    phrases, sentences = read_corpus(scenes, phrases=True), read_corpus(scenes)
    truths, owners = phrases.enclosing_boxes(), phrases.image_of_sentence()
    boxes = np.zeros((len(phrases.images), PROPOSALS + 3, 4), np.float32)
    features = np.zeros((*boxes.shape[:2], 27), np.float16)
    for image, shown in enumerate(phrases.images):
        assert shown.source is not None
        pixels = decode(shown.source.read(), shown.name)
        true = np.unique(truths[owners == image], axis=0)
        boxes[image, : len(true)] = clip(true + rng.normal(size=true.shape), *shown.size)
        boxes[image, len(true) : PROPOSALS] = propose(pixels, PROPOSALS - len(true))
        if shown.split == "train":
            boxes[image, PROPOSALS : PROPOSALS + len(true)] = true
        filled = boxes[image].any(axis=1)
        shares = boxes[image, filled] / np.tile(shown.size, 2)
        features[image, filled] = pool_regions(pixels.astype(np.float32) / 255, shares, bins=3)
    np.save(folder / "frcnn.npy", features)
    np.save(folder / "frcnn_boxes.npy", boxes)
    (folder / "frcnn_ids.txt").write_text("\n".join(Path(image.name).stem for image in phrases.images))
    chunks = {chunk.text for text in sentences.texts() for chunk in noun_phrases(text)}
    texts = sorted({*phrases.texts(), *sentences.texts(), *chunks})
    np.save(folder / "hglmm.npy", load_sentence_encoder("minilm").encode(texts))
    (folder / "hglmm_texts.txt").write_text("\n".join(texts))
    return folder


@pytest.mark.slow
def test_both_tables_of_phrases_are_trained_on_the_authors_boxes_and_vectors(
    authors_boxes: Path, scenes: Path, tmp_path: Path
) -> None:
    rows = ["ground-one", "ground-single", "ground-augmented", "ground-sampling", "ground-full"]
    rows += ["ground-similarity-single", "ground-similarity"]
    vectors = f"sentence_encoder={{kind: vectors, file: {authors_boxes}/hglmm.npy}}"
    asked = [
        f"encoders=[{{kind: precomputed, file: {authors_boxes}/frcnn.npy}}]",
        f"regions.proposals={PROPOSALS}",
    ]
    asked += [vectors, "schedule.epochs=2"]
    phrases = replace(read_corpus(scenes, phrases=True), name="flickr30k-entities")
    runs = TableRuns(load_table("two-branch-1").only(rows), phrases, tmp_path, changes=asked, resamples=0)
    assert measure_table(runs, [1], [].append).failures == []
    weights = {row: file_digest(tmp_path / "flickr30k-entities" / f"{row}-seed1" / WEIGHTS) for row in rows}
    assert len(set(weights.values())) == len(rows)
    sentences = replace(read_corpus(scenes), name="flickr30k")
    table, asked = load_table("two-branch-5"), [vectors, "schedule.epochs=2"]
    runs = TableRuns(table, sentences, tmp_path, changes=asked, resamples=0)
    assert measure_table(runs, [1], [].append).failures == []


def test_phrases_without_a_box_near_theirs_are_left_out_of_training(
    authors_boxes: Path, scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("frcnn.npy", "frcnn_ids.txt"):
        (tmp_path / name).write_bytes((authors_boxes / name).read_bytes())
    corpus, boxes = read_corpus(scenes, phrases=True), np.load(authors_boxes / "frcnn_boxes.npy")
    first = corpus.sentences[0]
    near = iou(boxes[first.image], first.box[None])[:, 0] >= NEAR
    boxes[first.image, near] = 0
    boxes[1] = 0
    np.save(tmp_path / "frcnn_boxes.npy", boxes)
    changes = [
        f"encoders=[{{kind: precomputed, file: {tmp_path}/frcnn.npy}}]",
        f"regions.proposals={PROPOSALS}",
    ]
    recipe = load_recipe("ground-single", changes=changes)
    inputs = split_inputs(recipe, corpus, "train", Vocabulary(()))
    assert [str(error) for error in inputs.broken] == [
        f"{corpus.images[1].name}: no boxes in {tmp_path}/frcnn.npy."
    ]
    assert first not in inputs.corpus.sentences
    whole = len(corpus.split("train").sentences)
    lost = whole - len(inputs.corpus.sentences)
    assert f"{lost} of {whole} phrases of split 'train' are left out" in capsys.readouterr().err
    for phrase, region in zip(inputs.corpus.sentences, inputs.true_region, strict=True):
        assert iou(inputs.regions[phrase.image].boxes[region][None], phrase.box[None]) >= NEAR
