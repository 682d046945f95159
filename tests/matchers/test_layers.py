"""Layers that several matchers share: words that start from pretrained vectors, and image features."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seesay.matchers.layers import WordEmbedding, standardised


def components(vectors: np.ndarray, count: int) -> np.ndarray:
    centred = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    return centred @ axes[:count].T


@pytest.mark.parametrize("width", [3, 8, 12])
def test_words_start_from_principal_components(width: int) -> None:
    drawn = torch.randn(40, 8, generator=torch.Generator().manual_seed(0)) * torch.arange(1, 9)
    known = torch.ones(40, dtype=torch.bool)
    known[[4, 7]] = False
    embedding = WordEmbedding(42, width)  # with a further row, as a decoder's has
    before = embedding.weight.detach().clone()
    embedding.start_from(drawn, known, std=0.3)
    after = embedding.weight.detach()
    kept = min(width, 8)
    expected = components(drawn[known].numpy(), kept)
    expected *= 0.3 / expected.std(ddof=1)
    found = after[1:41][known, :kept].numpy()
    assert np.allclose(np.abs(found), np.abs(expected), atol=1e-4)
    assert np.allclose(found @ found.T, expected @ expected.T, atol=1e-3)
    assert not after[0].any()
    assert torch.equal(after[[5, 8, 41]], before[[5, 8, 41]])
    assert torch.equal(after[1:, kept:], before[1:, kept:])


def test_nothing_known_changes_nothing() -> None:
    embedding = WordEmbedding(3, 2)
    before = embedding.weight.detach().clone()
    embedding.start_from(torch.zeros(2, 5), torch.zeros(2, dtype=torch.bool), std=0.1)
    assert torch.equal(embedding.weight, before)


def test_power_normalisation_takes_signed_square_roots_before_it_standardises() -> None:
    features = torch.randn(60, 5, generator=torch.Generator().manual_seed(0)) ** 3
    roots = np.sign(features.numpy()) * np.sqrt(np.abs(features.numpy()))
    expected = (roots - roots.mean(axis=0)) / roots.std(axis=0)
    assert np.allclose(standardised(5, "power")(features).numpy(), expected, atol=1e-3)


def test_a_cnn_can_be_tuned_through_power_normalisation() -> None:
    features = torch.tensor([[0.0, 1.0], [0.0, -4.0], [3.0, 0.0]], requires_grad=True)
    torch.linalg.vector_norm(standardised(2, "power")(features) - 1).backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()
