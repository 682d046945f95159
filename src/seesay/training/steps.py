"""The steps of an optimizer: its kind, its rate over the epochs, and clipped gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from seesay.recipes.schema import OptimizerSettings, Recipe, ScheduleSettings


def new_optimizer(settings: OptimizerSettings, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Return the optimizer that a recipe names, at its full learning rate."""
    if settings.kind == "sgd":
        return torch.optim.SGD(
            parameters, lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
        )
    kind = torch.optim.AdamW if settings.weight_decay else torch.optim.Adam
    return kind(parameters, lr=settings.lr, weight_decay=settings.weight_decay)


def set_rate(optimizer: Optimizer, recipe: Recipe, progress: float) -> None:
    """Set the learning rate that a recipe has after that share of its epochs, 0 ≤ progress < 1."""
    for group in optimizer.param_groups:
        group["lr"] = recipe.optimizer.lr * lr_factor(recipe.schedule, progress)


def take_step(optimizer: Optimizer, loss: Tensor, module: nn.Module, settings: OptimizerSettings) -> None:
    """Take a step down the gradients of a module's loss, clipped as a recipe says."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    clip_gradients(settings, module.parameters())
    optimizer.step()


def clip_gradients(settings: OptimizerSettings, parameters: Iterable[nn.Parameter]) -> None:
    """Clip gradients in place as a recipe says, by their norm or each number by itself."""
    if settings.grad_clip is None:
        return
    if settings.clip == "value":
        nn.utils.clip_grad_value_(parameters, settings.grad_clip)
    else:
        nn.utils.clip_grad_norm_(parameters, settings.grad_clip)


def lr_factor(schedule: ScheduleSettings, progress: float) -> float:
    """Return the factor of the learning rate after that share of the epochs, 0 ≤ progress < 1."""
    if schedule.shape == "cosine":
        return 0.5 * (1 + math.cos(math.pi * progress))
    if schedule.shape == "step":
        return 0.1 if progress * schedule.epochs >= schedule.step_epoch else 1.0
    return 1.0
