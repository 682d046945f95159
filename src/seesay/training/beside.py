"""Additional training corpora: every mini-batch is joined by a smaller one of each.

A few hundred photographs of other things extend a matcher's knowledge, but would be rare among thirty
thousand sentences. Each additional corpus therefore has its own mini-batches, with a weight from the recipe.
Pairs of different corpora are not negatives of each other, because their style would distinguish them.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from seesay.data.corpus import Corpus
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.errors import SeesayError
from seesay.losses.base import Batch
from seesay.recipes.schema import BesideSettings, Recipe
from seesay.runs.inputs import Inputs, split_inputs
from seesay.text.vocabulary import Vocabulary

_STREAM = 3  # of random numbers, beside the sampler's, those of class pairs and of views


class BesidePairs:
    """Draws mini-batches of an additional corpus.

    Args:
        inputs: its train split.
        settings: the number of pairs in a mini-batch, and their weight.
        number: the number of this corpus, which selects its random numbers.
    """

    def __init__(self, inputs: Inputs, settings: BesideSettings, number: int) -> None:
        self.inputs, self.settings, self._number = inputs, settings, number
        order = np.argsort(inputs.image_of_sentence, kind="stable")
        images = len(inputs.features)
        starts = np.searchsorted(inputs.image_of_sentence[order], np.arange(1, images))
        self._sentences_of = np.split(order, starts)
        self._with_sentences = np.flatnonzero([len(each) for each in self._sentences_of])
        self._subjects = _subjects(inputs, self._sentences_of)
        self.begin_epoch(0, 0)

    def begin_epoch(self, seed: int, epoch: int) -> None:
        """Restart the random numbers from the run's seed and the epoch."""
        self._draw = np.random.default_rng([seed, epoch, _STREAM, self._number])

    def draw(self, device: str) -> Batch:
        """Return pairs of different images, each with one of its sentences.

        Images with the same first sentence, such as two photographs named "a piano", have the same number in
        `image_ids`, so that they are not negatives of each other.
        """
        count = min(self.settings.pairs, len(self._with_sentences))
        images = self._draw.choice(self._with_sentences, count, replace=False)
        sentences = np.array([self._draw.choice(self._sentences_of[image]) for image in images])
        return Batch(
            torch.from_numpy(self.inputs.features[images]).to(device),
            self.inputs.sentences.take(sentences).to_tensors(device),
            torch.from_numpy(self._subjects[images]).to(device),
        )


def beside_pairs(
    recipe: Recipe, corpus: Corpus, vocabulary: Vocabulary, encoder: SentenceEncoder | None
) -> tuple[BesidePairs, ...]:
    """Read the train splits of the additional corpora, encoding missing features."""
    return tuple(
        BesidePairs(
            split_inputs(recipe, each, "train", vocabulary, encoder), recipe.beside[each.name], number
        )
        for number, each in enumerate(corpus.beside)
    )


def check_beside(recipe: Recipe, corpus: Corpus) -> None:
    """Check that a recipe has settings for exactly the additional corpora.

    Raises:
        SeesayError: it does not.
    """
    wanted, given = recipe.beside, [each.name for each in corpus.beside]
    if repeated := next((name for name in given if given.count(name) > 1), None):
        raise SeesayError(f"Two corpora are named {repeated}; rename one of the folders.")
    if unknown := next((name for name in given if name not in wanted), None):
        raise SeesayError(
            f"Recipe '{recipe.name}' has no settings for the additional corpus {unknown}; set "
            f"beside.{unknown}={{pairs: 100, weight: 0.3}}."
        )
    if missing := ", ".join(name for name in wanted if name not in given):
        raise SeesayError(
            f"Recipe '{recipe.name}' also learns from {missing}; name each with a --data of its own after "
            "the first corpus, or leave them out with beside={}."
        )


def _subjects(inputs: Inputs, sentences_of: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Number images by their first sentence, (n,)."""
    texts = inputs.corpus.texts()
    first = [texts[own[0]] if len(own) else "" for own in sentences_of]
    return np.unique(first, return_inverse=True)[1].reshape(-1).astype(np.int64)
