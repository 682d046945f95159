"""Collects what a reader finds into a phrase corpus and counts what is odd about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from seesay.data.boxes import clip
from seesay.data.corpus import CorpusImage, Issues
from seesay.data.phrases import Box, Phrase, PhraseCorpus
from seesay.data.readers._builder import SEEDED_SPLIT, TWO_SPLITS, printable
from seesay.data.readers._finder import ImageFinder
from seesay.data.readers._splits import seeded_splits
from seesay.data.sizes import source_size
from seesay.errors import ImageError, SeesayError

MISSING_IMAGE = "image listed but missing, dropped with its phrases"
UNREADABLE_IMAGE = "image unreadable, dropped with its phrases"
EMPTY_PHRASE = "empty phrase, dropped"
CLIPPED_BOX = "box reaches outside its image, clipped"
OUTSIDE_BOX = "box outside its image or without area, dropped"

_UNSPLIT = ""
_TOLERANCE = 0.5  # pixels; a smaller excess is the rounding of another size, not a issue


class PhraseBuilder:
    """Takes images and phrases in the order they are read; an image counts once it has a phrase."""

    def __init__(self, name: str, root: Path, images: Path) -> None:
        self.root = root
        self.issues = Issues()
        self._name = name
        self._where_images = images
        self._finder = ImageFinder(images if images.is_dir() else images.parent, self.issues)
        self._known: dict[str, tuple[CorpusImage, tuple[int, int]] | None] = {}
        self._position: dict[str, int] = {}
        self._phrases: list[Phrase] = []

    def image(self, name: str, split: str | None, where: str) -> bool:
        """Find and measure an image, once; False, counted, where that cannot be done."""
        if name not in self._known:
            self._known[name] = self._measured(name, split, where)
        elif (known := self._known[name]) and known[0].split != (split or _UNSPLIT):
            self.issues.add(TWO_SPLITS, f"{where} {name}: {known[0].split or 'none'}, {split or 'none'}")
        return self._known[name] is not None

    def phrase(
        self,
        text: str,
        image: str,
        boxes: Iterable[Sequence[float]],
        where: str,
        *,
        frame: tuple[float, float] | None = None,
        chain: str | None = None,
        kinds: tuple[str, ...] = (),
        sentence: int | None = None,
    ) -> None:
        """Add a phrase to an image that `image` found.

        `boxes` are x1 y1 x2 y2 from zero, x2 and y2 exclusive, in pixels of an image of size `frame`,
        (width, height), whose content the image at hand shows at its own size; None: they are its own.
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
        self._phrases.append(Phrase(text, at, tuple(inside), chain, kinds, sentence))

    def finish(self) -> PhraseCorpus:
        """The phrase corpus.

        Raises:
            SeesayError: no phrase is left.
        """
        if not self._phrases:
            raise SeesayError(f"{self.root}: no phrase left to use. {self._why_empty()}")
        by_name = {known[0].name: known for known in self._known.values() if known}
        found = [by_name[name] for name in self._position]
        images = self._split_the_rest([image for image, _ in found])
        sizes = np.array([size for _, size in found], np.int64)
        return PhraseCorpus(
            self._name, self.root, self._where_images, images, self._chained(), sizes, self.issues
        )

    def _measured(
        self, name: str, split: str | None, where: str
    ) -> tuple[CorpusImage, tuple[int, int]] | None:
        source = self._finder.find(name)
        if source is None:
            self.issues.add(MISSING_IMAGE, f"{where} {name}")
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
        """Phrases with a chain each; where none is told, an image's phrases of equal boxes share one."""
        chains: dict[tuple[int, frozenset[Box]], str] = {}
        return tuple(
            p
            if p.chain is not None
            else replace(p, chain=chains.setdefault((p.image, frozenset(p.boxes)), f"boxes-{len(chains)}"))
            for p in self._phrases
        )

    def _split_the_rest(self, images: list[CorpusImage]) -> tuple[CorpusImage, ...]:
        unsplit = [image.name for image in images if image.split == _UNSPLIT]
        if unsplit:
            self.issues.add(SEEDED_SPLIT, f"{len(unsplit)} images")
        splits = seeded_splits(unsplit)
        return tuple(image if image.split else replace(image, split=splits[image.name]) for image in images)

    def _why_empty(self) -> str:
        if not self.issues.counts:
            return "The file is empty."
        kind, count = self.issues.counts.most_common(1)[0]
        advice = f" Images were looked for below {self._where_images}." if kind == MISSING_IMAGE else ""
        return f"{count} × {kind}; the first: {self.issues.examples[kind][0]}.{advice}"
