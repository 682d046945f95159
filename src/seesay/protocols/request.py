"""What one call of `seesay evaluate` asks: what is measured, beside what, and where its row is from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seesay.data.corpus import Corpus
from seesay.data.phrases import PhraseCorpus
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import RESAMPLES
from seesay.protocols.entries import Entry, measure_entries
from seesay.protocols.grounding import Convention
from seesay.protocols.measure import (
    check_protocol,
    chosen_protocol,
    differences,
    measure_split,
    provenance,
)
from seesay.protocols.people import NOBODY, People
from seesay.protocols.rerank import measure_reranked, reranked_provenance
from seesay.protocols.score_fusion import check_combination
from seesay.runs.run import Run


@dataclass(frozen=True)
class Request:
    """Entries to measure, alone or as one.

    Attributes:
        entries: runs and given scores, one at least.
        combine: how several are put together, one of COMBINATIONS.
        against: what they are compared with.
        rerank: the run that re-orders a run's `shortlist` best answers.
        shortlist: see there.
        any_box: grounding: any box of a phrase counts.
        extra_pixel: grounding: sides are x2 - x1 + 1.
    """

    entries: Sequence[Entry]
    combine: str | None = None
    against: Entry | None = None
    rerank: Run | None = None
    shortlist: int = 100
    any_box: bool = False
    extra_pixel: bool = False

    def __post_init__(self) -> None:
        check_combination(self.combine, len(self.entries))
        if self.rerank is not None and (self.any_box or self.extra_pixel):
            raise SeesayError("--any-box and --extra-pixel compare boxes; --rerank is of whole images.")
        if self.rerank is not None and (self.lone is None or self.against is not None):
            raise SeesayError("--rerank re-orders the answers of one run; it goes with nothing else.")
        if self.lone is None and (self.any_box or self.extra_pixel):
            raise SeesayError("--any-box and --extra-pixel compare boxes, which one grounding run ranks.")

    @property
    def lone(self) -> Run | None:
        """The run, where it is one run and nothing else."""
        first = self.entries[0]
        return first if len(self.entries) == 1 and isinstance(first, Run) else None

    @property
    def grounds(self) -> bool:
        """Whether phrases with boxes are wanted."""
        return self.lone is not None and self.lone.recipe.regions is not None

    @property
    def system(self) -> str | None:
        """The system whose published row stands beside."""
        return self.lone.recipe.system if self.lone is not None and self.rerank is None else None

    @property
    def label(self) -> str:
        """A name for a plot."""
        return self.lone.recipe.name if self.lone is not None else " + ".join(e.name for e in self.entries)

    def protocol(self, name: str | None) -> str:
        """The protocol of that name, or the one that goes with what is measured.

        Raises:
            SeesayError: there is none of that name.
        """
        if self.lone is not None:
            return chosen_protocol(self.lone.recipe, name)
        check_protocol(name or "standard")
        return name or "standard"

    def differences(self) -> list[str]:
        """How the measured system departs from the published one."""
        return differences(self.lone.recipe) if self.lone is not None else []

    def measure(
        self, corpus: Corpus | PhraseCorpus, split: str, protocol: str, people: People = NOBODY
    ) -> dict[str, Any]:
        """What is asked, as `seesay evaluate --json` prints it.

        Raises:
            SeesayError: what is asked goes not together, or not with the corpus.
        """
        run = self.lone
        if run is not None and self.rerank is not None:
            return measure_reranked(run, self.rerank, corpus, split, protocol, self.shortlist)
        if run is not None and self.against is None:
            convention: Convention = "any" if self.any_box else "enclosing"
            return measure_split(
                run, corpus, split, protocol, convention, self.extra_pixel, RESAMPLES, people
            )
        return measure_entries(self.entries, corpus, split, protocol, self.combine, self.against, people)

    def origin(self, seconds: float, commit: str | None) -> dict[str, Any]:
        """Where the row is from, for the results.

        Raises:
            SeesayError: given scores are measured, which no recipe made.
        """
        runs = [entry for entry in self.entries if isinstance(entry, Run)]
        if len(runs) < len(self.entries):
            raise SeesayError("--record keeps rows of recipes, and files of scores have none; use --json.")
        if self.rerank is not None:
            return reranked_provenance(runs[0], self.rerank, seconds, commit)
        if self.combine is None:
            return provenance(runs[0], seconds, commit)
        return _joined([provenance(run, seconds, commit) for run in runs], self.combine)


def without_intervals(measured: dict[str, Any]) -> dict[str, Any]:
    """A measurement as a row of the results keeps it: its own figures alone."""
    return {
        key: without_intervals(value) if isinstance(value, dict) else value
        for key, value in measured.items()
        if key not in ("intervals", "against", "members")
    }


def _joined(rows: Sequence[dict[str, Any]], how: str) -> dict[str, Any]:
    """The provenance of an ensemble: its members' joined, seeds where they are not all the same."""
    seeds = {row["seed"] for row in rows}
    names = [row["recipe"] + (f" seed {row['seed']}" if len(seeds) > 1 else "") for row in rows]
    recipe = f"{how} of {' + '.join(names)}"
    joined = {key: " + ".join(dict.fromkeys(row[key] for row in rows)) for key in ("encoder", "crops")}
    lists = {
        key: list(dict.fromkeys(each for row in rows for each in row[key]))
        for key in ("changes", "departures")
    }
    return rows[0] | joined | lists | {"recipe": recipe, "system": recipe}
