"""Measured rows made up for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seesay.protocols.base import Result
from seesay.results.records import Row, record_row

RESULT = Result(protocol="standard", split="test", about={"combined": "mean"}, metrics={"mR": 5.0})


def values(recipe: str = "irmatch-s", first: float = 20.0, seed: int = 1, **changed: Any) -> dict[str, Any]:
    """A row of both directions whose R@1 is `first` for images as queries, 10 less for sentences."""
    metrics = both_directions(first)
    if "mR" in changed:
        metrics["mR"] = changed.pop("mR")
    return {
        "protocol": "standard", "split": "test", "about": {"images": 1000, "sentences": 5000},
        "metrics": metrics, "recipe": recipe, "system": None, "seed": seed, "encoder": "lite0",
        "crops": None, "changes": [], "departures": [], "seconds": 60.0, "commit": "abc",
    } | changed  # fmt: skip


def both_directions(first: float = 20.0) -> dict[str, Any]:
    recalls = {"R@1": 0.0, "R@5": 20.0, "R@10": 30.0}
    metrics = {}
    for way, one in (("S", first), ("I", first - 10)):
        metrics |= {f"{way} {name}": one + more for name, more in recalls.items()} | {f"{way} Med r": 4.0}
    return metrics | {"mR": round(first + 35 / 3, 3)}


def row(*given: Any, **changed: Any) -> Row:
    return Row.read(values(*given, **changed))


def one_direction(recipe: str = "two-branch-full", first: float = 40.0, **changed: Any) -> Row:
    """A row of sentence-to-sentence retrieval."""
    about = {"sentences": 5000, "queries": 5000}
    metrics = {"R@1": first, "R@5": 60.0, "R@10": 70.0, "Med r": 1.0}
    return _of("sentence-to-sentence", about, metrics, recipe, changed)


def grounding(recipe: str = "ground-full", first: float = 40.0, **changed: Any) -> Row:
    """A row of phrase localization."""
    about = {"images": 677, "phrases": 3100, "convention": "enclosing box", "IoU": "plummer"}
    metrics: dict[str, Any] = {"R@1": first, "R@5": 60.0, "R@10": 70.0, "upper bound": 84.0}
    metrics |= {f"whole image: {name}": 20.0 for name in metrics}
    metrics |= {"people: R@1": 50.0, "people: R@5": 60.0, "people: R@10": 70.0, "people: upper bound": 80.0}
    return _of("grounding", about, metrics | {"people: phrases": 5}, recipe, changed)


def k_shot(recipe: str = "gvse-gated", **changed: Any) -> Row:
    """A row of K-shot matching; no sentence is of the last K."""
    some, none = {"images": 30, "sentences": 40} | both_directions(), {"images": 0, "sentences": 0}
    parts = {f"{k}-shot": {"N": 9} | some for k in range(3)} | {"3-shot": {"N": 0} | none}
    metrics = {f"{part}: {name}": value for part, each in parts.items() for name, value in each.items()}
    return _of("k-shot", {"images": 100, "sentences": 500}, metrics, recipe, changed)


def _of(
    protocol: str, about: dict[str, Any], metrics: dict[str, Any], recipe: str, changed: dict[str, Any]
) -> Row:
    result = {"protocol": protocol, "split": "test", "about": about, "metrics": metrics}
    origin = {"recipe": recipe, "seed": 1, "encoder": "lite0", "commit": "abc", "seconds": 6.0}
    return Row.read(result | origin | changed)


def cells(table: str) -> list[list[str]]:
    """The cells of a Markdown table, line by line."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def record_seeds(folder: str, first: str) -> None:
    for seed in range(int(first), int(first) + 4):
        record_row(Path(folder), "flickr8k", row(seed=seed))
