"""Published rows: what papers printed for a system on a corpus, as data beside this file.

One YAML a paper, and `systems.yaml` for what they compare with. Numbers stay as printed; where they cannot
be right, `note` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from statistics import fmean
from typing import Any

import yaml

from seesay.metrics.recall import MEASURES

Measures = dict[str, float | None]

_RECALLS = MEASURES[:3]
_SYSTEMS = "systems.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Published:
    """A system's row of a paper's table; None where the paper prints no number.

    Attributes:
        recipe: seesay's recipe of that system, beside which the row stands.
        counterpart: a recipe that does the same, beside which another row stands.
        missing: what seesay would need to express the system, or to express it wholly.
        encoder: with `crops`, how the paper got its image features, where that is known.
    """

    system: str
    corpus: str
    source: str
    table: int
    protocol: str
    recipe: str | None = None
    counterpart: str | None = None
    missing: str | None = None
    encoder: str | None = None
    crops: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRecalls(_Published):
    """A row of a protocol with one direction, such as phrase localization: R@1, R@5 and R@10."""

    recalls: Measures


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow(_Published):
    """A row of retrieval in both directions."""

    sentence_retrieval: Measures
    image_retrieval: Measures

    @property
    def mean_recall(self) -> float | None:
        """MR of the printed recalls, where all six are printed."""
        ways = (self.sentence_retrieval, self.image_retrieval)
        recalls = [way[name] for way in ways for name in _RECALLS]
        known = [value for value in recalls if value is not None]
        return fmean(known) if len(known) == len(recalls) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedScores:
    """A table of single scores: of one image with a sentence, by several systems."""

    source: str
    table: int
    about: str
    systems: tuple[str, ...]
    rows: dict[str, tuple[float, ...]]


def published_rows(corpus: str | None = None) -> list[PublishedRow]:
    """Every row of retrieval in both directions, or those of one corpus, in the papers' order."""
    rows = (row for row in _all_rows() if isinstance(row, PublishedRow))
    return [row for row in rows if corpus in (None, row.corpus)]


def published_recalls(protocol: str, corpus: str | None = None) -> list[PublishedRecalls]:
    """Every row of a protocol with one direction: `phrase-localization` or `sentence-to-sentence`."""
    rows = (row for row in _all_rows() if isinstance(row, PublishedRecalls) and row.protocol == protocol)
    return [row for row in rows if corpus in (None, row.corpus)]


def published_scores() -> list[PublishedScores]:
    """Every table of single scores."""
    return [
        PublishedScores(
            source=paper["source"],
            table=scores["table"],
            about=scores["about"],
            systems=tuple(scores["systems"]),
            rows={name: tuple(row) for name, row in scores["rows"].items()},
        )
        for paper in papers().values()
        for scores in paper.get("scores", ())
    ]


def all_rows() -> tuple[PublishedRow | PublishedRecalls, ...]:
    """Every row, of either kind, in the papers' order."""
    return _all_rows()


def published_row(system: str, corpus: str, protocol: str = "standard") -> PublishedRow | None:
    """The row of a system, by its printed name or its recipe's; None where none was published.

    Rows of that protocol come first; those of one K of few-shot matching stand beside no other.
    """
    wanted = system.casefold()
    found = [
        row
        for row in published_rows(corpus)
        if wanted in (row.system.casefold(), (row.recipe or row.system).casefold())
        and (row.protocol == protocol or not row.protocol.endswith("-shot"))
    ]
    return min(found, key=lambda row: row.protocol != protocol, default=None)


def corpora() -> list[str]:
    """The corpora of the published rows, small ones first."""
    return ["flickr8k", "flickr30k", "flickr30k-entities", "coco"]


@cache
def papers() -> dict[str, dict[str, Any]]:
    """Each paper's file by its name: `source`, `title`, `systems`, `tables`."""
    found = (entry for entry in files(__name__).iterdir() if entry.name.endswith(".yaml"))
    return {
        entry.name.removesuffix(".yaml"): _read(entry)
        for entry in sorted(found, key=lambda entry: entry.name)
        if entry.name != _SYSTEMS
    }


@cache
def _all_rows() -> tuple[PublishedRow | PublishedRecalls, ...]:
    rows: list[PublishedRow | PublishedRecalls] = []
    others = _others()
    for content in papers().values():
        for table in content["tables"]:
            about = {key: table[key] for key in ("corpus", "table", "protocol")} | {
                "source": content["source"]
            }
            for system, numbers in table["rows"].items():
                note = table.get("notes", {}).get(system)
                known = others.get(system, {}) | content["systems"].get(system, {})
                rows.append(_row(numbers, about | known | {"system": system, "note": note}))
    return tuple(rows)


def _others() -> dict[str, dict[str, str]]:
    """What is known of systems that several papers print, by each name."""
    entries = _read(files(__name__) / _SYSTEMS)
    return {
        name: {k: v for k, v in entry.items() if k != "names"} for entry in entries for name in entry["names"]
    }


def _read(path: Traversable) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _row(numbers: Sequence[float | None], about: dict[str, Any]) -> PublishedRow | PublishedRecalls:
    """From one direction's three recalls, or both directions' numbers: three recalls each, or Med r too."""
    if len(numbers) == len(_RECALLS):
        return PublishedRecalls(recalls=dict(zip(_RECALLS, numbers, strict=True)), **about)
    half = len(numbers) // 2
    sentence, image = (
        dict(zip(MEASURES, [*way, None][: len(MEASURES)], strict=True))
        for way in (numbers[:half], numbers[half:])
    )
    return PublishedRow(sentence_retrieval=sentence, image_retrieval=image, **about)
