"""Loss: the classes that a CNN in fine-tuning sees are kept."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.losses import Batch, Loss, register_loss
from seesay.matchers.projection import CLASSES
from seesay.settings import Positive


@register_loss("keep-classes")
class KeepClasses(Loss):
    """The divergence of a classifier's answers from those of the CNN before tuning, for each whole image.

    After Li and Hoiem, "Learning without Forgetting", ECCV 2016. Class evidence stays informative for images
    that are unlike those of the corpus.

    Args:
        weight: of the loss.
    """

    def __init__(self, weight: Positive = 3.0) -> None:
        super().__init__()
        self.weight = weight

    def begin(self, task: Any) -> None:
        """See `Loss`.

        Raises:
            SeesayError: the matcher does not read logits.
        """
        ends = np.cumsum([0, *task.image_dims])
        self._logits = [slice(a, b) for a, b in pairwise(ends.tolist()) if b - a == CLASSES]
        if not self._logits:
            raise SeesayError("keep-classes: logits are kept; set arrays: [pooled, logits].")
        self._before = task.data.features

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """See `Loss`."""
        del matcher
        assert batch.positions is not None
        before = torch.from_numpy(self._before[batch.positions[0]]).to(batch.images)
        moved = [
            functional.kl_div(
                functional.log_softmax(batch.images[:, logits], dim=1),
                functional.log_softmax(before[:, logits], dim=1),
                reduction="batchmean",
                log_target=True,
            )
            for logits in self._logits
        ]
        return [self.weight * torch.stack(moved).mean()]
