"""What training asks of a task: mini-batches, the loss's value, a measure to stop by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from torch import Tensor

from seesay.data.corpus import Corpus
from seesay.data.phrases import PhraseCorpus
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.matchers.base import Matcher
from seesay.matchers.sentences import Sentences
from seesay.recipes.matchers import concept_settings
from seesay.recipes.schema import Recipe
from seesay.runs.run import Run
from seesay.text.vocabulary import Vocabulary
from seesay.training.concept_task import ConceptTask
from seesay.training.phrase_task import PhraseTask
from seesay.training.sentence_task import SentenceTask


class Task(Protocol):
    """Image-sentence retrieval, phrase localization or the prediction of concepts, on one corpus."""

    @property
    def monitor(self) -> str:
        """The val measure that chooses the epoch, a key of what `measure` returns."""
        ...

    @property
    def image_dim(self) -> int:
        """Width of the image or region features."""
        ...

    def batches(self, epoch: int) -> Sequence[Any]:
        """The mini-batches of one epoch; they depend on the recipe's seed and the epoch alone."""
        ...

    def losses(self, matcher: Matcher, batch: Any, device: str) -> list[Tensor]:
        """The loss's value on one mini-batch: one, or one for each member of an ensemble."""
        ...

    def pairs(self) -> Iterator[tuple[Tensor, Sentences]]:
        """Every positive pair of the train split once: features (b, d) and their sentences, in batches."""
        ...

    def measure(self, run: Run) -> dict[str, Any]:
        """The val split's measures."""
        ...

    def about(self) -> dict[str, Any]:
        """What the report says of the data: sizes, and what was left out."""
        ...


def task_of(
    recipe: Recipe, corpus: Corpus | PhraseCorpus, vocabulary: Vocabulary, encoder: SentenceEncoder | None
) -> Task:
    """The task that the corpus is for; what it lacks of features is encoded first.

    Raises:
        SeesayError: the recipe is for another kind of corpus, or a split has nothing that can be used.
    """
    if isinstance(corpus, PhraseCorpus):
        return PhraseTask.of(recipe, corpus, vocabulary, encoder)
    if concept_settings(recipe.matcher) is not None:
        return ConceptTask.of(recipe, corpus, vocabulary)
    return SentenceTask.of(recipe, corpus, vocabulary, encoder)
