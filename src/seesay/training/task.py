"""What the training loop asks of a task: mini-batches, their loss, and a measure of the val split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from torch import Tensor

from seesay.data.corpus import Corpus
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.losses.base import Loss
from seesay.matchers.sentences import Sentences
from seesay.protocols.base import Result
from seesay.recipes.schema import Recipe
from seesay.runs.run import Run
from seesay.runs.summary import SplitSize
from seesay.text.vocabulary import Vocabulary
from seesay.training.concept_task import ConceptTask
from seesay.training.phrase_task import PhraseTask
from seesay.training.sentence_task import SentenceTask


class Task(Protocol):
    """Image-sentence retrieval, phrase localization or concept prediction on a corpus."""

    @property
    def loss(self) -> Loss:
        """The loss of its mini-batches."""
        ...

    @property
    def image_dims(self) -> tuple[int, ...]:
        """Widths of the arrays that the image or region features are joined from."""
        ...

    def batches(self, epoch: int) -> Sequence[Any]:
        """Return the mini-batches of an epoch; they depend on the recipe's seed and the epoch alone."""
        ...

    def losses(self, matcher: Any, batch: Any, device: str) -> list[Tensor]:
        """Return the loss of a mini-batch: one, or one for each member of an ensemble."""
        ...

    def pairs(self) -> Iterator[tuple[Tensor, Sentences]]:
        """Iterate over all positive pairs of the train split: features (b, d) and sentences, in batches."""
        ...

    def measure(self, run: Run) -> Result:
        """Measure the val split; the result's `monitor` chooses the epoch."""
        ...

    def figures(self, run: Run) -> dict[str, float]:
        """Return further figures of an epoch, which say how training goes and choose nothing."""
        ...

    def sizes(self) -> tuple[SplitSize, SplitSize]:
        """Return the sizes of the train and the val split."""
        ...

    def broken_images(self) -> tuple[str, ...]:
        """Return the images that cannot be decoded, and why."""
        ...


def task_for(recipe: Recipe, corpus: Corpus, vocabulary: Vocabulary, encoder: SentenceEncoder | None) -> Task:
    """Make the recipe's task on a corpus; features that are missing are encoded first.

    Raises:
        SeesayError: the recipe is for another kind of corpus, or a split has nothing that can be used.
    """
    if corpus.has_boxes:
        return PhraseTask.from_corpus(recipe, corpus, vocabulary, encoder)
    if recipe.matcher.predicts_concepts:
        return ConceptTask.from_corpus(recipe, corpus, vocabulary)
    return SentenceTask.from_corpus(recipe, corpus, vocabulary, encoder)
