"""Sentence vectors of one's own, such as Skip-Thought's or Fisher vectors of a published file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from seesay.arrays import Vectors
from seesay.data.features import load_array
from seesay.data.texts import composed
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.encoders.settings import VECTORS, EncoderSettings, register_sentence_encoder
from seesay.errors import SeesayError
from seesay.paths import file_digest, home_expanded, unusable


@register_sentence_encoder(VECTORS)
class GivenVectors(SentenceEncoder):
    """Vectors of a file, FILE.npy (m, d), of the m texts in FILE_texts.txt, one a line.

    A text is looked up by its words and marks, whatever the white space. The file is memory-mapped.

    Raises:
        SeesayError: a file is missing or damaged, or there are more texts than vectors, or fewer.
    """

    reads_any_text = False
    options: ClassVar = {"file": (), "is": ()}
    variants: ClassVar = {
        "file: FILE.npy": "vectors of your own (m, d), whose texts are the lines of FILE_texts.txt"
    }

    def __init__(self, file: Path) -> None:
        self.file = file
        self._vectors = load_array(file)
        if self._vectors.ndim != 2:
            raise SeesayError(f"{file}: expected a vector for each text, (m, d); got {self._vectors.shape}.")
        self.dim = self._vectors.shape[1]
        beside = file.with_name(f"{file.stem}_texts.txt")
        try:
            lines = beside.read_text(encoding="utf-8-sig").splitlines()
            digests = f"{file_digest(file)} {file_digest(beside)}"
        except (OSError, ValueError) as error:
            otherwise = f"not a UTF-8 file of the texts of {file.name} ({error})."
            raise unusable(beside, error, otherwise) from error
        if len(lines) != len(self._vectors):
            raise SeesayError(f"{beside}: {len(lines):,} texts for {len(self._vectors):,} vectors.")
        self._rows = {_words(line): row for row, line in reversed(list(enumerate(lines)))}
        self.fingerprint = hashlib.blake2b(digests.encode(), digest_size=16).hexdigest()

    @classmethod
    def load(cls, settings: EncoderSettings, run: Path | None) -> SentenceEncoder:  # noqa: ARG003
        if not (file := settings.get("file")):
            raise SeesayError("Sentence encoder 'vectors': name its file, {kind: vectors, file: FILE.npy}.")
        return cls(home_expanded(file))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Look up vectors, (m, dim).

        Raises:
            SeesayError: a text has no vector, or one with NaN or infinity.
        """
        rows = [self._rows.get(_words(text), -1) for text in texts]
        if -1 in rows:
            raise SeesayError(
                f"{self.file}: {rows.count(-1):,} of {len(texts):,} texts have no vector; the first is "
                f"'{texts[rows.index(-1)]}'."
            )
        vectors = np.asarray(self._vectors[rows], np.float32).reshape(-1, self.dim)
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            raise SeesayError(
                f"{self.file}: the vector of '{texts[int(finite.argmin())]}' contains NaN or infinity."
            )
        return vectors


def _words(text: str) -> str:
    return " ".join(composed(text).split())
