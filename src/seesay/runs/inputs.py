"""A corpus's split as the arrays that a recipe's matcher takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Corpus, Sentence
from seesay.encoders.feature_store import stores_folder
from seesay.encoders.images.base import Arrays, ImageEncoder
from seesay.encoders.images.encode import fill_stores
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.errors import ImageError, SeesayError
from seesay.runs.features import PRECOMPUTED, array_dims, join_features, recipe_encoders
from seesay.runs.sentences import PreparedSentences, number_words
from seesay.runs.text_inputs import sentence_vectors
from seesay.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from seesay.recipes.schema import Recipe


@dataclass(frozen=True)
class Inputs:
    """One split, ready for a matcher.

    Attributes:
        corpus: its images and sentences, broken images and their sentences left out.
        features: joined image features, (n, d) float32.
        sentences: its m sentences.
        image_of_sentence: for each sentence the row of its image, (m,).
        broken: images that could not be decoded.
        image_dims: widths of the arrays that the features are joined from.
    """

    corpus: Corpus
    features: NDArray[np.float32]
    sentences: PreparedSentences
    image_of_sentence: NDArray[np.int64]
    broken: list[ImageError]
    image_dims: tuple[int, ...]

    def of_first_images(self, count: int) -> Inputs:
        """Return the first `count` images with their sentences; `corpus` stays whole."""
        kept = self.image_of_sentence < count
        sentences = self.sentences.take(np.flatnonzero(kept))
        return replace(
            self,
            features=self.features[:count],
            sentences=sentences,
            image_of_sentence=self.image_of_sentence[kept],
        )


def split_inputs(
    recipe: Recipe, corpus: Corpus, split: str, vocabulary: Vocabulary, encoder: SentenceEncoder | None = None
) -> Inputs:
    """Read the features of a split from the store, encoding what is missing, and prepare its sentences.

    Raises:
        SeesayError: the split is empty, or none of its images can be decoded.
    """
    part = corpus.split(split)
    if PRECOMPUTED in recipe.encoders:
        features, kept, broken = _precomputed_features(recipe, part)
        image_dims: tuple[int, ...] = (features.shape[1],)
    else:
        features, kept, broken = _stored_features(recipe, part)
        image_dims = array_dims(recipe)
    row = np.full(len(part.images), -1)
    row[kept] = np.arange(len(kept))
    usable = replace(
        part,
        images=tuple(part.images[i] for i in kept),
        sentences=tuple(Sentence(s.text, int(row[s.image])) for s in part.sentences if row[s.image] >= 0),
    )
    texts = usable.texts()
    if not texts:
        raise SeesayError(f"{corpus.root}: split '{split}' has no sentence with a usable image.")
    vectors = sentence_vectors(encoder, texts) if encoder else None
    sentences = number_words(texts, vocabulary, vectors)
    owners = usable.image_of_sentence()
    return Inputs(usable, features, sentences, owners, broken, image_dims)


def _stored_features(recipe: Recipe, part: Corpus) -> tuple[NDArray[np.float32], list[int], list[ImageError]]:
    if part.features is not None and all(image.source is None for image in part.images):
        raise SeesayError(
            f"{part.root}: this corpus comes with features and no images; "
            f"set encoders=[{PRECOMPUTED}] in the recipe."
        )
    encoders: Sequence[ImageEncoder] = recipe_encoders(recipe)
    report = fill_stores(encoders, stores_folder(), part.images)
    kept = [i for i, key in enumerate(report.keys) if key is not None]
    keys = [key for key in report.keys if key is not None]
    arrays: list[Arrays] = [
        {name: store.read(keys, name) for name in recipe.arrays} for store in report.stores
    ]
    return join_features(recipe.arrays, arrays), kept, report.errors


def _precomputed_features(
    recipe: Recipe, part: Corpus
) -> tuple[NDArray[np.float32], list[int], list[ImageError]]:
    if part.features is None:
        raise SeesayError(f"{part.root}: no precomputed features there; name an encoder in the recipe.")
    rows = [image.row for image in part.images]
    kept = [i for i, row in enumerate(rows) if row is not None]
    missing = [ImageError(f"{image.name}: it has no features.") for image in part.images if image.row is None]
    given = np.asarray(part.features[[row for row in rows if row is not None]], np.float32)
    if not (finite := np.isfinite(given).reshape(len(given), -1).all(axis=1)).all():
        name = part.images[kept[int(np.argmin(finite))]].name
        raise SeesayError(f"{part.root}: the features of image {name} contain NaN or infinity.")
    if (instances := recipe.matcher.instances_per_image) is not None:
        return _joined_instances(given, instances, part.root), kept, missing
    # Regions (n, r, d) become one global vector: their mean.
    return (given.mean(axis=1) if given.ndim == 3 else given), kept, missing


def _joined_instances(given: NDArray[np.float32], wanted: int, root: Path) -> NDArray[np.float32]:
    """Concatenate instances (n, i, d) to (n, wanted·d), padded with zeros."""
    if given.ndim != 3 or given.shape[1] > wanted:
        found = f"{given.shape[1]} regions" if given.ndim == 3 else "global features"
        raise SeesayError(
            f"{root}: {found} an image, and the matcher takes {wanted} instances; "
            "set matcher.instances to N for features of regions (n, N, d)."
        )
    missing = wanted - given.shape[1]
    padded = np.pad(given, ((0, 0), (0, missing), (0, 0))) if missing else given
    return padded.reshape(len(given), -1)
