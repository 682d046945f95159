"""Layers that several matchers share: words that start from pretrained vectors, and image features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from seesay.matchers.layers import CommonLength, WordEmbedding, run_packed, standardised, unit_vectors
from seesay.matchers.sentences import Sentences


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


def test_words_without_pretrained_vectors_stay_random() -> None:
    embedding = WordEmbedding(3, 2)
    before = embedding.weight.detach().clone()
    embedding.start_from(torch.zeros(2, 5), torch.zeros(2, dtype=torch.bool), std=0.1)
    assert torch.equal(embedding.weight, before)


def test_power_normalisation_takes_signed_roots_before_it_standardises() -> None:
    features = torch.randn(60, 5, generator=torch.Generator().manual_seed(0)) ** 3
    roots = np.sign(features.numpy()) * np.sqrt(np.abs(features.numpy()))
    expected = (roots - roots.mean(axis=0)) / roots.std(axis=0)
    assert np.allclose(standardised(5, "power")(features).numpy(), expected, atol=1e-3)


@pytest.mark.parametrize("length", [10, 128, 150])
def test_features_of_any_length_become_16_long_by_one_constant(length: float) -> None:
    features = torch.randn(50, 40, generator=torch.Generator().manual_seed(1))
    features *= length / features.square().sum(dim=1).mean().sqrt()
    layer = standardised(40, "length")
    assert isinstance(layer, CommonLength)
    layer.measure(torch.split(features.half(), 7))
    scaled = layer(features)
    assert torch.allclose(scaled, features * 16 / length, rtol=1e-3)
    assert scaled.square().sum(dim=1).mean().sqrt() == pytest.approx(16, rel=1e-3)
    layer.measure([torch.zeros(3, 40)])
    assert layer(features) is not None
    assert torch.equal(layer(features), features)


def test_a_cnn_can_be_tuned_through_power_normalisation() -> None:
    features = torch.tensor([[0.0, 1.0], [0.0, -4.0], [3.0, 0.0]], requires_grad=True)
    torch.linalg.vector_norm(standardised(2, "power")(features) - 1).backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()


WIDTH, DIM = 5, 4


def made(lengths: list[int], starts: bool) -> tuple:
    """A layer, sentences of these lengths, their words' vectors and, if wanted, states to start from."""
    torch.manual_seed(0)
    layer = nn.LSTM(WIDTH, DIM).double()
    sentences = Sentences(
        torch.zeros(sum(lengths)).long(), torch.tensor(lengths), torch.zeros(len(lengths), 0)
    )
    vectors = torch.randn(sum(lengths), WIDTH, dtype=torch.float64, requires_grad=True)
    state = tuple(torch.randn(1, len(lengths), DIM, dtype=torch.float64, requires_grad=True) for _ in "hc")
    return layer, sentences, vectors, state if starts else None


def by_hand(layer: nn.LSTM, sentences: Sentences, vectors: Tensor, start) -> tuple[Tensor, Tensor]:
    """The states of one sentence after another, by PyTorch's layer without packing; the last ones."""
    states, last = [], []
    for i, words in enumerate(vectors.split(sentences.lengths.tolist())):
        mine = None if start is None else tuple(each[:, i] for each in start)
        found = layer(words, mine)[0]
        states.append(found)
        last.append(found[-1])
    packed = sentences.packed(torch.cat(states)).data
    return packed, torch.stack(last)


@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=6), starts=st.booleans())
@settings(max_examples=25)
def test_values_and_gradients_equal_those_of_pytorch(lengths: list[int], starts: bool) -> None:
    layer, sentences, vectors, start = made(lengths, starts)
    states, last = run_packed(layer, sentences.packed(vectors), start)
    wanted_states, wanted_last = by_hand(layer, sentences, vectors, start)
    torch.testing.assert_close(states, wanted_states)
    torch.testing.assert_close(last, wanted_last)
    learned = [vectors, *layer.parameters(), *(start or ())]
    weight = torch.randn_like(states), torch.randn_like(last)
    ours, theirs = (
        torch.autograd.grad((weight[0] * a).sum() + (weight[1] * b).sum(), learned)
        for a, b in ((states, last), (wanted_states, wanted_last))
    )
    for mine, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, wanted)


@pytest.mark.parametrize("starts", [False, True])
def test_without_gradients_the_layer_itself_runs(starts: bool) -> None:
    layer, sentences, vectors, start = made([3, 1, 4, 1], starts)
    packed = sentences.packed(vectors)
    seen: list[int] = []
    layer.register_forward_hook(lambda *_: seen.append(1))
    with torch.no_grad():
        plain = run_packed(layer, packed, start)
    assert seen == [1]
    for a, b in zip(plain, run_packed(layer, packed, start), strict=True):
        torch.testing.assert_close(a, b)
    assert seen == [1]


@pytest.mark.parametrize("dim", [1, 2])
def test_unit_vectors_are_the_normalised_ones(dim: int) -> None:
    vectors = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(unit_vectors(vectors, dim), functional.normalize(vectors, dim=dim))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_tiny_vectors_are_scaled_to_unit_length(dtype: torch.dtype) -> None:
    vectors = torch.tensor([[0.0, 0.0], [1e-7, 0.0], [3.0, 4.0]]).to(dtype).requires_grad_()
    unit = unit_vectors(vectors)
    unit.float().sum().backward()
    assert vectors.grad is not None
    assert unit.isfinite().all()
    assert vectors.grad.isfinite().all()
    assert unit[0].tolist() == [0, 0]
    assert unit[2].tolist() == pytest.approx([0.6, 0.8], abs=0.01)
