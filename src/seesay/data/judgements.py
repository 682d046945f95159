"""Human judgements of image-sentence pairs, and lists of the relevant items of each query.

Judgements are read in the two tab-separated formats of Flickr8k (Hodosh et al., JAIR 47, 2013):
`ExpertAnnotations.txt` has image, sentence and the scores of three experts, 1 to 4;
`CrowdFlowerAnnotations.txt` has image, sentence, the share of yes, and the counts of yes and no. Relevant
items are in JSON, `{"a.jpg": ["a.jpg#0", "b.jpg#3"], "a.jpg#0": ["a.jpg", "b.jpg"]}`.

A sentence is named `image.jpg#n`: number n of its image's sentences, from 0, in the order of the corpus, as
in Flickr's token files. The sentids of Karpathy's files have the same order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seesay.data.corpus import Corpus
from seesay.data.readers.files import read_json, read_lines
from seesay.errors import SeesayError

Kind = Literal["expert", "crowdflower"]

_NUMBERS = {
    "expert": "three scores of 1 to 4",
    "crowdflower": "the share of yes and the counts of yes and no",
}
_ROUNDING = 0.005  # how far a share may be from its counts


@dataclass(frozen=True, slots=True)
class Judgement:
    """The ratings of one image with one sentence: a score from each expert, or the share of yes."""

    image: str
    sentence: str
    ratings: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Judgements:
    """The judgements of a file, in its order."""

    path: Path
    kind: Kind
    pairs: tuple[Judgement, ...]


def read_judgements(path: Path) -> Judgements:
    """Read judgements; the first line determines which of the two formats the file has.

    Raises:
        SeesayError: the file cannot be read, has no judgements, or has a malformed line.
    """
    kind: Kind | None = None
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        where = f"{path}:{number}"
        if len(cells) != 5 or not all(cells) or sentence_number(cells[1]) is None:
            raise SeesayError(
                f"{where}: expected five columns separated by tabs: image, sentence (image.jpg#n), and three "
                f"numbers, not '{line}'."
            )
        ratings = {"expert": _expert(cells[2:]), "crowdflower": _crowd(cells[2:])}
        kind = kind or ("expert" if ratings["expert"] else "crowdflower")
        if (found := ratings[kind]) is None:
            raise SeesayError(f"{where}: expected {_NUMBERS[kind]} ({kind}), not '{' '.join(cells[2:])}'.")
        pairs.append(Judgement(cells[0], cells[1], found))
    if kind is None:
        raise SeesayError(f"{path}: contains no judgements.")
    return Judgements(path, kind, tuple(pairs))


def read_answers(path: Path) -> dict[str, list[str]]:
    """Read the relevant items of each query: sentences for an image, images for a sentence."""
    document = read_json(path)
    if not isinstance(document, dict) or not document:
        raise SeesayError(
            f'{path}: expected an object, {{"a.jpg": ["a.jpg#0", …], "a.jpg#0": ["a.jpg", …]}}.'
        )
    for query, answers in document.items():
        if not isinstance(answers, list) or not answers or not all(isinstance(one, str) for one in answers):
            raise SeesayError(f"{path}: '{query}': expected a list of at least one name.")
        if any((sentence_number(query) is None) == (sentence_number(one) is None) for one in answers):
            raise SeesayError(
                f"{path}: '{query}': the answers to an image (a.jpg) are sentences (a.jpg#0), or reversed."
            )
    return document


class Names:
    """Positions of the images and sentences of a corpus, or of a split, by name."""

    def __init__(self, corpus: Corpus) -> None:
        whole = {image.name: at for at, image in enumerate(corpus.images)}
        # Lists give file names without folders; these are used where they are unique.
        last = [image.name.rpartition("/")[2] for image in corpus.images]
        counts = Counter(last)
        self._images = {name: at for at, name in enumerate(last) if counts[name] == 1} | whole
        self._sentences: list[list[int]] = [[] for _ in corpus.images]
        for at, sentence in enumerate(corpus.sentences):
            self._sentences[sentence.image].append(at)

    def image(self, name: str) -> int | None:
        """Look up the position of an image; None if there is none of that name."""
        return self._images.get(name)

    def sentence(self, name: str) -> int | None:
        """Look up the position of sentence `image.jpg#n`; None if there is none."""
        number = sentence_number(name)
        image = self.image(name.rpartition("#")[0])
        if number is None or image is None or number >= len(self._sentences[image]):
            return None
        return self._sentences[image][number]


def sentence_number(name: str) -> int | None:
    """Return the n of `image.jpg#n`; None if the name is not that of a sentence."""
    image, _, number = name.rpartition("#")
    return int(number) if image and number.isascii() and number.isdigit() and len(number) < 10 else None


def _expert(cells: list[str]) -> tuple[float, ...] | None:
    scores = tuple(_as_number(cell) for cell in cells)
    return scores if all(score in (1, 2, 3, 4) for score in scores) else None


def _crowd(cells: list[str]) -> tuple[float, ...] | None:
    share, yes, no = (_as_number(cell) for cell in cells)
    counts = yes >= 0 and no >= 0 and yes == int(yes) and no == int(no) and yes + no > 0
    return (share,) if counts and abs(share - yes / (yes + no)) <= _ROUNDING else None


def _as_number(cell: str) -> float:
    """Parse a finite number; -1 for anything else."""
    try:
        value = float(cell)
    except ValueError:
        return -1.0
    return value if abs(value) < float("inf") else -1.0
