"""The interface between the training loop and a task: mini-batches, their loss, and val metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor, nn

from seesay.errors import SeesayError
from seesay.losses.base import Batch, Loss
from seesay.losses.likelihood import GenerationLoss
from seesay.matchers.sentences import Sentences
from seesay.protocols.base import Result
from seesay.protocols.evaluate import measure_inputs
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import Inputs
from seesay.runs.prepare import count_cut
from seesay.runs.run import Run
from seesay.runs.summary import Size


class Task(ABC):
    """Image-sentence retrieval, phrase localization or concept prediction on a corpus.

    Attributes:
        recipe: the recipe that is trained.
        terms: of the loss of a mini-batch: that of the recipe, that of the matcher's decoder, if it has one,
            and further losses of the recipe.
        data: the train split.
        val: the val split.
    """

    def __init__(self, recipe: Recipe, data: Inputs, val: Inputs) -> None:
        self.recipe, self.data, self.val = recipe, data, val
        own = [GenerationLoss()] if recipe.matcher.generates else []
        self.terms: Sequence[Loss] = [recipe.loss.build(), *own, *(each.build() for each in recipe.losses)]

    @property
    def loss(self) -> Loss:
        """The loss of the recipe, the first term."""
        return self.terms[0]

    @property
    def image_dims(self) -> tuple[int, ...]:
        """Widths of the arrays that the image or region features are joined from."""
        return self.data.image_dims

    @abstractmethod
    def batches(self, epoch: int) -> Sequence[Any]:
        """Return the mini-batches of an epoch, which only depend on the recipe's seed and the epoch."""

    @abstractmethod
    def drawn(self, batch: Any, device: str, features: Tensor | None = None) -> Batch:
        """Return what a mini-batch holds, with the features (n, d) of its images if they are given."""

    def losses(self, matcher: Any, batch: Any, device: str) -> list[Tensor]:
        """Return the loss of a mini-batch: one, or one for each member of an ensemble."""
        return self.sum_of_terms(matcher, self.drawn(batch, device))

    def sum_of_terms(self, matcher: nn.Module, batch: Batch) -> list[Tensor]:
        """Return the sum of all terms for each member; a term with one for all is added to the first."""
        losses = self.loss.batch_losses(matcher, batch)
        for term in self.terms[1:]:
            for number, more in enumerate(term.batch_losses(matcher, batch)):
                losses[number] = losses[number] + more
        return losses

    def sizes(self) -> tuple[Size, Size]:
        """Return the sizes of the train and the val split."""
        kind, most = "phrases" if self.data.corpus.has_boxes else "sentences", self.recipe.matcher.max_words
        sizes: list[Size] = [
            {"images": len(part.corpus.images), kind: len(part.sentences), **count_cut(most, part.sentences)}
            for part in (self.data, self.val)
        ]
        return sizes[0], sizes[1]

    def pairs(self) -> Iterator[tuple[Tensor, Sentences]]:
        """Iterate over all positive pairs of the train split: features (b, d) and sentences, in batches.

        Raises:
            SeesayError: the task is not learned in closed form.
        """
        raise SeesayError(f"Recipe '{self.recipe.name}': its task is not learned in closed form.")

    def measure(self, run: Run) -> Result:
        """Measure the val split; the result's `monitor` chooses the epoch."""
        return measure_inputs(run, self.val, "val")

    def metrics(self, run: Run) -> dict[str, float]:  # noqa: ARG002
        """Return further metrics of an epoch, for information only."""
        return {}
