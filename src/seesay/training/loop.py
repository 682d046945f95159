"""The training loop: epochs of mini-batches, measured on val, and callbacks that follow them; checkpoints.

A loss with a closed form has no epochs: CCA is solved with each ridge of the recipe instead. Checkpoints are
safetensors, with everything that training needs to resume exactly.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, JsonValue
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.swa_utils import PARAM_LIST, AveragedModel

from seesay.errors import NanError, SeesayError, first_line
from seesay.losses.likelihood import CorrelationLoss
from seesay.matchers.cca import CCA, Covariances
from seesay.paths import replacing, unusable
from seesay.progress import progress
from seesay.protocols.base import Result
from seesay.recipes.schema import OptimizerSettings, Recipe, ScheduleSettings
from seesay.runs.folder import WEIGHTS
from seesay.runs.run import Run
from seesay.runs.summary import Epoch, write_history
from seesay.training.task import Task

CHECKPOINT = "checkpoint.safetensors"
_EARLY = 10  # steps after which the initial weights hardly contribute to an average

OnEpochEnd = Callable[[int, Mapping[str, float]], None]  # called with an epoch and its metrics


def epoch_metrics(epoch: Epoch, measured: Result, lr: float | None = None) -> dict[str, float]:
    """Return an epoch's metrics as callbacks receive them; the names of val metrics begin with `val/`."""
    own = epoch.model_dump(include={"loss", "seconds", "ridge"}) | {"lr": lr}
    val = {f"val/{column}": value for column, value in measured.shown.items()}
    found = own | (epoch.metrics or {}) | val
    return {name: value for name, value in found.items() if value is not None}


class Callback:
    """Base class of callbacks; override the methods that you need.

    A composed recipe trains its members one after the other, each with its own start and end. Later steps,
    such as gates, also have their own start and end.

    Example:
        >>> import tempfile, seesay
        >>> from PIL import Image
        >>> class Printed(seesay.Callback):
        ...     def on_epoch_end(self, epoch, metrics):
        ...         print(epoch, sorted(metrics)[:3])
        >>> squares = [Image.new("RGB", (64, 64), f"hsl({12 * n}, 90%, 50%)") for n in range(30)]
        >>> corpus = seesay.corpus_of([(image, "a coloured square", None) for image in squares])
        >>> run = seesay.train("irmatch-s", corpus, out=f"{tempfile.mkdtemp()}/run", epochs=1,
        ...     encoders=["efficientnet-lite0"], matcher={"dim": 24}, callbacks=[Printed()])
        1 ['loss', 'lr', 'seconds']
    """

    def on_train_start(self, name: str, folder: Path, recipe: Mapping[str, JsonValue]) -> None:
        """Run when training starts; `recipe` holds the resolved recipe as JSON-ready values."""

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Run after each epoch, counted from 1.

        `metrics` are `loss`, `seconds`, `lr` (for CCA `ridge`), the matcher's own metrics, if any, and those
        of val, such as `val/mR` and `val/S R@1`. The gates of a fusion have `image gate/loss`, `image
        gate/val loss` and the same for the sentence gate, whose epochs are counted on.
        """

    def on_train_end(self) -> None:
        """Run when training ends, even after an error or an interruption."""


@contextmanager
def running(
    callbacks: Sequence[Callback], name: str, folder: Path, recipe: Mapping[str, JsonValue]
) -> Iterator[OnEpochEnd]:
    """Start the callbacks and always end them; yield the function to call after each epoch."""
    with ExitStack() as ends:
        for callback in callbacks:
            callback.on_train_start(name, folder, recipe)
            ends.callback(callback.on_train_end)

        def on_epoch_end(epoch: int, metrics: Mapping[str, float]) -> None:
            for callback in callbacks:
                callback.on_epoch_end(epoch, metrics)

        yield on_epoch_end


def new_optimizer(settings: OptimizerSettings, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Return the optimizer that a recipe names, at its full learning rate."""
    if settings.kind == "sgd":
        return torch.optim.SGD(
            parameters, lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
        )
    kind = torch.optim.AdamW if settings.weight_decay else torch.optim.Adam
    return kind(parameters, lr=settings.lr, weight_decay=settings.weight_decay)


class Steps:
    """The steps of a recipe's optimizer on the weights of a module.

    Attributes:
        optimizer: of all of the module's weights.
        average: the moving average of its weights, if the recipe asks for one.
    """

    def __init__(self, recipe: Recipe, module: nn.Module) -> None:
        self._recipe, self._module = recipe, module
        self.optimizer = new_optimizer(recipe.optimizer, module.parameters())
        share = recipe.schedule.average
        self.average = averaged(module, share) if share is not None else None

    def take(self, loss: Tensor, progress: float) -> None:
        """Take a step for a loss; `progress` is the share of the epochs that is over, 0 ≤ progress < 1."""
        for group in self.optimizer.param_groups:
            group["lr"] = self._recipe.optimizer.lr * lr_factor(self._recipe.schedule, progress)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if self._recipe.optimizer.grad_clip is not None:
            nn.utils.clip_grad_norm_(self._module.parameters(), self._recipe.optimizer.grad_clip)
        self.optimizer.step()
        if self.average is not None:
            self.average.update_parameters(self._module)


def lr_factor(schedule: ScheduleSettings, progress: float) -> float:
    """Return the learning rate's factor after that share of the epochs, 0 ≤ progress < 1."""
    if schedule.shape == "cosine":
        return 0.5 * (1 + math.cos(math.pi * progress))
    if schedule.shape == "step":
        return 0.1 if progress * (schedule.epochs or 1) + 1e-9 >= schedule.step_epoch else 1.0
    return 1.0


def averaged(module: nn.Module, share: float) -> AveragedModel:
    """Return a copy of a module for an exponential moving average of its weights, with the decay `share`.

    At step t the decay is at most (1 + t) / (10 + t), so that the average spans about a ninth of the steps so
    far and soon no longer depends on the initial weights. Batch statistics are averages already and are not
    averaged.
    """

    def fill(averages: PARAM_LIST, weights: PARAM_LIST, count: Tensor | int) -> None:
        del count  # on the weights' device, which reading it would wait for
        step = int(average.n_averaged) - 1
        torch._foreach_lerp_(averages, weights, 1 - min(share, (1 + step) / (_EARLY + step)))

    average = AveragedModel(module, multi_avg_fn=fill)
    average.update_parameters(module)  # the initial weights count, too
    return average


def has_epochs(folder: Path) -> bool:
    """Return whether a run's folder has weights or a checkpoint, which must not be overwritten."""
    return any((folder / file).is_file() for file in (WEIGHTS, CHECKPOINT))


class LoopState(BaseModel):
    """The state of a run besides its weights, stored as JSON in the checkpoint."""

    history: list[Epoch] = []
    steps: int = 0
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
            otherwise = f"cannot be resumed ({first_line(failure)}); delete it to train from the start."
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
        while not self._is_over():
            self._epoch(len(self.state.history) + 1)
        return self.best, self.state.history

    def _is_over(self) -> bool:
        schedule, epochs = self.recipe.schedule, len(self.state.history)
        if schedule.patience is not None and epochs - self.state.best_epoch >= schedule.patience:
            return True
        return epochs == schedule.epochs or self.state.steps == schedule.steps

    def _epoch(self, epoch: int) -> None:
        """Train, measure and record an epoch."""
        start = time.monotonic()
        self.matcher.train()
        loss = self._learn(epoch)
        self.matcher.eval()
        try:
            measured = self.task.measure(self.view)
        except NanError as error:  # the last steps diverged, after a loss that was finite
            raise SeesayError(
                f"{self.out}: on val, {error} Training has diverged; {steadier(self.recipe)}."
            ) from error
        metrics = self.task.metrics(self.view) or None
        if measured.monitor > self.state.best_metric:
            self.state.best_metric, self.state.best_epoch = measured.monitor, epoch
            self.best = copied(self.view.matcher.state_dict())
        seconds = round(time.monotonic() - start, 2)
        val = measured.to_dict()
        done = Epoch(epoch=epoch, loss=loss, seconds=seconds, val=val, metrics=metrics)
        self.state.history.append(done)
        self._save()
        self._on_epoch_end(epoch, epoch_metrics(done, measured, self.steps.optimizer.param_groups[0]["lr"]))

    def _learn(self, epoch: int) -> float:
        """Train for one epoch; return the mean loss."""
        schedule, on_cpu = self.recipe.schedule, torch.device(self.device).type == "cpu"
        batches = self.task.batches(epoch)
        if not len(batches):
            raise SeesayError(f"Recipe '{self.recipe.name}': the train split has nothing to tell apart.")
        # Summed on the device, because reading a number waits for the device.
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        whole = len(batches)
        if schedule.steps is not None:
            batches = batches[: schedule.steps - self.state.steps]
        told = f"{self.recipe.name} {epoch}/{schedule.epochs_of(whole)}"
        with progress(told, len(batches), "batches") as advance:
            for step, batch in enumerate(batches):
                losses = self.task.losses(self.matcher, batch, self.device)
                loss = torch.stack(losses).sum()
                if on_cpu:
                    self._check(loss.item())
                self.steps.take(loss, schedule.share(epoch - 1 + step / whole, self.state.steps))
                self.state.steps += 1
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
            on_epoch_end(number, epoch_metrics(epoch, measured))
            advance(1)
    return best, history
