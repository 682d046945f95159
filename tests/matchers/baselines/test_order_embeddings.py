"""Order embeddings: the penalty against a loop, and what an order is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from seesay.matchers.baselines.vsepp import OrderEmbeddings
from seesay.matchers.sentences import Sentences
from seesay.runs.all_pairs import score_all_pairs


def vectors(seed: int, rows: int, width: int = 7) -> Tensor:
    drawn = torch.rand(rows, width, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(drawn, dim=1)


@pytest.fixture
def matcher() -> OrderEmbeddings:
    torch.manual_seed(0)
    return OrderEmbeddings(image_dim=4, vocabulary_size=20, dim=7, word_dim=5).eval()


@given(seed=st.integers(0, 10_000), n=st.integers(1, 6), m=st.integers(0, 9))
def test_scores_are_the_plain_loop(seed: int, n: int, m: int) -> None:
    matcher = OrderEmbeddings(image_dim=3, vocabulary_size=4, dim=7, word_dim=2)
    images, sentences = vectors(seed, n), vectors(seed + 1, m)
    scores = matcher.score_encoded(images, sentences)
    assert scores.shape == (n, m)
    for i, image in enumerate(images.double().numpy()):
        for j, sentence in enumerate(sentences.double().numpy()):
            penalty = sum(max(0.0, float(s - v)) ** 2 for s, v in zip(sentence, image, strict=True))
            assert float(scores[i, j]) == pytest.approx(-penalty, abs=1e-6)


@given(st.integers(0, 10_000))
def test_what_claims_nothing_beyond_the_image_costs_nothing(seed: int) -> None:
    matcher = OrderEmbeddings(image_dim=3, vocabulary_size=4, dim=7, word_dim=2)
    image = vectors(seed, 1)
    above, below = image * 1.1, image * 0.9
    assert float(matcher.score_pairs(image, below)) == 0
    assert float(matcher.score_pairs(image, above)) < 0  # so that the order has a direction


def test_gradients_are_those_of_finite_differences() -> None:
    images, sentences = (vectors(seed, 3).double().requires_grad_() for seed in (1, 2))

    def scores(x: Tensor, y: Tensor) -> Tensor:
        violated = torch.relu(y[None] - x[:, None])
        return -violated.square().sum(dim=2)

    assert torch.autograd.gradcheck(scores, (images, sentences))
    matcher = OrderEmbeddings(image_dim=3, vocabulary_size=4, dim=7, word_dim=2)
    weights = torch.rand(3, 3)
    got = torch.autograd.grad(
        (matcher.score_encoded(images.float(), sentences.float()) * weights).sum(), (images, sentences)
    )
    expected = torch.autograd.grad((scores(images, sentences) * weights).sum(), (images, sentences))
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)


def test_both_sides_are_unit_vectors_without_a_negative_component(matcher: OrderEmbeddings) -> None:
    sentences = Sentences(torch.tensor([3, 4, 5, 6]), torch.tensor([1, 3]), torch.zeros(2, 0))
    for encoded in (matcher.encode_images(torch.randn(5, 4)), matcher.encode_sentences(sentences)):
        assert (encoded >= 0).all()
        torch.testing.assert_close(encoded.norm(dim=1), torch.ones(len(encoded)))


def test_pairs_side_by_side_and_all_pairs_in_blocks_agree(matcher: OrderEmbeddings) -> None:
    images, sentences = vectors(3, 64, width=512), vectors(4, 70, width=512)  # so many that they are split
    whole = matcher.score_encoded(images, sentences)
    np.testing.assert_array_equal(score_all_pairs(matcher, images, sentences, block=16), whole)
    torch.testing.assert_close(matcher.score_pairs(images, sentences[:64]), whole.diagonal())
