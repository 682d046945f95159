"""The concepts that a run predicts for an image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seesay.device import default_device
from seesay.encoders.images.base import load_image_encoder
from seesay.encoders.images.encode import encode_images
from seesay.errors import SeesayError
from seesay.matchers.sco import ConceptClassifier
from seesay.runs.run import Run
from seesay.text.concepts import FILE, ConceptVocabulary
from seesay.text.lemmas import PartOfSpeech


@dataclass(frozen=True, slots=True)
class SeenConcept:
    """A concept and its predicted probability."""

    word: str
    part_of_speech: PartOfSpeech
    score: float


def run_concepts(run: Run) -> ConceptVocabulary:
    """Return the concepts that a run predicts.

    Raises:
        SeesayError: it predicts none, or the file of concepts does not fit its weights.
    """
    if not isinstance(run.matcher, ConceptClassifier):
        raise SeesayError(f"{run.name}: predicts no concepts; `seesay train concepts` makes a run that does.")
    vocabulary = ConceptVocabulary.load(run.folder / FILE)
    if tuple(concept.word for concept in vocabulary.concepts) != run.vocabulary.words:
        raise SeesayError(f"{run.folder / FILE}: other concepts than the run was trained on; train again.")
    return vocabulary


def image_concepts(run: Run, image: bytes, name: str, count: int, regions: bool = False) -> list[SeenConcept]:
    """Predict the `count` most probable concepts of an image, best first.

    Args:
        run: a run that predicts concepts.
        image: the encoded image.
        name: the image's name, for errors.
        count: the number of concepts.
        regions: take the maximum over 50 regions, as in the paper's Figure 5.

    Raises:
        SeesayError: the run predicts no concepts; the image cannot be decoded.
    """
    vocabulary = run_concepts(run)
    kind = "concepts-regions" if regions else "concepts"
    encoded = encode_images([load_image_encoder(f"{kind}:{run.folder}", default_device())], [image], [name])
    scores = encoded.checked()[0]["pooled"][0]
    best = np.argsort(-scores, kind="stable")[:count]
    found = [(vocabulary.concepts[c], float(scores[c])) for c in best]
    return [SeenConcept(concept.word, concept.part_of_speech, score) for concept, score in found]
