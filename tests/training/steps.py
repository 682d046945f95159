"""Counting the steps of a training, and stopping it after one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.optim.optimizer import register_optimizer_step_post_hook


@contextmanager
def counted_steps(last: int | None = None) -> Iterator[list[None]]:
    """Yield a list that grows by an entry a step; raise KeyboardInterrupt after step `last`."""
    taken: list[None] = []

    def count(*_: object) -> None:
        taken.append(None)
        if len(taken) == last:
            raise KeyboardInterrupt

    hook = register_optimizer_step_post_hook(count)
    try:
        yield taken
    finally:
        hook.remove()
