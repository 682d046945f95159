"""Recall by how often a sentence's rarest word occurs in training, as a plot: K-shot measured, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seesay.errors import SeesayError
from seesay.paths import replacing
from seesay.protocols.k_shot import BANDS, K_SHOT
from seesay.results.columns import BY_FREQUENCY


def check_plot(path: Path, protocol: str | None) -> None:
    """See that there will be something to draw, and a place for it.

    Raises:
        SeesayError: the protocol is another, or the file cannot be.
    """
    if protocol != K_SHOT:
        raise SeesayError(f"--plot {path}: draws what --protocol {K_SHOT} measures; name it.")
    if path.suffix.lower() != ".png":
        raise SeesayError(f"{path}: the plot is a PNG; name a file that ends in .png.")


def draw_by_frequency(results: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """MR by band of word frequency, a curve a system.

    Args:
        results: what `measure_k_shot` gave of each, by name.
        path: the PNG file, written beside and renamed.

    Raises:
        SeesayError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, result in results.items():
        bands = result[BY_FREQUENCY]
        known = [(x, bands[band]["mR"]) for x, band in enumerate(BANDS) if "mR" in bands[band]]
        axes.plot([x for x, _ in known], [mean for _, mean in known], marker="o", label=name)
    axes.set_xticks(range(len(BANDS)), list(BANDS))
    axes.set(xlabel="times that the rarest word occurs in training", ylabel="mR, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as beside:
            figure.savefig(beside, format="png", dpi=110)
    except OSError as error:
        raise SeesayError(f"{path}: cannot be written ({error.strerror}).") from error
