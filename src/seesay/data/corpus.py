"""Corpora: images with the sentences, or phrases with boxes, that describe them, and their splits."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.boxes import enclosing
from seesay.data.features import FeatureRows
from seesay.data.images import Source
from seesay.errors import SeesayError

SPLITS = ("train", "val", "test")
_ALIASES = (
    dict.fromkeys(("train", "training", "trn", "restval"), "train")  # COCO's restval is trained on
    | dict.fromkeys(("val", "valid", "validation", "dev"), "val")
    | dict.fromkeys(("test", "testing"), "test")
)
_WORD = re.compile(r"[a-z]+")


Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class CorpusImage:
    """One image of a corpus.

    `row` is its row in `Corpus.features` if the corpus has precomputed features; `source` is None if the
    corpus does not contain the image itself. `size` is the width and height in pixels, upright, or zeros if
    they were not measured because no boxes refer to them.
    """

    name: str
    split: str
    source: Source | None = None
    row: int | None = None
    size: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence about an image, or a phrase with its boxes, such as two for "two men".

    `image` is the position of its image in `Corpus.images`. Boxes are x1 y1 x2 y2 in continuous pixels of
    that image, from zero, x2 and y2 exclusive, and lie within it. Phrases of one image with the same `chain`
    name the same entity (coreference). `kinds` (people, clothing, …) may be empty; `number` is the number of
    the phrase's sentence within the image, or None if unknown.
    """

    text: str
    image: int
    boxes: tuple[Box, ...] = ()
    chain: str | None = None
    kinds: tuple[str, ...] = ()
    number: int | None = None

    @property
    def box(self) -> NDArray[np.float32]:
        """The box (4,) that encloses all boxes of a phrase; raise SeesayError if there is none."""
        return enclosing(self.boxes)


class Omission(str):
    """A kind of issue by which a corpus lacks images or texts that its files list."""

    __slots__ = ()


@dataclass
class Issues:
    """Data-quality issues that a reader found: the count of each kind and the first places of each.

    Kinds are short descriptions, such as "image listed but missing" or "empty sentence"; those that lose
    something are an `Omission`.
    """

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    @property
    def omissions(self) -> list[str]:
        """The kinds that lose something."""
        return [kind for kind in self.counts if isinstance(kind, Omission)]

    def add(self, kind: str, where: str) -> None:
        """Count an issue, and keep the places of the first five of its kind."""
        self.counts[kind] += 1
        places = self.examples.setdefault(kind, [])
        if len(places) < 5:
            places.append(where)


@dataclass(frozen=True)
class Corpus:
    """Images and what describes them: any number of sentences per image, or phrases with boxes.

    `features` holds precomputed global features (rows, d) or region features (rows, r, d), for corpora that
    are distributed with or without their images. It may be memory-mapped (the regions of COCO are 33 GB), so
    index it with an array of rows. `columns` counts the rows that each column of a table was read from.
    `reading` are the options of `read_corpus` by which it was read, if they are not the defaults; `format` is
    one of them if that reader reads less than the one that recognises the files.

    Example:
        >>> from pathlib import Path
        >>> from seesay.data.corpus import Corpus, CorpusImage, Sentence
        >>> images = CorpusImage("a.jpg", "train"), CorpusImage("b.jpg", "test")
        >>> corpus = Corpus("pets", Path("pets"), images, (Sentence("a dog", 0), Sentence("a cat", 1)))
        >>> corpus.split("test").texts()
        ['a cat']
        >>> corpus.image_of_sentence()
        array([0, 1])
        >>> two_men = Sentence("two men", 0, ((0, 0, 10, 20), (30, 0, 40, 20)))
        >>> Corpus("men", Path("men"), images, (two_men,)).enclosing_boxes().tolist()
        [[0.0, 0.0, 40.0, 20.0]]
    """

    name: str
    root: Path
    images: tuple[CorpusImage, ...]
    sentences: tuple[Sentence, ...]
    issues: Issues = field(default_factory=Issues)
    features: NDArray[np.float32] | FeatureRows | None = None
    columns: Mapping[str, int] = field(default_factory=dict)
    reading: Mapping[str, str | int] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return one line instead of up to a million sentences."""
        texts = "phrases" if self.has_boxes else "sentences"
        return f"<Corpus '{self.name}': {len(self.images)} images, {len(self.sentences)} {texts}>"

    @property
    def has_boxes(self) -> bool:
        """Whether its sentences are phrases with boxes."""
        return any(sentence.boxes for sentence in self.sentences)

    @property
    def splits(self) -> set[str]:
        """The names of the splits that have images."""
        return {image.split for image in self.images}

    def split(self, name: str) -> Corpus:
        """Return one split of the corpus; raise SeesayError if it has no images."""
        rows = [at for at, image in enumerate(self.images) if image.split == name]
        if not rows:
            there = ", ".join(sorted(self.splits)) or "none"
            what = (
                "" if self.sentences else " It has images without sentences; training needs a table of them."
            )
            raise SeesayError(f"{self.root}: no image in split '{name}'; splits there: {there}.{what}")
        return self.only(rows)

    def subset(self, count: int) -> Corpus:
        """Return `count` of the images with their sentences, of each split its share, at least one.

        They are drawn by a hash of their names. The name says how many there are, so that what is measured on
        them stands beside no figures of the whole corpus.

        Raises:
            SeesayError: there are fewer images, or fewer than splits are asked for.
        """
        if not len(self.splits) <= count <= len(self.images):
            raise SeesayError(
                f"{self.root}: a subset has {len(self.splits)} to {len(self.images)} images, not {count}."
            )
        place = {name: at for at, name in enumerate(in_seeded_order(image.name for image in self.images))}
        by_split = {
            split: sorted(
                (at for at, image in enumerate(self.images) if image.split == split),
                key=lambda at: place[self.images[at].name],
            )
            for split in sorted(self.splits)
        }
        sizes = {split: max(1, count * len(rows) // len(self.images)) for split, rows in by_split.items()}
        for split, rows in sorted(by_split.items(), key=lambda each: -len(each[1])):
            sizes[split] = min(len(rows), sizes[split] + count - sum(sizes.values()))
        kept = self.only(sorted(at for split, rows in by_split.items() for at in rows[: sizes[split]]))
        return replace(kept, name=f"{self.name}-{count}", reading={**self.reading, "subset": count})

    def only(self, rows: Sequence[int]) -> Corpus:
        """Return the images at these positions, in this order, with their sentences."""
        kept = {old: new for new, old in enumerate(rows)}
        return replace(
            self,
            images=tuple(self.images[i] for i in kept),
            sentences=tuple(replace(s, image=kept[s.image]) for s in self.sentences if s.image in kept),
        )

    def image_of_sentence(self) -> NDArray[np.int64]:
        """Return the position of each sentence's image, (n_sentences,)."""
        return np.fromiter((s.image for s in self.sentences), np.int64, len(self.sentences))

    def texts(self) -> Sequence[str]:
        """Return the texts of the sentences, in order."""
        return [s.text for s in self.sentences]

    def text_numbers(self) -> NDArray[np.int64]:
        """Return a number for each sentence, (n_sentences,).

        It is the same for texts that only differ in capitals or white space.

        >>> images = CorpusImage("a.jpg", "test"), CorpusImage("b.jpg", "test")
        >>> said = Sentence("A dog", 0), Sentence("a cat", 1), Sentence("a  dog", 1)
        >>> Corpus("pets", Path("pets"), images, said).text_numbers()
        array([0, 1, 0])
        """
        numbers: dict[str, int] = {}
        texts = (" ".join(text.lower().split()) for text in self.texts())
        return np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)

    def enclosing_boxes(self) -> NDArray[np.float32]:
        """Return the enclosing box of each phrase, (n_sentences, 4)."""
        return np.array([s.box for s in self.sentences], np.float32).reshape(-1, 4)


def canonical_split(name: str, where: str) -> str:
    """Return `train`, `val` or `test` for any of the usual names; raise SeesayError for other names."""
    split = _ALIASES.get(name.strip().lower())
    if split is None:
        raise SeesayError(f"{where}: split '{name}' is unknown; use train, val or test.")
    return split


def split_in_name(name: str) -> str | None:
    """Return the split in a file name such as `captions_val2014.json`; None if there is none or several."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    found = {_ALIASES[word] for word in _WORD.findall(spaced) if word in _ALIASES}
    return found.pop() if len(found) == 1 else None


def in_seeded_order(names: Iterable[str]) -> list[str]:
    """Sort distinct names by a hash, which does not depend on their order: the same on every machine."""

    def key(name: str) -> tuple[bytes, str]:
        text = f"0:{name}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16).digest(), name

    return sorted(set(names), key=key)


def seeded_splits(names: Iterable[str]) -> dict[str, str]:
    """Split images 80/10/10 by a hash of their names; of three or more, each split has at least one."""
    ranked = in_seeded_order(names)
    tenth = max(len(ranked) // 10, 1) if len(ranked) >= 3 else 0
    return {
        name: "val" if rank < tenth else "test" if rank < 2 * tenth else "train"
        for rank, name in enumerate(ranked)
    }
