"""An exponential moving average of a matcher's weights, as it is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_EARLY = 10


class AveragedWeights:
    """After each step the average keeps `share` of itself and takes the rest from the weights.

    After step t it keeps at most (1 + t) / (10 + t), so that it spans about a ninth of the steps so far: the
    random weights of the start are soon forgotten, also where a training has a few hundred steps. Statistics
    of batches are averages already and stay as they are.

    Attributes:
        weights: the average of each parameter by name.
    """

    def __init__(self, matcher: nn.Module, share: float) -> None:
        self._share, self._steps = share, 0
        self._parameters = dict(matcher.named_parameters())
        self.weights = {name: each.detach().clone() for name, each in self._parameters.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights as a step has left them."""
        taken = 1 - min(self._share, (1 + self._steps) / (_EARLY + self._steps))
        self._steps += 1
        torch._foreach_lerp_(list(self.weights.values()), list(self._parameters.values()), taken)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the matcher have the averaged weights for a while."""
        own = {name: each.detach().clone() for name, each in self._parameters.items()}
        self._fill(self.weights)
        try:
            yield
        finally:
            self._fill(own)

    def keep(self) -> None:
        """Let the matcher have the averaged weights from now on."""
        self._fill(self.weights)

    def restore(self, weights: Mapping[str, Tensor], steps: int) -> None:
        """Continue from averaged weights of so many steps."""
        self._steps = steps
        for name, each in self.weights.items():
            each.copy_(weights[name])

    @torch.no_grad()
    def _fill(self, weights: Mapping[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(weights[name])
