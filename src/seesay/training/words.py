"""The words that a recipe learns from a train split: its vocabulary, or the concepts that it predicts."""

from __future__ import annotations

from collections.abc import Sequence

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
