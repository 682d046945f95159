"""Published rows: the metrics that papers print for a system on a corpus.

The data are beside this file: a YAML file for each paper, and `systems.yaml` for the other systems that they
compare with. Numbers are as printed; `note` comments on some of them, such as misprints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from statistics import fmean
from typing import TYPE_CHECKING, Any

import yaml

from seesay.recipes.table import corpus_title

if TYPE_CHECKING:
    from seesay.protocols.base import Result

RECALLS = ("R@1", "R@5", "R@10")
_METRICS = (*RECALLS, "Med r")
_SYSTEMS = "systems.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """A row of a paper's table.

    Attributes:
        test_images: the number of images of the test set.
        metrics: by name, as in `Result.metrics`; None where the paper prints no number.
        own: True if the paper measured the system itself; False if it quotes the numbers of others.
        recipe: seesay's recipe of the system, beside which the row is shown.
        counterpart: a recipe of the same system, beside which another row is shown.
        missing: what seesay lacks to express the system fully.
        encoder: with `crops`, the paper's image features, if known.
    """

    system: str
    corpus: str
    source: str
    table: int
    protocol: str
    test_images: int
    metrics: dict[str, float | None]
    own: bool
    recipe: str | None = None
    counterpart: str | None = None
    missing: str | None = None
    encoder: str | None = None
    crops: str | None = None
    note: str | None = None

    @property
    def images(self) -> str:
        """The paper's image features in words; empty if unknown."""
        return ", ".join(part for part in (self.encoder, self.crops) if part)


@dataclass(frozen=True, slots=True)
class Paper:
    """The rows that a paper prints, and its tables of single scores as they are in the file."""

    source: str
    rows: tuple[PublishedRow, ...]
    scores: tuple[Mapping[str, Any], ...]


@cache
def papers() -> dict[str, Paper]:
    """Return the papers by the name of their file, without its suffix."""
    folder = files(__name__)
    found = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    others = {name: entry for entry in _read(folder / _SYSTEMS) for name in entry.pop("names")}
    return {
        name.removesuffix(".yaml"): _paper(_read(folder / name), others) for name in found if name != _SYSTEMS
    }


def published_rows(corpus: str | None = None, protocol: str | None = None) -> list[PublishedRow]:
    """Return the rows of a corpus and a protocol, in the papers' order; of all of them by default."""
    rows = (row for paper in papers().values() for row in paper.rows)
    return [row for row in rows if corpus in (None, row.corpus) and protocol in (None, row.protocol)]


def find_published(
    name: str, corpus: str, protocol: str, paper: tuple[str, int] | None = None
) -> PublishedRow | None:
    """Return the published row of a system, named as printed or by its recipe; None if there is none.

    A row of the recipe of that name is preferred to one of a system of that name, and a paper that measured
    the system itself to one that quotes it. `paper` is source and number of the only table to look in.
    """
    wanted = name.casefold()
    found = [
        row
        for row in published_rows(corpus, protocol)
        if wanted in (row.system.casefold(), (row.recipe or row.system).casefold())
        and paper in (None, (row.source, row.table))
    ]
    return min(found, key=lambda row: ((row.recipe or "").casefold() != wanted, not row.own), default=None)


def measured_otherwise(result: Result, published: PublishedRow) -> list[str]:
    """Describe how a split and test set differ from those of a published row."""
    here, there = result.content.images if result.content else published.test_images, published.test_images
    differs = [f"split {result.split}, published test"] if result.split != "test" else []
    return differs + ([f"images {here:,}, published {there:,}"] if here != there else [])


def sources(rows: Iterable[PublishedRow], corpus: str | None = None) -> str:
    """Name the papers and tables of rows, and their corpus unless it is `corpus`."""
    tables: dict[tuple[str, str | None], set[int]] = {}
    for row in rows:
        other = row.corpus if corpus not in (None, row.corpus) else None
        tables.setdefault((row.source, other), set()).add(row.table)
    return "; ".join(
        f"{source}, table{'s' * (len(numbers) > 1)} {', '.join(map(str, sorted(numbers)))}"
        + (f", on {corpus_title(other)}" if other else "")
        for (source, other), numbers in tables.items()
    )


def _paper(content: Mapping[str, Any], others: Mapping[str, dict[str, str]]) -> Paper:
    source, own = content["source"], content["systems"]
    rows = [
        PublishedRow(
            **{key: table[key] for key in ("corpus", "table", "protocol", "test_images")},
            **(others.get(system, {}) | own.get(system, {})),
            source=source,
            system=system,
            own=system in own,
            metrics=_metrics(numbers),
            note=table.get("notes", {}).get(system),
        )
        for table in content["tables"]
        for system, numbers in table["rows"].items()
    ]
    return Paper(source, tuple(rows), tuple(content.get("scores", ())))


def _metrics(numbers: Sequence[float | None]) -> dict[str, float | None]:
    """Return numbers by metric: the recalls of one direction, or of both, optionally with Med r.

    mR is None if a recall is missing, or if one is a misprint because it is lower than that at a smaller K.
    """
    if len(numbers) == len(RECALLS):
        return dict(zip(RECALLS, numbers, strict=True))
    half = len(numbers) // 2
    ways = {"S": numbers[:half], "I": numbers[half:]}
    recalls = [[value for value in way[: len(RECALLS)] if value is not None] for way in ways.values()]
    can_be = all(len(found) == len(RECALLS) and found == sorted(found) for found in recalls)
    mean = fmean(value for found in recalls for value in found) if can_be else None
    return {
        f"{way} {name}": value
        for way, printed in ways.items()
        for name, value in zip(_METRICS, [*printed, None], strict=False)
    } | {"mR": mean}


def _read(path: Traversable) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))
