"""The base of the losses of this plug-in, whose mini-batches are drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from seesay.losses import Loss

_STREAM = 3  # of random numbers; the sampler and fine-tuning have others


class DrawnLoss(Loss):
    """A loss with random numbers of its own, which depend on seed, epoch and its place among the losses."""

    _place = 0

    def __init__(self) -> None:
        super().__init__()
        self.begin_epoch(0, 0)

    def begin(self, task: Any) -> None:
        """See `Loss`."""
        self._place = list(task.terms).index(self)

    def begin_epoch(self, seed: int, epoch: int) -> None:
        """See `Loss`."""
        self._draw = np.random.default_rng([seed, epoch, _STREAM, self._place])
