"""External scores: another model's score matrix of a split, or its embeddings of the images and sentences."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.metrics.inputs import as_array
from seesay.metrics.ranks import first_of_repeated
from seesay.paths import home_expanded
from seesay.protocols.subject import Subject
from seesay.runs.scores import Embeddings, Matrix, Scores

PAIR = ("images", "sentences")

_SUFFIXES = (".npy", ".npz")
_FILES = re.compile(r"(?<=\.np[yz]),")  # between two of them


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
        arrays = {"": found} if isinstance(found, np.ndarray) else dict(found)
    except (OSError, ValueError, EOFError, RuntimeError, MemoryError, OverflowError, zipfile.BadZipFile):
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
