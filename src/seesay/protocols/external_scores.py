"""External scores: a split's score matrix in a NumPy file, or two files of embeddings.

Rows and columns are in the corpus's order: `corpus.split("test").images` and `corpus.split("test").texts()`.
Two habits of published evaluators are accepted, with a note: images repeated once for each sentence, and only
the first k sentences of each image.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.protocols.subject import About, Subject
from seesay.runs.scores import EmbeddingScores, Matrix, MatrixScores

SUFFIX = ".npy"
SPLIT = "{split}"  # in a file's name: replaced by the split's, so that one name stands for val and test

_ROWS = 1 << 9  # compared at a time


@dataclass(frozen=True)
class ExternalScores:
    """Scores in files: `matrix.npy`, or `images.npy,sentences.npy` of embeddings, as one name."""

    name: str

    @staticmethod
    def is_named(name: str) -> bool:
        """Return True if that names files of scores, and no run."""
        return name.endswith(SUFFIX)

    def subject(self, corpus: Corpus, split: str) -> Subject:
        """Read the scores of a split of a corpus.

        Raises:
            SeesayError: a file cannot be read, holds no real numbers or does not fit the split; says how.
        """
        part = corpus.split(split)
        first, comma, second = self.name.replace(SPLIT, split).partition(f"{SUFFIX},")
        if not comma:
            return _matrix(Path(first), part, split, corpus)
        return _embeddings(Path(first + SUFFIX), Path(second), part, split, corpus)


def _matrix(path: Path, part: Corpus, split: str, whole: Corpus) -> Subject:
    scores = _load(path, "a score matrix is (images, sentences), embeddings are IMAGES.npy,SENTENCES.npy")
    rows, columns = scores.shape
    n = len(part.images)
    if rows != n and columns == n and _sentences(part, rows) is not None:
        raise SeesayError(f"{path}: shape {scores.shape} is transposed: rows must be images; save scores.T.")
    kept, notes = _chosen_sentences(path, part, split, columns)
    first, more = _one_row_an_image(path, scores, kept, split)
    about = About(notes=notes + more) if notes or more else None
    return Subject(str(path), split, kept, MatrixScores(first), about, whole)


def _embeddings(images: Path, sentences: Path, part: Corpus, split: str, whole: Corpus) -> Subject:
    wanted = "embeddings are (images, d) and (sentences, d)"
    rows, columns = _load(images, wanted), _load(sentences, wanted)
    if rows.shape[1] != columns.shape[1]:
        raise SeesayError(
            f"{images} and {sentences}: shapes {rows.shape} and {columns.shape}; they must have one width d."
        )
    n = len(part.images)
    if len(rows) != n and len(columns) == n and _sentences(part, len(rows)) is not None:
        raise SeesayError(f"{images} and {sentences}: name the images' file first, then the sentences'.")
    kept, notes = _chosen_sentences(sentences, part, split, len(columns))
    first, more = _one_row_an_image(images, rows, kept, split)
    for path, vectors in ((images, first), (sentences, columns)):
        if vectors.dtype.kind == "f" and not (finite := np.isfinite(vectors).all(axis=1)).all():
            raise SeesayError(f"{path}: row {int(np.argmin(finite))} of them holds NaN or infinity.")
    name = f"{images},{sentences}"
    scores = EmbeddingScores(first, np.asarray(columns))
    about = About(notes=notes + more) if notes or more else None
    return Subject(name, split, kept, scores, about, whole)


def _load(path: Path, wanted: str) -> Matrix:
    """Open a memory-mapped table of real numbers; nothing is ever unpickled."""
    try:
        table = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise SeesayError(f"{path}: no file there.") from None
    except (OSError, ValueError, EOFError) as failure:
        raise SeesayError(
            f"{path}: no NumPy file of plain numbers ({failure}); write it with numpy.save(path, array)."
        ) from None
    if not isinstance(table, np.ndarray) or table.ndim != 2 or table.dtype.kind not in "fiu":
        found = f"{table.dtype} {table.shape}" if isinstance(table, np.ndarray) else "several arrays"
        raise SeesayError(f"{path}: {found}; {wanted}, of real numbers.")
    return table


def _sentences(part: Corpus, count: int) -> NDArray[np.int64] | None:
    """Find the sentences that a file of so many holds: all, or the first k of each image; None if neither."""
    owners = part.image_of_sentence()
    if count == len(owners):
        return np.arange(count)
    k, left = divmod(count, len(part.images))
    order = np.argsort(owners, kind="stable")
    starts = np.searchsorted(owners[order], np.arange(len(part.images)))
    if left or not k or (np.bincount(owners, minlength=len(part.images)) < k).any():
        return None
    return np.sort(order[(starts[:, None] + np.arange(k)).ravel()])


def _chosen_sentences(path: Path, part: Corpus, split: str, count: int) -> tuple[Corpus, list[str]]:
    """Return the split with the sentences that the file has, and notes on it."""
    chosen = _sentences(part, count)
    n, m = len(part.images), len(part.sentences)
    if chosen is None:
        raise SeesayError(
            f"{path}: {count} sentences, but split '{split}' of {part.root} has {m} of {n} images; all are "
            "wanted, or the first k of each image, in the corpus' order."
        )
    if len(chosen) == m:
        return part, []
    kept = replace(part, sentences=tuple(part.sentences[i] for i in chosen))
    return kept, [f"{path}: the first {count // n} sentences of each image, {count} of the split's {m}."]


def _one_row_an_image(path: Path, rows: Matrix, part: Corpus, split: str) -> tuple[Matrix, list[str]]:
    """Return the images' rows; of rows for each sentence, which must be equal within an image, the first."""
    n, owners = len(part.images), part.image_of_sentence()
    if len(rows) == n:
        return rows, []
    if len(rows) != len(owners):
        raise SeesayError(
            f"{path}: {len(rows)} rows, but split '{split}' of {part.root} has {n} images and {len(owners)} "
            "sentences with them; one row an image is wanted, in the corpus' order."
        )
    images, first = np.unique(owners, return_index=True)
    if len(images) < n:
        raise SeesayError(f"{path}: a row for each sentence, but {n - len(images)} images have no sentence.")
    for start in range(0, len(rows), _ROWS):
        block = slice(start, start + _ROWS)
        differs = (rows[block] != rows[first[owners[block]]]).any(axis=1)
        if differs.any():
            at = start + int(np.argmax(differs))
            raise SeesayError(
                f"{path}: {len(rows)} rows, one for each sentence, but row {at} is not that of its image's "
                f"first sentence, row {first[owners[at]]}; one row an image is wanted, in the corpus' order."
            )
    return np.asarray(rows[first]), [f"{path}: images repeated for each sentence; one of each counts."]
