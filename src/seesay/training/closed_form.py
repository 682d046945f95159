"""Recipes whose loss has a closed form: CCA, with its ridge chosen on the val split."""

from __future__ import annotations

import time

from torch import Tensor

from seesay.losses.correlation import CorrelationLoss
from seesay.matchers.baselines.cca import CCA, Covariances
from seesay.progress import progress
from seesay.runs.run import Run
from seesay.training.callbacks import OnEpochEnd
from seesay.training.checkpoint import copied
from seesay.training.history import Epoch, metrics_of, write_history
from seesay.training.task import Task


def solve(task: Task, run: Run, on_epoch_end: OnEpochEnd) -> tuple[dict[str, Tensor], list[Epoch]]:
    """Fit CCA with each ridge of the recipe; return the best weights on val, and an epoch for each ridge.

    One pass over the pairs gathers the covariances; each ridge then costs a decomposition. The loss of an
    epoch is minus the sum of the correlations, and `on_epoch_end` is called after each.

    Raises:
        SeesayError: see `seesay.matchers.baselines.cca.solve_cca`.
    """
    matcher, loss = run.matcher, run.recipe.loss.build()
    assert isinstance(matcher, CCA)
    assert isinstance(loss, CorrelationLoss)
    covariances = Covariances()
    for features, sentences in task.pairs():
        covariances.add(features.to(run.device), sentences.vectors.to(run.device))
    history: list[Epoch] = []
    best: dict[str, Tensor] = {}
    highest = float("-inf")
    with progress("Ridges", len(loss.ridges), "ridges") as advance:
        for number, ridge in enumerate(loss.ridges, start=1):
            start = time.monotonic()
            matcher.solve(covariances, ridge)
            measured = task.measure(run)
            if measured.monitor > highest:
                highest = measured.monitor
                best = copied(matcher.state_dict())
            value = float(loss(matcher.get_buffer("correlations")))
            seconds = round(time.monotonic() - start, 2)
            epoch = Epoch(epoch=number, ridge=ridge, loss=value, seconds=seconds, val=measured.to_dict())
            history.append(epoch)
            write_history(run.folder, history)
            on_epoch_end(number, metrics_of(epoch, measured))
            advance(1)
    return best, history
