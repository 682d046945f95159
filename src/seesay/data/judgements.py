"""What people said: how well sentences describe images, and which ones are right answers.

Judgements are read in the two formats of Flickr8k (Hodosh et al., JAIR 47, 2013), tab-separated:
`ExpertAnnotations.txt` has image, sentence and the scores of three experts, 1 to 4;
`CrowdFlowerAnnotations.txt` has image, sentence, the share of yes, and how many said yes and no. Right
answers are JSON, `{"a.jpg": ["a.jpg#0", "b.jpg#3"], "a.jpg#0": ["a.jpg", "b.jpg"]}`.

A sentence is named `image.jpg#n`: its image's sentence number n, counted from 0 in the corpus's order. So
do Flickr's token files, and the sentids of Karpathy's have the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seesay.data.corpus import Corpus
from seesay.data.readers._text import read_json, read_lines
from seesay.errors import SeesayError

Kind = Literal["expert", "crowdflower"]

_ROUNDED = 0.005  # what a share may be off its counts


@dataclass(frozen=True, slots=True)
class Judgement:
    """What people said of one image and one sentence: one rating an expert, or the share of yes."""

    image: str
    sentence: str
    ratings: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Judgements:
    """A file of judgements, in its order."""

    path: Path
    kind: Kind
    pairs: tuple[Judgement, ...]


def read_judgements(path: Path) -> Judgements:
    """Read either format; the first line tells which.

    Raises:
        SeesayError: the file cannot be read, holds no judgement, or a line is malformed; says which.
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
                f"{where}: five columns divided by tabs are wanted: image, sentence (image.jpg#n), and three "
                f"numbers, not '{line}'."
            )
        ratings = {"expert": _expert(cells[2:]), "crowdflower": _crowd(cells[2:])}
        kind = kind or ("expert" if ratings["expert"] else "crowdflower")
        if (found := ratings[kind]) is None:
            wanted = (
                "three scores of 1 to 4" if kind == "expert" else "the share of yes, its count, that of no"
            )
            raise SeesayError(f"{where}: {wanted} are wanted, as of {kind}, not '{' '.join(cells[2:])}'.")
        pairs.append(Judgement(cells[0], cells[1], found))
    if kind is None:
        raise SeesayError(f"{path}: no judgement in it.")
    return Judgements(path, kind, tuple(pairs))


def read_answers(path: Path) -> dict[str, list[str]]:
    """The right answers of each query: of an image sentences, of a sentence images.

    Raises:
        SeesayError: the file cannot be read, is no such JSON, or holds no query.
    """
    document = read_json(path)
    if not isinstance(document, dict) or not document:
        raise SeesayError(
            f'{path}: an object is wanted, {{"a.jpg": ["a.jpg#0", …], "a.jpg#0": ["a.jpg", …]}}.'
        )
    for query, answers in document.items():
        if not isinstance(answers, list) or not answers or not all(isinstance(one, str) for one in answers):
            raise SeesayError(f"{path}: '{query}': a list of names is wanted, at least one.")
        if any((sentence_number(query) is None) == (sentence_number(one) is None) for one in answers):
            raise SeesayError(
                f"{path}: '{query}': an image (a.jpg) has sentences (a.jpg#0) for answers, a sentence images."
            )
    return document


class Names:
    """Where the images and sentences of a corpus, or of a split of it, stand."""

    def __init__(self, corpus: Corpus) -> None:
        self._images = {image.name: at for at, image in enumerate(corpus.images)}
        # Lists name files alone, where a corpus may have folders; a name that several have names none.
        last = [image.name.rpartition("/")[2] for image in corpus.images]
        seen: dict[str, int] = {}
        for at, name in enumerate(last):
            seen[name] = -1 if name in seen else at
        self._images = {name: at for name, at in seen.items() if at >= 0} | self._images
        self._sentences: list[list[int]] = [[] for _ in corpus.images]
        for at, sentence in enumerate(corpus.sentences):
            self._sentences[sentence.image].append(at)

    def image(self, name: str) -> int | None:
        """The position of the image of that name; None where there is none."""
        return self._images.get(name)

    def sentence(self, name: str) -> int | None:
        """The position of sentence `image.jpg#n`; None where there is none."""
        number = sentence_number(name)
        image = self.image(name.rpartition("#")[0])
        if number is None or image is None or number >= len(self._sentences[image]):
            return None
        return self._sentences[image][number]


def sentence_number(name: str) -> int | None:
    """The n of `image.jpg#n`; None where the name is no sentence's."""
    image, _, number = name.rpartition("#")
    return int(number) if image and number.isascii() and number.isdigit() and len(number) < 10 else None


def _expert(cells: list[str]) -> tuple[float, ...] | None:
    scores = tuple(_as_number(cell) for cell in cells)
    return scores if all(score in (1, 2, 3, 4) for score in scores) else None


def _crowd(cells: list[str]) -> tuple[float, ...] | None:
    share, yes, no = (_as_number(cell) for cell in cells)
    counts = yes >= 0 and no >= 0 and yes == int(yes) and no == int(no) and yes + no > 0
    return (share,) if counts and abs(share - yes / (yes + no)) <= _ROUNDED else None


def _as_number(cell: str) -> float:
    """-1 for what is no finite number."""
    try:
        value = float(cell)
    except ValueError:
        return -1.0
    return value if abs(value) < float("inf") else -1.0
