"""The builder that collects images and texts into a corpus and counts data-quality issues."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from seesay.data.boxes import clip
from seesay.data.corpus import (
    Box,
    Corpus,
    CorpusImage,
    Issues,
    Omission,
    Sentence,
    canonical_split,
    seeded_splits,
)
from seesay.data.features import FeatureRows, belongs_to_array
from seesay.data.formats import unpacking
from seesay.data.images import EncodedImage, Source
from seesay.data.readers.finder import PACKED, ImageFinder
from seesay.data.texts import composed, printable, read_lines
from seesay.errors import ImageError, SeesayError

MALFORMED_LINE = Omission("malformed line, dropped")
MISSING_IMAGE = Omission("image listed but missing, dropped with its texts")
REPEATED_IMAGE = "image listed again, merged"
SHARED_FILE = "image listed under another name, merged"
REPEATED_ROW = "sentence listed again, merged"
SHARED_ID = "id of several sentences, all kept"
REPEATED_SENTENCE = "duplicate sentence of an image, kept"
TWO_SPLITS = "image in two splits, first one used"
NO_SPLIT_LISTED = "image in no split list, left out"
UNKNOWN_IMAGE = Omission("sentence of an unknown image, dropped")
EMPTY_SENTENCE = Omission("empty sentence or phrase, dropped")
NO_SENTENCES = "image without sentences, kept"
OTHER_FILE = "file in the folder that the corpus does not use"
ARRAY = "file of arrays, which recipes read if they name them"
UNUSED_IMAGE = "image in the folder that the corpus does not use"
SEEDED_SPLIT = "no split given: images divided 80/10/10 by a hash of their names"
UNREADABLE_IMAGE = Omission("image unreadable, dropped with its phrases")
CLIPPED_BOX = "box reaches outside its image, clipped"
OUTSIDE_BOX = Omission("box outside its image or without area, dropped")

# Published corpora, for which recipes have settings, and papers print rows.
_BY_SIZES = {  # images of train and val
    (29_000, 1_014): "flickr30k",
    (29_783, 1_000): "flickr30k",
    (82_783, 5_000): "coco",
    (113_287, 5_000): "coco",
}
_ALIASES = {
    "f8k": "flickr8k",
    "f30k": "flickr30k",
    "mscoco": "coco",
    **{f"{name}{year}": "coco" for name in ("coco", "mscoco") for year in ("14", "17", "2014", "2017")},
}
_ALIASES |= {name: name for name in ("flickr8k", "flickr30k", "coco")}
_WITH_BOXES = {"flickr8k": "flickr8k-phrases", "flickr30k": "flickr30k-entities"}
# What the names of files and folders of features and annotations also contain.
_FURTHER = re.compile(
    "annotations|bottomup|butd|captions|crops?|dataset|data|entities|features|hglmm|images|ims|karpathy"
    "|phrases|precomp|scan|sentences|splits?|(faster)?rcnn|resnet[0-9]*|vgg[0-9]*"
)
_UNSPLIT = ""
ABSENT = re.compile(r"\s*(?:nan|none|null)\s*", re.IGNORECASE).fullmatch  # as programs write an empty text
_TOLERANCE = 0.5  # pixels; a smaller excess comes from rounding another size, and is not an issue


class CorpusBuilder:
    """Collects images and sentences, or phrases with boxes, in the order they are read.

    Images without a split are split 80/10/10 at the end.

    Args:
        path: a folder, or a file in it; the corpus is named after it, unless it is a published one.
        images: the folder to search for images, if it is not the folder of the corpus.
        outside: whether it may name images anywhere, by absolute paths or links. With this, a corpus from
            somebody else can have private images measured, drawn into reports and shared.
        reading: the other options of `read_corpus` that are not the defaults.

    Attributes:
        root: the folder of the corpus.
        name: the name of the corpus.
        issues: the issues that were found so far.
        features: precomputed features, whose rows the images name.
        columns: the number of rows that were read from each column of a table.
        reading: see `Corpus`.
    """

    def __init__(
        self,
        path: Path,
        images: Path | None = None,
        outside: bool = False,
        **reading: str | None,
    ) -> None:
        self.root = path if path.is_dir() else path.parent
        self.name = path.resolve().name if path.is_dir() else Path(path.name.removesuffix(".gz")).stem
        self.issues = Issues()
        self.features: FeatureRows | NDArray[np.float32] | None = None
        self.columns = Counter[str]()
        given = {"images": str(images.resolve()) if images is not None else None, **reading}
        self.reading: dict[str, str | int] = {key: value for key, value in given.items() if value}
        self._path, self._images_root, self._outside = path, images, outside
        self._images: list[CorpusImage] = []
        self._sentences: list[Sentence] = []
        self._chains: dict[tuple[int, frozenset[Box]], str] = {}
        self._seen: set[tuple[int, str]] = set()
        self._ids: set[int | str] = set()
        self._identified: set[tuple[int | str, int | None, str]] = set()
        self._position: dict[str, int] = {}
        self._missing: set[tuple[str, str]] = set()
        self._merged: set[str] = set()
        self._used: set[Path] = set()
        self._named: dict[Source, str] = {}  # a file may be listed with and without its suffix

    @cached_property
    def finder(self) -> ImageFinder:
        """The finder of images below the root, or below the given folder."""
        below = self._images_root or self.root
        folder = below if below.is_dir() else below.parent
        return ImageFinder(folder, self.issues, self._outside)

    def read_split_lists(
        self, lists: Iterable[tuple[Path, str]], stem: Callable[[str], str]
    ) -> dict[str, str]:
        """Read the split of each image stem from pairs of a list (one file name per line) and its split."""
        splits: dict[str, str] = {}
        for file, name in lists:
            split = canonical_split(name, str(file))
            self.uses(file)
            for number, line in enumerate(read_lines(file) if file.is_file() else [], start=1):
                image = line.strip()
                if image and splits.setdefault(stem(image), split) != split:
                    self.issues.add(TWO_SPLITS, f"{file}:{number} {image}")
        return splits

    def uses(self, *files: Path) -> None:
        """Count files of the folder as read; the others are reported."""
        self._used.update(files)

    def has(self, name: str) -> bool:
        """Return True if an image of that name was added."""
        return printable(name) in self._position

    def distinct(self, name: str, folder: str) -> str:
        """Return a listed image's name, with its folder if an image of that name in another one was added.

        It is with its folder, too, if the file in that folder is missing.
        """
        if not (folder and self.has(name)):
            return name
        known, other = self._images[self._position[printable(name)]].source, self.finder.find(name, folder)
        return name if known is None or other == known else f"{folder}/{name}"

    def find_image(
        self,
        name: str,
        split: str | None,
        where: str,
        folder: str = "",
        row: int | None = None,
        measured: bool = False,
        described: bool = False,
        size: tuple[int, int] = (0, 0),
    ) -> int | None:
        """Find a listed image, add it if it is new, and return its position.

        Returns None and counts an issue if it has neither a file (listed as being in `folder`) nor a feature
        `row`, nor is `described` by an array that recipes name; or if it must be `measured`, as for phrases,
        and the size of its file cannot be read. Without a file it has the `size` that is stated.
        """
        if (name, folder) in self._missing:
            return None
        if self.has(name):
            return self.image(name, split)
        source = self.finder.find(name, folder)
        if source is None and row is None and not described:
            self._missing.add((name, folder))
            self.issues.add(MISSING_IMAGE, f"{where} {name}")
            return None
        try:
            if source is not None and measured:
                size = EncodedImage(source.read(), name).size
        except ImageError as error:
            self._missing.add((name, folder))
            self.issues.add(UNREADABLE_IMAGE, f"{where} {error}")
            return None
        known = self._named.setdefault(source, name) if source is not None else name
        if known != name and name not in self._merged:
            self._merged.add(name)
            self.issues.add(SHARED_FILE, f"{where} {name}: the file of {known}")
        return self.image(known, split, source, row, size)

    def image(
        self,
        name: str,
        split: str | None,
        source: Source | None = None,
        row: int | None = None,
        size: tuple[int, int] = (0, 0),
    ) -> int:
        """Add an image unless its name exists; return its position."""
        name = printable(name)
        at = self._position.setdefault(name, len(self._images))
        if at == len(self._images):
            self._images.append(CorpusImage(name, split or _UNSPLIT, source, row, size))
        elif (known := self._images[at].split) != (split or _UNSPLIT):
            self.issues.add(TWO_SPLITS, f"{name}: {known or 'none'}, {split or 'none'}")
        return at

    def sentence(self, text: str, image: int | None, where: str, identifier: int | str | None = None) -> None:
        """Add a sentence, with white space collapsed, to an image, unless the image is None (missing).

        It is left out if one of the same id, image and text was added: corpora may number the sentences of
        each split from 0, or all as 0, so the id alone does not tell. `where` is its place, for issues.
        """
        text = _cleaned(text)
        if identifier is not None:
            if (sentence := (identifier, image, text)) in self._identified:
                self.issues.add(REPEATED_ROW, where)
                return
            if identifier in self._ids:
                self.issues.add(SHARED_ID, f"{where} id {identifier}")
            self._ids.add(identifier)
            self._identified.add(sentence)
        if image is None:
            return
        if not text:
            self.issues.add(EMPTY_SENTENCE, where)
            return
        if (image, text) in self._seen:  # published test sets have some, and published metrics count each
            self.issues.add(REPEATED_SENTENCE, where)
        self._seen.add((image, text))
        self._sentences.append(Sentence(text, image))

    def phrase(
        self,
        text: str,
        image: int,
        boxes: Iterable[Sequence[float]],
        where: str,
        frame: tuple[float, float] | None = None,
        chain: str | None = None,
        kinds: tuple[str, ...] = (),
        number: int | None = None,
    ) -> None:
        """Add a phrase of sentence `number` to an image that was measured.

        Boxes are x1 y1 x2 y2 from zero, x2 and y2 exclusive, on an image of size `frame`, (width, height);
        they are scaled to the size of the image that was found. Without a frame they are in its pixels.
        Phrases of an image with equal boxes share a chain, unless they are given one.
        """
        text = _cleaned(text)
        if not text:
            self.issues.add(EMPTY_SENTENCE, where)
            return
        width, height = size = self._images[image].size
        across, down = (width / frame[0], height / frame[1]) if frame else (1.0, 1.0)
        inside = dict[Box, None]()
        for b in boxes:
            box = (b[0] * across, b[1] * down, b[2] * across, b[3] * down)
            x1, y1, x2, y2 = clip([box], *size)[0].tolist()
            if x2 <= x1 or y2 <= y1:
                self.issues.add(OUTSIDE_BOX, where)
                continue
            if max(x1 - box[0], y1 - box[1], box[2] - x2, box[3] - y2) > _TOLERANCE:
                self.issues.add(CLIPPED_BOX, where)
            inside[x1, y1, x2, y2] = None
        if inside:
            chain = chain or self._chains.setdefault((image, frozenset(inside)), f"boxes-{len(self._chains)}")
            self._sentences.append(Sentence(text, image, tuple(inside), chain, kinds, number))

    def finish(self) -> Corpus:
        """Return the corpus; raise SeesayError if it has no usable images or phrases.

        Its root is the path that was read, since a folder may contain several tables.
        """
        has_boxes = any(image.size != (0, 0) for image in self._images)
        found = self.name, self._path, tuple(self._images), tuple(self._sentences), self.issues, self.features
        corpus = Corpus(*found, self.columns, self.reading)
        described = {sentence.image for sentence in self._sentences}
        if has_boxes:
            corpus = corpus.only(sorted(described))
        is_folder = self._path.is_dir()
        finders = [self.finder] if is_folder or "finder" in vars(self) else []
        if is_folder and (elsewhere := self._images_root) is not None:
            finders.append(ImageFinder(self.root, self.issues, self._outside, elsewhere.resolve()))
        for finder in finders:
            for archive in finder.archives:
                if archive not in self._used:
                    self.issues.add(PACKED, unpacking(archive))
        if not corpus.images:
            why = [
                f"{count} × {kind}; the first: {self.issues.examples[kind][0]}."
                for kind, count in self.issues.counts.most_common()
            ] or ["The list is empty."]
            if MISSING_IMAGE in self.issues.counts:
                why.append(f"Put the images below {self._images_root or self.root}, or name their folder.")
            raise SeesayError(f"{self._path}: nothing left to use. {' '.join(why)}")
        unsplit = [image.name for image in corpus.images if image.split == _UNSPLIT]
        if unsplit:
            self.issues.add(SEEDED_SPLIT, f"{len(unsplit)} images")
        splits = seeded_splits(unsplit)
        images = tuple(replace(image, split=image.split or splits[image.name]) for image in corpus.images)
        for at, image in enumerate(images if described and not has_boxes else ()):
            if at not in described:
                self.issues.add(NO_SENTENCES, image.name)
        used = {image.source for image in self._images}
        for finder in finders:
            for path, source in finder.images:
                if source not in used:
                    self.issues.add(UNUSED_IMAGE, path)
            for file in finder.others if is_folder else ():
                if file not in self._used:
                    self.issues.add(ARRAY if belongs_to_array(file) else OTHER_FILE, str(file))
        return replace(corpus, name=known_name(self.name, images, has_boxes), images=images)


def explained(failure: ValidationError, where: str) -> str:
    """Return what is wrong with an entry of a file, and where."""
    error = failure.errors(include_url=False)[0]
    what = "expected an object" if error["type"] == "model_type" else error["msg"]
    return ": ".join([where, *map(str, error["loc"]), what])


def _cleaned(text: str) -> str:
    """A text with its accents composed and its white space collapsed; a word for "empty" is none."""
    return "" if ABSENT(text) else " ".join(composed(printable(text)).split())


def without_usual_words(name: str) -> str:
    """Return the letters and digits of a corpus's name without what other corpora's names also contain.

    >>> without_usual_words("F30k_precomp"), without_usual_words("dataset")
    ('f30k', '')
    """
    return _FURTHER.sub("", "".join(re.findall("[a-z0-9]", name.casefold())))


def known_name(name: str, images: Iterable[CorpusImage], has_boxes: bool) -> str:
    """Return the name of the published corpus that a corpus is, or its own name if it is none.

    Sizes of splits are trusted more than names, which may be those of another corpus or of nothing.

    Args:
        name: of the folder or file, or the one that the file states.
        images: of all splits.
        has_boxes: whether they are described by phrases with boxes.

    Example:
        >>> [known_name(name, (), has_boxes=False) for name in ("f30k_precomp", "MSCOCO", "coco-text")]
        ['flickr30k', 'coco', 'coco-text']
        >>> known_name("Flickr30kEntities", (), has_boxes=True)
        'flickr30k-entities'
    """
    splits = Counter(image.split for image in images)
    found = _BY_SIZES.get((splits["train"], splits["val"])) or _ALIASES.get(without_usual_words(name))
    if found is None:
        return name
    return _WITH_BOXES.get(found, found) if has_boxes else found
