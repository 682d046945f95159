"""Find where in an image the phrases of a sentence are."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from seesay.data.boxes import iou
from seesay.data.corpus import Box
from seesay.data.pixels import content_key, decode, upright_size
from seesay.encoders.regions.base import SIDE, load_region_encoder, region_features
from seesay.encoders.regions.proposals import propose
from seesay.encoders.sentences.word_vectors import word_vectors
from seesay.errors import SeesayError
from seesay.matchers.sentences import Sentences
from seesay.recipes.load import read_recipe
from seesay.runs.run import RECIPE, Run, run_folder
from seesay.text.chunker import Chunk, noun_phrases
from seesay.text.vocabulary import UNKNOWN, tokenize

SHIPPED = "seesay-ground"
_SAME_PLACE = 0.5  # IoU above which two boxes of a phrase are the same place
_KEPT = 16  # images whose regions are kept in memory, about 1 MB each


class Place(NamedTuple):
    """A box, x1 y1 x2 y2 in pixels of the upright image, and its score for a phrase."""

    box: Box
    score: float


@dataclass(frozen=True, slots=True)
class GroundedPhrase:
    """A phrase, `sentence[start:end]`, and its best places, best first; none if no word of it is known."""

    text: str
    start: int
    end: int
    known: bool
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Grounding:
    """The phrases of a sentence in an upright image of `width` × `height` pixels."""

    width: int
    height: int
    phrases: tuple[GroundedPhrase, ...]

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        phrases = [
            {
                "phrase": phrase.text,
                "start": phrase.start,
                "end": phrase.end,
                "known": phrase.known,
                "boxes": [
                    {"box": [round(value, 1) for value in place.box], "score": round(place.score, 4)}
                    for place in phrase.places
                ],
            }
            for phrase in self.phrases
        ]
        return {"width": self.width, "height": self.height, "phrases": phrases}


class _Regions(NamedTuple):
    """An upright image's size, its proposals (r, 4) in pixels, and their features (r, d)."""

    size: tuple[int, int]
    boxes: NDArray[np.float32]
    features: NDArray[np.float32]


def can_ground(name: str) -> bool:
    """Return whether there is a grounding run of that name, shipped or as a folder; reads no weights."""
    try:
        return read_recipe(run_folder(name) / RECIPE).regions is not None
    except SeesayError:
        return False


class Grounder:
    """Finds what phrases name in an image, by a run of a grounding recipe. Any thread may use it.

    Raises:
        SeesayError: the run matches whole images.
    """

    def __init__(self, run: Run) -> None:
        if run.recipe.regions is None:
            raise SeesayError(
                f"{run.name}: matches whole images, not their regions; use a run of a grounding recipe "
                f"(ground-…), such as {SHIPPED}."
            )
        self.run = run
        self._settings = run.recipe.regions
        self._encoder = load_region_encoder(run.recipe.encoders[0], run.device)
        self._seen: OrderedDict[str, _Regions] = OrderedDict()
        self._lock = threading.Lock()

    def ground(self, image: bytes, name: str, text: str, best: int = 1) -> Grounding:
        """Find the phrases of a sentence in an encoded image.

        Args:
            image: encoded; the regions of the last few images are kept.
            name: of the image, for messages.
            text: a phrase, or a sentence, whose noun phrases are found; all of it if it has none.
            best: number of places of each phrase, at most; they overlap by IoU 0.5 at most.

        Raises:
            ImageError: the image cannot be decoded.
            SeesayError: the text is empty.
        """
        chunks = _phrases(text)
        texts = [chunk.text for chunk in chunks]
        sentences = self.run.prepare(texts)
        size, boxes, features = self._regions(image, name)
        if len(boxes):
            rows = region_features(features, boxes, np.array(size), self._settings.geometry)
            scores = self.run.scores(rows, sentences)
        else:
            scores = np.zeros((0, len(chunks)), np.float32)
        phrases = [
            GroundedPhrase(
                chunk.text, chunk.start, chunk.end, known, best_places(boxes, column, best) if known else ()
            )
            for chunk, known, column in zip(chunks, _known(texts, sentences), scores.T, strict=True)
        ]
        return Grounding(*size, tuple(phrases))

    def _regions(self, image: bytes, name: str) -> _Regions:
        key = content_key(image)
        with self._lock:
            if key in self._seen:
                self._seen.move_to_end(key)
                return self._seen[key]
        pixels = decode(image, name, min_side=SIDE)
        width, height = size = upright_size(image, name)
        boxes = propose(pixels, self._settings.proposals).boxes
        features = self._encoder.encode(pixels, boxes)
        # A large JPEG is decoded at a fraction of its size.
        scale = np.array([width / pixels.shape[1], height / pixels.shape[0]] * 2, np.float32)
        found = _Regions(size, boxes * scale, features)
        with self._lock:
            self._seen[key] = found
            while len(self._seen) > _KEPT:
                self._seen.popitem(last=False)
        return found


def best_places(boxes: NDArray[np.float32], scores: NDArray[np.float32], count: int) -> tuple[Place, ...]:
    """Return at most `count` boxes after non-maximum suppression, best first.

    Args:
        boxes: x1 y1 x2 y2, (r, 4).
        scores: (r,); of equal ones the first counts as better.
        count: number of boxes.
    """
    left = np.argsort(-scores, kind="stable")
    places: list[Place] = []
    while len(left) and len(places) < count:
        x1, y1, x2, y2 = boxes[left[0]].tolist()
        places.append(Place((x1, y1, x2, y2), float(scores[left[0]])))
        left = left[iou(boxes[left], boxes[left[:1]])[:, 0] <= _SAME_PLACE]
    return tuple(places)


def _phrases(text: str) -> Sequence[Chunk]:
    whole = text.strip()
    if not whole:
        raise SeesayError("The sentence is empty; name what to point at.")
    start = text.index(whole)
    return noun_phrases(text) or [Chunk(whole, start, start + len(whole))]


def _known(texts: Sequence[str], sentences: Sentences) -> list[bool]:
    """For each phrase, whether the run knows any of its words."""
    parts = torch.split(sentences.words, sentences.lengths.tolist())
    trained = [bool((words != UNKNOWN).any()) for words in parts]
    if not sentences.vectors.shape[1]:
        return trained
    # MiniLM reads any letters; GloVe's 400,000 words decide whether they are a word that it may know.
    words = [
        known or bool(word_vectors(tokenize(t))[1].any()) for t, known in zip(texts, trained, strict=True)
    ]
    return [known and bool(vector.any()) for known, vector in zip(words, sentences.vectors, strict=True)]
