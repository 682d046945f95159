"""The two-branch losses: triplets (eq. 6) and pairs (eq. 7), from the vectors of a mini-batch.

"Images" are whole images or regions, "sentences" sentences or phrases. Three boolean matrices
(n, m) say who is who: `matching[i, j]` when image i and sentence j are a positive pair,
`other_sentences[i, j]` when sentence j is a negative of image i, and `other_images[i, j]` when
image i is a negative of sentence j. For sentences both are what does not match; for phrases they
differ: see Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from seesay.recipes.schema import TripletSettings


@dataclass(frozen=True)
class Relations:
    """Who matches whom in a mini-batch: boolean matrices, all (n, m)."""

    matching: Tensor
    other_sentences: Tensor
    other_images: Tensor

    @classmethod
    def of_owners(cls, images: Tensor, owners: Tensor) -> Relations:
        """Relations of images (n,), named by distinct numbers, and the images (m,) of the sentences."""
        matching = images[:, None] == owners[None, :]
        return cls(matching, ~matching, ~matching)


def triplet_loss(
    images: Tensor, sentences: Tensor, relations: Relations, settings: TripletSettings
) -> Tensor:
    """Eq. 6 over the K hardest triplets of each positive pair and of each pair of neighbours.

    Args:
        images: unit vectors (n, d).
        sentences: unit vectors (m, d).
        relations: who matches whom.
        settings: margin, K and the weights of the four terms.

    Returns:
        The sum over the triplets, divided by the number of positive pairs.
    """
    match, by_image, by_sentence = relations.matching, relations.other_sentences, relations.other_images
    across = distances(images, sentences)
    margin, keep = settings.margin, settings.top_k
    one, two, three, four = settings.weights
    total = across.new_zeros(())
    if one:
        total = total + one * hardest_violations(across, match, by_image, margin, keep)
    if two:
        total = total + two * hardest_violations(across.T, match.T, by_sentence.T, margin, keep)
    if three:
        total = total + three * neighbourhood(images, match, by_sentence, margin, keep)
    if four:
        total = total + four * neighbourhood(sentences, match.T, by_image.T, margin, keep)
    return total / match.sum().clamp_min(1)


def hardest_violations(
    distance: Tensor, positive: Tensor, negative: Tensor, margin: float, keep: int
) -> Tensor:
    """Σ over positives (i, j) of the `keep` largest max(0, m + d(i, j) - d(i, k)) over negatives (i, k).

    Args:
        distance: of queries to candidates, (q, c).
        positive: which candidates match a query, (q, c) boolean.
        negative: which do not, (q, c) boolean; a candidate may be neither.
        margin: m.
        keep: K.
    """
    query, candidate = positive.nonzero(as_tuple=True)
    # K largest violations of a pair are its K nearest negatives, whichever of the query's positives it has.
    rows, of_pair = torch.unique(query, return_inverse=True)
    far = distance[rows].masked_fill(~negative[rows], float("inf"))
    nearest = far.topk(min(keep, far.shape[1]), dim=1, largest=False).values
    return functional.relu(margin + distance[query, candidate][:, None] - nearest[of_pair]).sum()


def distances(left: Tensor, right: Tensor) -> Tensor:
    """Euclidean distances of unit vectors, (n, m); the root is kept off zero, where it has no gradient."""
    # Half precision would lose what a margin of 0.05 needs.
    with torch.autocast(left.device.type, enabled=False):
        return (2 - 2 * left.float() @ right.float().T).clamp_min(1e-8).sqrt()


def neighbourhood(vectors: Tensor, matching: Tensor, negative: Tensor, margin: float, keep: int) -> Tensor:
    """Eq. 4 or 5: who shares a match lies nearer than whoever is a negative of that match.

    Args:
        vectors: of one side, (n, d).
        matching: what each matches on the other side, (n, m) boolean.
        negative: what each is a negative of, (n, m) boolean.
        margin: m.
        keep: K.
    """
    rows = matching.any(dim=1).nonzero()[:, 0]
    share = matching[rows].float() @ matching.float().T > 0
    others = (matching[rows].float() @ negative.float().T > 0) & ~share
    share[torch.arange(len(rows), device=rows.device), rows] = False
    return hardest_violations(distances(vectors[rows], vectors), share, others, margin, keep)


def logistic_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Eq. 7: the mean of log(1 + exp(-z·p)), with scores p (n,) and labels z (n,) of +1 and -1."""
    return functional.softplus(-labels * scores).mean()
