"""Retrieval in both directions: the standard protocol, and COCO's of 1,000 and 5,000 images."""

from __future__ import annotations

import numpy as np

from seesay.data.summary import shared_sentences
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import RetrievalSample
from seesay.metrics.ranks import owners_of, shared_ranks
from seesay.metrics.recall import METRICS
from seesay.protocols.base import Options, Protocol, Result, register_protocol
from seesay.protocols.subject import Subject

_ATTAINABLE = 90.0  # percent; a lower highest R@1 is noted
BOTH_WAYS = (*(f"{way} {name}" for way in "SI" for name in METRICS), "mR")


@register_protocol
class Standard(Protocol[Subject]):
    """Every image and every sentence is a query, and the whole split the gallery.

    With `fold`, sequential folds of that many images are measured separately, and the metrics averaged.
    """

    name = "standard"
    summary = "every image and sentence of the split"
    metrics = BOTH_WAYS
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
            own = owners[sentences] - start
            folds.append(subject.retrieval_sample(slice(start, start + size), sentences, own))
        without = n - len(np.unique(owners))
        notes = [f"{without} images without sentences are candidates only."] if without else []
        shared = shared_sentences(subject.corpus)
        if shared is not None and min(shared["i2t"], shared["t2i"]) < _ATTAINABLE:
            notes.append(
                f"{shared['sentences']} sentences are those of several images, so R@1 is at most "
                f"{shared['i2t']:.1f} for sentences and {shared['t2i']:.1f} for images; protocol "
                f"{SharedSentences.name} credits each of these images."
            )
        about = {"images": n, "sentences": len(owners)}
        return self.result(subject, options, [("", folds)], about, notes=notes)


@register_protocol
class SharedSentences(Protocol[Subject]):
    """The standard protocol, but a sentence is right for every image that carries the same text.

    It is for corpora with many equal texts, such as products named alike, where even a perfect matcher cannot
    tell whose sentence is asked for. No paper measures it.
    """

    name = "shared-sentences"
    summary = "as standard, but a sentence is right for every image that carries the same text"
    metrics = BOTH_WAYS

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure R@1, R@5, R@10 and Med r in both directions, and mR."""
        texts, owners = subject.corpus.text_numbers(), subject.owners
        sample = RetrievalSample(shared_ranks(*subject.scores.by_direction(), owners, texts), owners)
        shared = shared_sentences(subject.corpus)
        about = {"images": subject.n_images, "sentences": len(owners)}
        about["shared sentences"] = int(shared["sentences"]) if shared else 0
        note = f"Right for several images, which carry the same text: {about['shared sentences']} sentences."
        return self.result(subject, options, [("", [sample])], about, notes=[note])


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
