"""A phrase corpus's split as the arrays that a grounding recipe's matcher takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Corpus
from seesay.device import default_device
from seesay.encoders.feature_store import stores_folder
from seesay.encoders.regions.base import load_region_encoder, region_features
from seesay.encoders.regions.store import Regions, fill_regions
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.errors import ImageError, SeesayError
from seesay.recipes.schema import Recipe
from seesay.runs.sentences import PreparedSentences, number_words
from seesay.runs.text_inputs import sentence_vectors
from seesay.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class PhraseInputs:
    """One split, ready for a matcher.

    Attributes:
        corpus: its images and phrases.
        regions: for each image its proposals, then the true boxes of its phrases; empty for a broken image.
        proposals: number of proposals of each image, (n,).
        sentences: the phrases, prepared.
        true_region: for each phrase the index of its true region in its image, (m,).
        broken: images that could not be decoded.
    """

    corpus: Corpus
    regions: Sequence[Regions]
    proposals: NDArray[np.int64]
    sentences: PreparedSentences
    true_region: NDArray[np.int64]
    broken: list[ImageError]

    def features(self, image: int, chosen: slice | NDArray[np.int64], geometry: bool) -> NDArray[np.float32]:
        """Return the matcher's features of the chosen regions of an image, (r, d)."""
        boxes, features = self.regions[image]
        return region_features(features[chosen], boxes[chosen], self.corpus.images[image].size, geometry)


def phrase_inputs(
    recipe: Recipe,
    corpus: Corpus,
    split: str,
    vocabulary: Vocabulary,
    encoder: SentenceEncoder | None = None,
) -> PhraseInputs:
    """Read the regions of a split from the store, encoding what is missing, and prepare its phrases.

    Raises:
        SeesayError: the split is empty, or no image of it can be decoded.
    """
    if recipe.regions is None:
        raise SeesayError(f"Recipe '{recipe.name}' matches whole images; use a grounding recipe for phrases.")
    part = corpus.split(split)
    named, true_region = _named_boxes(part)
    regions = load_region_encoder(recipe.encoders[0], default_device())
    fill = fill_regions(regions, stores_folder(), part.images, named, recipe.regions.proposals)
    if all(key is None for key in fill.keys):
        raise SeesayError(f"{part.root}: no image of split '{split}' can be decoded; {fill.errors[0]}")
    counts = [max(len(r.boxes) - len(own), 0) for r, own in zip(fill.regions, named, strict=True)]
    proposals = np.array(counts, np.int64)
    texts = part.texts()
    sentences = number_words(texts, vocabulary, sentence_vectors(encoder, texts) if encoder else None)
    first = proposals[part.image_of_sentence()]
    return PhraseInputs(part, fill.regions, proposals, sentences, first + true_region, fill.errors)


def _named_boxes(part: Corpus) -> tuple[list[NDArray[np.float32]], NDArray[np.int64]]:
    """Return the distinct true boxes of each image, and for each phrase the index of its box among them."""
    boxes, owners = part.enclosing_boxes(), part.image_of_sentence()
    named = []
    place = np.zeros(len(owners), np.int64)
    order = np.argsort(owners, kind="stable")
    cuts = np.searchsorted(owners[order], np.arange(len(part.images) + 1))
    for start, stop in pairwise(cuts):
        mine = order[start:stop]
        unique, inverse = np.unique(boxes[mine], axis=0, return_inverse=True)
        named.append(unique)
        place[mine] = inverse.reshape(-1)
    return named, place
