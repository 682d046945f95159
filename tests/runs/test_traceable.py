"""What stands in for functions that ONNX lacks gives what they give."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from seesay.runs.traceable import Traceable

some_lengths = st.lists(st.integers(1, 5), min_size=1, max_size=6)
ROWS, WIDTH = 7, 3


def both(function, *args, **options):
    """What a function gives, and what stands in for it."""
    with Traceable():
        traceable = function(*args, **options)
    return traceable, function(*args, **options)


@given(some_lengths)
@settings(deadline=None)
def test_repeats(lengths: list[int]) -> None:
    values = torch.rand(len(lengths), WIDTH)
    repeats = torch.tensor(lengths)
    torch.testing.assert_close(*both(torch.repeat_interleave, values[:, 0], repeats), rtol=0, atol=0)
    torch.testing.assert_close(*both(torch.repeat_interleave, values, repeats, dim=0), rtol=0, atol=0)
    torch.testing.assert_close(*both(torch.repeat_interleave, values, 2, dim=1), rtol=0, atol=0)
    torch.testing.assert_close(*both(Tensor.repeat_interleave, values, repeats, 0), rtol=0, atol=0)


@pytest.mark.parametrize("reduce", ["max", "min", "sum", "mean"])
@given(some_lengths)
@settings(deadline=None)
def test_reductions_of_segments(reduce: str, lengths: list[int]) -> None:
    for shape in ((sum(lengths),), (sum(lengths), WIDTH)):
        values = torch.randn(*shape)
        found = both(torch.segment_reduce, values, reduce, lengths=torch.tensor(lengths), axis=0)
        torch.testing.assert_close(*found)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@given(some_lengths)
@settings(deadline=None)
def test_bags_of_any_length(mode: str, lengths: list[int]) -> None:
    weight, count = torch.randn(ROWS, WIDTH), torch.tensor(lengths)
    rows = torch.randint(ROWS, (sum(lengths),))
    found = both(functional.embedding_bag, rows, weight, count.cumsum(0) - count, mode=mode)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_one_length(mode: str, padding: int | None) -> None:
    weight, rows = torch.randn(ROWS, WIDTH), torch.tensor([[2, 2, 2], [0, 2, 4], [5, 5, 1]])
    torch.testing.assert_close(*both(functional.embedding_bag, rows, weight, mode=mode, padding_idx=padding))


def test_a_layer_of_bags_and_everything_else() -> None:
    bags = torch.nn.EmbeddingBag(ROWS, WIDTH)
    torch.testing.assert_close(*both(bags, torch.tensor([1, 2, 3]), torch.tensor([0, 1])))
    torch.testing.assert_close(*both(torch.add, torch.ones(2), 1))
