"""SCO's loss of concepts against its eq. 1."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seesay.losses.likelihood import MultiLabelLoss

ROWS = st.lists(
    st.lists(st.tuples(st.floats(-20, 20), st.booleans()), min_size=3, max_size=3), min_size=1, max_size=5
)


@given(ROWS)
def test_the_loss_is_eq_1_with_signs_and_logits(rows: list[list[tuple[float, bool]]]) -> None:
    logits = torch.tensor([[z for z, _ in row] for row in rows], dtype=torch.float64)
    targets = torch.tensor([[y for _, y in row] for row in rows])
    one = [sum(math.log(1 + math.exp(-z if y else z)) for z, y in row) for row in rows]
    assert MultiLabelLoss()(logits, targets).item() == pytest.approx(sum(one) / len(one))


def test_targets_may_be_probabilities() -> None:
    logits, targets = torch.tensor([[3.0, -2.0, 0.5]]), torch.tensor([[0.5, 0.3, 0.9]])
    shares = torch.sigmoid(logits)
    expected = -(targets * shares.log() + (1 - targets) * (1 - shares).log()).sum()
    torch.testing.assert_close(MultiLabelLoss()(logits, targets), expected)


def test_the_loss_of_large_logits_is_finite() -> None:
    logits = torch.tensor([[1e4, -1e4], [-1e4, 1e4]], requires_grad=True)
    loss = MultiLabelLoss()(logits, torch.tensor([[True, False], [True, False]]))
    assert loss.item() == pytest.approx(1e4)
    loss.backward()
    assert torch.isfinite(logits.grad).all()  # type: ignore[arg-type]


def test_eq_1_as_printed_costs_the_same_for_an_absent_concept_at_any_score() -> None:
    """Why the loss departs from the print: log(1 + exp(-0 · score)) has no gradient."""
    score = torch.sigmoid(torch.tensor([-3.0, 0.0, 3.0], requires_grad=True))
    printed = torch.log(1 + torch.exp(-0 * score))
    np.testing.assert_allclose(printed.detach(), math.log(2), rtol=1e-6)
    (gradient,) = torch.autograd.grad(MultiLabelLoss()(score[None], torch.zeros(1, 3)), score)
    assert (gradient > 0).all()
