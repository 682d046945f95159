"""Small corpora of drawn features in the layouts in which the papers' corpora are published."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seesay.data.boxes import clip
from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.text.chunker import noun_phrases

OBJECTS = ["dog", "cat", "horse", "boy", "girl", "ball", "car", "boat", "tree", "house", "table", "bird"]
WORDS = (
    "a the on near red blue small large runs sits plays with above after again along among around "
    "away back beach behind big bike black board boot brown bus camera chair chase climb coat cold "
    "crowd dance dark door down field fire fly football game glass grass green hand hat hill hold ice "
    "jacket jump kick lake large line look man mountain net night old orange over park people play "
    "pool rain ride river road rock run sand shirt sky "
)
FILL = WORDS.split()
PROPOSALS, BOXES = 12, 15  # of an image, and with the true boxes of a train image
WIDTH = 144  # of each vector, above the 128 directions of CCA


class Drawn:
    """Draws images as two objects each, their features, and sentences that name the objects."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.directions = self.rng.normal(size=(len(OBJECTS), WIDTH))

    def objects(self, images: int) -> np.ndarray:
        """Return the numbers of the objects of each image, (n, 2)."""
        return np.array([self.rng.choice(len(OBJECTS), 2, replace=False) for _ in range(images)])

    def context(self, shown: np.ndarray, length: float = 128) -> np.ndarray:
        """Return a vector an image, (n, d), as long as VGG-19's before its ReLU."""
        rows = self.directions[shown].sum(axis=1) + 0.3 * self.rng.normal(size=(len(shown), WIDTH))
        return (length * rows / np.linalg.norm(rows, axis=1)[:, None]).astype(np.float16)

    def sentences(self, shown: np.ndarray, split: str, count: int = 5) -> list[list[str]]:
        """Return the sentences of each image; those of test have a word that no other split has."""
        unseen = ["xylophone"] if split == "test" else []
        words = lambda: self.rng.choice(FILL, 3)  # noqa: E731
        return [
            [" ".join([*words(), OBJECTS[a], *words(), OBJECTS[b], *unseen]) for _ in range(count)]
            for a, b in shown
        ]

    def save(self, file: Path, rows: np.ndarray, names: Sequence[str]) -> None:
        """Write an array and the names of its images beside it, in an order of their own."""
        order = self.rng.permutation(len(names))
        np.save(file, rows[order].astype(np.float16))
        file.with_name(f"{file.stem}_ids.txt").write_text("\n".join(names[row] for row in order))


def write_precomp(folder: Path, images: dict[str, int], row_of_each_sentence: bool) -> None:
    """Write VSE++'s and SCAN's layout, a row of features for each image or, as for COCO, each sentence."""
    folder.mkdir()
    drawn = Drawn()
    for split, count in images.items():
        shown = drawn.objects(count)
        rows = drawn.context(shown)
        lines = [line for lines in drawn.sentences(shown, split[:4]) for line in lines]
        np.save(folder / f"{split}_ims.npy", rows.repeat(5, axis=0) if row_of_each_sentence else rows)
        (folder / f"{split}_caps.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        if split == "testall":  # `test` is its first fold
            np.save(folder / "test_ims.npy", rows[:1000].repeat(5, axis=0))
            (folder / "test_caps.txt").write_text("\n".join(lines[:5000]) + "\n", encoding="utf-8")


def write_karpathy(
    folder: Path, dataset: str, names: dict[str, list[str]], length: float = 128, test_sentences: int = 5
) -> None:
    """Write Karpathy's JSON with three arrays beside it: context, scores of concepts, and instances.

    Each array has another order of the images. `names` are those of the images of each split, `length` is
    that of a context.
    """
    folder.mkdir(exist_ok=True)
    drawn, records, shown = Drawn(), list[dict[str, Any]](), []
    for split, images in names.items():
        objects = drawn.objects(len(images))
        texts = drawn.sentences(objects, split, test_sentences if split == "test" else 5)
        shown.append(objects)
        for name, lines in zip(images, texts, strict=True):
            records.append({"filename": name, "split": split, "sentences": [{"raw": line} for line in lines]})
    (folder / f"dataset_{dataset}.json").write_text(json.dumps({"dataset": dataset, "images": records}))
    every, whole = [name for images in names.values() for name in images], np.concatenate(shown)
    scores = np.eye(len(OBJECTS))[whole]  # (n, 2, 12)
    further = drawn.rng.random((len(every), 3, len(OBJECTS)))
    drawn.save(folder / "resnet152.npy", drawn.context(whole, length), every)
    drawn.save(folder / "concepts.npy", scores.sum(axis=1), every)
    if not (folder / "frcnn.npy").exists():
        drawn.save(folder / "frcnn.npy", np.concatenate([scores, further], axis=1), every)


def write_entities(folder: Path, phrases: Corpus) -> None:
    """Write phrases in the layout of Flickr30k Entities, without the images."""
    for name in ("Annotations", "Sentences"):
        (folder / name).mkdir(parents=True)
    owners = phrases.image_of_sentence()
    splits: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for number, image in enumerate(phrases.images):
        stem, (width, height) = Path(image.name).stem, image.size
        mine = [phrases.sentences[i] for i in np.flatnonzero(owners == number)]
        splits[image.split].append(stem)
        lines = [f"[/EN#{phrase.chain}{number}/other {phrase.text}] is here ." for phrase in mine]
        (folder / "Sentences" / f"{stem}.txt").write_text("\n".join(lines) + "\n")
        boxes = {f"{phrase.chain}{number}": phrase.boxes for phrase in mine}
        objects = "".join(
            f"<object><name>{entity}</name><bndbox><xmin>{x1 + 1:g}</xmin><ymin>{y1 + 1:g}</ymin>"
            f"<xmax>{x2:g}</xmax><ymax>{y2:g}</ymax></bndbox></object>"
            for entity, of_entity in boxes.items()
            for x1, y1, x2, y2 in of_entity
        )
        size = f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
        annotation = f"<annotation><filename>{stem}.jpg</filename>{size}{objects}</annotation>"
        (folder / "Annotations" / f"{stem}.xml").write_text(annotation)
    for split, stems in splits.items():
        (folder / f"{split}.txt").write_text("\n".join(stems) + "\n")


def write_boxes(folder: Path, phrases: Corpus) -> None:
    """Write the two-branch authors' inputs of images: boxes and a feature of each.

    The true boxes, a little shifted, are among the proposals, and follow them where an image is of the train
    split.
    """
    rng = np.random.default_rng(0)
    truths, owners = phrases.enclosing_boxes(), phrases.image_of_sentence()
    boxes = np.zeros((len(phrases.images), BOXES, 4), np.float32)
    features = np.zeros((len(phrases.images), BOXES, WIDTH), np.float16)
    for number, image in enumerate(phrases.images):
        true = np.unique(truths[owners == number], axis=0)
        corners = np.sort(rng.random((PROPOSALS - len(true), 2, 2)), axis=1).reshape(-1, 4)
        further = corners * np.tile(image.size, 2) + [0, 0, 1, 1]
        near = clip(true + rng.normal(size=true.shape), *image.size)
        boxes[number, :PROPOSALS] = clip(np.concatenate([near, further]), *image.size)
        if image.split == "train":
            boxes[number, PROPOSALS : PROPOSALS + len(true)] = true
        filled = boxes[number].any(axis=1)
        features[number, filled] = rng.random((filled.sum(), WIDTH))
    np.save(folder / "frcnn.npy", features)
    np.save(folder / "frcnn_boxes.npy", boxes)
    (folder / "frcnn_ids.txt").write_text("\n".join(Path(image.name).stem for image in phrases.images))


def write_vectors(folder: Path, texts: Sequence[str]) -> None:
    """Write vectors of texts and of the noun phrases that the chunker finds in them."""
    chunks = {chunk.text for text in texts for chunk in noun_phrases(text)}
    every = sorted({*texts, *chunks})
    np.save(folder / "hglmm.npy", np.random.default_rng(0).normal(size=(len(every), WIDTH)))
    (folder / "hglmm_texts.txt").write_text("\n".join(every))


def write_corpora(folder: Path, scenes: Path) -> None:
    """Write a corpus in each published layout, by the name that the page of tables has for it.

    The images of `flickr8k`, `flickr30k` and `entities` are those of the drawn scenes.
    """
    phrases = read_corpus(scenes, phrases=True)
    names: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for image in phrases.images:
        names[image.split].append(image.name)
    for dataset, length in (("flickr8k", 16), ("flickr30k", 128)):
        (folder / dataset).mkdir(parents=True)
        shutil.copytree(scenes / "images", folder / dataset / "images")
        write_boxes(folder / dataset, phrases)
        write_karpathy(folder / dataset, dataset, names, length)
    write_entities(folder / "entities", phrases)
    write_boxes(folder / "entities", phrases)
    sentences = read_corpus(folder / "flickr30k").texts()
    for name in ("entities", "flickr30k"):
        write_vectors(folder / name, [*sentences, *phrases.texts()])
    counts = {"train": 60, "val": 12, "test": 5000}
    write_karpathy(
        folder / "coco",
        "coco",
        {split: [f"{split}{number}.jpg" for number in range(count)] for split, count in counts.items()},
        test_sentences=2,
    )
    write_precomp(folder / "f30k_precomp", {"train": 60, "dev": 12, "test": 12}, False)
    write_precomp(folder / "coco_precomp", {"train": 60, "dev": 12, "testall": 5000}, True)
