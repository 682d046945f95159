"""Subjects, which protocols measure: a split of a corpus with the scores of a run, or of another model.

Scores are a matrix, or vectors of images and sentences whose inner products they are. Those of another model
are called external.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from seesay.arrays import Ints, as_array
from seesay.data.features import UNREADABLE, array_of
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import RetrievalSample
from seesay.metrics.ranks import Ranks, embedding_ranks, first_of_repeated, ranks, tiled
from seesay.paths import home_expanded
from seesay.progress import progress
from seesay.runs.prepare import count_cut

if TYPE_CHECKING:
    from seesay.data.corpus import Corpus
    from seesay.runs.inputs import Inputs
    from seesay.runs.run import Run

Matrix: TypeAlias = NDArray[Any]  # real numbers, maybe memory-mapped
Selection: TypeAlias = slice | NDArray[np.int64]  # of a split's images or sentences

PAIR = ("images", "sentences")  # the names of the tables of embeddings

_SUFFIXES = (".npy", ".npz")
_FILES = re.compile(r"(?<=\.np[yz]),")  # between two of them


class Embeddings(NamedTuple):
    """Vectors of images (n, d) and sentences (m, d), whose inner products are their scores."""

    images: Matrix
    sentences: Matrix


@dataclass(frozen=True, eq=False)
class Scores:
    """How well each of n images matches each of m sentences: a matrix (n, m), or embeddings."""

    image_queries: Matrix | Embeddings  # the scores if images are the queries
    sentence_queries: Matrix | Embeddings | None = None  # None if those of sentences are the same

    def ranks(self, images: Selection, sentences: Selection, own: Ints) -> Ranks:
        """Rank a part of the split; `own` is for each of its sentences the row of its image in the part."""

        def part(scores: Matrix | Embeddings) -> Ranks:
            if isinstance(scores, Embeddings):
                return embedding_ranks(scores.images[images], scores.sentences[sentences], own)
            return ranks(scores[images][:, sentences], own)

        found = part(self.image_queries)
        if self.sentence_queries is None:
            return found
        return Ranks(found.sentence, part(self.sentence_queries).image)

    def by_direction(self) -> tuple[Matrix, Matrix]:
        """Return the score matrices (n, m) of image queries and of sentence queries; often the same."""
        of_images = _matrix(self.image_queries)
        return of_images, of_images if self.sentence_queries is None else _matrix(self.sentence_queries)


def _matrix(scores: Matrix | Embeddings) -> Matrix:
    if not isinstance(scores, Embeddings):
        return scores
    precision = np.result_type(*scores, np.float32)
    products: Matrix = tiled(scores.images, precision) @ tiled(scores.sentences, precision).T
    return products[: len(scores.images), : len(scores.sentences)]


@dataclass(eq=False)
class Subject:
    """Images and sentences of a split with their scores.

    Args:
        name: the name of the run, the files or the ensemble.
        split: the name of the split.
        corpus: the images and sentences that have scores, in the same order.
        given: the scores of all pairs, or what computes them when they are needed.
        about: additional entries for `about` of its results, see `Result`.
        notes: notes for its results.
        whole: the corpus with its train split, for protocols that count words in it.
    """

    name: str
    split: str
    corpus: Corpus
    given: Scores | Callable[[], Scores]
    about: dict[str, JsonValue] = field(default_factory=dict)
    notes: Sequence[str] = ()
    whole: Corpus | None = None
    run: Run | None = field(default=None, init=False)

    @property
    def owners(self) -> Ints:
        """For each sentence the row of its image, (m,)."""
        return self.corpus.image_of_sentence()

    @property
    def n_images(self) -> int:
        """The number of images with scores."""
        return len(self.corpus.images)

    @cached_property
    def scores(self) -> Scores:
        """The scores of all pairs."""
        return self.given() if callable(self.given) else self.given

    def sentence_vectors(self) -> Matrix:
        """Return the embeddings of the sentences, (m, d).

        Raises:
            SeesayError: these are scores of pairs.
        """
        if not isinstance(found := self.scores.image_queries, Embeddings):
            raise SeesayError(
                f"{self.name}: the protocol compares embeddings, but these are scores of pairs."
            )
        return found.sentences

    def retrieval_sample(
        self,
        images: Selection = slice(None),
        sentences: Selection = slice(None),
        own: Ints | None = None,
    ) -> RetrievalSample:
        """Rank the split or a part of it, see `Scores.ranks`."""
        owners = self.owners if own is None else own
        return RetrievalSample(self._ranks(images, sentences, owners), owners)

    def _ranks(self, images: Selection, sentences: Selection, own: Ints) -> Ranks:
        return self.scores.ranks(images, sentences, own)

    def train_texts(self) -> Sequence[str]:
        """Return the sentences of the train split.

        Raises:
            SeesayError: the corpus has none.
        """
        whole = self.whole or self.corpus
        if "train" not in whole.splits:
            raise SeesayError(
                f"{whole.root}: has no train split, in which the protocol counts words; name the corpus "
                f"of training."
            )
        return whole.split("train").texts()


class RunSubject(Subject):
    """A split with a run, whose scores of whole images or regions are computed when a protocol needs them.

    Args:
        run: the run.
        inputs: the split, prepared for the run.
        split: the name of the split.
        whole: see `Subject`.
        long: the split is scored once and may take minutes: show progress, and prefer PyTorch.
    """

    run: Run

    def __init__(
        self, run: Run, inputs: Inputs, split: str, whole: Corpus | None = None, long: bool = False
    ) -> None:
        cut = count_cut(run.config.max_words, inputs.sentences)
        notes = []
        if cut.get("cut_sentences"):
            longer = f"Sentences longer than {cut['max_length']} words, which were cut"
            notes = [f"{longer}: {cut['cut_sentences']}."]
        if broken := inputs.broken:
            first = "; ".join(map(str, broken[:3]))
            notes.append(f"Images that cannot be read, which were left out: {len(broken)} ({first}).")
        super().__init__(
            run.title, split, inputs.corpus, lambda: run_scores(run, inputs, long), {**cut}, notes, whole
        )
        self.run, self.inputs, self._long = run, inputs, long

    def sentence_vectors(self) -> Matrix:
        """See `Subject`."""
        return self.run.embed_prepared(self.inputs.sentences)

    def _ranks(self, images: Selection, sentences: Selection, own: Ints) -> Ranks:
        """Rank a part of the split; a pair matcher scores only the pairs within it."""
        if self.run.embeds or "scores" in vars(self) or len(own) == len(self.owners):
            return super()._ranks(images, sentences, own)
        inputs = self.inputs
        read = inputs.sentences.take(np.arange(len(inputs.sentences))[sentences])
        part = replace(inputs, features=inputs.features[images], sentences=read)
        return run_scores(self.run, part, self._long).ranks(slice(None), slice(None), own)


def run_scores(run: Run, inputs: Inputs, long: bool = False) -> Scores:
    """Score all images and sentences of a prepared split; see `RunSubject` for `long`."""
    features, sentences = inputs.features, inputs.sentences
    if not run.embeds:
        if not long:
            return Scores(run.score_prepared(features, sentences))
        run.prefer_pytorch()
        with progress("Scoring", len(features) * len(sentences), "pairs") as advance:
            return Scores(run.score_prepared(features, sentences, advance))
    rows, columns = run.embed_features(features), run.embed_prepared(sentences)
    if not run.asymmetric:
        return Scores(Embeddings(rows, columns))
    return Scores(
        Embeddings(run.embed_features(features, query=True), columns),
        Embeddings(rows, run.embed_prepared(sentences, query=True)),
    )


@dataclass(frozen=True, eq=False)
class ExternalScores:
    """Scores or embeddings of a split that seesay did not compute, in the order of the corpus.

    Attributes:
        name: the file name: `scores.npy`, or `images.npy,sentences.npy` for embeddings; in memory, "scores"
            or "embeddings".
        tables: the score matrix (n, m), or the embeddings (n, d) and (m, d), by their names in errors.
    """

    name: str
    tables: dict[str, Matrix]

    @property
    def title(self) -> str:
        """The name in tables and reports, without folders."""
        return ",".join(Path(file).name for file in _FILES.split(self.name))

    @classmethod
    def of(cls, values: object) -> ExternalScores | None:
        """Return scores in memory or in files; None if `values` is neither.

        Args:
            values: the name of a file, or of two; an array or tensor with the scores; or a tuple of two
                with the embeddings. A .npz file has one table, or two named `images` and `sentences`.

        Raises:
            SeesayError: a file is missing, damaged or has other contents, or a table is not one of numbers.
        """
        if isinstance(values, str | Path):
            if not str(values).endswith(_SUFFIXES):
                return None
            tables: dict[str, Any] = {}
            for file in _FILES.split(str(values)):
                tables |= _read(home_expanded(file))
            if len(tables) > len(PAIR):
                raise SeesayError(
                    f"{values}: {len(tables)} tables; name one matrix, or images and sentences."
                )
            return cls(str(values), {name: as_array(table, name, "n", "d") for name, table in tables.items()})
        pair = values if isinstance(values, tuple) and len(values) == len(PAIR) else (values,)
        if not all(hasattr(each, "__array__") or hasattr(each, "detach") for each in pair):
            return None
        names = ("scores",) if len(pair) == 1 else PAIR
        named = {name: as_array(each, name, "n", "d") for name, each in zip(names, pair, strict=True)}
        return cls("scores" if len(pair) == 1 else "embeddings", named)

    def subject(self, corpus: Corpus, split: str) -> Subject:
        """Fit the scores to a split of a corpus. Rows may be repeated for each sentence of an image.

        Raises:
            SeesayError: the shapes do not fit the split, or repeated rows differ.
        """
        part, (rows, *others) = corpus.split(split), self.tables.values()
        n, m, owners = len(part.images), len(part.sentences), part.image_of_sentence()
        repeated = len(rows) == m != n and len(np.unique(owners)) == n
        columns = others[0].shape if others else rows.shape[::-1]
        if not (len(rows) == n or repeated) or columns[0] != m or (others and columns[1] != rows.shape[1]):
            shapes = " and ".join(f"{name} {table.shape}" for name, table in self.tables.items())
            raise SeesayError(
                f"{shapes}: split '{split}' of {part.root} has {n} images and {m} sentences; expected scores "
                f"({n}, {m}), or embeddings ({n}, d) and ({m}, d), in the order of the corpus."
            )
        if repeated:
            rows = first_of_repeated(rows, owners, next(iter(self.tables)))
        return Subject(
            self.title, split, part, Scores(Embeddings(rows, others[0]) if others else rows), whole=corpus
        )


def _read(path: Path) -> dict[str, Any]:
    """Return a file's table, or its two tables, that of images first; nothing is unpickled."""
    if not path.is_file():
        raise SeesayError(f"{path}: no such file.")
    try:
        found: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(found, np.ndarray):
            return {str(path): found}
        with found:
            arrays = {name: array_of(found, name, path) for name in found}
    except UNREADABLE:
        raise SeesayError(
            f"{path}: no NumPy file of plain numbers; write it with numpy.save(path, array), or "
            "numpy.savez(path, images=…, sentences=…)."
        ) from None
    if len(arrays) == 1:
        return {str(path): table for table in arrays.values()}
    if arrays.keys() != set(PAIR):
        raise SeesayError(
            f"{path}: contains {', '.join(arrays) or 'nothing'}; expected images and sentences."
        )
    return {f"{path}: {key}": arrays[key] for key in PAIR}
