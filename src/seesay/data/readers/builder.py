"""Builders collect what a reader finds into a corpus, and count its data-quality issues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.boxes import clip
from seesay.data.corpus import Box, ByteSource, Corpus, CorpusImage, Issues, Phrase, PhraseCorpus, Sentence
from seesay.data.features import FeatureRows
from seesay.data.finder import ImageFinder
from seesay.data.readers.files import canonical_split, read_lines, seeded_splits
from seesay.data.sources import source_size
from seesay.errors import ImageError, SeesayError

MISSING_IMAGE = "image listed but missing, dropped with its sentences"
REPEATED_IMAGE = "image listed again, merged"
REPEATED_ROW = "sentence listed again, dropped"
REPEATED_SENTENCE = "sentence that its image has twice, kept"
TWO_SPLITS = "image in two splits, the first counts"
NO_SPLIT_LISTED = "image in no split list, dropped"
UNKNOWN_IMAGE = "sentence of an unknown image, dropped"
EMPTY_SENTENCE = "empty sentence, dropped"
NON_ASCII = "non-ASCII sentence, kept"
NO_SENTENCES = "image without sentences, kept"
NOT_FIVE = "image with other than five sentences, kept"
SEEDED_SPLIT = "no split given: seeded 80/10/10 by image"

MISSING_PHRASE_IMAGE = "image listed but missing, dropped with its phrases"
UNREADABLE_IMAGE = "image unreadable, dropped with its phrases"
EMPTY_PHRASE = "empty phrase, dropped"
CLIPPED_BOX = "box reaches outside its image, clipped"
OUTSIDE_BOX = "box outside its image or without area, dropped"

_UNSPLIT = ""
_TOLERANCE = 0.5  # pixels; a smaller excess is the rounding of another size, not an issue


class _Builder:
    """The common part of both builders: issues, finding images, and splits for those without one."""

    def __init__(self, name: str, root: Path, images: Path) -> None:
        self.root, self.issues = root, Issues()
        self._name, self._images_root = name, images

    @cached_property
    def finder(self) -> ImageFinder:
        """Finder of images below the root, or below the folder that holds it."""
        root = self._images_root
        return ImageFinder(root if root.is_dir() else root.parent, self.issues)

    def read_split_lists(
        self, lists: Iterable[tuple[Path, str]], stem: Callable[[str], str]
    ) -> dict[str, str]:
        """Read the split of each image stem from pairs of a list, one file name a line, and its split."""
        splits: dict[str, str] = {}
        for file, name in lists:
            split = canonical_split(name, str(file))
            for number, line in enumerate(read_lines(file) if file.is_file() else [], start=1):
                image = line.strip()
                if image and splits.setdefault(stem(image), split) != split:
                    self.issues.add(TWO_SPLITS, f"{file}:{number} {image}")
        return splits

    def _check_split(self, image: CorpusImage, split: str | None, where: str) -> None:
        if image.split != (split or _UNSPLIT):
            self.issues.add(TWO_SPLITS, f"{where}: {image.split or 'none'}, {split or 'none'}")

    def _split(self, images: Sequence[CorpusImage]) -> tuple[CorpusImage, ...]:
        """Split the images without a split 80/10/10."""
        unsplit = [image.name for image in images if image.split == _UNSPLIT]
        if unsplit:
            self.issues.add(SEEDED_SPLIT, f"{len(unsplit)} images")
        splits = seeded_splits(unsplit)
        return tuple(image if image.split else replace(image, split=splits[image.name]) for image in images)

    def _nothing_left(self, what: str) -> SeesayError:
        why = "The list is empty."
        if self.issues.counts:
            kind, count = self.issues.counts.most_common(1)[0]
            why = f"{count} × {kind}; the first: {self.issues.examples[kind][0]}."
            if kind in (MISSING_IMAGE, MISSING_PHRASE_IMAGE):
                why += f" Put the images below {self._images_root}."
        return SeesayError(f"{self.root}: no {what} left to use. {why}")


class CorpusBuilder(_Builder):
    """Takes images and sentences in the order they are read.

    An image without a split waits for the end, when all such images are split 80/10/10. The path is a folder,
    or a file in it; the corpus is named after it.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        root = path if path.is_dir() else path.parent
        super().__init__(name or (root.resolve().name if path.is_dir() else path.stem), root, root)
        self._images: list[CorpusImage] = []
        self._sentences: list[Sentence] = []
        self._seen: set[tuple[int, str]] = set()
        self._position: dict[str, int] = {}
        self._missing: set[str] = set()

    def has(self, name: str) -> bool:
        """Return True if an image of that name was added."""
        return printable(name) in self._position

    def find_image(
        self, name: str, split: str | None, where: str, folder: str = "", row: int | None = None
    ) -> int | None:
        """Find a listed image, once, and add it; return its position.

        None, counted as an issue, if it has neither a file, listed as being in `folder`, nor a feature `row`.
        """
        if name in self._missing:
            return None
        source = None if self.has(name) else self.finder.find(name, folder)
        if source is None and row is None and not self.has(name):
            self._missing.add(name)
            self.issues.add(MISSING_IMAGE, f"{where} {name}")
            return None
        return self.image(name, split, source, row)

    def image(
        self, name: str, split: str | None, source: ByteSource | None = None, row: int | None = None
    ) -> int:
        """Add an image, unless there is one of that name; return its position."""
        name = printable(name)
        at = self._position.setdefault(name, len(self._images))
        if at == len(self._images):
            self._images.append(CorpusImage(name, split or _UNSPLIT, source, row))
        else:
            self._check_split(self._images[at], split, name)
        return at

    def sentence(self, text: str, image: int | None, where: str) -> None:
        """Add a sentence, white space collapsed, to an image, unless that is missing: None.

        `where` is the sentence's place, for issues.
        """
        if image is None:
            return
        text = " ".join(printable(text).split())
        if not text:
            self.issues.add(EMPTY_SENTENCE, where)
            return
        if not text.isascii():
            self.issues.add(NON_ASCII, where)
        if (image, text) in self._seen:  # published test sets have them: their figures count each
            self.issues.add(REPEATED_SENTENCE, where)
        self._seen.add((image, text))
        self._sentences.append(Sentence(text, image))

    def finish(self, features: FeatureRows | NDArray[np.float32] | None = None) -> Corpus:
        """Return the corpus; raise SeesayError if no image is left."""
        if not self._images:
            raise self._nothing_left("image")
        images, sentences = self._split(self._images), tuple(self._sentences)
        counts = Counter(sentence.image for sentence in sentences)
        for at, image in enumerate(images if sentences else ()):
            if counts[at] == 0:
                self.issues.add(NO_SENTENCES, image.name)
            elif counts[at] != 5:
                self.issues.add(NOT_FIVE, f"{image.name}: {counts[at]}")
        return Corpus(self._name, self.root, images, sentences, self.issues, features)


class PhraseBuilder(_Builder):
    """Takes images and phrases in the order they are read; an image counts once it has a phrase.

    Set `inclusive` if the annotations give boxes as pixels counted from one (see `PhraseCorpus.pixels`).
    """

    def __init__(self, path: Path, images: Path, inclusive: bool = False) -> None:
        super().__init__(path.resolve().name if path.is_dir() else path.name.split(".")[0], path, images)
        self.inclusive = inclusive
        self._known: dict[str, tuple[CorpusImage, tuple[int, int]] | None] = {}
        self._position: dict[str, int] = {}
        self._pixels: dict[str, tuple[float, float]] = {}
        self._phrases: list[Phrase] = []

    def image(self, name: str, split: str | None, where: str) -> bool:
        """Find and measure an image, once; return False, counted as an issue, if that cannot be done."""
        if name not in self._known:
            self._known[name] = self._measured(name, split, where)
        elif known := self._known[name]:
            self._check_split(known[0], split, f"{where} {name}")
        return self._known[name] is not None

    def phrase(
        self,
        text: str,
        image: str,
        boxes: Iterable[Sequence[float]],
        where: str,
        frame: tuple[float, float] | None = None,
        chain: str | None = None,
        kinds: tuple[str, ...] = (),
        sentence: int | None = None,
    ) -> None:
        """Add a phrase to an image that `image` found.

        Boxes are x1 y1 x2 y2 from zero, x2 and y2 exclusive, on an image of size `frame`, (width, height);
        they are scaled to the size of the image that was found. Without a frame they are its own pixels.
        """
        text = " ".join(printable(text).split())
        known = self._known[image]
        if known is None or not text:
            self.issues.add(EMPTY_PHRASE, where)
            return
        found, (width, height) = known
        across, down = (width / frame[0], height / frame[1]) if frame else (1.0, 1.0)
        scaled = ((b[0] * across, b[1] * down, b[2] * across, b[3] * down) for b in boxes)
        inside = dict.fromkeys(box for b in scaled if (box := self._inside(b, width, height, where)))
        if not inside:
            return
        at = self._position.setdefault(found.name, len(self._position))
        self._pixels[found.name] = across, down
        self._phrases.append(Phrase(text, at, tuple(inside), chain, kinds, sentence))

    def finish(self) -> PhraseCorpus:
        """Return the phrase corpus; raise SeesayError if no phrase is left."""
        if not self._phrases:
            raise self._nothing_left("phrase")
        by_name = {known[0].name: known for known in self._known.values() if known}
        found = [by_name[name] for name in self._position]
        return PhraseCorpus(
            self._name,
            self.root,
            self._images_root,
            self._split([image for image, _ in found]),
            self._chained(),
            np.array([size for _, size in found], np.int64),
            self.issues,
            np.array([self._pixels[name] for name in self._position]) if self.inclusive else None,
        )

    def _measured(
        self, name: str, split: str | None, where: str
    ) -> tuple[CorpusImage, tuple[int, int]] | None:
        source = self.finder.find(name)
        if source is None:
            self.issues.add(MISSING_PHRASE_IMAGE, f"{where} {name}")
            return None
        try:
            size = source_size(source, name)
        except ImageError as error:
            self.issues.add(UNREADABLE_IMAGE, f"{where} {error}")
            return None
        return CorpusImage(printable(name), split or _UNSPLIT, source), size

    def _inside(self, box: Box, width: int, height: int, where: str) -> Box | None:
        x1, y1, x2, y2 = clip([box], width, height)[0].tolist()
        if x2 <= x1 or y2 <= y1:
            self.issues.add(OUTSIDE_BOX, where)
            return None
        if max(x1 - box[0], y1 - box[1], box[2] - x2, box[3] - y2) > _TOLERANCE:
            self.issues.add(CLIPPED_BOX, where)
        return x1, y1, x2, y2

    def _chained(self) -> tuple[Phrase, ...]:
        """Give each phrase a chain: without one, phrases of an image with equal boxes share one."""
        chains: dict[tuple[int, frozenset[Box]], str] = {}

        def chain(p: Phrase) -> str:
            if p.chain is not None:
                return p.chain
            return chains.setdefault((p.image, frozenset(p.boxes)), f"boxes-{len(chains)}")

        return tuple(replace(p, chain=chain(p)) for p in self._phrases)


def printable(text: str) -> str:
    """Replace lone surrogates (of a file name that is not UTF-8) by U+FFFD, which any file can hold."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
