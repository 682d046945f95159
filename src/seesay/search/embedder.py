"""The interface of a run to an index: images and sentences as vectors of one space."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.detector import Detection
from seesay.errors import ImageError
from seesay.runs.calibration import Calibration

SHIPPED = "seesay-small"


class Embedder(Protocol):
    """A trained matcher with everything it needs to embed encoded images and sentences.

    With `query=True` embeddings are those of queries, which differ from those of gallery items if the
    matcher is asymmetric.
    """

    @property
    def name(self) -> str:
        """The name of shipped weights (`seesay-small`) or a run's folder; an index stores it."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever weights or preprocessing change; vectors of two fingerprints are never mixed."""
        ...

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        ...

    def embed_image_files(
        self, contents: Sequence[bytes], names: Sequence[str], query: bool = False
    ) -> tuple[NDArray[np.float32], list[ImageError | None]]:
        """Embed n encoded images as rows (n, dim); a broken image has a zero row and its error."""
        ...

    def embed_sentences(self, sentences: Sequence[str], query: bool = False) -> NDArray[np.float32]:
        """Embed m sentences as rows (m, dim); the score is the inner product with an image's row."""
        ...


@runtime_checkable
class KnowsWords(Protocol):
    """An embedder that can tell which words mean nothing to it, so that answers name them."""

    def unknown_words(self, sentences: Sequence[str]) -> list[str]:
        """Return the unknown words of sentences, in lower case, each once, in order."""
        ...


@runtime_checkable
class CorrectsWords(Protocol):
    """An embedder that can tell what misspelt words mean, so that this is searched for."""

    def corrections(self, sentences: Sequence[str]) -> dict[str, str]:
        """Return the words that were probably meant by misspelt ones of sentences, in lower case."""
        ...


@runtime_checkable
class Calibrated(Protocol):
    """An embedder whose scores were fitted to probabilities; others get the usual ones."""

    @property
    def calibration(self) -> Calibration:
        """What makes standardised scores probabilities."""
        ...


@runtime_checkable
class SeesObjects(Protocol):
    """An embedder with a detector of objects, see `seesay.search.detecting`."""

    def objects(self, content: bytes) -> Sequence[Detection]:
        """Return what it saw in an encoded image that it embedded last."""
        ...

    def named(self, sentences: Sequence[str]) -> list[str]:
        """Return the names of objects that it looks for and that sentences name."""
        ...

    def log_odds(
        self,
        standardised: NDArray[np.float64],
        images: NDArray[np.float32],
        sentence: NDArray[np.float32],
    ) -> NDArray[np.float64]:
        """Return the log-odds (k,) that images are right answers to a sentence, given what it saw in them.

        Args:
            standardised: their scores, (k,), as `Calibration` takes them.
            images: their vectors, (k, dim).
            sentence: its vector, (dim,).
        """
        ...


WITH_DETECTOR = " with detector "


def load_embedder(run: str | Path | Embedder) -> Embedder:
    """Load the run of that name or folder, maybe with a detector; an embedder is returned as it is."""
    if not isinstance(run, str | Path):
        return run
    from seesay.runs.run import Run

    name, _, detector = str(run).partition(WITH_DETECTOR)
    if not detector:
        return Run.load(name)
    from seesay.encoders.detector import NamedDetector
    from seesay.search.detecting import Detecting

    return Detecting(Run.load(name), NamedDetector(Path(detector)))
