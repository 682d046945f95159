"""Sentence encoders: sentences to vectors, by a model that is frozen while a matcher is trained."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from seesay.arrays import Ints, Vectors
from seesay.encoders.settings import (
    SENTENCE_ENCODERS,
    AnyEncoder,
    Encoder,
    EncoderSettings,
)
from seesay.errors import SeesayError
from seesay.paths import file_digest, replacing, unusable
from seesay.progress import progress, tell

Tensors = dict[str, NDArray[Any]]

TEXT = "text.safetensors"  # in a run's folder: what was fitted
_BATCH = 1024  # sentences whose features before PCA are in memory at a time
_WIDE = 8000  # features whose principal components take more than half a minute
_GLOVE = "glove-6b-50d"  # part of fingerprints, which change with the word vectors


class SentenceEncoder(Encoder, ABC):
    """Maps sentences to vectors. A class that needs no fitting is registered itself, and created by `load`.

    Attributes:
        reads_any_text: False if it has vectors of certain texts only.
        dim: width of the vectors.
        fingerprint: identifies the weights and everything that was fitted.

    Example:
        >>> import numpy as np
        >>> from seesay.encoders import SentenceEncoder, fit_sentence_encoder, register_sentence_encoder
        >>> @register_sentence_encoder("length")
        ... class Length(SentenceEncoder):
        ...     '''Number of words.'''
        ...     dim = 1
        ...     fingerprint = "length-v1"
        ...     def encode(self, texts):
        ...         return np.array([[len(text.split())] for text in texts], np.float32).reshape(-1, 1)
        >>> fit_sentence_encoder("length", [], dim=1).encode(["a dog", "a dog runs"]).tolist()
        [[2.0], [3.0]]
    """

    reads_any_text: ClassVar[bool] = True
    dim: int
    fingerprint: str

    @classmethod
    def load(cls, settings: EncoderSettings, run: Path | None) -> SentenceEncoder:  # noqa: ARG003
        """Load the encoder that a recipe names; by default, create it without arguments.

        `run` is the folder of the run whose recipe it is; None for no run.
        """
        return cls()

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Vectors:
        """Compute vectors of sentences, (m, dim)."""


@dataclass(frozen=True)
class Pca:
    """Projection onto the directions of most variance."""

    mean: Vectors  # (D,)
    components: Vectors  # orthonormal columns, most variance first, (D, d)

    def project(self, rows: Vectors) -> Vectors:
        """Project rows (n, D) to (n, d)."""
        return np.asarray(rows @ self.components - self.mean @ self.components)


def fit_pca(batches: Iterable[Vectors], dim: int) -> Pca:
    """Fit the first `dim` principal components of all batches' rows (n_i, D), fewer if the rank is less.

    With n rows in all, at most D / 2, the n x n inner products have the same components as the D x D
    covariance. Otherwise the covariance is accumulated batch by batch, at n·D² flops: this is exact, and if
    at least a third of the D dimensions are kept, as in the paper's 18,000 to 6,000, it is cheaper than a
    randomised range finder, whose two products cost 4·n·D·d. Memory grows with D², not with n. Raises
    ValueError if there are no rows.
    """
    few: list[Vectors] = []
    batches = iter(batches)
    for rows in batches:
        few.append(rows)
        if sum(map(len, few)) > rows.shape[1] / 2:
            mean, covariance = _moments(chain(few, batches))
            if len(mean) > _WIDE:
                tell(f"Finding the principal components of {len(mean):,} numbers, which takes minutes.")
            _, components = _largest(covariance, dim, len(mean))
            break
    else:
        if not few:
            raise ValueError("no rows")
        rows = np.concatenate(few)
        mean = rows.mean(axis=0, dtype=np.float64)
        centred = rows - mean
        values, vectors = _largest(centred @ centred.T / len(rows), dim, len(mean))
        components = centred.T @ (vectors / np.sqrt(values * len(rows)))
    if not components.size:  # all rows are equal: any direction will do
        components = np.eye(len(mean), 1)
    return Pca(np.asarray(mean, np.float32), np.ascontiguousarray(components, np.float32))


def _largest(matrix: NDArray[Any], dim: int, width: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The largest `dim` eigenvalues that are more than the rounding of `width` floats, and their vectors."""
    from scipy.linalg import eigh

    # Computing all eigenvectors by divide and conquer takes a third of the time of selecting most.
    values, vectors = eigh(matrix, lower=False, driver="evd", overwrite_a=True)
    values, vectors = values[::-1][:dim], vectors[:, ::-1][:, :dim]
    kept = values > max(values[0], 0) * np.sqrt(width) * np.finfo(np.float32).eps
    return values[kept], vectors[:, kept]


def _moments(batches: Iterable[Vectors]) -> tuple[Vectors, Vectors]:
    """The mean (D,), and the covariance (D, D), of which only the upper triangle is filled in."""
    from scipy.linalg.blas import ssyr, ssyrk

    batches = iter(batches)
    first = next(batches)
    shift = first.mean(axis=0)  # subtracting roughly the mean keeps the precision of small variances
    total, count = np.zeros(len(shift)), 0
    products = np.zeros((len(shift),) * 2, np.float32, order="F")
    for rows in chain([first], batches):
        rows = rows - shift
        total += rows.sum(axis=0, dtype=np.float64)
        products = ssyrk(1, rows.T, 1, products, overwrite_c=True)
        count += len(rows)
    offset = total / count
    products /= count
    return shift + offset.astype(np.float32), ssyr(-1, offset, a=products, overwrite_a=True)


class FittedEncoder(SentenceEncoder):
    """Principal components of features (`rows`) that are fitted to a train split.

    Example:
        >>> import numpy as np
        >>> from seesay.encoders import EncoderSettings, FittedEncoder
        >>> class Letters(FittedEncoder):
        ...     def rows(self, texts):
        ...         return np.array([[text.count(letter) for letter in "abc"] for text in texts], np.float32)
        >>> Letters(EncoderSettings("letters")).rows(["a bag"])
        array([[2., 1., 0.]], dtype=float32)
    """

    file: Path | None = None  # from which `rows` reads word vectors, if from any
    pca: Pca

    def __init__(self, settings: EncoderSettings) -> None:
        self.name = settings.title

    @abstractmethod
    def rows(self, texts: Sequence[str]) -> Vectors:
        """Compute features of sentences, (m, D); zeros if no word is known."""

    def fit(self, texts: Sequence[str], images: Ints) -> None:
        """Fit the features to training sentences; `images` (m,) gives the image that each describes."""

    def tensors(self) -> Tensors:
        """Return what `fit` has fitted."""
        return {}

    def restore(self, tensors: Tensors) -> None:
        """Restore what `tensors` returned; raise KeyError or ValueError if it is damaged."""

    @property
    def dim(self) -> int:  # type: ignore[override]
        """Number of principal components."""
        return len(self.pca.components.T)

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        """Hash everything that was fitted, and the word vectors.

        Raises:
            SeesayError: the file of the word vectors cannot be read.
        """
        digest = hashlib.blake2b(f"{self.name} {_GLOVE} v1".encode(), digest_size=16)
        for name, array in sorted(self.fitted.items()):
            digest.update(f"{name} {array.shape}".encode())
            digest.update(array.tobytes())
        if self.file is not None:
            try:
                digest.update(file_digest(self.file).encode())
            except OSError as error:
                raise SeesayError(f"{self.file}: cannot be read ({error.strerror}).") from error
        return digest.hexdigest()

    @property
    def fitted(self) -> Tensors:
        """Everything that was fitted."""
        pca = {"pca.mean": self.pca.mean, "pca.components": self.pca.components}
        return {name: np.ascontiguousarray(array) for name, array in (self.tensors() | pca).items()}

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Compute vectors, (m, dim); zeros, the mean of the training sentences, if no word is known."""
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for start in range(0, len(texts), _BATCH):
            rows = self.rows(texts[start : start + _BATCH])
            if rows.shape[1] != len(self.pca.mean):
                raise SeesayError(
                    f"Sentence encoder '{self.name}' has features of {rows.shape[1]} numbers, but was fitted "
                    f"to {len(self.pca.mean)}; give it the word vectors of its training, or train again."
                )
            some = np.flatnonzero(rows.any(axis=1))
            vectors[start + some] = self.pca.project(rows[some])
        return vectors


def fit_sentence_encoder(
    encoder: AnyEncoder,
    texts: Sequence[str],
    dim: int,
    images: Ints | None = None,
) -> SentenceEncoder:
    """Fit a sentence encoder to training sentences; an encoder that needs no fitting is returned unchanged.

    `dim` principal components are kept, fewer if the sentences have fewer. `images`, (m,), are the images
    that the sentences describe; by default all differ.

    Raises:
        SeesayError: there is no such encoder, or no sentence has a known word.

    Example:
        >>> encoder = fit_sentence_encoder("mean", ["two dogs play", "a red car", "the snow"], dim=2)
        >>> encoder.encode(["a dog in the snow"]).shape
        (1, 2)
    """
    settings = SENTENCE_ENCODERS.checked(encoder)
    found = cast("type[SentenceEncoder]", SENTENCE_ENCODERS[settings.kind])
    if not issubclass(found, FittedEncoder):
        return found.load(settings, None)
    fitted = found(settings)
    fitted.fit(texts, np.arange(len(texts)) if images is None else images)

    def known() -> Iterator[Vectors]:
        with progress("Sentences to fit", len(texts), "sentences") as advance:
            for start in range(0, len(texts), _BATCH):
                rows = fitted.rows(texts[start : start + _BATCH])
                if (some := rows.any(axis=1)).any():
                    yield rows[some]
                advance(len(rows))

    try:
        fitted.pca = fit_pca(known(), dim)
    except ValueError as none:
        raise SeesayError(
            f"No training sentence has a word that sentence encoder {settings} knows; is the text English?"
        ) from none
    return fitted


def save_sentence_encoder(encoder: SentenceEncoder, folder: Path) -> None:
    """Write everything that was fitted to a run's folder; write nothing for an encoder that is not fitted.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> from seesay.encoders import fit_sentence_encoder, load_sentence_encoder, save_sentence_encoder
        >>> encoder = fit_sentence_encoder("mean", ["two dogs play", "a red car", "the snow"], dim=2)
        >>> folder = Path(mkdtemp())
        >>> save_sentence_encoder(encoder, folder)
        >>> load_sentence_encoder("mean", folder).encode(["a dog"]).shape
        (1, 2)
    """
    if not isinstance(encoder, FittedEncoder):
        return
    with replacing(folder / TEXT) as beside:
        save_file(encoder.fitted, beside, {"encoder": encoder.name})


def load_sentence_encoder(encoder: AnyEncoder, run: Path | None = None) -> SentenceEncoder:
    """Load a sentence encoder; a fitted one from the folder that `save_sentence_encoder` wrote to.

    Raises:
        SeesayError: there is no such encoder, or the file is missing or another encoder's.

    Example:
        >>> dogs, puppies, car = load_sentence_encoder("minilm").encode(["two dogs", "puppies", "a car"])
        >>> bool(dogs @ puppies > dogs @ car)
        True
    """
    settings = SENTENCE_ENCODERS.checked(encoder)
    found, name = cast("type[SentenceEncoder]", SENTENCE_ENCODERS[settings.kind]), settings.title
    if not issubclass(found, FittedEncoder):
        return found.load(settings, run)
    if run is None:
        raise SeesayError(
            f"Sentence encoder '{name}' must be fitted to a train split; fit it, or name its folder."
        )
    path = run / TEXT
    try:
        with safe_open(path, framework="numpy") as file:
            written = (file.metadata() or {}).get("encoder")
            tensors: Tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, TypeError, SafetensorError) as failure:  # a TypeError for bfloat16
        raise unusable(path, failure, f"no sentence encoder ({failure}); train again.") from failure
    if written != name:
        raise SeesayError(f"{path}: contains the sentence encoder '{written}', not '{name}'; train again.")
    try:
        pca = Pca(tensors["pca.mean"], tensors["pca.components"])
        if pca.mean.shape != pca.components.shape[:1] or pca.components.ndim != 2:
            raise ValueError(f"shapes {pca.mean.shape} and {pca.components.shape} do not fit")
        fitted = found(settings)
        fitted.pca = pca
        fitted.restore(tensors)
    except KeyError as missing:
        raise SeesayError(f"{path}: {missing} is missing; train again.") from missing
    except (ValueError, RuntimeError, IndexError) as failure:
        raise SeesayError(f"{path}: damaged ({failure}); train again.") from failure
    return fitted
