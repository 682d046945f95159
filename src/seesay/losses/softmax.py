"""Softmax losses of the score matrix of a mini-batch of matching pairs, alone or against a teacher's."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.losses.base import Batch, Ids, PairReduction, ScoreLoss, as_pairs, check_equal_shapes, reduced
from seesay.losses.settings import register_loss
from seesay.settings import Positive

_NEVER = -1e4  # a score whose softmax is zero in any batch


@register_loss("contrastive")
class ContrastiveLoss(ScoreLoss):
    """Softmax cross-entropy of each matching pair against the batch, averaged over both directions.

    Args:
        scale: factor applied to the scores (inverse temperature). To learn it, as open_clip does, set 1 and
            multiply the scores by the exponential of a parameter.
        reduction: "mean" over the pairs, their "sum", or "none".

    Example:
        >>> import torch
        >>> from seesay.losses import ContrastiveLoss
        >>> ContrastiveLoss(scale=1.0)(torch.zeros(4, 4), torch.tensor([0, 1, 2, 3]))  # log 4
        tensor(1.3863)
    """

    def __init__(self, scale: Positive = 20.0, reduction: PairReduction = "mean") -> None:
        super().__init__()
        self.scale, self.reduction = scale, reduction

    def forward(self, scores: Tensor, image_ids: Ids, shared: Tensor | None = None) -> Tensor:
        """Return the loss of scores (n, n) of pairs of these images (n,), or (n, m); see `ScoreLoss`."""
        scores, negative = as_pairs(scores, image_ids, shared)
        logits = (scores * self.scale).masked_fill(_further_matches(negative), float("-inf"))
        both_ways = logits.log_softmax(dim=1).diagonal() + logits.log_softmax(dim=0).diagonal()
        return reduced(-both_ways / 2, self.reduction)


@register_loss("distillation")
class DistillationLoss(ScoreLoss):
    """KL(teacher || matcher) of their softmax over the batch, averaged over both directions.

    Hinton, Vinyals, Dean 2015.

    Args:
        scale: factor applied to the teacher's scores (inverse temperature).
        student_scale: factor applied to the matcher's scores. Those of a pair matcher can become as large as
            the teacher's scaled ones; cosines cannot, and need a similar factor.
        reduction: "mean" over the pairs, their "sum", or "none".
        teacher: the run of an embedding matcher; None if its scores are given to the loss.

    Attributes:
        fingerprint: of the teacher's weights, once training has begun.

    Example:
        >>> import torch
        >>> from seesay.losses import DistillationLoss
        >>> teacher = torch.eye(3)
        >>> DistillationLoss(scale=30.0)(30 * teacher, torch.tensor([0, 1, 2]), teacher)
        tensor(0.)
    """

    fingerprint: str | None = None
    _teacher: Any = None

    def __init__(
        self,
        scale: Positive = 30.0,
        student_scale: Positive = 1.0,
        reduction: PairReduction = "mean",
        teacher: str | None = None,
    ) -> None:
        super().__init__()
        self.scale, self.student_scale, self.reduction = scale, student_scale, reduction
        self.teacher = teacher

    def forward(
        self, scores: Tensor, image_ids: Ids, teacher_scores: Tensor, shared: Tensor | None = None
    ) -> Tensor:
        """Return the loss of scores (n, n) or (n, m), see `ScoreLoss`, given a teacher's alike."""
        pairs, negative = as_pairs(scores, image_ids, shared)
        check_equal_shapes(scores=scores, teacher_scores=teacher_scores)
        teacher_scores, _ = as_pairs(teacher_scores, image_ids)
        left_out = _further_matches(negative)

        def distance(ours: Tensor, theirs: Tensor, left_out: Tensor) -> Tensor:
            # Finite, because zero times an infinite logarithm is NaN.
            target = (theirs * self.scale).masked_fill(left_out, _NEVER).log_softmax(dim=1)
            learned = (ours * self.student_scale).masked_fill(left_out, _NEVER).log_softmax(dim=1)
            return functional.kl_div(learned, target, reduction="none", log_target=True).sum(dim=1)

        both_ways = distance(pairs, teacher_scores, left_out)
        both_ways = both_ways + distance(pairs.T, teacher_scores.T, left_out.T)
        return reduced(both_ways / 2, self.reduction)

    def begin(self, task: Any) -> None:
        """Load the teacher; see `Loss`."""
        if self.teacher is None:
            raise SeesayError("loss.teacher: name the run whose scores are learned.")
        self._teacher = task.teacher(self.teacher)
        self.fingerprint = self._teacher.fingerprint

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """Return the loss of each score matrix of `training_scores`."""
        if self._teacher is None:
            raise SeesayError("The distillation loss has no teacher yet, which `begin` loads.")
        wanted = self._teacher.scores(batch)
        all_scores = matcher.training_scores(batch.images, batch.sentences)
        return [self(scores.float(), batch.image_ids, wanted, batch.shared) for scores in all_scores]


def _further_matches(negative: Tensor) -> Tensor:
    """Return which pairs besides those on the diagonal are not negatives, (n, n)."""
    further = ~negative
    further.fill_diagonal_(False)
    return further
