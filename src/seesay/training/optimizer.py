"""Optimizers and the course of their rate, as a recipe names them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.optim import Optimizer

from seesay.recipes.schema import OptimizerSettings, ScheduleSettings


def new_optimizer(settings: OptimizerSettings, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """The optimizer that the recipe names, at its full rate."""
    if settings.kind == "sgd":
        return torch.optim.SGD(
            parameters, lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
        )
    kind = torch.optim.AdamW if settings.weight_decay else torch.optim.Adam
    return kind(parameters, lr=settings.lr, weight_decay=settings.weight_decay)


def rate_factor(schedule: ScheduleSettings, passed: float) -> float:
    """What the learning rate is multiplied by after that share of the epochs, 0 ≤ passed < 1."""
    if schedule.shape == "cosine":
        return 0.5 * (1 + math.cos(math.pi * passed))
    if schedule.shape == "step":
        return 0.1 if passed * schedule.epochs >= schedule.step_epoch else 1.0
    return 1.0
