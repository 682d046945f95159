"""The concepts that a run predicts in images."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from seesay.encoders.images.encode import encode_images
from seesay.errors import SeesayError
from seesay.matchers.sco import ConceptClassifier
from seesay.runs.images import join_features
from seesay.runs.run import Run
from seesay.text.concepts import FILE, Concept, load_concepts


def run_concepts(run: Run) -> list[Concept]:
    """Return the concepts that a run predicts.

    Raises:
        SeesayError: it predicts no concepts, or the file of concepts does not fit its weights.
    """
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
