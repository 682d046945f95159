"""The history of a training: a JSON line per epoch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, JsonValue, ValidationError

from seesay.errors import SeesayError
from seesay.paths import replace_text
from seesay.protocols.base import Result

METRICS = "metrics.jsonl"

_CURVES = ("S R@1", "S R@10", "I R@1", "I R@10", "mR", "R@1", "R@10", "mAP")


class Epoch(BaseModel):
    """An epoch: its mean loss, its seconds and the val metrics.

    `metrics` are the matcher's own (`Matcher.metrics`).

    `active` is the share of active hinges, if the loss has hinges. CCA has no epochs; each ridge takes the
    place of one.
    """

    epoch: int
    loss: float
    active: float | None = None
    seconds: float
    val: dict[str, JsonValue]
    metrics: dict[str, float] | None = None
    ridge: float | None = None


def metrics_of(epoch: Epoch, measured: Result, lr: float | None = None) -> dict[str, float]:
    """Return an epoch's metrics as callbacks see them: the measures of the val split begin with `val/`."""
    own = {
        "loss": epoch.loss,
        "active": epoch.active,
        "seconds": epoch.seconds,
        "lr": lr,
        "ridge": epoch.ridge,
    }
    val = {f"val/{column}": value for column, value in measured.row.items()}
    own |= epoch.metrics or {}
    return {name: value for name, value in (own | val).items() if value is not None}


def write_history(folder: Path, history: Sequence[Epoch]) -> None:
    """Write all epochs so far to `metrics.jsonl` in a run's folder."""
    lines = (epoch.model_dump_json(exclude_none=True) + "\n" for epoch in history)
    replace_text(folder / METRICS, "".join(lines))


def read_history(folder: Path) -> list[Epoch]:
    """Read the epochs of a run; none for included weights.

    Raises:
        SeesayError: the file is not a history.
    """
    path = folder / METRICS
    try:
        return [Epoch.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return []
    except ValidationError as failure:
        raise SeesayError(f"{path}: not a training history ({str(failure).splitlines()[0]}).") from None


def val_curves(history: Sequence[Epoch]) -> dict[str, list[float]]:
    """Return the measures of the val split that curves show, each by epoch, named as in a table."""
    curves: dict[str, list[float]] = {}
    for epoch in history:
        metrics = epoch.val.get("metrics")
        for name, value in metrics.items() if isinstance(metrics, dict) else ():
            if name in _CURVES and isinstance(value, int | float):
                curves.setdefault(name, []).append(value)
    return {name: values for name, values in curves.items() if len(values) == len(history)}
