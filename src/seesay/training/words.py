"""The words of a train split: the vocabulary or the concepts that a recipe learns, and pretrained vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.sentences.class_names import class_vectors
from seesay.encoders.sentences.minilm import minilm_vectors
from seesay.encoders.sentences.word_vectors import word_vectors
from seesay.errors import SeesayError
from seesay.recipes.schema import Recipe
from seesay.runs.run import Run
from seesay.text.concepts import ConceptVocabulary
from seesay.text.vocabulary import Vocabulary


def learned_words(recipe: Recipe, texts: Sequence[str]) -> tuple[Vocabulary, ConceptVocabulary | None]:
    """Return the vocabulary of a recipe, and the concepts if these are what it learns to predict."""
    if (count := recipe.matcher.concept_count) is None:
        return Vocabulary.from_texts(texts, recipe.min_count), None
    concepts = ConceptVocabulary.from_texts(texts, count, recipe.min_count)
    return concepts.vocabulary(), concepts


def learned_from(run: Run, texts: Sequence[str]) -> bool:
    """Return whether the run's words are those that its recipe learns from these sentences."""
    return learned_words(run.recipe, texts)[0].words == run.vocabulary.words


@dataclass(frozen=True)
class PretrainedVectors:
    """The packaged vectors of a vocabulary's words, which matchers ask for before training."""

    vocabulary: Vocabulary

    def word_vectors(self, name: str) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return vectors (V - 1, d) of the words, `glove` or `minilm`, and which are known, (V - 1,)."""
        words = self.vocabulary.words
        if name == "glove":
            return word_vectors(words)
        if name == "minilm":
            return minilm_vectors(words), np.ones(len(words), bool)
        raise SeesayError(f"No word vectors '{name}'; there are glove and minilm.")

    def class_vectors(self) -> NDArray[np.float32]:
        """Return unit vectors (1000, 384) of the ImageNet classes, by their names and descriptions."""
        return class_vectors()
