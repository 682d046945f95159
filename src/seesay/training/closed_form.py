"""Recipes whose loss has a closed form: CCA, with its ridge chosen on val."""

from __future__ import annotations

import time
from typing import Any

from torch import Tensor

from seesay.losses.correlation import CorrelationLoss
from seesay.matchers.cca import CCA, Covariances
from seesay.progress import progress
from seesay.runs.run import Run
from seesay.training.metrics import METRICS, write_metrics
from seesay.training.task import Task


def solve(task: Task, run: Run) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """The weights with the best val measure, and a row for each ridge; in a row `loss` is -Σ correlations.

    One pass over the pairs gathers the covariances; each ridge then costs a decomposition.

    Raises:
        SeesayError: see `solve_cca`.
    """
    matcher, settled = run.matcher, run.recipe.loss.build()
    assert isinstance(matcher, CCA)
    assert isinstance(settled, CorrelationLoss)
    covariances = Covariances()
    for features, sentences in task.pairs():
        covariances.add(features.to(run.device), sentences.vectors.to(run.device))
    history: list[dict[str, Any]] = []
    best: dict[str, Tensor] = {}
    ridges = settled.ridges
    with progress("Ridges", len(ridges), "ridges") as advance:
        for number, ridge in enumerate(ridges, start=1):
            start = time.monotonic()
            matcher.solve(covariances, ridge)
            measured = task.measure(run)
            if not history or measured[task.monitor] > max(row["val"][task.monitor] for row in history):
                best = {key: value.detach().cpu().clone() for key, value in matcher.state_dict().items()}
            loss = float(settled(matcher.get_buffer("correlations")))
            seconds = round(time.monotonic() - start, 2)
            history.append(
                {"epoch": number, "ridge": ridge, "loss": loss, "seconds": seconds, "val": measured}
            )
            write_metrics(run.folder / METRICS, history)
            advance(1)
    return best, history
