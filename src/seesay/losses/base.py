"""The interface of losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seesay.errors import SeesayError

PairReduction: TypeAlias = Literal["mean", "sum", "none"]  # "none": a loss for each pair
Ids: TypeAlias = Tensor | NDArray[Any] | Sequence[int]
Positions: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]


class Relations(NamedTuple):
    """Which images (or regions) and sentences (or phrases) of a mini-batch match.

    Attributes:
        matching: whether image i and sentence j are a positive pair, (n, m) boolean.
        other_sentences: whether sentence j is a negative of image i. For sentences, this and `other_images`
            are the complement of `matching`; for phrases they differ (two-branch networks, Algorithm 1).
        other_images: whether image i is a negative of sentence j.

    Example:
        >>> import torch
        >>> from seesay.losses import Relations, TripletLoss
        >>> matching = torch.eye(3, dtype=torch.bool)
        >>> relations = Relations(matching, ~matching, ~matching)
        >>> TripletLoss(margin=0.05)(torch.eye(3), torch.eye(3), relations=relations)
        tensor(0.)
    """

    matching: Tensor
    other_sentences: Tensor
    other_images: Tensor

    @classmethod
    def from_owners(cls, images: Tensor, owners: Tensor, shared: Tensor | None = None) -> Relations:
        """Return relations from the distinct numbers of images (n,) and the images of the sentences (m,).

        Other images that `shared` (n, m) a sentence match it, too.
        """
        matching = images[:, None] == owners[None, :]
        if shared is not None:
            matching = matching | shared
        return cls(matching, ~matching, ~matching)


@dataclass(frozen=True, eq=False)
class Batch:
    """A mini-batch of matching pairs; row i of each part belongs to pair i.

    Attributes:
        images: features, (n, d).
        sentences: n sentences in the matcher's format; None if concepts are learned.
        image_ids: which image each row shows, (n,); pairs that share an image are not negatives of each
            other.
        targets: concepts of each image, (n, K), 0 or 1, if these are learned.
        relations: of regions and phrases, if phrases are learned by triplets. Then `images` are regions and
            `sentences` are m phrases, whose rows do not correspond.
        pairs: if phrases are learned by pairs: the rows of their regions and of their phrases, and +1 where
            they match and -1 where they do not, (k,) each.
        all_words: the sentences again, if the recipe leaves words out of `sentences`.
        shared: whether image i carries the text of sentence j, maybe by another sentence, (n, n); such pairs
            are not negatives. None if only a sentence's own image counts.
        positions: of the images and of the sentences in the train split.
        progress: 0 in the first epoch, 1 in the last.

    Example:
        >>> import torch
        >>> from seesay.losses import Batch, MarginLoss
        >>> from seesay.matchers import VSEPlusPlus
        >>> matcher = VSEPlusPlus(image_dim=6, vocabulary_size=10, dim=8)
        >>> sentences = (torch.tensor([[5, 2, 9], [7, 1, 0]]), torch.tensor([3, 2]))
        >>> batch = Batch(torch.rand(2, 6), sentences, image_ids=torch.tensor([0, 1]))
        >>> [loss.shape for loss in MarginLoss(margin=0.2).batch_losses(matcher, batch)]
        [torch.Size([])]
    """

    images: Tensor
    sentences: Any
    image_ids: Tensor
    targets: Tensor | None = None
    relations: Relations | None = None
    pairs: tuple[Tensor, Tensor, Tensor] | None = None
    all_words: Any = None
    shared: Tensor | None = None
    positions: Positions | None = None
    progress: float = 0.0


class Loss(nn.Module):
    """Base class of losses.

    Those that sum over pairs take `reduction`: the "mean" over them, the "sum", or "none" for a loss of each
    pair, (n,), which a recipe cannot learn from.

    Attributes:
        needs: the methods of a matcher that the loss calls.
        phrases: how phrases of regions are learned: by the `relations` ("triplets") or the `pairs` of a
            batch, whose scores are then log-odds of a match; None if the loss does not support them.
        learns_concepts: True if it compares images with concept labels rather than with sentences.
        closed_form: True if `solve` finds the minimum without steps.

    Example:
        >>> import torch
        >>> from seesay.losses import Loss
        >>> class CosineLoss(Loss):
        ...     needs = ("embed_images", "embed_sentences")
        ...     def forward(self, images, sentences):
        ...         return (1 - torch.nn.functional.cosine_similarity(images, sentences)).mean()
        ...     def batch_losses(self, matcher, batch):
        ...         images = matcher.embed_images(batch.images)
        ...         return [self(images, matcher.embed_sentences(batch.sentences))]
        >>> CosineLoss()(torch.eye(2), torch.eye(2))
        tensor(0.)
    """

    needs: ClassVar[tuple[str, ...]] = ()
    phrases: ClassVar[Literal["triplets", "pairs"] | None] = None
    learns_concepts: ClassVar[bool] = False
    closed_form: ClassVar[bool] = False

    def extra_repr(self) -> str:
        """Return the arguments by name, for `repr`."""
        public = (name for name in vars(self) if name != "training" and not name.startswith("_"))
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in public)

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """Return the loss of a matcher on a mini-batch, or one loss for each separately trained member."""
        raise NotImplementedError

    def begin(self, task: Any) -> None:
        """Prepare before the first step, if whole images and sentences are learned.

        Args:
            task: the `SentenceTask`: the recipe, the train split, what reads its words, all terms of the
                loss, and teachers by name.
        """

    def begin_epoch(self, seed: int, epoch: int) -> None:
        """Begin an epoch, if whole images and sentences are learned: restart random numbers."""


class ScoreLoss(Loss):
    """A loss of the score matrix (n, n) of a mini-batch: row i an image, column j a sentence.

    Matching pairs are on the diagonal. Losses of seesay also take (n, m) scores of n images with m sentences;
    `image_ids` (m,) then holds the row of each sentence's image. Pairs that are `shared`, a mask of the shape
    of the scores, are no negatives: image i carries the text of sentence j, too. A loss of your own may leave
    out this argument.

    Example:
        >>> import torch
        >>> from seesay.losses import ScoreLoss
        >>> class MatchLoss(ScoreLoss):
        ...     def forward(self, scores, image_ids):
        ...         return -scores.diagonal().mean()
        >>> MatchLoss()(torch.eye(3), torch.arange(3))
        tensor(-1.)
    """

    needs = ("training_scores",)

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """Return the loss of each score matrix of `training_scores`."""
        all_scores = matcher.training_scores(batch.images, batch.sentences)
        shared = (batch.shared,) if "shared" in signature(self.forward).parameters else ()
        return [self(scores.float(), batch.image_ids, *shared) for scores in all_scores]


def reduced(terms: Tensor, reduction: PairReduction, count: Tensor | None = None) -> Tensor:
    """Return the terms, their sum, or their mean, which is zero without terms.

    The mean is the sum divided by `count`, if given, instead of the number of terms.
    """
    if reduction == "none":
        return terms
    if reduction == "sum":
        return terms.sum()
    return terms.sum() / (max(terms.numel(), 1) if count is None else count.clamp_min(1))


def check_tensors(**tensors: Tensor) -> None:
    """Raise `SeesayError` unless all arguments, given by name, are tensors."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise SeesayError(f"{name}: expected a torch.Tensor, got {type(tensor).__name__}.")


def as_pairs(scores: Tensor, image_ids: Ids, shared: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return scores (m, m), with rows repeated if they are not square, and which of them are of negatives.

    Raises:
        SeesayError: a shape or type is not that of `ScoreLoss`.
    """
    check_tensors(scores=scores)
    if scores.ndim != 2:
        raise SeesayError(
            f"scores: expected shape (n, m) of images and sentences, got {tuple(scores.shape)}."
        )
    if shared is not None:
        check_equal_shapes(scores=scores, shared=shared)
    ids = checked_ids(image_ids, len(scores), scores.shape[1], scores.device)
    if len(scores) != len(ids):
        scores, shared = scores[ids], None if shared is None else shared[ids]
    return scores, negatives(ids, shared)


def checked_ids(image_ids: Ids, images: int, sentences: int, device: torch.device) -> Tensor:
    """Return `image_ids` as a tensor (sentences,): rows of the images, or any numbers if all are pairs."""
    wanted = f"image_ids: expected shape ({sentences},) of whole numbers, one for each sentence, got"
    try:
        ids = torch.as_tensor(image_ids, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise SeesayError(f"{wanted} {type(image_ids).__name__}.") from None
    if ids.shape != (sentences,) or ids.is_floating_point():
        raise SeesayError(f"{wanted} {tuple(ids.shape)} of {ids.dtype}.")
    if images != sentences and bool(((ids < 0) | (ids >= images)).any()):
        raise SeesayError(
            f"image_ids: expected the row of each sentence's image, 0 to {images - 1}, because {images} "
            f"images and {sentences} sentences are no pairs; got {int(ids.min())} to {int(ids.max())}."
        )
    return ids


def negatives(image_ids: Tensor, shared: Tensor | None = None) -> Tensor:
    """Return which sentences (columns) are negatives of which images (rows), (n, n).

    These are the sentences of other images, unless they are `shared`.
    """
    other = image_ids[:, None] != image_ids[None, :]
    return other if shared is None else other & ~shared


def check_equal_shapes(**tensors: Tensor) -> None:
    """Raise `SeesayError` unless two tensors, given by name, have the same shape."""
    check_tensors(**tensors)
    (_, first), (name, second) = tensors.items()
    if first.shape != second.shape:
        raise SeesayError(f"{name}: expected shape {tuple(first.shape)}, got {tuple(second.shape)}.")
