"""The epochs of a training: their history, a JSON line each, and callbacks that follow them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pydantic import BaseModel, JsonValue

from seesay.errors import SeesayError, first_line
from seesay.paths import replace_text
from seesay.protocols.base import Result

METRICS = "metrics.jsonl"

OnEpochEnd = Callable[[int, Mapping[str, float]], None]  # called with an epoch and its metrics

_CURVES = ("S R@1", "S R@10", "I R@1", "I R@10", "mR", "R@1", "R@10", "mAP")


class Epoch(BaseModel):
    """An epoch: its mean loss, its seconds and the val metrics.

    `metrics` are the matcher's own (`Matcher.metrics`), and `active` is the share of active hinges, if the
    loss has hinges. CCA has no epochs; each ridge takes the place of one.
    """

    epoch: int
    loss: float
    active: float | None = None
    seconds: float
    val: dict[str, JsonValue]
    metrics: dict[str, float] | None = None
    ridge: float | None = None


def metrics_of(epoch: Epoch, measured: Result, lr: float | None = None) -> dict[str, float]:
    """Return an epoch's metrics as callbacks receive them; the names of val metrics begin with `val/`."""
    own = epoch.model_dump(include={"loss", "active", "seconds", "ridge"}) | {"lr": lr}
    val = {f"val/{column}": value for column, value in measured.row.items()}
    found = own | (epoch.metrics or {}) | val
    return {name: value for name, value in found.items() if value is not None}


def write_history(folder: Path, history: Sequence[Epoch]) -> None:
    """Write all epochs so far to `metrics.jsonl` in a run's folder."""
    lines = (epoch.model_dump_json(exclude_none=True) + "\n" for epoch in history)
    replace_text(folder / METRICS, "".join(lines))


def read_history(folder: Path) -> list[Epoch]:
    """Read the epochs of a run; without a file, as for included weights, there are none.

    Raises:
        SeesayError: the file is not a history.
    """
    path = folder / METRICS
    try:
        return [Epoch.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return []
    except ValueError as failure:  # also of pydantic, and of what is not UTF-8
        raise SeesayError(f"{path}: not a training history ({first_line(failure)}).") from None


def val_curves(history: Sequence[Epoch]) -> dict[str, list[float]]:
    """Return the val metrics that curves show, each by epoch, named as in a table."""
    curves: dict[str, list[float]] = {}
    for epoch in history:
        metrics = epoch.val.get("metrics")
        for name, value in metrics.items() if isinstance(metrics, dict) else ():
            if name in _CURVES and isinstance(value, int | float):
                curves.setdefault(name, []).append(value)
    return {name: values for name, values in curves.items() if len(values) == len(history)}


class Callback:
    """Base class of callbacks; override the methods that you need.

    A composed recipe trains its members one after the other, each with its own start and end. Later steps,
    such as gates, also have their own start and end.

    Example:
        >>> import tempfile, seesay
        >>> from seesay.data.scenes import write_scenes
        >>> class Printed(seesay.Callback):
        ...     def on_epoch_end(self, epoch, metrics):
        ...         print(epoch, sorted(metrics)[:3])
        >>> folder = tempfile.mkdtemp()
        >>> write_scenes(f"{folder}/scenes", images=30, seed=1)
        >>> run = seesay.train("irmatch-s", f"{folder}/scenes", out=f"{folder}/run", epochs=1,
        ...     encoders=["efficientnet-lite0"], matcher={"dim": 24}, callbacks=[Printed()])
        1 ['active', 'loss', 'lr']
    """

    def on_train_start(self, name: str, folder: Path, recipe: Mapping[str, JsonValue]) -> None:
        """Run when training starts; `recipe` holds the resolved recipe as JSON-ready values."""

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Run after each epoch, counted from 1.

        `metrics` are `loss`, `seconds`, `lr` (for CCA `ridge`), `active` (the share of hinges above zero) if
        the loss has hinges, the matcher's own metrics, if any, and the val metrics, such as `val/mR` and
        `val/S R@1`. The gates of a fusion have `image gate/loss`, `image gate/val loss` and the same for the
        sentence gate, whose epochs are counted on.
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
