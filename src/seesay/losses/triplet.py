"""The triplet loss of the two-branch networks (eq. 6), from the vectors of a mini-batch."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import PositiveInt
from torch import Tensor
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.losses.base import Batch, Ids, Loss, PairReduction, Relations, check_tensors, checked_ids, reduced
from seesay.losses.settings import register_loss
from seesay.settings import NonNegative, Positive


@register_loss("triplet")
class TripletLoss(Loss):
    """Ranking and neighbourhood constraints over the hardest triplets of each pair, eq. 6.

    Args:
        margin: m.
        top_k: K, the hardest triplets of each positive pair and of each pair of neighbours.
        lambda1: λ1, the weight of triplets whose query is an image.
        lambda2: λ2, of those whose query is a sentence.
        lambda3: λ3, of neighbourhood constraints on images.
        lambda4: λ4, of neighbourhood constraints on sentences.
        reduction: "mean": the sum over the triplets, divided by the number of positive pairs; the "sum"; or
            "none": the sum for each query, first for the images and then for the sentences, (n + m,). Pairs
            with `image_ids` have each image once, in ascending order of its id.

    Example:
        >>> import torch
        >>> from seesay.losses import TripletLoss
        >>> loss = TripletLoss(margin=0.05, top_k=10)
        >>> loss(torch.eye(3), torch.eye(3), torch.tensor([0, 1, 2]))  # every pair is told apart
        tensor(0.)
        >>> loss(torch.eye(3), torch.eye(3).flip(0), torch.tensor([0, 1, 2])) > 1
        tensor(True)
    """

    needs = ("embed_images", "embed_sentences")
    phrases = "triplets"

    def __init__(
        self,
        margin: Positive = 0.05,
        top_k: PositiveInt = 10,
        lambda1: NonNegative = 1.0,
        lambda2: NonNegative = 1.5,
        lambda3: NonNegative = 0.0,
        lambda4: NonNegative = 0.0,
        reduction: PairReduction = "mean",
    ) -> None:
        super().__init__()
        self.margin, self.top_k = margin, top_k
        self.lambda1, self.lambda2, self.lambda3, self.lambda4 = lambda1, lambda2, lambda3, lambda4
        self.reduction = reduction

    def forward(
        self,
        image_embeddings: Tensor,
        sentence_embeddings: Tensor,
        image_ids: Ids | None = None,
        relations: Relations | None = None,
    ) -> Tensor:
        """Return the loss of unit vectors.

        Args:
            image_embeddings: (n, d).
            sentence_embeddings: (m, d).
            image_ids: which image each pair of rows shows, (n,), if row i of one side matches row i of the
                other; if an image occurs more than once, its first row is used. If there are not as many
                images as sentences: the row of each sentence's image, (m,).
            relations: which rows match, instead of `image_ids`.

        Raises:
            SeesayError: a shape is wrong, or not exactly one of `image_ids` and `relations` is given.
        """
        x, y = image_embeddings, sentence_embeddings
        check_tensors(image_embeddings=x, sentence_embeddings=y)
        if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
            raise SeesayError(
                "image_embeddings and sentence_embeddings: expected shapes (n, d) and (m, d), "
                f"got {tuple(x.shape)} and {tuple(y.shape)}."
            )
        if (relations is None) == (image_ids is None):
            raise SeesayError("image_ids: expected either image_ids or relations.")
        if relations is None:
            assert image_ids is not None
            ids = checked_ids(image_ids, len(x), len(y), y.device)
            images = torch.arange(len(x), device=ids.device)
            if len(x) == len(y):
                images, first = _distinct(ids)
                x = x[first]
            relations = Relations.from_owners(images, ids)
        match, by_image, by_sentence = relations.matching, relations.other_sentences, relations.other_images
        across = distances(x, y)
        margin, keep = self.margin, self.top_k
        of_images, of_sentences = across.new_zeros(len(x)), across.new_zeros(len(y))
        if self.lambda1:  # eq. 1
            of_images += self.lambda1 * _hardest_violations(across, match, by_image, margin, keep)
        if self.lambda2:  # eq. 2
            violated = _hardest_violations(across.T, match.T, by_sentence.T, margin, keep)
            of_sentences += self.lambda2 * violated
        if self.lambda3:  # eq. 4
            of_images += self.lambda3 * _neighbourhood(x, match, by_sentence, margin, keep)
        if self.lambda4:  # eq. 5
            of_sentences += self.lambda4 * _neighbourhood(y, match.T, by_image.T, margin, keep)
        return reduced(torch.cat([of_images, of_sentences]), self.reduction, match.sum())

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """Return the loss of an embedding matcher, which embeds each image of the batch once."""
        features, relations = batch.images, batch.relations
        if relations is None:
            images, first = _distinct(batch.image_ids)
            shared = None if batch.shared is None else batch.shared[first]
            features, relations = features[first], Relations.from_owners(images, batch.image_ids, shared)
        vectors = matcher.embed_images(features).float()
        return [self(vectors, matcher.embed_sentences(batch.sentences).float(), relations=relations)]


def _distinct(image_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct `image_ids` in ascending order, and the first row of each."""
    images, place = torch.unique(image_ids, return_inverse=True)
    rows = torch.arange(len(image_ids), device=image_ids.device)
    return images, rows.new_full(images.shape, len(rows)).scatter_reduce(0, place, rows, "amin")


def _hardest_violations(
    distance: Tensor, positive: Tensor, negative: Tensor, margin: float, keep: int
) -> Tensor:
    """Return for each query i, (q,), the sum of the violations max(0, m + d(i, j) - d(i, k)).

    These are the `keep` largest of each positive (i, j), over negatives (i, k). All are (q, c), queries by
    candidates; a candidate may be neither positive nor negative.
    """
    query, candidate = positive.nonzero(as_tuple=True)
    # The K largest violations of a pair are the query's K nearest negatives, whatever the positive.
    rows, of_pair = torch.unique(query, return_inverse=True)
    far = distance[rows].masked_fill(~negative[rows], float("inf"))
    nearest = far.topk(min(keep, far.shape[1]), dim=1, largest=False).values
    violated = functional.relu(margin + distance[query, candidate][:, None] - nearest[of_pair])
    # Each pair has a place of its own: on a GPU, adding to places that repeat has no fixed order.
    of_pairs = distance.new_zeros(distance.shape).index_put((query, candidate), violated.sum(dim=1))
    return of_pairs.sum(dim=1)


def distances(left: Tensor, right: Tensor) -> Tensor:
    """Return distances of unit vectors, (n, m), clamped above zero, where the gradient is undefined."""
    exact = torch.promote_types(left.dtype, torch.float32)  # half precision is too coarse for small margins
    with torch.autocast(left.device.type, enabled=False):
        return (2 - 2 * left.to(exact) @ right.to(exact).T).clamp_min(1e-8).sqrt()


def _neighbourhood(vectors: Tensor, matching: Tensor, negative: Tensor, margin: float, keep: int) -> Tensor:
    """Return eq. 4 or 5 for each item, (n,): those that share a match are closer than its negatives.

    `matching` and `negative` (n, m) relate the vectors (n, d) to the other side.
    """
    rows = matching.any(dim=1).nonzero()[:, 0]
    share = matching[rows].float() @ matching.float().T > 0
    others = (matching[rows].float() @ negative.float().T > 0) & ~share
    share[torch.arange(len(rows), device=rows.device), rows] = False
    found = _hardest_violations(distances(vectors[rows], vectors), share, others, margin, keep)
    return found.new_zeros(len(vectors)).index_add(0, rows, found)
