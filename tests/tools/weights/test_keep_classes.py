"""The classes that a CNN sees are kept: the penalty is zero before tuning, and grows with every change."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from seesay.errors import SeesayError
from seesay.losses import Batch
from seesay_weights.keep_classes import KeepClasses

WIDTHS = (4, 1000, 6, 1000)


def features(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, sum(WIDTHS))).astype(np.float32)


def test_the_penalty_is_the_mean_divergence_of_the_classifiers() -> None:
    before = features(5)
    loss = KeepClasses(weight=2.0)
    loss.begin(SimpleNamespace(image_dims=WIDTHS, data=SimpleNamespace(features=before)))
    images = np.array([3, 0])
    batch = Batch(
        torch.from_numpy(before[images]), None, torch.from_numpy(images), positions=(images, images)
    )
    assert loss.batch_losses(None, batch)[0].item() == pytest.approx(0, abs=1e-6)
    batch.images[:, :4] += 1  # pooled features may change
    assert loss.batch_losses(None, batch)[0].item() == pytest.approx(0, abs=1e-6)
    batch.images[:, 4] += 3.0
    p, q = (torch.from_numpy(before[images, 4:1004]).softmax(1), batch.images[:, 4:1004].softmax(1))
    wanted = (p * (p / q).log()).sum(dim=1).mean()  # the second classifier adds nothing
    torch.testing.assert_close(loss.batch_losses(None, batch)[0], 2.0 * wanted / 2)


def test_there_must_be_logits() -> None:
    task = SimpleNamespace(image_dims=(4,), data=SimpleNamespace(features=features(1)))
    with pytest.raises(SeesayError, match="logits"):
        KeepClasses().begin(task)
