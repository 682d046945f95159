"""Optimizer steps: optimizer, learning-rate schedule, gradient clipping, averaged weights."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.swa_utils import PARAM_LIST, AveragedModel

from seesay.recipes.schema import OptimizerSettings, Recipe, ScheduleSettings

_EARLY = 10  # steps after which the initial weights hardly contribute to an average


def new_optimizer(settings: OptimizerSettings, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Return the optimizer that a recipe names, at its full learning rate."""
    if settings.kind == "sgd":
        return torch.optim.SGD(
            parameters, lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
        )
    kind = torch.optim.AdamW if settings.weight_decay else torch.optim.Adam
    return kind(parameters, lr=settings.lr, weight_decay=settings.weight_decay)


class Steps:
    """The steps of a recipe's optimizer on the weights of a module.

    Attributes:
        optimizer: of all of the module's weights.
        average: the moving average of its weights, if the recipe asks for one.
    """

    def __init__(self, recipe: Recipe, module: nn.Module) -> None:
        self._recipe, self._module = recipe, module
        self.optimizer = new_optimizer(recipe.optimizer, module.parameters())
        share = recipe.schedule.average
        self.average = averaged(module, share) if share is not None else None

    def take(self, loss: Tensor, progress: float) -> None:
        """Take a step for a loss; `progress` is the share of the epochs that is over, 0 ≤ progress < 1."""
        for group in self.optimizer.param_groups:
            group["lr"] = self._recipe.optimizer.lr * lr_factor(self._recipe.schedule, progress)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if self._recipe.optimizer.grad_clip is not None:
            nn.utils.clip_grad_norm_(self._module.parameters(), self._recipe.optimizer.grad_clip)
        self.optimizer.step()
        if self.average is not None:
            self.average.update_parameters(self._module)


def lr_factor(schedule: ScheduleSettings, progress: float) -> float:
    """Return the learning rate's factor after that share of the epochs, 0 ≤ progress < 1."""
    if schedule.shape == "cosine":
        return 0.5 * (1 + math.cos(math.pi * progress))
    if schedule.shape == "step":
        return 0.1 if progress * schedule.epochs + 1e-9 >= schedule.step_epoch else 1.0
    return 1.0


def averaged(module: nn.Module, share: float) -> AveragedModel:
    """Return a copy of a module for an exponential moving average of its weights, with the decay `share`.

    At step t the decay is at most (1 + t) / (10 + t), so that the average spans about a ninth of the steps so
    far and soon no longer depends on the initial weights. Batch statistics are averages already and are not
    averaged.
    """

    def fill(averages: PARAM_LIST, weights: PARAM_LIST, count: Tensor | int) -> None:
        del count  # on the weights' device, which reading it would wait for
        step = int(average.n_averaged) - 1
        torch._foreach_lerp_(averages, weights, 1 - min(share, (1 + step) / (_EARLY + step)))

    average = AveragedModel(module, multi_avg_fn=fill)
    average.update_parameters(module)  # the initial weights count, too
    return average
