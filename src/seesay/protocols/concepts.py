"""The prediction of concepts: mean average precision, compared with a baseline of their frequency."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Mask
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import MeanSample
from seesay.metrics.precision import average_precision
from seesay.protocols.base import Metrics, Options, Protocol, Result, Samples, register_protocol
from seesay.protocols.subject import RunSubject
from seesay.text.concepts import Concept, concept_targets

Scores = NDArray[np.floating]


@register_protocol
class Concepts(Protocol[RunSubject]):
    """The concepts that a run predicts from whole images, compared with those in the sentences.

    `mAP` is the mean over concepts, for each of which images are ranked, and `image mAP` over images, for
    each of which concepts are ranked. The baseline predicts a concept's frequency in the train split.
    """

    name = "concepts"
    summary = "the prediction of concepts from whole images"
    needs = "run"
    monitor = "mAP"
    columns = metrics = ("mAP", "image mAP")

    def measure(self, subject: RunSubject, options: Options) -> Result:
        """Measure mean average precisions."""
        from seesay.runs.predictions import concept_probabilities, run_concepts

        run, corpus = subject.run, subject.corpus
        concepts = run_concepts(run)
        targets = concept_targets([concept.word for concept in concepts], corpus)
        if not targets.any():
            raise SeesayError(
                f"{corpus.root}: no sentence of {subject.split} mentions a concept of {run.name}."
            )
        scores = concept_probabilities(run, subject.inputs.features)
        of_images = 100 * average_precision(scores.T, targets.T)
        image_sample = MeanSample(["image mAP"], of_images[:, None], np.arange(len(targets)))
        samples: Samples = [("", [image_sample])]
        about = {
            "images": len(targets),
            "concepts": int(targets.any(axis=0).sum()),
            "images without concepts": int((~targets.any(axis=1)).sum()),
        }
        return self.result(subject, options, samples, about, with_baseline(scores, targets, concepts))


def with_baseline(scores: Scores, targets: Mask, concepts: Sequence[Concept]) -> Metrics:
    """Compute the mean average precision of the concepts, and those of the baseline.

    Scores and targets are (n, K); a target is true if the image's sentences name the concept.
    """
    frequency = np.array([concept.count for concept in concepts], np.float64)
    constant = np.broadcast_to(frequency, targets.shape)
    return {
        "mAP": _mean(average_precision(scores, targets)),
        "training frequency: mAP": _mean(average_precision(constant, targets)),
        "training frequency: image mAP": _mean(average_precision(constant.T, targets.T)),
    }


def _mean(precisions: NDArray[np.float64]) -> float | None:
    there = precisions[~np.isnan(precisions)]
    return round(100 * float(there.mean()), 3) if there.size else None
