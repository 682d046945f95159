"""The concepts that a run sees in one image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seesay.encoders.images.base import load_image_encoder
from seesay.encoders.images.encode import encode_images
from seesay.errors import SeesayError
from seesay.matchers.sco import ConceptClassifier
from seesay.runs.run import Run, default_device
from seesay.text.concepts import FILE, ConceptVocabulary, PartOfSpeech


@dataclass(frozen=True, slots=True)
class SeenConcept:
    """A concept and how surely it is there, in 0..1."""

    word: str
    part_of_speech: PartOfSpeech
    score: float


def run_concepts(run: Run) -> ConceptVocabulary:
    """The concepts that a run predicts; SeesayError where it predicts none."""
    if not isinstance(run.matcher, ConceptClassifier):
        raise SeesayError(f"{run.name}: predicts no concepts; `seesay train concepts` makes a run that does.")
    vocabulary = ConceptVocabulary.load(run.folder / FILE)
    if tuple(concept.word for concept in vocabulary.concepts) != run.vocabulary.words:
        raise SeesayError(f"{run.folder / FILE}: other concepts than the run was trained on; train again.")
    return vocabulary


def image_concepts(run: Run, image: bytes, name: str, count: int, regions: bool = False) -> list[SeenConcept]:
    """The `count` surest concepts of an image, best first.

    Args:
        run: of concepts.
        image: the encoded image.
        name: of the image, for errors.
        count: how many.
        regions: whether the highest score of 50 regions counts, as in the paper's Figure 5.

    Raises:
        SeesayError: the run predicts no concepts; the image cannot be decoded.
    """
    vocabulary = run_concepts(run)
    kind = "concepts-regions" if regions else "concepts"
    encoded = encode_images([load_image_encoder(f"{kind}:{run.folder}", default_device())], [image], [name])
    if encoded.errors[0] is not None:
        raise encoded.errors[0]
    scores = encoded.arrays[0]["pooled"][0]
    best = np.argsort(-scores, kind="stable")[:count]
    found = [(vocabulary.concepts[c], float(scores[c])) for c in best]
    return [SeenConcept(concept.word, concept.part_of_speech, score) for concept, score in found]
