"""A run and a detector of objects together: what the detector sees counts where a query names it.

The vectors of both are laid end to end, so that an index searches them as one. An image's vector ends with
the highest confidence of each class; a sentence's with weights of the classes that it names, and zeros.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.images import EncodedImage, content_key
from seesay.encoders.detector import Detection, NamedDetector
from seesay.errors import ImageError
from seesay.runs.calibration import USUAL, Calibration
from seesay.search.embedder import (
    SHIPPED,
    WITH_DETECTOR,
    Calibrated,
    CorrectsWords,
    Embedder,
    KnowsWords,
    load_embedder,
)
from seesay.search.store import FILE, Store
from seesay.text.objects import NamedObjects

# Chosen on photographs of everyday things, so that names of objects gain and captions lose nothing: a caption
# says more than the names of objects in it.
_WEIGHT = 0.5  # of a confidence beside a cosine, if a sentence names a class and nothing else
_OF_IMAGES = 0.5  # of it on the side of images, so that images with the same objects are little more alike
_POWER = 3  # of the share of a sentence that names classes
# Log-odds of an answer to a sentence that names a class and nothing else, and what the detector's part of the
# score adds to them: what it has not seen is hardly there. Fitted to the same photographs.
_NAMED = Calibration(intercept=-2.78, slope=0.28)
_SEEN = 8.8
_TINY = 1e-6
_MIN_SIDE = 416  # pixels that a detector needs of the shorter side of a large JPEG


class Detecting:
    """An embedder of a run and a detector; see `Embedder` and the protocols after it.

    Args:
        run: that embeds.
        detector: of objects.
    """

    def __init__(self, run: Embedder, detector: NamedDetector) -> None:
        self.run, self.detector = run, detector
        self._named = NamedObjects(detector.names)
        self._last = threading.local()  # a query by an image may come while another thread updates the index

    @property
    def name(self) -> str:
        """The run's name and the detector's file."""
        return f"{self.run.name}{WITH_DETECTOR}{self.detector.path.resolve()}"

    @property
    def fingerprint(self) -> str:
        """Changes with the run and the detector."""
        both = f"{self.run.fingerprint} {self.detector.fingerprint}"
        return blake2b(both.encode(), digest_size=16).hexdigest()

    @property
    def dim(self) -> int:
        """Length of the run's vectors and one number for each class."""
        return self.run.dim + len(self.detector.names)

    @property
    def calibration(self) -> Calibration:
        """The run's."""
        return self.run.calibration if isinstance(self.run, Calibrated) else USUAL

    def unknown_words(self, sentences: Sequence[str]) -> list[str]:
        """Return the words that mean nothing to the run."""
        return self.run.unknown_words(sentences) if isinstance(self.run, KnowsWords) else []

    def corrections(self, sentences: Sequence[str]) -> dict[str, str]:
        """Return the words that were probably meant by misspelt ones."""
        return self.run.corrections(sentences) if isinstance(self.run, CorrectsWords) else {}

    def named(self, sentences: Sequence[str]) -> list[str]:
        """Return the names of the detector's classes that sentences name."""
        numbers = dict.fromkeys(number for text in sentences for number in self._named.named(text))
        return [self.detector.names[number] for number in numbers]

    def log_odds(
        self,
        standardised: NDArray[np.float64],
        images: NDArray[np.float32],
        sentence: NDArray[np.float32],
    ) -> NDArray[np.float64]:
        """See `SeesObjects`: the more of a sentence names classes, the more the detector decides."""
        usual = self.calibration.log_odds(standardised)
        # The vector of a sum has unit length as a whole; divided by the run's part, weights are as summed.
        weights = sentence[self.run.dim :] / max(float(np.linalg.norm(sentence[: self.run.dim])), _TINY)
        wanted = float(weights.clip(min=0).sum()) * _OF_IMAGES / _WEIGHT  # see `embed_sentences`
        if wanted < _TINY:
            return usual
        seen = images[:, self.run.dim :] @ weights / wanted
        share = min(wanted, 1.0)
        return (1 - share) * usual + share * (_NAMED.log_odds(standardised) + _SEEN * seen)

    def objects(self, content: bytes) -> Sequence[Detection]:
        """Return what the detector saw in an image of this thread's last call of `embed_image_files`."""
        seen: dict[str, list[Detection]] = getattr(self._last, "seen", {})
        return seen.get(content_key(content), ())

    def embed_image_files(
        self, contents: Sequence[bytes], names: Sequence[str], query: bool = False
    ) -> tuple[NDArray[np.float32], list[ImageError | None]]:
        """Embed n encoded images as rows (n, dim); a broken image has a zero row and its error."""
        rows, errors = self.run.embed_image_files(contents, names, query)
        confidences = np.zeros((len(contents), len(self.detector.names)), np.float32)
        self._last.seen = {}
        for i, (content, name) in enumerate(zip(contents, names, strict=True)):
            if errors[i] is None:
                confidences[i], objects = self._detected(content, name)
                self._last.seen[content_key(content)] = objects
        return np.concatenate([rows, np.float32(_OF_IMAGES) * confidences], axis=1), errors

    def embed_sentences(self, sentences: Sequence[str], query: bool = False) -> NDArray[np.float32]:
        """Embed m sentences as rows (m, dim)."""
        rows = self.run.embed_sentences(sentences, query)
        weights = np.zeros((len(sentences), len(self.detector.names)), np.float32)
        for row, text in zip(weights, sentences, strict=True):
            if numbers := self._named.named(text):
                row[numbers] = _WEIGHT / _OF_IMAGES * self._named.share(text) ** _POWER / len(numbers)
        return np.concatenate([rows, weights], axis=1)

    def _detected(self, content: bytes, name: str) -> tuple[NDArray[np.float32], list[Detection]]:
        """Return confidences of all classes, (classes,), and objects in pixels of the upright image."""
        image = EncodedImage(content, name)
        pixels = image.pixels(min_side=_MIN_SIDE)
        confidences, objects = self.detector.detect(pixels)
        scale = image.size[0] / pixels.shape[1]  # a large JPEG is decoded at a fraction
        return confidences, [each.scaled(scale) for each in objects]


def with_detector(folder: Path, run: str | None, detector: Path) -> Detecting:
    """Load a run, by default that of the index in a folder or the shipped one, and a detector.

    Raises:
        SeesayError: there is no such run, or the file is no detector.
    """
    if run is None and Store.exists(folder / FILE):
        store = Store.open(folder / FILE)
        run = str(store.meta["embedder"]).partition(WITH_DETECTOR)[0]
        store.close()
    return Detecting(load_embedder(run or SHIPPED), NamedDetector(detector))
