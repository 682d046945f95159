"""The prediction of concepts: mean average precision, beside that of the concepts' frequency."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import MeanSample
from seesay.metrics.precision import PrecisionSample, average_precision
from seesay.protocols.base import (
    Details,
    Options,
    Percent,
    Protocol,
    Result,
    ResultPart,
    Samples,
    register_protocol,
)
from seesay.protocols.subject import RunSubject
from seesay.text.concepts import PARTS_OF_SPEECH, ConceptVocabulary, concept_targets

Scores = NDArray[np.floating]
Targets = NDArray[np.bool_]


class Precisions(ResultPart):
    """Mean average precisions in percent; None where nothing is there to find."""

    precision: Percent | None = Field(alias="mAP")
    image_precision: Percent | None = Field(None, alias="image mAP")


class ConceptResult(Result, Precisions):
    """The prediction of the `concepts` that occur on a split.

    `mAP` is the mean over concepts, each of which ranks the images, and `image mAP` over images,
    each of which ranks the concepts. The baseline predicts a concept's frequency in the train split.
    """

    monitor_metric = "mAP"
    metric_names = ("mAP", "image mAP")

    images: int = Field(gt=0)
    concepts: int = Field(gt=0)
    images_without_concepts: int = Field(ge=0)
    baselines: dict[str, Precisions]
    by_kind: dict[str, Precisions] = Field(alias="by kind")

    def details(self) -> Details:
        """See `Result`."""
        return Details(after={**self.baselines, **self.by_kind})


@register_protocol
class Concepts(Protocol):
    """The concepts that a run predicts from whole images, against those that the sentences name."""

    name = "concepts"
    summary = "the prediction of concepts from whole images"
    needs = "run"
    result_type = ConceptResult

    def measure(self, subject: RunSubject, options: Options) -> Result:  # type: ignore[override]
        """Measure mean average precisions."""
        from seesay.runs.predictions import run_concepts

        run, corpus = subject.run, subject.corpus
        vocabulary = run_concepts(run)
        targets = concept_targets([concept.word for concept in vocabulary.concepts], corpus)
        if not targets.any():
            raise SeesayError(f"{corpus.root}: no concept of {run.name} is named on {subject.split}.")
        scores = self._scores(subject)
        of_images = 100 * average_precision(scores.T, targets.T)
        image_sample = MeanSample([("image mAP",)], of_images[:, None], np.arange(len(targets)))
        samples: Samples = [((), [PrecisionSample(scores, targets)]), ((), [image_sample])]
        return self.result(subject, options, samples, **concept_metrics(scores, targets, vocabulary))

    def _scores(self, subject: RunSubject) -> Scores:
        import torch

        from seesay.matchers.sco import ConceptClassifier

        matcher, run = subject.run.matcher, subject.run
        assert isinstance(matcher, ConceptClassifier)
        with torch.inference_mode():
            return (
                torch.sigmoid(matcher(torch.from_numpy(subject.inputs.features).to(run.device))).cpu().numpy()
            )


@register_protocol
class ConceptsOfRegions(Concepts):
    """The prediction of concepts by the highest score among 50 regions of each image."""

    name = "concepts-regions"
    summary = "the prediction of concepts from regions"

    def _scores(self, subject: RunSubject) -> Scores:
        from seesay.device import default_device
        from seesay.encoders.feature_store import stores_folder
        from seesay.encoders.images.base import load_image_encoder
        from seesay.encoders.images.encode import fill_stores

        encoder = load_image_encoder(f"concepts-regions:{subject.run.folder}", default_device())
        report = fill_stores([encoder], stores_folder(), subject.corpus.images)
        keys = [key for key in report.keys if key is not None]
        return report.stores[0].read(keys, "pooled")


def concept_metrics(scores: Scores, targets: Targets, vocabulary: ConceptVocabulary) -> dict[str, object]:
    """Compute the metrics of scores (n, K) and of the concepts that the images' sentences name, (n, K)."""
    parts = np.array([concept.part_of_speech for concept in vocabulary.concepts])
    precision = average_precision(scores, targets)
    frequency = np.array([concept.count for concept in vocabulary.concepts], np.float64)
    constant = np.broadcast_to(frequency, targets.shape)
    kinds = {part: precision[parts == part] for part in PARTS_OF_SPEECH}
    return {
        "images": len(targets),
        "concepts": int(targets.any(axis=0).sum()),
        "images_without_concepts": int((~targets.any(axis=1)).sum()),
        "mAP": _mean(precision),
        "image mAP": _mean(average_precision(scores.T, targets.T)),
        "baselines": {
            "training frequency": {
                "mAP": _mean(average_precision(constant, targets)),
                "image mAP": _mean(average_precision(constant.T, targets.T)),
            }
        },
        "by kind": {f"{part}s": {"mAP": _mean(kinds[part])} for part in PARTS_OF_SPEECH if len(kinds[part])},
    }


def _mean(precisions: NDArray[np.float64]) -> float | None:
    there = precisions[~np.isnan(precisions)]
    return 100 * float(there.mean()) if there.size else None
