"""The training loop: epochs of mini-batches, measured on val; checkpoints; the best epoch is kept.

A loss with a closed form has no epochs: CCA is solved with each ridge of the recipe instead. Checkpoints are
safetensors, with everything that training needs to resume exactly.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.optim import Optimizer

from seesay.errors import SeesayError, first_line
from seesay.losses.pairs import CorrelationLoss
from seesay.matchers.cca import CCA, Covariances
from seesay.paths import replacing, unusable
from seesay.progress import progress
from seesay.recipes.schema import Recipe
from seesay.runs.config import WEIGHTS
from seesay.runs.run import Run
from seesay.runs.summary import Epoch, write_history
from seesay.training.epochs import OnEpochEnd, metrics_of
from seesay.training.steps import Steps
from seesay.training.task import Task

CHECKPOINT = "checkpoint.safetensors"


def has_epochs(folder: Path) -> bool:
    """Return whether a run's folder has weights or a checkpoint, which must not be overwritten."""
    return any((folder / file).is_file() for file in (WEIGHTS, CHECKPOINT))


class LoopState(BaseModel):
    """The state of a run besides its weights, stored as JSON in the checkpoint."""

    history: list[Epoch] = []
    best_epoch: int = 0
    best_metric: float = -1.0


class Loop:
    """Trains a run's matcher in place; `on_epoch_end` is called after each epoch.

    Attributes:
        view: the run that is measured: the given one, or one with the average of its weights.
    """

    def __init__(self, task: Task, run: Run, on_epoch_end: OnEpochEnd) -> None:
        self._on_epoch_end = on_epoch_end
        self.task, self.view, self.recipe, self.out = task, run, run.recipe, run.folder
        self.matcher, self.device = run.matcher, run.device
        self.steps = Steps(self.recipe, self.matcher)
        if self.steps.average is not None:
            module = self.steps.average.module
            self.view = Run.from_matcher(self.out, self.recipe, run.vocabulary, run.sentence_encoder, module)
        self.state = LoopState()
        self.best: dict[str, Tensor] = {}

    def restore(self) -> None:
        """Continue after the last epoch in the run's checkpoint.

        Raises:
            SeesayError: the file is damaged or of another recipe.
        """
        path, optimizer = self.out / CHECKPOINT, self.steps.optimizer
        try:
            with safe_open(path, "pt") as file:
                self.state = LoopState.model_validate_json(file.metadata()["state"])
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            self.matcher.load_state_dict(_under(tensors, "matcher."))
            optimizer.load_state_dict(_optimizer_state(tensors, optimizer))
            if self.steps.average is not None:
                self.steps.average.load_state_dict(_under(tensors, "average."))
            torch.set_rng_state(tensors["random"])
        except (SafetensorError, OSError, RuntimeError, ValueError, TypeError, KeyError) as failure:
            otherwise = f"cannot be resumed ({first_line(failure)}); train without resuming."
            raise unusable(path, failure, otherwise) from failure
        if self.device.startswith("cuda") and "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)
        self.best = _under(tensors, "best.")
        write_history(self.out, self.state.history)

    def _save(self) -> None:
        """Write weights, average, best weights so far, optimizer, random state and state to one file."""
        average = {} if self.steps.average is None else self.steps.average.state_dict()
        weights = {"matcher": self.matcher.state_dict(), "best": self.best, "average": average}
        for number, moments in self.steps.optimizer.state_dict()["state"].items():
            weights[f"optimizer.{number}"] = {key: torch.as_tensor(value) for key, value in moments.items()}
        tensors = {f"{kind}.{key}": each for kind, some in weights.items() for key, each in some.items()}
        tensors["random"] = torch.get_rng_state()
        if self.device.startswith("cuda"):
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        with replacing(self.out / CHECKPOINT) as beside:
            save_file(copied(tensors), beside, {"state": self.state.model_dump_json(exclude_none=True)})
        write_history(self.out, self.state.history)

    def run(self) -> tuple[dict[str, Tensor], list[Epoch]]:
        """Train until the schedule or the patience ends; return the best weights and every epoch."""
        patience = self.recipe.schedule.patience
        for epoch in range(len(self.state.history) + 1, self.recipe.schedule.epochs + 1):
            if patience is not None and len(self.state.history) - self.state.best_epoch >= patience:
                break
            self._epoch(epoch)
        return self.best, self.state.history

    def _epoch(self, epoch: int) -> None:
        """Train, measure and record an epoch."""
        start = time.monotonic()
        self.matcher.train()
        loss = self._learn(epoch)
        self.matcher.eval()
        measured = self.task.measure(self.view)
        metrics = self.task.metrics(self.view) or None
        if measured.monitor > self.state.best_metric:
            self.state.best_metric, self.state.best_epoch = measured.monitor, epoch
            self.best = copied(self.view.matcher.state_dict())
        seconds = round(time.monotonic() - start, 2)
        val = measured.to_dict()
        done = Epoch(epoch=epoch, loss=loss, seconds=seconds, val=val, metrics=metrics)
        self.state.history.append(done)
        self._save()
        self._on_epoch_end(epoch, metrics_of(done, measured, self.steps.optimizer.param_groups[0]["lr"]))

    def _learn(self, epoch: int) -> float:
        """Train for one epoch; return the mean loss."""
        schedule, on_cpu = self.recipe.schedule, torch.device(self.device).type == "cpu"
        batches = self.task.batches(epoch)
        if not len(batches):
            raise SeesayError(f"Recipe '{self.recipe.name}': the train split has nothing to tell apart.")
        # Summed on the device, because reading a number waits for the device.
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        with progress(f"{self.recipe.name} {epoch}/{schedule.epochs}", len(batches), "batches") as advance:
            for step, batch in enumerate(batches):
                losses = self.task.losses(self.matcher, batch, self.device)
                loss = torch.stack(losses).sum()
                if on_cpu:
                    self._check(loss.item())
                self.steps.take(loss, (epoch - 1 + step / len(batches)) / schedule.epochs)
                total += loss.detach() / len(losses)
                advance(1)
        mean = (total / len(batches)).item()
        self._check(mean)
        return mean

    def _check(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise SeesayError(f"{self.out}: the loss is {loss}; {steadier(self.recipe)}.")


def steadier(recipe: Recipe) -> str:
    """Say what a training whose loss is not finite can change."""
    rate, clip = recipe.optimizer.lr, recipe.optimizer.grad_clip
    ways = [f"lower optimizer.lr ({rate:g})"]
    ways.append("set optimizer.grad_clip=2" if clip is None else f"lower optimizer.grad_clip ({clip:g})")
    if getattr(recipe.matcher, "standardise", None) is False:
        ways.append("bring image features to one length by matcher.standardise=length")
    return f"{', '.join(ways[:-1])} or {ways[-1]}"


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies in CPU memory, which later optimizer steps do not change."""
    return {key: value.detach().cpu().clone() for key, value in tensors.items()}


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def _optimizer_state(tensors: Mapping[str, Tensor], optimizer: Optimizer) -> dict[str, Any]:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in _under(tensors, "optimizer.").items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    return {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}


def solve(task: Task, run: Run, on_epoch_end: OnEpochEnd) -> tuple[dict[str, Tensor], list[Epoch]]:
    """Fit CCA with each ridge of the recipe; return the best weights on val, and an epoch for each ridge.

    One pass over the pairs gathers the covariances; each ridge then costs a decomposition. The loss of an
    epoch is minus the sum of the correlations, and `on_epoch_end` is called after each.

    Raises:
        SeesayError: see `Covariances.add` and `solve_cca` in `seesay.matchers.cca`.
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
