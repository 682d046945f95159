"""Optimizers, learning rates and clipped gradients."""

from __future__ import annotations

import pytest
import torch

from seesay.recipes.schema import OptimizerSettings, ScheduleSettings
from seesay.training.steps import clip_gradients, lr_factor, new_optimizer


def test_learning_rates() -> None:
    cosine = ScheduleSettings(epochs=10, shape="cosine")
    assert lr_factor(cosine, 0.0) == 1.0
    assert lr_factor(cosine, 0.5) == pytest.approx(0.5)
    step = ScheduleSettings(epochs=10, shape="step", step_epoch=5)
    assert [lr_factor(step, p) for p in (0.0, 0.49, 0.5, 0.9)] == [1.0, 1.0, 0.1, 0.1]
    assert lr_factor(ScheduleSettings(), 0.9) == 1.0


def test_sgd_steps_along_the_gradient() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = new_optimizer(OptimizerSettings(kind="sgd", lr=0.1), [weight])
    for _ in range(2):
        optimizer.zero_grad()
        weight.square().sum().backward()
        optimizer.step()
    assert torch.allclose(weight, torch.tensor([1.0, -2.0]) * 0.8**2)


@pytest.mark.parametrize(("clip", "clipped"), [("norm", (1.2, -1.6)), ("value", (2.0, -2.0))])
def test_gradients_are_clipped_by_norm_or_number_by_number(clip: str, clipped: tuple[float, float]) -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, -4.0])
    clip_gradients(OptimizerSettings(grad_clip=2.0, clip=clip), [weight])
    assert torch.allclose(weight.grad, torch.tensor(clipped), atol=1e-4)
    clip_gradients(OptimizerSettings(), [weight])
    assert torch.allclose(weight.grad, torch.tensor(clipped), atol=1e-4)
