"""Optimizers, learning rates and clipped gradients."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from seesay.data.corpus import Corpus
from seesay.recipes.load import load_recipe
from seesay.recipes.schema import OptimizerSettings, ScheduleSettings
from seesay.training.loop import Callback, Steps, averaged, lr_factor, new_optimizer
from seesay.training.train import train


def test_learning_rates() -> None:
    cosine = ScheduleSettings(epochs=10, shape="cosine")
    assert lr_factor(cosine, 0.0) == 1.0
    assert lr_factor(cosine, 0.5) == pytest.approx(0.5)
    step = ScheduleSettings(epochs=10, shape="step", step_epoch=5)
    assert [lr_factor(step, p) for p in (0.0, 0.49, 0.5, 0.9)] == [1.0, 1.0, 0.1, 0.1]
    assert lr_factor(ScheduleSettings(), 0.9) == 1.0


def test_sgd_steps_along_the_gradient() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = new_optimizer(OptimizerSettings(kind="sgd", lr=0.1), [weight])
    for _ in range(2):
        optimizer.zero_grad()
        weight.square().sum().backward()
        optimizer.step()
    assert torch.allclose(weight, torch.tensor([1.0, -2.0]) * 0.8**2)


def test_gradients_are_clipped_by_their_norm() -> None:
    layer = nn.Linear(2, 1, bias=False)
    for clip, length in (("2", 2.0), ("null", 5.0)):
        change = f"optimizer={{kind: sgd, lr: 1, grad_clip: {clip}}}"
        nn.init.zeros_(layer.weight)
        Steps(load_recipe("vse++", changes=[change]), layer).take(layer(torch.tensor([3.0, -4.0])).sum(), 0)
        assert torch.allclose(layer.weight, torch.tensor([[-0.6, 0.8]]) * length, atol=1e-4)


SMALL = ("encoders=[efficientnet-lite0]", "matcher.dim=24", "matcher.word_dim=8", "batch_size=64")


def test_an_average_forgets_the_first_weights_fast() -> None:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 100.0)
    average = averaged(layer, 0.3)
    values, expected = [3.0, 1.0, 8.0, 2.0, 6.0, 4.0], 100.0
    for step, value in enumerate(values):
        nn.init.constant_(layer.weight, value)
        average.update_parameters(layer)
        kept = min(0.3, (1 + step) / (10 + step))
        expected = kept * expected + (1 - kept) * value
    assert average.module.weight.item() == pytest.approx(expected)
    assert expected == pytest.approx(4.3, abs=1)


def test_training_keeps_the_average_and_resumes_with_it(corpus: Corpus, tmp_path: Path) -> None:
    changes = [*SMALL, "schedule={epochs: 4, average: 0.9}"]
    whole = train(load_recipe("irmatch-s", changes=changes), corpus, tmp_path / "whole")
    plain = train(
        load_recipe("irmatch-s", changes=[*SMALL, "schedule={epochs: 4}"]), corpus, tmp_path / "plain"
    )
    name = "image_map.weight"
    assert not torch.equal(whole.matcher.state_dict()[name], plain.matcher.state_dict()[name])
    stopped = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        train(load_recipe("irmatch-s", changes=changes), corpus, stopped, callbacks=[_StopsAfterTwo()])
    resumed = train(load_recipe("irmatch-s", changes=changes), corpus, stopped, resume=True)
    for name, weights in whole.matcher.state_dict().items():
        assert torch.equal(resumed.matcher.state_dict()[name], weights)


class _StopsAfterTwo(Callback):
    def on_epoch_end(self, epoch, metrics) -> None:  # type: ignore[no-untyped-def]
        if epoch == 2:
            raise KeyboardInterrupt
