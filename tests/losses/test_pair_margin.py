"""Contrastive sampling against eq. 10, written as a loop."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from seesay.losses.base import Batch
from seesay.losses.margin import MeanOver, PairMarginLoss, scores_near_margin
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


@given(st.lists(st.integers(0, 4), min_size=3, max_size=12).map(torch.tensor), st.integers(0, 99))
def test_pair_margin_is_the_mean_of_both_hinges_with_one_negative_each(owners: Tensor, seed: int) -> None:
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
    owners, drawn = torch.tensor([0, 0, 1, 2]), torch.zeros(4, 4)
    for _ in range(2000):
        scores = torch.zeros(4, 4, requires_grad=True)
        PairMarginLoss()(scores, owners).backward()
        assert scores.grad is not None
        drawn += 4 * scores.grad.fill_diagonal_(0)  # each drawn pair has a gradient of 1 / 4
    # As a negative sentence of its image, and as a negative image of its sentence.
    share = {0: 1 / 2, 1: 1 / 2, 2: 1 / 3, 3: 1 / 3}
    for i in range(4):
        for j in range(4):
            expected = 0 if owners[i] == owners[j] else share[i] + share[j]
            assert abs(drawn[i, j] / 2000 - expected) < 0.07


@given(owners_of_batches, st.integers(1, 12), st.integers(0, 99))
def test_pair_margin_with_all_negatives_is_the_sum_over_them(owners: Tensor, extra: int, seed: int) -> None:
    torch.manual_seed(seed)
    n, total, active, pairs = len(owners), 0.0, 0, 0
    x, y = torch.randn(n, 1, requires_grad=True), torch.randn(n, 1)
    scores = (x @ y.T).detach()
    for i in range(n):
        others = [j for j in range(n) if owners[j] != owners[i]]
        hinges = [
            max(0.0, 0.5 - float(scores[i, i] - scores[pair])) for j in others for pair in ((i, j), (j, i))
        ]
        total += sum(hinges)
        active += sum(hinge > 0 for hinge in hinges)
        pairs += bool(others)
    for mean_over, count in (("pairs", pairs), ("active", active)):
        loss = PairMarginLoss(0.5, n + extra, mean_over)  # type: ignore[arg-type]
        expected = torch.tensor(total / max(count, 1))
        assert torch.isclose(loss(x @ y.T, owners), expected, atol=1e-5)
        assert torch.isclose(
            loss.batch_losses(Products(), Batch(x, numbers(y), owners))[0], expected, atol=1e-5
        )


@given(st.integers(1, 4), st.integers(0, 99))
def test_several_negatives_of_a_pair_are_different_ones(count: int, seed: int) -> None:
    torch.manual_seed(seed)
    owners, matcher = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6]), Products()
    n = len(owners)
    x, y = torch.linspace(0.1, 1, n)[:, None], torch.linspace(-1, -0.05, n)[:, None]
    loss = PairMarginLoss(count=count)
    (value,) = loss.batch_losses(matcher, Batch(x, numbers(y), owners))
    assert len(matcher.asked) == n * (1 + 2 * count)
    drawn = matcher.asked[n:].view(2, n, count, 2).tolist()
    total = 0.0
    for i in range(n):
        own = float(x[i, 0] * y[i, 0])
        for negatives in (drawn[0][i], drawn[1][i]):
            assert len({tuple(pair) for pair in negatives}) == count
            hinges = [max(0.0, 0.5 - own + image * sentence) for image, sentence in negatives]
            total += sum(hinges)
    assert torch.isclose(value, torch.tensor(total / n), atol=1e-5)


class InnerProducts(Products):
    """Scores are inner products."""

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        self.asked = images
        return (images * sentences).sum(dim=1)


@pytest.mark.parametrize("mean_over", ["pairs", "active"])
@pytest.mark.parametrize("noise", [0.15, 2.0])
def test_far_pairs_are_left_out_without_changing_the_gradient(mean_over: MeanOver, noise: float) -> None:
    """Where all pairs are compared: few of 40 violate the margin with little noise, and many with much."""
    torch.manual_seed(0)
    matcher, owners = InnerProducts(), torch.arange(40) // 2
    matcher.asked = torch.empty(0)
    images = (1.3 * torch.eye(40)).add(noise * torch.randn(40, 40)).requires_grad_()
    vectors = (1.3 * torch.eye(40)).add(noise * torch.randn(40, 40)).requires_grad_()
    loss = PairMarginLoss(margin=0.5, count=39, mean_over=mean_over)
    whole = loss(images @ vectors.T, owners)
    (value,) = loss.batch_losses(matcher, Batch(images, numbers(vectors), owners))
    assert (40 < len(matcher.asked) < 400) if noise < 1 else not len(matcher.asked)
    assert value > 0
    torch.testing.assert_close(value, whole)
    for ours, theirs in zip(
        torch.autograd.grad(value, [images, vectors]),
        torch.autograd.grad(whole, [images, vectors]),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


class WithDropout(InnerProducts):
    """Half of each product is dropped in training."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = torch.nn.Dropout(0.5)

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        return self.dropout(images * sentences).sum(dim=1)

    def score_encoded(self, images: Tensor, sentences: Tensor) -> Tensor:
        return self.dropout(images[:, None] * sentences).sum(dim=2)


def test_dropout_does_not_decide_which_pairs_are_near_the_margin() -> None:
    torch.manual_seed(0)
    matcher = WithDropout().train()
    images, sentences = ((1.3 * torch.eye(40)).add(0.15 * torch.randn(40, 40)) for _ in range(2))
    scores = images @ sentences.T
    own = scores.diagonal()
    near = (own[:, None] - scores < 1.5 * 0.5) | (own - scores < 1.5 * 0.5) | torch.eye(40, dtype=torch.bool)
    first, second = (scores_near_margin(matcher, images, sentences, margin=0.5) for _ in range(2))
    for found in (first, second):
        assert torch.equal(found > -torch.inf, near)
    assert not torch.equal(first, second)  # each has masks of its own
    with pytest.raises(RuntimeError):
        scores_near_margin(matcher, images, sentences[:, :1].expand(40, 2), margin=0.5)
    assert matcher.training
    assert matcher.dropout.training
    matcher.dropout.eval()  # as a part that is fixed
    scores_near_margin(matcher, images, sentences, margin=0.5)
    assert not matcher.dropout.training
