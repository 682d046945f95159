"""The loop: epochs of mini-batches, a measure on val after each, a checkpoint, the best epoch kept."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seesay.errors import SeesayError
from seesay.progress import progress
from seesay.runs.run import Run
from seesay.training import checkpoint
from seesay.training.metrics import METRICS, write_metrics
from seesay.training.optimizer import new_optimizer, rate_factor
from seesay.training.task import Task


@dataclass
class State:
    """What a resumed run must know besides weights: plain values, kept as JSON in the checkpoint."""

    history: list[dict[str, Any]]
    best_epoch: int = 0
    best_measure: float = -1.0


class Loop:
    """Trains a run's matcher in place."""

    def __init__(self, task: Task, run: Run) -> None:
        self.task, self.view, self.recipe, self.out = task, run, run.recipe, run.folder
        self.matcher, self.device = run.matcher, run.device
        self.loss = self.recipe.loss.build()
        self.optimizer = new_optimizer(self.recipe.optimizer, self.matcher.parameters())
        self.state = State([])
        self.best: dict[str, Tensor] = {}

    def restore(self) -> None:
        """Go on behind the last epoch that a checkpoint in the run's folder holds."""
        _, self.best, state = checkpoint.load_checkpoint(self.out, self.matcher, self.optimizer)
        self.state = State(**state)
        write_metrics(self.out / METRICS, self.state.history)

    def run(self) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
        """Epochs until the schedule or the patience ends: the best weights, and every epoch's row."""
        for epoch in range(len(self.state.history) + 1, self.recipe.schedule.epochs + 1):
            if self._patience_spent():
                break
            self._epoch(epoch)
        return self.best, self.state.history

    def _epoch(self, epoch: int) -> None:
        start = time.monotonic()
        loss = self._learn(epoch)
        measured = self.task.measure(self.view)
        if measured[self.task.monitor] > self.state.best_measure:
            self.state.best_measure, self.state.best_epoch = measured[self.task.monitor], epoch
            state = self.matcher.state_dict()
            self.best = {key: value.detach().cpu().clone() for key, value in state.items()}
        row = {
            "epoch": epoch,
            "loss": loss,
            "seconds": round(time.monotonic() - start, 2),
            "val": measured,
        }
        self.state.history.append(row)
        checkpoint.save_checkpoint(self.out, epoch, self.matcher, self.optimizer, self.best, vars(self.state))
        write_metrics(self.out / METRICS, self.state.history)

    def _learn(self, epoch: int) -> float:
        schedule = self.recipe.schedule
        batches = self.task.batches(epoch)
        self.matcher.train()
        total = 0.0
        with progress(f"{self.recipe.name} {epoch}/{schedule.epochs}", len(batches), "batches") as advance:
            for step, batch in enumerate(batches):
                self._set_rate(rate_factor(schedule, (epoch - 1 + step / len(batches)) / schedule.epochs))
                total += self._step(batch)
                advance(1)
        self.matcher.eval()
        return total / max(len(batches), 1)

    def _step(self, batch: Any) -> float:
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            losses = self.task.losses(self.loss, self.matcher, batch, self.device)
        loss = torch.stack(losses).sum()
        if not torch.isfinite(loss):
            raise SeesayError(f"{self.out}: the loss is {loss.item()}; lower optimizer.lr or clip.")
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if self.recipe.optimizer.grad_clip is not None:
            torch.nn.utils.clip_grad_norm_(self.matcher.parameters(), self.recipe.optimizer.grad_clip)
        self.optimizer.step()
        return loss.item() / len(losses)

    def _set_rate(self, factor: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.optimizer.lr * factor

    def _patience_spent(self) -> bool:
        patience = self.recipe.schedule.patience
        return patience is not None and len(self.state.history) - self.state.best_epoch >= patience
