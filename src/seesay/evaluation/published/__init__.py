"""Published rows: what papers printed for a system on a corpus, as data beside this file.

One YAML a paper. Numbers stay as printed; where they cannot be right, `note` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import fmean
from typing import Any

import yaml

from seesay.evaluation.recall import MEASURES

Measures = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One row of a paper's table; None where the paper prints no number.

    `recipe` is seesay's recipe of that system, if there is one; `encoder` and `crops` say how the paper
    got its image features, where that is known.
    """

    system: str
    corpus: str
    source: str
    table: int
    protocol: str
    sentence_retrieval: Measures
    image_retrieval: Measures
    recipe: str | None = None
    encoder: str | None = None
    crops: str | None = None
    note: str | None = None

    @property
    def mean_recall(self) -> float | None:
        """MR of the printed recalls, where all six are printed."""
        ways = (self.sentence_retrieval, self.image_retrieval)
        recalls = [way[name] for way in ways for name in MEASURES[:3]]
        known = [value for value in recalls if value is not None]
        return fmean(known) if len(known) == len(recalls) else None


def published_rows(corpus: str | None = None) -> list[PublishedRow]:
    """Every published row, or those of one corpus, in the order of the papers' tables."""
    return [row for row in _all_rows() if corpus in (None, row.corpus)]


def published_row(system: str, corpus: str) -> PublishedRow | None:
    """The row of a system, by its printed name or its recipe's; None where none was published."""
    wanted = system.casefold()
    for row in published_rows(corpus):
        if wanted in (row.system.casefold(), (row.recipe or row.system).casefold()):
            return row
    return None


@cache
def _all_rows() -> tuple[PublishedRow, ...]:
    rows: list[PublishedRow] = []
    papers = (entry for entry in files(__name__).iterdir() if entry.name.endswith(".yaml"))
    for paper in sorted(papers, key=lambda entry: entry.name):
        content = yaml.safe_load(paper.read_text(encoding="utf-8"))
        for table in content["tables"]:
            rows += _rows_of(table, content["source"], content["systems"])
    return tuple(rows)


def _rows_of(table: dict[str, Any], source: str, systems: dict[str, dict[str, str]]) -> list[PublishedRow]:
    return [
        PublishedRow(
            system=system,
            corpus=table["corpus"],
            source=source,
            table=table["table"],
            protocol=table["protocol"],
            sentence_retrieval=dict(zip(MEASURES, numbers[:4], strict=True)),
            image_retrieval=dict(zip(MEASURES, numbers[4:], strict=True)),
            note=table.get("notes", {}).get(system),
            **systems.get(system, {}),
        )
        for system, numbers in table["rows"].items()
    ]
