"""Retrieval in both directions: the standard protocol, and COCO's of 1,000 and 5,000 images."""

from __future__ import annotations

import numpy as np

from seesay.errors import SeesayError
from seesay.metrics.ranks import owners_of
from seesay.metrics.recall import METRICS
from seesay.protocols.base import Options, Protocol, Result, register_protocol
from seesay.protocols.subject import Subject

BOTH_WAYS = (*(f"{way} {name}" for way in "SI" for name in METRICS), "mR")


@register_protocol
class Standard(Protocol):
    """Every image and every sentence is a query, and the whole split the gallery.

    With `fold`, sequential folds of that many images are measured separately, and the metrics averaged.
    """

    name = "standard"
    summary = "every image and sentence of the split"
    metrics = BOTH_WAYS
    options = ("at",)
    fold: int | None = None

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure R@1, R@5, R@10 and Med r in both directions, and mR."""
        n = subject.n_images
        owners = owners_of(subject.owners, n, len(subject.owners))
        if self.images is not None and n != self.images:
            raise SeesayError(
                f"protocol '{self.name}': {self.summary}; split '{subject.split}' has {n} images with scores."
            )
        size = self.fold or n
        folds = []
        for start in range(0, n, size):
            chosen = np.flatnonzero((owners >= start) & (owners < start + size))
            # A slice copies nothing.
            together = chosen.size and chosen[-1] - chosen[0] + 1 == chosen.size
            sentences = slice(int(chosen[0]), int(chosen[-1]) + 1) if together else chosen
            images = slice(start, start + size)
            own = owners[sentences] - start
            folds.append(subject.retrieval_sample(images, sentences, own, options.at))
        without = n - len(np.unique(owners))
        notes = [f"{without} images without sentences are candidates only."] if without else []
        about = {"images": n, "sentences": len(owners)}
        return self.result(subject, options, [("", folds)], about, notes=notes)


@register_protocol
class Coco1K(Standard):
    """COCO's test split in five folds."""

    name = "coco-1k"
    summary = "mean of five sequential folds of 1,000 images"
    images = 5000
    fold = 1000


@register_protocol
class Coco5K(Standard):
    """COCO's whole test split."""

    name = "coco-5k"
    summary = "all 5,000 test images of COCO"
    images = 5000
