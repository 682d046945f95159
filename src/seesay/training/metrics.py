"""Metrics of training: one JSON line an epoch, and their curves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seesay.paths import replace_text

METRICS = "metrics.jsonl"


def write_metrics(path: Path, history: Sequence[dict[str, Any]]) -> None:
    """All epochs so far, a line each, written beside and renamed."""
    replace_text(path, "".join(json.dumps(row) + "\n" for row in history))


def draw_curves(history: Sequence[dict[str, Any]], folder: Path) -> None:
    """`loss.png` and `recall.png`: the loss's mean and val's measures, epoch by epoch."""
    from matplotlib.figure import Figure

    epochs = [row["epoch"] for row in history]
    losses = {"train": [row["loss"] for row in history]}
    recalls = {
        name: [row["val"][name] for row in history]
        for name in ("mR", "R@1", "R@10", "mAP")
        if name in history[0]["val"]
    }
    for direction in ("sentence_retrieval", "image_retrieval"):
        for k in ("R@1", "R@10") if direction in history[0]["val"] else ():
            label = f"{direction.replace('_', ' ')} {k}"
            recalls[label] = [row["val"][direction][k] for row in history]
    for name, curves, unit in (("loss", losses, "loss"), ("recall", recalls, "val, %")):
        figure = Figure(figsize=(8, 4), layout="constrained")
        axes = figure.add_subplot()
        for label, values in curves.items():
            axes.plot(epochs, values, label=label, marker=".")
        axes.set(xlabel="epoch", ylabel=unit)
        axes.grid(alpha=0.3)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        figure.savefig(folder / f"{name}.png", dpi=110)
