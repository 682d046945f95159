"""Loss: mini-batches of another corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from seesay.data.readers import read_corpus
from seesay.losses import Batch, register_loss
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.prepare import rows_of_each
from seesay.settings import NonNegative, Positive
from seesay_weights.drawn import DrawnLoss
from seesay_weights.nouns import loss_of_matches


@register_loss("other-corpus")
class OtherCorpus(DrawnLoss):
    """The recipe's loss of mini-batches of another corpus's train split.

    A few hundred photographs of other things are useful to learn from, but would be rare among thirty
    thousand sentences. Each other corpus therefore has its own mini-batches. Pairs of different corpora are
    not negatives of each other, because their style would distinguish them.

    Args:
        data: the corpus.
        pairs: images in a mini-batch, each with one of its sentences.
        weight: of the loss; that of the main corpus is 1.
        names: weight of the loss of names as queries (see `NounQueries`), in a corpus where several images
            share a name.
    """

    def __init__(
        self,
        data: str,
        pairs: Annotated[int, Field(gt=1)] = 100,
        weight: Positive = 0.3,
        names: NonNegative = 0.0,
    ) -> None:
        super().__init__()
        self.data, self.pairs, self.weight, self.names = data, pairs, weight, names

    def begin(self, task: Any) -> None:
        """See `Loss`."""
        super().begin(task)
        corpus = read_corpus(Path(self.data))
        self._loss = task.loss
        self.learn(split_inputs(task.recipe, corpus, "train", task.vocabulary, task.encoder))

    def learn(self, inputs: Inputs) -> None:
        """Take the pairs of a train split."""
        self.inputs = inputs
        self._sentences_of = rows_of_each(inputs.image_of_sentence, len(inputs.features))
        self._with_sentences = np.flatnonzero([len(each) for each in self._sentences_of])
        self._subjects = _subjects(inputs, self._sentences_of)

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """See `Loss`."""
        other = self.draw(str(batch.images.device))
        first, *rest = (self.weight * loss for loss in self._loss.batch_losses(matcher, other))
        if self.names:
            first = first + self.names * loss_of_names(matcher, other)
        return [first, *rest]

    def draw(self, device: str) -> Batch:
        """Return pairs of different images, each with one of its sentences.

        Images with the same first sentence, such as two photographs named "a piano", have the same number in
        `image_ids`, so that they are not negatives of each other.
        """
        count = min(self.pairs, len(self._with_sentences))
        images = self._draw.choice(self._with_sentences, count, replace=False)
        sentences = np.array([self._draw.choice(self._sentences_of[image]) for image in images])
        return Batch(
            torch.from_numpy(self.inputs.features[images]).float().to(device),
            self.inputs.sentences.take(sentences).to_tensors(device),
            torch.from_numpy(self._subjects[images]).to(device),
        )


def loss_of_names(matcher: Any, batch: Batch) -> Tensor:
    """Return the loss of names as queries; images with the same number in `image_ids` share a name."""
    shown = batch.image_ids[:, None] == batch.image_ids[None, :]
    if int(shown.sum()) == len(shown):  # no name is shared: descriptions of single images are no queries
        return batch.images.new_zeros(())
    return loss_of_matches(matcher(batch.images, batch.sentences), shown)


def _subjects(inputs: Inputs, sentences_of: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Number images by their first sentence, (n,)."""
    texts = inputs.corpus.texts()
    first = [texts[own[0]] if len(own) else "" for own in sentences_of]
    return np.unique(first, return_inverse=True)[1].reshape(-1).astype(np.int64)
