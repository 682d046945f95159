"""Corpora beside the one that a recipe is trained on: every mini-batch gets a smaller one of each.

A few hundred photographs of other things widen what a matcher knows, but among thirty thousand sentences of
one corpus they would hardly be seen. So each corpus has mini-batches of its own, which count with a weight
that the recipe sets. Pairs of different corpora are no negatives of each other: their style tells them apart.
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
    """Draws mini-batches of a corpus that is learned from beside another one.

    Args:
        inputs: its train split.
        settings: how many pairs a mini-batch has, and their weight.
        number: of this corpus among those beside, which tells its random numbers from the others'.
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
        """Draw from here on what depends on the run's seed and the epoch alone."""
        self._draw = np.random.default_rng([seed, epoch, _STREAM, self._number])

    def draw(self, device: str) -> Batch:
        """Return pairs of different images, each with one of its sentences.

        Images with the same first sentence show the same thing, such as two photographs that are both named
        "a piano": they have one number in `image_ids`, so that they are no negatives of each other.
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
    """Read the train splits of the corpora beside a corpus; images whose features are missing are encoded."""
    return tuple(
        BesidePairs(
            split_inputs(recipe, each, "train", vocabulary, encoder), recipe.beside[each.name], number
        )
        for number, each in enumerate(corpus.beside)
    )


def check_beside(recipe: Recipe, corpus: Corpus) -> None:
    """Check that a recipe says how to learn from the corpora beside a corpus, and from no other.

    Raises:
        SeesayError: it does not; names the first, and what to do.
    """
    wanted, given = recipe.beside, [each.name for each in corpus.beside]
    if repeated := next((name for name in given if given.count(name) > 1), None):
        raise SeesayError(f"Two corpora are named {repeated}; rename the folder of one of them.")
    if unknown := next((name for name in given if name not in wanted), None):
        raise SeesayError(
            f"Recipe '{recipe.name}' does not say how to learn from {unknown} beside the first corpus; "
            f"set beside.{unknown}={{pairs: 100, weight: 0.3}}."
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
