"""Calibration of GVSE's gates: how far a gate is followed, and around which weight.

A gate learns to tell queries, not to match them: how sure it is of uncommon content says nothing of how
much better the metric for that is. So its logit f becomes a·f + b, with the a and b by which val is retrieved
best. Every a is positive: which query's t is the larger stays as learned.
"""

from __future__ import annotations

from itertools import product
from statistics import fmean

import numpy as np
import torch
from numpy.typing import NDArray

from seesay.matchers.fusion import Gate
from seesay.metrics.ranks import ranks
from seesay.metrics.recall import DirectionMetrics

SCALES = (1.0, 0.5, 0.25, 0.125)
SHIFTS = (0.0, -0.5, 0.5, -1.0, 1.0)

Matrix = NDArray[np.float32]


def calibrate(
    gate: Gate, logits: Matrix, metrics: tuple[Matrix, Matrix], owners: NDArray[np.int64], side: str
) -> dict[str, float]:
    """Scale and shift a gate in place by val; of equals the first in SCALES and SHIFTS is taken.

    Args:
        gate: of that side.
        logits: f of val's queries, (n,) images or (m,) sentences.
        metrics: m₀ and m₁ of eq. 4, (n, m) each.
        owners: (m,), for each sentence the row of its image.
        side: "image" or "sentence", which asks.

    Returns:
        `scale`, `shift` and `recall`: the mean of R@1, R@5 and R@10 with them, in percent.
    """
    recall, (scale, shift) = max(
        ((_recall(a * logits + b, metrics, owners, side), (a, b)) for a, b in product(SCALES, SHIFTS)),
        key=lambda found: found[0],
    )
    with torch.no_grad():
        gate.score.weight.mul_(scale)
        gate.score.bias.mul_(scale).add_(shift)
    return {"scale": scale, "shift": shift, "recall": round(recall, 3)}


def _recall(logits: Matrix, metrics: tuple[Matrix, Matrix], owners: NDArray[np.int64], side: str) -> float:
    t = 1 / (1 + np.exp(-logits))
    t = t[:, None] if side == "image" else t[None, :]
    uncommon, common = metrics
    found = ranks(t * uncommon + (1 - t) * common, owners)
    asked = DirectionMetrics.from_ranks(found.sentence if side == "image" else found.image)
    return fmean((asked.r1, asked.r5, asked.r10))
