"""A table of measured rows beside published ones: ours as mean ± standard deviation, the papers' figures.

The same cells go to the terminal and into every format of `table_formats`, R@1 of them into a plot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from statistics import fmean
from typing import Any

from seesay.errors import SeesayError
from seesay.recipes.table import TableDefinition, TableRow
from seesay.results.columns import (
    MEDIAN_RANK,
    Figures,
    Published,
    changes_of,
    conventions,
    corpus_title,
    figures,
    find_published,
    image_features,
    is_published,
    number,
    published_figures,
    sources,
    spreads,
)

PAPER = "paper"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one row with one seed: its measured row, or why there is none."""

    row: str
    seed: int
    measured: dict[str, Any] | None
    failure: str | None = None

    def summary(self) -> str:
        """The measures in a line, or the failure."""
        if self.measured is None:
            return f"failed: {self.failure}"
        return ", ".join(f"{column} {number(value)}" for column, value in figures(self.measured).items())


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table: the paper's, measured ones, a seed each, and what failed."""

    row: TableRow
    published: Published | None
    rows: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The row's."""
        return self.row.name

    @property
    def label(self) -> str:
        """The name, and whether the row failed."""
        return self.name + (", failed" if self.failures and not self.rows else "")

    def measured(self, column: str) -> list[float]:
        """The column's numbers, a seed each."""
        return [value for row in self.rows if (value := figures(row).get(column)) is not None]

    def printed(self) -> Figures:
        """The paper's numbers by column."""
        return published_figures(self.published) if self.published else {}


@dataclass(frozen=True, slots=True)
class Cell:
    """Text, and whether it is the best of its column."""

    text: str
    best: bool = False


class PaperTable:
    """The lines of a table in the definition's order, which outcomes are added to as they come.

    Args:
        definition: the table.
        corpus: on which it is measured.
        split: that is measured.
        measures: the columns to show: `S R@1`, or `R@1` for both directions; the definition's without it.

    Raises:
        SeesayError: a row names a published row that is not in the paper's table.
    """

    def __init__(
        self, definition: TableDefinition, corpus: str, split: str, measures: Sequence[str] = ()
    ) -> None:
        self.definition, self.corpus, self.split = definition, corpus, split
        self.measures = tuple(measures) or definition.measures
        self.lines = [Line(row, self._published(row)) for row in definition.rows]

    def add(self, outcome: Outcome) -> None:
        """Put an outcome into its line."""
        line = next(line for line in self.lines if line.name == outcome.row)
        if outcome.measured is not None:
            line.rows.append(outcome.measured)
        if outcome.failure is not None:
            line.failures.append(f"{outcome.row} seed {outcome.seed} failed: {outcome.failure}")

    def only_measured(self) -> PaperTable:
        """The table without the rows that have no figures of ours.

        Raises:
            SeesayError: none has.
        """
        kept = tuple(line.row for line in self.lines if line.rows)
        if not kept:
            raise SeesayError(f"table {self.definition.name}: no row is measured on {self.corpus}.")
        definition = self.definition.model_copy(update={"rows": kept})
        table = PaperTable(definition, self.corpus, self.split, self.measures)
        table.lines = [replace(line) for line in self.lines if line.rows]
        return table

    @property
    def failures(self) -> list[str]:
        """What failed and why, in the lines' order."""
        return [failure for line in self.lines for failure in line.failures]

    @property
    def all_columns(self) -> list[str]:
        """Every measure."""
        known = dict.fromkeys(column for line in self.lines for row in line.rows for column in figures(row))
        return list(known | dict.fromkeys(column for line in self.lines for column in line.printed()))

    @property
    def columns(self) -> list[str]:
        """The measures to show; those of the definition, or all, Med r where every paper prints it."""
        if wanted := set(self.measures):
            return [c for c in self.all_columns if c in wanted or c.partition(" ")[2] in wanted]
        papers = [printed for line in self.lines if (printed := line.printed())]
        return [
            column
            for column in self.all_columns
            if not column.endswith(MEDIAN_RANK)
            or (papers and all(printed.get(column) is not None for printed in papers))
        ]

    def headings(self) -> list[str]:
        """The row's name, then each measure with the paper's beside it where a paper has it."""
        beside = ([column, PAPER] if self.is_printed(column) else [column] for column in self.columns)
        return ["recipe", *(heading for pair in beside for heading in pair)]

    def cells(self) -> list[list[Cell]]:
        """A list of cells for each line, under `headings`.

        The best of a column stands out; of the papers', where they are of one table.
        """
        lines = [[Cell(line.label)] for line in self.lines]
        for column in self.columns:
            ours = [fmean(values) if (values := line.measured(column)) else None for line in self.lines]
            for cells, line, best in zip(lines, self.lines, _best(ours, column), strict=True):
                cells.append(Cell(spreads(line.rows, [column])[0], best))
            if not self.is_printed(column):
                continue
            theirs = [line.printed().get(column) for line in self.lines]
            best_of_theirs = _best(theirs, column) if self.definition.of else [False] * len(theirs)
            for cells, value, best in zip(lines, theirs, best_of_theirs, strict=True):
                cells.append(Cell(number(value), best))
        return lines

    def groups(self) -> Iterator[tuple[str, str, list[tuple[Line, list[Cell]]]]]:
        """Each heading, where its published rows are from, and its lines with their cells.

        Lines without a heading are one group, whose heading is empty.
        """
        both = zip(self.lines, self.cells(), strict=True)
        for group, below in groupby(both, key=lambda each: each[0].row.group):
            lines = list(below)
            known = [line.published for line, _ in lines if line.published]
            yield group or "", sources(known, self.corpus) if group else "", lines

    def notes(self) -> list[str]:
        """What the figures are of, how ours depart from the paper, and what failed."""
        rows = [row for line in self.lines for row in line.rows]
        notes = [self._whose()]
        seeds = sorted({len(line.rows) for line in self.lines} - {0, 1})
        if seeds:
            counts = " or ".join(map(str, seeds))
            alone = any(len(line.rows) == 1 for line in self.lines)
            where = "With ± they" if alone else "Ours"
            notes.append(f"{where} are the mean ± the standard deviation of {counts} seeds.")
        if convention := conventions(rows):
            notes.append(convention)
        departures = dict.fromkeys(d for row in rows for d in row.get("departures", ()))
        if departures and self.definition.of:
            notes.append(f"Ours depart: {'; '.join(departures)}.")
        notes += self._seen()
        variants = [line.row for line in self.lines if line.row.changes]
        notes += [f"{row.name} is {row.recipe} with {' '.join(row.changes)}." for row in variants]
        told = {change for row in variants for change in row.changes}
        changes = dict.fromkeys(change for row in rows for change in changes_of(row))
        if changed := [change for change in changes if change not in told]:
            notes.append(f"Changed: {', '.join(changed)}.")
        if missing := [line.name for line in self.lines if not line.rows and not line.failures]:
            notes.append(f"Not measured: {', '.join(missing)}.")
        return notes + self.failures

    def as_json(self) -> dict[str, Any]:
        """Every measured row beside the paper's figures, and what failed."""
        lines = [
            {
                "row": line.name,
                **({"group": line.row.group} if line.row.group else {}),
                "measured": line.rows,
                PAPER: line.printed(),
                "published": _origin(line.published),
            }
            for line in self.lines
        ]
        about = {"table": self.definition.name, "corpus": self.corpus, "split": self.split}
        return {**about, "rows": lines, "failures": self.failures}

    def is_printed(self, column: str) -> bool:
        """Whether a paper has a figure there."""
        return any(line.printed().get(column) is not None for line in self.lines)

    @property
    def paper_corpora(self) -> list[str]:
        """The corpora of the published rows."""
        return list(dict.fromkeys(line.published.corpus for line in self.lines if line.published))

    def _whose(self) -> str:
        protocols = dict.fromkeys(self.definition.protocol_of(row) for row in self.definition.rows)
        named = f"{', '.join(protocols)} on {corpus_title(self.corpus)}, {self.split}"
        if self.definition.of is None:
            known = [line.published for line in self.lines if line.published and not line.row.group]
            return f"Ours: {named}." + (f" Paper: {sources(known, self.corpus)}." if known else "")
        source, table = self.definition.of
        if not any(line.printed() for line in self.lines):
            on = corpus_title(self._fallbacks()[0])
            return f"Ours: {named}, after {source}, table {table}, on {on}."
        on = " and ".join(map(corpus_title, self.paper_corpora))
        return f"Ours: {named}. Paper: {source}, table {table}, on {on}."

    def _seen(self) -> list[str]:
        """What each row saw of the images, where not all saw the same."""
        seen: dict[str, list[str]] = {}
        for line in self.lines:
            for what in dict.fromkeys(image_features(row) for row in line.rows):
                seen.setdefault(what, []).append(line.name)
        if len(seen) < 2:
            return []
        usual = max(seen, key=lambda what: len(seen[what]))
        others = [f"{what} in {', '.join(names)}" for what, names in seen.items() if what != usual]
        return [f"Images seen by {usual}; by {'; by '.join(others)}."]

    def _published(self, row: TableRow) -> Published | None:
        wanted = row.published or row.recipe or row.name
        protocol = self.definition.protocol_of(row)
        for corpus in self._fallbacks():
            if row.changes and not row.published:
                break  # a variant is not what the paper measured
            if published := find_published(wanted, corpus, protocol, self.definition.of):
                return published
        if row.published:
            of = f"table {self.definition.table} of {self.definition.source}" if self.definition.of else "any"
            raise SeesayError(
                f"table {self.definition.name}: row '{row.name}': no row '{row.published}' in {of} "
                f"on {', '.join(self._fallbacks())}."
            )
        return None

    def _fallbacks(self) -> list[str]:
        """The corpora whose published rows stand beside; the first that has one."""
        if of := self.definition.of:
            same = is_published(self.corpus, self.definition.protocol, of)
            return [self.corpus if same else self.definition.corpus]
        return list(dict.fromkeys((self.corpus, self.definition.corpus, *self.definition.beside)))


def _origin(published: Published | None) -> dict[str, Any] | None:
    if published is None:
        return None
    keys = ("system", "source", "table", "corpus", "protocol", "note")
    return {key: getattr(published, key) for key in keys}


def _best(values: Sequence[float | None], column: str) -> list[bool]:
    """Which of a column's values, shown with one decimal, no other beats; none where there is but one."""
    shown = [None if value is None else round(value, 1) for value in values]
    known = [value for value in shown if value is not None]
    if len(known) < 2:
        return [False] * len(shown)
    best = min(known) if column.endswith(MEDIAN_RANK) else max(known)
    return [value == best for value in shown]
