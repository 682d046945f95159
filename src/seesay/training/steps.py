"""Optimizer steps: optimizer, learning-rate schedule, gradient clipping, averaged weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

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
        self.average = AveragedWeights(module, share) if share is not None else None

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
            self.average.update()


def lr_factor(schedule: ScheduleSettings, progress: float) -> float:
    """Return the learning rate's factor after that share of the epochs, 0 ≤ progress < 1."""
    if schedule.shape == "cosine":
        return 0.5 * (1 + math.cos(math.pi * progress))
    if schedule.shape == "step":
        return 0.1 if progress * schedule.epochs + 1e-9 >= schedule.step_epoch else 1.0
    return 1.0


class AveragedWeights:
    """An exponential moving average of the weights, with the decay `share`.

    At step t the decay is at most (1 + t) / (10 + t), so that the average spans about a ninth of the steps so
    far and soon no longer depends on the initial weights. Batch statistics are averages already and are not
    averaged.

    Attributes:
        weights: the average of each parameter by name.
    """

    def __init__(self, matcher: nn.Module, share: float) -> None:
        self._share, self._steps = share, 0
        self._parameters = dict(matcher.named_parameters())
        self.weights = {name: each.detach().clone() for name, each in self._parameters.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Update the average after a step."""
        taken = 1 - min(self._share, (1 + self._steps) / (_EARLY + self._steps))
        self._steps += 1
        torch._foreach_lerp_(list(self.weights.values()), list(self._parameters.values()), taken)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Use the averaged weights temporarily."""
        own = {name: each.detach().clone() for name, each in self._parameters.items()}
        self._fill(self.weights)
        try:
            yield
        finally:
            self._fill(own)

    def keep(self) -> None:
        """Use the averaged weights from now on."""
        self._fill(self.weights)

    def restore(self, weights: Mapping[str, Tensor], steps: int) -> None:
        """Continue from averaged weights after that many steps."""
        self._steps = steps
        for name, each in self.weights.items():
            each.copy_(weights[name])

    @torch.no_grad()
    def _fill(self, weights: Mapping[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(weights[name])
