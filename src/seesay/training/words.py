"""The words of a train split: vocabulary or concepts, and pretrained vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from seesay.data.corpus import Corpus
from seesay.encoders.sentences.base import load_sentence_encoder
from seesay.encoders.sentences.class_names import class_vectors
from seesay.encoders.sentences.word_vectors import file_vectors, word_vectors
from seesay.encoders.settings import VECTORS
from seesay.errors import SeesayError
from seesay.matchers.layers import WordEmbedding
from seesay.paths import file_beside, home_expanded
from seesay.recipes.load import differences
from seesay.recipes.schema import Recipe
from seesay.runs.config import RECIPE, VOCABULARY, run_recipe
from seesay.runs.inputs import sentence_vectors
from seesay.text.concepts import Concept, frequent_concepts
from seesay.text.vocabulary import Vocabulary


def learned_words(recipe: Recipe, texts: Sequence[str]) -> tuple[Vocabulary, list[Concept]]:
    """Return the vocabulary of a recipe, and the concepts if it predicts them: concept c is word c + 1."""
    if (count := recipe.matcher.concept_count) is None:
        return Vocabulary.from_texts(texts, recipe.min_count, recipe.lemmas), []
    concepts = frequent_concepts(texts, count, recipe.min_count)
    return Vocabulary(concept.word for concept in concepts), concepts


def check_words(folder: Path, vocabulary: Vocabulary, corpus: Corpus) -> None:
    """Raise a `SeesayError` unless the run in a folder has this vocabulary, that of the corpus."""
    if Vocabulary.load(folder / VOCABULARY).words != vocabulary.words:
        raise SeesayError(
            f"{folder}: was trained on other sentences than those of {corpus.root}; choose another folder."
        )


def check_recipe(folder: Path, recipe: Recipe) -> Recipe:
    """Return the recipe of the run in a folder; raise a `SeesayError` if more than descriptions differ."""
    there = run_recipe(folder)
    if how := differences(there, recipe):
        raise SeesayError(
            f"{folder / RECIPE}: another recipe was trained there: {how}. Name this run's changes to "
            "continue it, or choose another folder."
        )
    return there


def check_begun(folder: Path, recipe: Recipe, corpus: Corpus) -> Recipe:
    """Return the recipe of the run in a folder; see `check_recipe` and `check_words`."""
    there = check_recipe(folder, recipe)
    check_words(folder, learned_words(recipe, corpus.split("train").texts())[0], corpus)
    return there


def with_own_vectors(recipe: Recipe, corpus: Corpus) -> Recipe:
    """Return the recipe with the whole path of its file of sentence vectors, found beside the corpus."""
    reader = recipe.sentence_encoder
    if reader is None or reader.kind != VECTORS or not (file := reader.get("file")):
        return recipe
    whole = reader.replaced(file=str(file_beside(corpus.root, file).resolve()))
    return recipe.model_copy(update={"sentence_encoder": whole})


def start_words(matcher: nn.Module, recipe: Recipe, vectors: PretrainedVectors) -> None:
    """Initialise the matcher's word embeddings from the recipe's pretrained vectors, if any.

    Raises:
        SeesayError: the matcher has no word embedding.
    """
    if recipe.words is None:
        return
    embeddings = [module for module in matcher.modules() if isinstance(module, WordEmbedding)]
    if not embeddings:
        raise SeesayError(
            f"Recipe '{recipe.name}': words.vectors is set, and matcher {recipe.matcher.kind} has no word "
            "embedding that could start from them; leave out words."
        )
    found, known = (torch.from_numpy(np.array(each)) for each in vectors.word_vectors(recipe.words.vectors))
    for embedding in embeddings:
        embedding.start_from(found, known, recipe.words.std)


@dataclass(frozen=True)
class PretrainedVectors:
    """Pretrained vectors of a vocabulary's words and of class names, which matchers request in `prepare`."""

    vocabulary: Vocabulary

    def word_vectors(self, name: str) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return vectors (V - 1, d) of the words, and which are known, (V - 1,).

        `glove` is packaged. `minilm` and `minilm-int8` encode a word as a sentence; their vectors are cached.
        Other names are files.

        Raises:
            SeesayError: the file cannot be read, or contains none of the words.
        """
        words = self.vocabulary.words
        if name == "glove":
            return word_vectors(words)
        if name in ("minilm", "minilm-int8"):
            encoder = load_sentence_encoder(name)
            return sentence_vectors(encoder, words), np.ones(len(words), bool)
        vectors, known = file_vectors(home_expanded(name), words)
        if not known.any():
            raise SeesayError(f"{name}: contains none of the {len(words)} words.")
        return vectors, known

    def class_vectors(self) -> NDArray[np.float32]:
        """Return vectors (1000, 384) of the ImageNet classes."""
        encoder = load_sentence_encoder("minilm")
        return class_vectors(lambda sentences: sentence_vectors(encoder, sentences))
