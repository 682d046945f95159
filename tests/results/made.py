"""Measured rows made up for tests."""

from __future__ import annotations

from typing import Any

from seesay.protocols.k_shot import BANDS
from seesay.results.rows import Row


def values(recipe: str = "irmatch-s", first: float = 20.0, seed: int = 1, **changed: Any) -> dict[str, Any]:
    """A row of both directions whose R@1 is `first` for images as queries, 10 less for sentences."""
    ways = {
        way: {"R@1": one, "R@5": one + 20, "R@10": one + 30, "Med r": 4.0}
        for way, one in (("sentence_retrieval", first), ("image_retrieval", first - 10))
    }
    return {
        "protocol": "standard", "split": "test", "images": 1000, "sentences": 5000, **ways,
        "mR": round(first + 35 / 3, 3), "recipe": recipe, "system": None, "seed": seed, "encoder": "lite0",
        "crops": None, "changes": [], "departures": [], "seconds": 60.0, "commit": "abc",
    } | changed  # fmt: skip


def row(*given: Any, **changed: Any) -> Row:
    return Row.from_dict(values(*given, **changed), "made")


def one_direction(recipe: str = "two-branch-full", first: float = 40.0, **changed: Any) -> Row:
    """A row of sentence-to-sentence retrieval."""
    figures = {"sentences": 5000, "queries": 5000, "R@1": first, "R@5": 60.0, "R@10": 70.0, "Med r": 1.0}
    return _of_figures({"protocol": "sentence-to-sentence", **figures}, recipe, changed)


def grounding(recipe: str = "ground-full", first: float = 40.0, **changed: Any) -> Row:
    """A row of phrase localization."""
    figures = {"images": 677, "R@1": first, "R@5": 60.0, "R@10": 70.0, "upper bound": 84.0, "n": 3100}
    kinds = {"people": {"R@1": 50.0, "R@5": 60.0, "R@10": 70.0, "upper bound": 80.0, "n": 5}}
    about = {"by kind": kinds, "convention": "enclosing box", "IoU": "plummer"}
    return _of_figures({"protocol": "grounding", **figures, **about}, recipe, changed)


def composition(recipe: str = "mcnn-wd", **changed: Any) -> Row:
    kind = {
        "true order": 81.234, "standard error": 0.51, "ties": 2.0, "difference": -0.001, "n": 30,
        "left out": 4,
    }  # fmt: skip
    kinds = {"shuffle": kind, "swap": kind | {"standard error": None, "difference": None}}
    about = {"protocol": "composition", "images": 3, "sentences": 14, "order seed": 0, "by kind": kinds}
    return _of_figures(about, recipe, changed)


def k_shot(recipe: str = "gvse-gated", **changed: Any) -> Row:
    """A row of K-shot matching; no sentence is of the last K and band."""
    both = {key: values()[key] for key in ("sentence_retrieval", "image_retrieval", "mR")}
    some, none = {"images": 30, "sentences": 40}, {"images": 0, "sentences": 0}
    by_k = {str(k): {"N": 9, **some, **both} for k in range(3)} | {"3": {"N": 0, **none}}
    by_frequency = {band: {**some, **both} for band in list(BANDS)[:-1]} | {list(BANDS)[-1]: none}
    about = {"protocol": "k-shot", "images": 100, "sentences": 500, "by K": by_k}
    about["words"] = {"words": 50, "below 10": 40.0, "at most 1": 20.0}
    gates = {"image": None, "sentence": 0.8125}
    return _of_figures(about | {"by frequency": by_frequency, "gate AUC": gates}, recipe, changed)


def _of_figures(figures: dict[str, Any], recipe: str, changed: dict[str, Any]) -> Row:
    about = {key: value for key, value in values(recipe).items() if key in ("recipe", "seed", "split")}
    about |= {"encoder": "lite0", "commit": "abc", "seconds": 6.0}
    return Row.from_dict(figures | about | changed, "made")


def cells(table: str) -> list[list[str]]:
    """The cells of a Markdown table, line by line."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
