"""Losses of the similarity network (eq. 7), of SCO's concepts (eq. 1) and generated sentences, and of CCA."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.losses.base import Batch, Loss, PairReduction, check_equal_shapes, negatives, reduced
from seesay.losses.settings import register_loss
from seesay.settings import Positive


@register_loss("logistic")
class LogisticLoss(Loss):
    """Logistic loss on pairs, eq. 7: the mean of log(1 + exp(-z·p)) over scores p and labels z.

    Args:
        reduction: "mean" over the pairs, their "sum", or "none".

    Example:
        >>> import torch
        >>> from seesay.losses import LogisticLoss
        >>> LogisticLoss()(torch.tensor([0.0, 0.0]), torch.tensor([1.0, -1.0]))  # log 2
        tensor(0.6931)
    """

    needs = ("encode_images", "encode_sentences", "score_pairs")
    phrases = "pairs"

    def __init__(self, reduction: PairReduction = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of scores, of any shape, with labels of +1 and -1."""
        check_equal_shapes(scores=scores, labels=labels)
        if not bool((labels.abs() == 1).all()):
            raise SeesayError("labels: expected +1 and -1 only, got other numbers.")
        return reduced(functional.softplus(-labels * scores), self.reduction)

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """Return the loss on the batch's labelled pairs.

        Without labels, on each pair (x, y) and on (x, y') with a random y' that does not describe x.
        """
        images, texts = matcher.encode_images(batch.images), matcher.encode_sentences(batch.sentences)
        if batch.pairs is not None:
            left, right, labels = batch.pairs
            return [self(matcher.score_pairs(images[left], texts[right]).float(), labels)]
        negative = negatives(batch.image_ids, batch.shared)
        drawn = torch.rand(negative.shape, device=images.device).masked_fill(~negative, -1).argmax(dim=1)
        usable = negative.any(dim=1)
        if not usable.any():
            return [images.sum() * 0]
        images, scored = images[usable], torch.cat([texts[usable], texts[drawn[usable]]])
        scores = matcher.score_pairs(torch.cat([images, images]), scored)
        labels = torch.ones_like(scores)
        labels[len(images) :] = -1
        return [self(scores.float(), labels)]


@register_loss("multi-label")
class MultiLabelLoss(Loss):
    """Logistic loss on each concept of each image, SCO's eq. 1.

    The sum over concepts of log(1 + exp(-y z)), its mean over images. The paper prints y in {0, 1} and
    sigmoid(z) instead of z; an absent concept would then always cost log 2, and all scores could become 1.
    With y in {-1, 1} and the logit z it is the logistic loss: the binary cross-entropy of targets in {0, 1},
    which may also be probabilities.

    Args:
        reduction: "mean" over the images, their "sum", or "none".

    Example:
        >>> import torch
        >>> from seesay.losses import MultiLabelLoss
        >>> MultiLabelLoss()(torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 0.0]]))  # 3 log 2
        tensor(2.0794)
    """

    learns_concepts = True

    def __init__(self, reduction: PairReduction = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of logits z, (n, K), with targets (n, K): 1 for present concepts, 0 for absent."""
        check_equal_shapes(logits=logits, targets=targets)
        if not bool(((targets >= 0) & (targets <= 1)).all()):
            raise SeesayError("targets: expected numbers in 0..1, got others.")
        wanted = targets.to(logits.dtype)
        terms = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        return reduced(terms.sum(dim=1), self.reduction)

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """Return the loss of a classifier of concepts."""
        if batch.targets is None:
            raise SeesayError("The multi-label loss learns concepts; give the batch targets.")
        return [self(matcher(batch.images).float(), batch.targets)]


class GenerationLoss(Loss):
    """SCO's generation of the matching sentence, λ·L_gen of eq. 4; a term of matchers that have a decoder."""

    needs = ("generation_loss",)

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """Return the loss of all words, also of those that were left out of the sentences to match."""
        sentences = batch.sentences if batch.all_words is None else batch.all_words
        return [matcher.generation_loss(batch.images, sentences, batch.progress)]


@register_loss("correlation")
class CorrelationLoss(Loss):
    """The negative correlation of CCA, whose minimum `CCA.solve` finds in closed form.

    Args:
        ridges: shares of the mean variance that are added to each variance; training keeps the one that is
            best on val.

    Example:
        >>> import torch
        >>> from seesay.losses import CorrelationLoss
        >>> CorrelationLoss()(torch.tensor([0.9, 0.5]))
        tensor(-1.4000)
    """

    needs = ("solve",)
    closed_form = True

    def __init__(
        self, ridges: Annotated[tuple[Positive, ...], Field(min_length=1)] = (0.01, 0.1, 1.0)
    ) -> None:
        super().__init__()
        self.ridges = ridges

    def forward(self, correlations: Tensor) -> Tensor:
        """Return the loss of canonical correlations (k,)."""
        return -correlations.sum()
