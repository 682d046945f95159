"""The concepts that a run predicts: mean average precision, compared with a baseline of their frequency."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Mask
from seesay.encoders.images.encode import encode_images
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import MeanSample
from seesay.metrics.precision import PrecisionSample, average_precision, precisions_of_targets
from seesay.protocols.base import Metrics, Options, Protocol, Result, Samples, register_protocol
from seesay.protocols.subject import RunSubject
from seesay.runs.prepare import join_features
from seesay.runs.run import Run
from seesay.text.concepts import FILE, Concept, concept_targets, load_concepts


@register_protocol
class Concepts(Protocol[RunSubject]):
    """The concepts that a run predicts from whole images, compared with those in the sentences.

    `mAP` is the mean over concepts, for each of which images are ranked, and `image mAP` over images, for
    each of which concepts are ranked. The baseline predicts a concept's frequency in the train split.
    """

    name = "concepts"
    needs = "run"
    monitor = "mAP"
    columns = metrics = ("mAP", "image mAP")

    def measure(self, subject: RunSubject, options: Options) -> Result:
        """Measure mean average precisions."""
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
        of_concepts = PrecisionSample(precisions_of_targets(scores, targets))
        samples: Samples = [("", [of_concepts]), ("", [image_sample])]
        about = {
            "images": len(targets),
            "concepts": int(targets.any(axis=0).sum()),
            "images without concepts": int((~targets.any(axis=1)).sum()),
        }
        return self.result(subject, options, samples, about, baseline(targets, concepts))


def baseline(targets: Mask, concepts: Sequence[Concept]) -> Metrics:
    """Compute the mean average precisions of the baseline; see `concept_targets` for targets (n, K)."""
    frequency = np.array([concept.count for concept in concepts], np.float64)
    constant = np.broadcast_to(frequency, targets.shape)
    return {
        "training frequency: mAP": _percent(average_precision(constant, targets)),
        "training frequency: image mAP": _percent(average_precision(constant.T, targets.T)),
    }


def _percent(precisions: NDArray[np.float64]) -> float:
    return round(100 * float(np.nanmean(precisions)), 3)


def run_concepts(run: Run) -> list[Concept]:
    """Return the concepts that a run predicts.

    Raises:
        SeesayError: it predicts no concepts, or the file of concepts does not fit its weights.
    """
    from seesay.matchers.sco import ConceptClassifier  # which imports PyTorch

    if not isinstance(run.matcher, ConceptClassifier):
        raise SeesayError(
            f"{run.name}: predicts no concepts; `seesay train concepts` trains a run that does."
        )
    concepts = load_concepts(run.folder / FILE)
    if tuple(concept.word for concept in concepts) != run.vocabulary.words:
        raise SeesayError(f"{run.folder / FILE}: not the concepts that the run was trained on; train again.")
    return concepts


def concept_probabilities(run: Run, features: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return the probabilities (n, K) of the concepts that a run predicts in images with features (n, d)."""
    import torch

    matcher = run.matcher  # loaded outside inference mode, or its weights could not be trained any more
    with torch.inference_mode():
        return torch.sigmoid(matcher(torch.from_numpy(features).float().to(run.device))).cpu().numpy()


def image_concepts(run: Run, image: bytes, name: str, count: int) -> list[tuple[Concept, float]]:
    """Predict the `count` most probable concepts of an encoded image with their probabilities, best first.

    Raises:
        ImageError: the image, which has that name, cannot be decoded.
        SeesayError: the run predicts no concepts.
    """
    concepts = run_concepts(run)
    features = join_features(run.config.arrays, encode_images(run.encoders, [image], [name]))
    scores = concept_probabilities(run, features)[0]
    return [(concepts[c], float(scores[c])) for c in np.argsort(-scores, kind="stable")[:count]]
