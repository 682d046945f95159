"""The history of a training in a run's folder, a JSON line for each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, JsonValue

from seesay.errors import SeesayError, first_line
from seesay.paths import replace_text

METRICS = "metrics.jsonl"

_CURVES = ("S R@1", "S R@10", "I R@1", "I R@10", "mR", "R@1", "R@10", "mAP")


class Epoch(BaseModel):
    """An epoch: its mean loss, its seconds and the val metrics.

    `metrics` are the matcher's own (`Matcher.metrics`). CCA has no epochs; each ridge takes the place of one.
    """

    epoch: int
    loss: float
    seconds: float
    val: dict[str, JsonValue]
    metrics: dict[str, float] | None = None
    ridge: float | None = None


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
