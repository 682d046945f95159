"""Contrastive sampling against eq. 10, written as a loop."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from seesay.losses.base import Batch
from seesay.losses.pairs import PairMarginLoss, draw_negatives
from seesay.matchers.base import PairMatcher
from seesay.matchers.sentences import Sentences

owners_of_batches = st.lists(st.integers(0, 4), min_size=2, max_size=12).map(torch.tensor)


class Products(PairMatcher):
    """Scores are products of numbers; it keeps the pairs that it was asked for."""

    def encode_images(self, images: Tensor) -> Tensor:
        return images

    def encode_sentences(self, sentences: Sentences) -> Tensor:
        return sentences.vectors

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        self.asked = torch.cat([images, sentences], dim=1)
        return (images * sentences)[:, 0]

    def score_encoded(self, images: Tensor, sentences: Tensor) -> Tensor:
        return images @ sentences.T


def numbers(values: Tensor) -> Sentences:
    return Sentences(torch.ones(len(values)), torch.ones(len(values)), values)


@given(owners_of_batches, st.integers(0, 99))
def test_it_is_the_mean_of_both_hinges_on_one_negative_each(owners: Tensor, seed: int) -> None:
    torch.manual_seed(seed)
    n, matcher = len(owners), Products()
    # Distinct numbers, so that each says which image or sentence it is.
    x, y = torch.linspace(0.1, 1, n)[:, None], torch.linspace(-1, -0.05, n)[:, None]
    (value,) = PairMarginLoss().batch_losses(matcher, Batch(x, numbers(y), owners))
    if len(owners.unique()) == 1:
        assert value == 0
        return
    third = len(matcher.asked) // 3
    total = 0.0
    for i in range(third):
        (image, sentence), (same_image, other), (another, same_sentence) = (
            matcher.asked[i + part * third].tolist() for part in range(3)
        )
        assert (same_image, same_sentence) == (image, sentence)
        own = owners[x[:, 0] == image]
        assert own == owners[y[:, 0] == sentence]
        assert own != owners[y[:, 0] == other]
        assert own != owners[x[:, 0] == another]
        total += max(0.0, 0.5 - image * sentence + image * other)
        total += max(0.0, 0.5 - image * sentence + another * sentence)
    assert third == n
    assert torch.isclose(value, torch.tensor(total / third), atol=1e-5)


def test_every_negative_is_drawn_equally_often() -> None:
    torch.manual_seed(3)
    usable, drawn = draw_negatives(torch.tensor([0, 0, 1, 2]), 4000)
    assert usable.tolist() == [0, 1, 2, 3]
    for row, negatives in zip(drawn, ({2, 3}, {2, 3}, {0, 1, 3}, {0, 1, 2}), strict=True):
        shares = torch.bincount(row, minlength=4) / 4000
        assert set(shares.nonzero()[:, 0].tolist()) == negatives
        assert all(abs(shares[j] - 1 / len(negatives)) < 0.05 for j in negatives)


@given(owners_of_batches, st.integers(0, 99))
def test_hardest_negatives_are_those_of_the_largest_hinges(owners: Tensor, seed: int) -> None:
    torch.manual_seed(seed)
    n = len(owners)
    x, y = torch.randn(n, 1, requires_grad=True), torch.randn(n, 1)
    loss = PairMarginLoss(negatives="hardest")
    (value,) = loss.batch_losses(Products(), Batch(x, numbers(y), owners))
    scores, total = (x @ y.T).detach(), 0.0
    for i in range(n):
        others = [j for j in range(n) if owners[j] != owners[i]]
        total += max((max(0.0, 0.5 - float(scores[i, i] - scores[i, j])) for j in others), default=0.0)
        total += max((max(0.0, 0.5 - float(scores[i, i] - scores[j, i])) for j in others), default=0.0)
    assert torch.isclose(value, torch.tensor(total / n), atol=1e-5)
    assert torch.isclose(loss(x @ y.T, owners), value, atol=1e-5)
    assert value.requires_grad
