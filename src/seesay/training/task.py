"""The interface between the training loop and a task: mini-batches, their loss, and val metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from seesay.data.corpus import Corpus
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.errors import SeesayError
from seesay.losses.base import Loss
from seesay.matchers.sentences import Sentences
from seesay.protocols.base import Result
from seesay.protocols.evaluate import measure_inputs
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import Inputs
from seesay.runs.run import Run
from seesay.runs.sentences import count_cut
from seesay.runs.summary import SplitSize
from seesay.text.vocabulary import Vocabulary


class Task(ABC):
    """Image-sentence retrieval, phrase localization or concept prediction on a corpus.

    Attributes:
        recipe: the recipe that is trained.
        loss: the loss of its mini-batches.
        data: the train split.
        val: the val split.
    """

    recipe: Recipe
    loss: Loss
    data: Inputs
    val: Inputs

    @property
    def image_dims(self) -> tuple[int, ...]:
        """Widths of the arrays that the image or region features are joined from."""
        return self.data.image_dims

    @abstractmethod
    def batches(self, epoch: int) -> Sequence[Any]:
        """Return the mini-batches of an epoch, which only depend on the recipe's seed and the epoch."""

    @abstractmethod
    def losses(self, matcher: Any, batch: Any, device: str) -> list[Tensor]:
        """Return the loss of a mini-batch: one, or one for each member of an ensemble."""

    def sizes(self) -> tuple[SplitSize, SplitSize]:
        """Return the sizes of the train and the val split."""
        return self._size(self.data), self._size(self.val)

    def _size(self, part: Inputs) -> SplitSize:
        kind = "phrases" if part.corpus.has_boxes else "sentences"
        cut = count_cut(self.recipe.matcher.max_words, part.sentences)
        return SplitSize(images=len(part.corpus.images), **{kind: len(part.sentences), **cut})

    def pairs(self) -> Iterator[tuple[Tensor, Sentences]]:
        """Iterate over all positive pairs of the train split: features (b, d) and sentences, in batches.

        Raises:
            SeesayError: the task is not learned in closed form.
        """
        raise SeesayError(f"Recipe '{self.recipe.name}': its task is not learned in closed form.")

    def measure(self, run: Run) -> Result:
        """Measure the val split; the result's `monitor` chooses the epoch."""
        return measure_inputs(run, self.val, "val")

    def metrics(self, run: Run) -> dict[str, float]:
        """Return further metrics of an epoch, for information only."""
        del run
        return {}


def task_for(recipe: Recipe, corpus: Corpus, vocabulary: Vocabulary, encoder: SentenceEncoder | None) -> Task:
    """Create the recipe's task on a corpus, encoding missing features.

    Raises:
        SeesayError: the recipe is for another kind of corpus, or a split has nothing that can be used.
    """
    # Each task's module imports this one.
    from seesay.training.concept_task import ConceptTask
    from seesay.training.phrase_task import PhraseTask
    from seesay.training.sentence_task import SentenceTask

    if corpus.has_boxes:
        return PhraseTask.from_corpus(recipe, corpus, vocabulary, encoder)
    if recipe.matcher.predicts_concepts:
        return ConceptTask.from_corpus(recipe, corpus, vocabulary)
    return SentenceTask.from_corpus(recipe, corpus, vocabulary, encoder)
