"""Counting the steps of a training, and stopping it after one of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook


def cosine(rate: float, steps: int) -> list[float]:
    """The learning rates of a schedule of steps that falls along a cosine."""
    return [rate * (1 + math.cos(math.pi * step / steps)) / 2 for step in range(steps)]


@contextmanager
def counted_steps(last: int | None = None) -> Iterator[list[float]]:
    """Yield a list of the learning rates of all steps; raise KeyboardInterrupt after step `last`."""
    taken: list[float] = []

    def count(optimizer: Optimizer, *_: object) -> None:
        taken.append(optimizer.param_groups[0]["lr"])
        if len(taken) == last:
            raise KeyboardInterrupt

    hook = register_optimizer_step_post_hook(count)
    try:
        yield taken
    finally:
        hook.remove()
