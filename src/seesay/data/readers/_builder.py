"""Collects what a reader finds into a corpus and counts what is odd about it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import ByteSource, Corpus, CorpusImage, Issues, Sentence
from seesay.data.feature_rows import FeatureRows
from seesay.data.readers._splits import seeded_splits
from seesay.errors import SeesayError

MISSING_IMAGE = "image listed but missing, dropped with its sentences"
REPEATED_IMAGE = "image listed again, merged"
REPEATED_ROW = "sentence listed again, dropped"
TWO_SPLITS = "image in two splits, the first counts"
NO_SPLIT_LISTED = "image in no split list, dropped"
UNKNOWN_IMAGE = "sentence of an unknown image, dropped"
EMPTY_SENTENCE = "empty sentence, dropped"
NON_ASCII = "non-ASCII sentence, kept"
NO_SENTENCES = "image without sentences, kept"
NOT_FIVE = "image with other than five sentences, kept"
MALFORMED_LINE = "malformed line, dropped"
SEEDED_SPLIT = "no split given: seeded 80/10/10 by image"

_UNSPLIT = ""


class CorpusBuilder:
    """Takes images and sentences in the order they are read.

    An image without a split waits for the end, when all such images are split 80/10/10.
    """

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self.root = root
        self.issues = Issues()
        self._images: list[CorpusImage] = []
        self._sentences: list[Sentence] = []
        self._position: dict[str, int] = {}

    def has(self, name: str) -> bool:
        """Whether an image of that name was added."""
        return printable(name) in self._position

    def image(
        self, name: str, split: str | None, source: ByteSource | None = None, row: int | None = None
    ) -> int:
        """Add an image, or find the one of that name; returns its position."""
        name = printable(name)
        at = self._position.get(name)
        if at is None:
            at = self._position[name] = len(self._images)
            self._images.append(CorpusImage(name, split or _UNSPLIT, source, row))
        elif (split or _UNSPLIT) != self._images[at].split:
            self.issues.add(TWO_SPLITS, f"{name}: {self._images[at].split or 'none'}, {split or 'none'}")
        return at

    def sentence(self, text: str, image: int, where: str) -> None:
        """Add a sentence to an image, white space collapsed; `where` is named if it is empty."""
        text = " ".join(printable(text).split())
        if not text:
            self.issues.add(EMPTY_SENTENCE, where)
            return
        if not text.isascii():
            self.issues.add(NON_ASCII, where)
        self._sentences.append(Sentence(text, image))

    def finish(self, features: FeatureRows | NDArray[np.float32] | None = None) -> Corpus:
        """The corpus.

        Raises:
            SeesayError: no image is left.
        """
        if not self._images:
            raise SeesayError(f"{self.root}: no image left to use. {self._why_empty()}")
        self._split_the_rest()
        if self._sentences:
            counts = Counter(sentence.image for sentence in self._sentences)
            for at, image in enumerate(self._images):
                if counts[at] == 0:
                    self.issues.add(NO_SENTENCES, image.name)
                elif counts[at] != 5:
                    self.issues.add(NOT_FIVE, f"{image.name}: {counts[at]}")
        images, sentences = tuple(self._images), tuple(self._sentences)
        return Corpus(self.name, self.root, images, sentences, self.issues, features)

    def _split_the_rest(self) -> None:
        unsplit = [image.name for image in self._images if image.split == _UNSPLIT]
        if not unsplit:
            return
        self.issues.add(SEEDED_SPLIT, f"{len(unsplit)} images")
        splits = seeded_splits(unsplit)
        self._images = [CorpusImage(i.name, i.split or splits[i.name], i.source, i.row) for i in self._images]

    def _why_empty(self) -> str:
        if not self.issues.counts:
            return "The list is empty."
        kind, count = self.issues.counts.most_common(1)[0]
        advice = " Put the images below that folder." if kind == MISSING_IMAGE else ""
        return f"{count} × {kind}; the first: {self.issues.examples[kind][0]}.{advice}"


def printable(text: str) -> str:
    """Text that any file can hold: lone surrogates (a file name that is no UTF-8) become U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
