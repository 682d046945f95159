"""External scores: a split's score matrix, or embeddings of its images and sentences, in memory or in files.

Rows and columns are in the order of the corpus: `corpus.split("test").images` and
`corpus.split("test").texts()`. Two other layouts of published evaluators are accepted with a note: images
repeated for each sentence, and only the first k sentences of each image.

Files are those of NumPy (.npy, .npz) and PyTorch (.pt, .pth), read without unpickling arbitrary objects. A
file contains one table of real numbers, or two named `images` and `sentences`.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError, naming_extras
from seesay.metrics.inputs import as_array
from seesay.metrics.ranks import first_of_repeated
from seesay.paths import home_expanded
from seesay.protocols.subject import Subject
from seesay.runs.scores import Embeddings, Matrix, Scores
from seesay.runs.sentences import rows_of_each

SPLIT = "{split}"  # in a file's name: replaced by the split's, to name files of val and test at once
PAIR = ("images", "sentences")

Named = tuple[str, Matrix]  # a table and its name in errors

_NOT_TENSORS = "something else than tensors"
_FAILURES = (OSError, ValueError, EOFError, RuntimeError, MemoryError, OverflowError, zipfile.BadZipFile)


def read_tables(path: Path) -> list[Named]:
    """Read a file's table, or its two tables, that of images first.

    Raises:
        SeesayError: the file is missing or damaged, or has other contents.
    """
    if not path.is_file():
        raise SeesayError(f"{path}: no such file.")
    read, kind, advice = _FORMATS[path.suffix]
    try:
        with naming_extras():
            found = read(path)
    except _FAILURES as failure:
        reason = " ".join(str(failure).split()) or type(failure).__name__
        if "allow_pickle" in reason:  # NumPy advises to unpickle the file
            reason = "it has objects, which are not unpickled"
        raise SeesayError(f"{path}: no {kind} ({reason[:200]}); {advice}.") from None
    if not isinstance(found, Mapping):
        return [(str(path), _checked(found, str(path)))]
    if set(PAIR) <= found.keys():
        return [(f"{path}: '{key}'", _checked(found[key], f"{path}: '{key}'")) for key in PAIR]
    if len(found) == 1:
        return [(str(path), _checked(table, str(path))) for table in found.values()]
    names = ", ".join(map(str, found)) or "nothing"
    raise SeesayError(f"{path}: contains {names}; expected one table, or 'images' and 'sentences'.")


def _checked(values: Any, where: str) -> Matrix:
    table = as_array(values, where, kinds="fiubcOSUMmV")
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise SeesayError(
            f"{where}: {table.dtype} {table.shape}; a score matrix is (images, sentences), embeddings are "
            "(images, d) and (sentences, d), of real numbers."
        )
    return table


def _read_numpy(path: Path) -> Any:
    found: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    if isinstance(found, np.ndarray):
        return found
    with found as arrays:
        if path.suffix == ".npy":
            raise ValueError("several arrays, as in a .npz file")
        return {name: arrays[name] for name in arrays.files}


def _read_pt(path: Path) -> Any:
    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError:  # whose message advises to unpickle the file
        raise ValueError(_NOT_TENSORS) from None
    except _FAILURES:
        raise
    except Exception:  # of many kinds
        raise ValueError("damaged") from None
    tables = found.values() if isinstance(found, Mapping) else [found]
    if not all(isinstance(table, torch.Tensor) for table in tables):
        raise ValueError(_NOT_TENSORS)
    if any(table.layout != torch.strided for table in tables):
        raise ValueError("a sparse tensor")
    return found


# By suffix: what reads such a file, what it must be, and how to write one.
_FORMATS: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    ".npy": (_read_numpy, "NumPy file of plain numbers", "write it with numpy.save(path, array)"),
    ".npz": (
        _read_numpy,
        "NumPy archive of plain numbers",
        "write it with numpy.savez(path, images=…, sentences=…)",
    ),
    ".pt": (_read_pt, "PyTorch file of plain tensors", "write it with torch.save(tensor, path)"),
}
_FORMATS[".pth"] = _FORMATS[".pt"]
SUFFIXES = tuple(_FORMATS)

_COMMA = re.compile(f"(?:{'|'.join(f'(?<={re.escape(each)})' for each in SUFFIXES)}),")  # between two files


@dataclass(frozen=True, eq=False)
class ExternalScores:
    """Scores or embeddings of a split that seesay did not compute.

    Attributes:
        name: the file name: `scores.npy`, or `images.npy,sentences.npy` for embeddings; in memory, "scores"
            or "embeddings".
        tables: the score matrix (n, m), or the embeddings (n, d) and (m, d), if in memory.
    """

    name: str
    tables: tuple[Any, ...] = ()

    @classmethod
    def of(cls, values: object) -> ExternalScores | None:
        """Return scores in memory or in files; None if `values` is neither.

        Args:
            values: the name of a file, or of two; an array or tensor with the scores; or a tuple of two
                with the embeddings.
        """
        if isinstance(values, str | Path):
            return cls(str(values)) if str(values).endswith(SUFFIXES) else None
        if _is_array(values):
            return cls("scores", (values,))
        if isinstance(values, tuple) and len(values) == len(PAIR) and all(map(_is_array, values)):
            return cls("embeddings", values)
        return None

    def subject(self, corpus: Corpus, split: str) -> Subject:
        """Fit the scores to a split of a corpus.

        Raises:
            SeesayError: a file cannot be read, or its numbers do not fit the split.
        """
        part, tables = corpus.split(split), self._tables(split)
        (first, rows), (last, columns) = tables[0], tables[-1]
        name = " and ".join(name for name, _ in tables)
        count = rows.shape[1] if len(tables) == 1 else len(columns)  # of sentences
        _check_sides(name, [table for _, table in tables], part, count)
        kept, notes = _chosen_sentences(last, part, split, count)
        images, more = _one_row_an_image(first, rows, kept, split)
        if len(tables) == 1:
            return Subject(name, split, kept, Scores(images), notes=notes + more, whole=corpus)
        for where, vectors in ((first, images), (last, columns)):
            if vectors.dtype.kind == "f" and not (finite := np.isfinite(vectors).all(axis=1)).all():
                raise SeesayError(f"{where}: row {int(np.argmin(finite))} contains NaN or infinity.")
        scores = Scores(Embeddings(images, np.asarray(columns)))
        name = self.name.replace(SPLIT, split)
        return Subject(name, split, kept, scores, notes=notes + more, whole=corpus)

    def _tables(self, split: str) -> list[Named]:
        """Return the score matrix, or the embeddings of images and of sentences."""
        if self.tables:
            names = PAIR if len(self.tables) > 1 else [self.name]
            named = zip(names, self.tables, strict=True)
            return [(name, as_array(table, name, "n", "d")) for name, table in named]
        files = [home_expanded(file) for file in _COMMA.split(self.name.replace(SPLIT, split))]
        tables = [table for file in files for table in read_tables(file)]
        if len(tables) > len(PAIR):
            raise SeesayError(f"{self.name}: {len(tables)} tables; name one matrix, or images and sentences.")
        return tables


def _is_array(values: object) -> bool:
    return hasattr(values, "__array__") or hasattr(values, "detach")


def _check_sides(name: str, tables: Sequence[Matrix], part: Corpus, count: int) -> None:
    """Check that embeddings have one width, and that images are first; `count` is the sentences' number."""
    rows, columns = tables[0], tables[-1]
    if rows.shape[1] != columns.shape[1]:
        raise SeesayError(
            f"{name}: shapes {rows.shape} and {columns.shape}; they must have the same width d."
        )
    n = len(part.images)
    if len(rows) == n or count != n or _sentences(part, len(rows)) is None:
        return
    if len(tables) > 1:
        raise SeesayError(f"{name}: the embeddings of images come first, then those of sentences.")
    raise SeesayError(f"{name}: shape {rows.shape} is transposed: rows must be images; take scores.T.")


def _sentences(part: Corpus, count: int) -> NDArray[np.int64] | None:
    """Find which sentences a file with `count` of them has: all, or the first k of each image; else None."""
    owners = part.image_of_sentence()
    if count == len(owners):
        return np.arange(count)
    k, left = divmod(count, len(part.images))
    of_images = rows_of_each(owners, len(part.images))
    if left or not k or min(map(len, of_images)) < k:
        return None
    return np.sort(np.concatenate([rows[:k] for rows in of_images]))


def _chosen_sentences(name: str, part: Corpus, split: str, count: int) -> tuple[Corpus, list[str]]:
    """Return the split with only the sentences that the file contains, and notes on it."""
    chosen = _sentences(part, count)
    n, m = len(part.images), len(part.sentences)
    if chosen is None:
        raise SeesayError(
            f"{name}: {count} sentences, but split '{split}' of {part.root} has {m} of {n} images; "
            f"expected all, or the first k of each image, in the order of the corpus."
        )
    if len(chosen) == m:
        return part, []
    kept = replace(part, sentences=tuple(part.sentences[i] for i in chosen))
    return kept, [f"{name}: the first {count // n} sentences of each image, {count} of the split's {m}."]


def _one_row_an_image(name: str, rows: Matrix, part: Corpus, split: str) -> tuple[Matrix, list[str]]:
    """Return a row per image, and notes; of a row per sentence, keep the first of each image's equal rows."""
    n, owners = len(part.images), part.image_of_sentence()
    if len(rows) == n:
        return rows, []
    if len(rows) != len(owners):
        raise SeesayError(
            f"{name}: {len(rows)} rows, but split '{split}' of {part.root} has {n} images and {len(owners)} "
            "sentences with them; expected one row per image, in the corpus' order."
        )
    if (missing := n - len(np.unique(owners))) > 0:
        raise SeesayError(f"{name}: a row for each sentence, but {missing} images have no sentences.")
    kept = first_of_repeated(rows, owners, name)
    return kept, [f"{name}: images repeated for each sentence; one of each counts."]
