"""The two-branch losses against loops over triplets."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from seesay.losses import Relations, TripletLoss
from seesay.losses.likelihood import LogisticLoss


def units(rows: int, seed: int, dim: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return functional.normalize(torch.randn(rows, dim, generator=generator, dtype=torch.float64), dim=1)


def loop(x: Tensor, y: Tensor, who: Relations, m: float, keep: int, weights: tuple[float, ...]) -> float:
    """Eq. 6, triplet by triplet, the hardest K of each positive pair and each pair of neighbours."""

    def d(a: Tensor, b: Tensor) -> float:
        return math.sqrt(max(float(((a - b) ** 2).sum()), 1e-8))

    def hardest(losses: list[float]) -> float:
        return sum(sorted((max(0.0, value) for value in losses), reverse=True)[:keep])

    total = 0.0
    n, k = who.matching.shape
    pairs = [(i, j) for i in range(n) for j in range(k) if who.matching[i, j]]
    for i, j in pairs:
        near = d(x[i], y[j])
        total += weights[0] * hardest(
            [m + near - d(x[i], y[o]) for o in range(k) if who.other_sentences[i, o]]
        )
        total += weights[1] * hardest([m + near - d(x[o], y[j]) for o in range(n) if who.other_images[o, j]])
    for side, match, negative, weight in (
        (x, who.matching, who.other_images, weights[2]),
        (y, who.matching.T, who.other_sentences.T, weights[3]),
    ):
        for a in range(len(side)):
            shared = [b for b in range(len(side)) if bool((match[a] & match[b]).any())]
            others = [b for b in range(len(side)) if b not in shared and bool((match[a] & negative[b]).any())]
            for b in shared:
                if b != a:
                    near = d(side[a], side[b])
                    total += weight * hardest([m + near - d(side[a], side[o]) for o in others])
    return total / max(len(pairs), 1)


@settings(max_examples=40)
@given(
    st.integers(0, 10_000),
    st.integers(2, 6),
    st.integers(1, 12),
    st.integers(1, 5),
    st.tuples(*[st.sampled_from([0.0, 0.05, 1.5])] * 4),
)
def test_triplet_loss_equals_a_loop_over_sentences(
    seed: int, images: int, sentences: int, keep: int, weights: tuple[float, float, float, float]
) -> None:
    generator = torch.Generator().manual_seed(seed)
    owners = torch.randint(images, (sentences,), generator=generator)
    who = Relations.from_owners(torch.arange(images), owners)
    x, y = units(images, seed), units(sentences, seed + 1)
    loss = TripletLoss(0.3, keep, *weights)
    assert float(loss(x, y, relations=who)) == pytest.approx(loop(x, y, who, 0.3, keep, weights), abs=1e-5)
    present = owners.unique()
    who = Relations.from_owners(present, owners)
    by_pairs = loss(x[owners], y, owners)
    assert float(by_pairs) == pytest.approx(loop(x[present], y, who, 0.3, keep, weights), abs=1e-5)


def test_without_reduction_there_is_a_loss_for_each_query() -> None:
    owners = torch.tensor([2, 0, 2, 1, 0])
    x, y, weights = units(3, 1), units(5, 2), (1.0, 1.5, 0.5, 0.7)
    images, negative = torch.arange(3), owners[None] != torch.arange(3)[:, None]
    each = TripletLoss(0.3, 2, *weights, reduction="none")(x, y, owners)
    assert each.shape == (3 + 5,)
    assert float(each.sum()) == pytest.approx(
        float(TripletLoss(0.3, 2, *weights, reduction="sum")(x, y, owners))
    )
    ranking = TripletLoss(0.3, 2, reduction="none")
    each = ranking(x, y, owners)
    for image in range(3):
        own = Relations(~negative & (images == image)[:, None], negative, negative)
        expected = loop(x, y, own, 0.3, 2, (1, 0, 0, 0)) * int(own.matching.sum())
        assert float(each[image]) == pytest.approx(expected)
    for sentence in range(5):
        own = Relations(~negative & (torch.arange(5) == sentence), negative, negative)
        assert float(each[3 + sentence]) == pytest.approx(loop(x, y, own, 0.3, 2, (0, 1.5, 0, 0)))
    pairs = ranking(x[owners], y, 10 - owners)  # ids 8, 9 and 10
    assert torch.allclose(pairs, torch.cat([each[:3].flip(0), each[3:]]))


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_triplet_loss_equals_a_loop_if_some_pairs_are_neither_positive_nor_negative(
    seed: int, keep: int
) -> None:
    """Phrases: a region that overlaps the true one a little is no positive and no negative."""
    generator = torch.Generator().manual_seed(seed)
    kind = torch.randint(4, (9, 5), generator=generator)
    who = Relations(kind == 0, kind == 1, (kind == 1) | (kind == 2))
    x, y = units(9, seed), units(5, seed + 1)
    weights = (1.0, 4.0, 0.1, 0.1)
    value = TripletLoss(0.2, keep, *weights)(x, y, relations=who)
    assert float(value) == pytest.approx(loop(x, y, who, 0.2, keep, weights), abs=1e-5)


def test_gradients_are_finite_where_vectors_coincide() -> None:
    x = units(3, 1).float().requires_grad_()
    y = x.detach().clone().requires_grad_()
    who = Relations.from_owners(torch.arange(3), torch.arange(3))
    TripletLoss(2.0, 10, 1, 1, 1, 1)(x, y, relations=who).backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def test_without_negatives_there_is_nothing_to_learn() -> None:
    who = Relations.from_owners(torch.zeros(1), torch.zeros(4))
    value = TripletLoss(0.05, 10, 1, 1, 1, 1)(units(1, 0), units(4, 1), relations=who)
    assert float(value) == 0


def test_logistic_loss_is_equation_seven() -> None:
    scores, labels = torch.tensor([2.0, -1.0, 0.5]), torch.tensor([1.0, -1.0, -1.0])
    by_hand = [math.log(1 + math.exp(-z * p)) for p, z in zip(scores.tolist(), labels.tolist(), strict=True)]
    assert float(LogisticLoss()(scores, labels)) == pytest.approx(sum(by_hand) / 3, abs=1e-6)


def test_double_precision_is_kept() -> None:
    x, y = (functional.normalize(torch.rand(4, 3, dtype=torch.float64), dim=1) for _ in range(2))
    x.requires_grad_()
    loss = TripletLoss(margin=0.1)
    assert torch.autograd.gradcheck(lambda vectors: loss(vectors, y, torch.arange(4)), (x,))
