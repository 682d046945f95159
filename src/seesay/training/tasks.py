"""The task of a recipe on a corpus."""

from __future__ import annotations

from pathlib import Path

from seesay.data.corpus import Corpus
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import split_inputs
from seesay.text.vocabulary import Vocabulary
from seesay.training.concept_task import ConceptTask, with_held_out_concepts
from seesay.training.phrase_task import PhraseTask
from seesay.training.sentence_task import SentenceTask
from seesay.training.task import Task


def task_for(
    recipe: Recipe,
    corpus: Corpus,
    vocabulary: Vocabulary,
    encoder: SentenceEncoder | None,
    run: Path | None = None,
) -> Task:
    """Create the recipe's task on a corpus, encoding missing features.

    `run` is the folder of the run that is trained, which may hold weights of its image encoders.

    Raises:
        SeesayError: the recipe is for another kind of corpus, or a split has nothing that can be used.
    """
    for split in ("train", "val"):
        corpus.split(split)  # raises an error if it is missing, before images are encoded
    train, val = (split_inputs(recipe, corpus, split, vocabulary, encoder, run) for split in ("train", "val"))
    if corpus.has_boxes:
        return PhraseTask(recipe, train, val)
    if recipe.matcher.predicts_concepts:
        return ConceptTask(recipe, train, val, vocabulary)
    train = with_held_out_concepts(recipe, train, run)
    return SentenceTask(recipe, train, val, vocabulary, encoder, corpus)
