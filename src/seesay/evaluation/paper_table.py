"""A paper's table measured again: ours as mean ± standard deviation beside the paper's figures.

The same cells go to the terminal, into Markdown, and R@1 of them into a plot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from seesay.errors import SeesayError
from seesay.evaluation.columns import (
    MEDIAN_RANK,
    Figures,
    Published,
    conventions,
    corpus_title,
    figures,
    find_published,
    is_plotted,
    is_published,
    markdown,
    number,
    published_figures,
    spreads,
)
from seesay.paths import replace_text, replacing
from seesay.recipes.table import TableDefinition, TableRow

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

    name: str
    published: Published | None
    rows: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

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

    Raises:
        SeesayError: a row names a published row that is not in the paper's table.
    """

    def __init__(self, definition: TableDefinition, corpus: str, split: str) -> None:
        self.definition, self.corpus, self.split = definition, corpus, split
        self.source = (definition.source, definition.table)
        same = is_published(corpus, definition.protocol, self.source)
        self.paper_corpus = corpus if same else definition.corpus
        self.lines = [Line(row.name, self._published(row)) for row in definition.rows]

    def add(self, outcome: Outcome) -> None:
        """Put an outcome into its line."""
        line = next(line for line in self.lines if line.name == outcome.row)
        if outcome.measured is not None:
            line.rows.append(outcome.measured)
        if outcome.failure is not None:
            line.failures.append(f"{outcome.row} seed {outcome.seed} failed: {outcome.failure}")

    @property
    def failures(self) -> list[str]:
        """What failed and why, in the lines' order."""
        return [failure for line in self.lines for failure in line.failures]

    @property
    def columns(self) -> list[str]:
        """The measures; Med r only where the paper prints it."""
        known = dict.fromkeys(column for line in self.lines for row in line.rows for column in figures(row))
        known |= dict.fromkeys(column for line in self.lines for column in line.printed())
        return [c for c in known if not c.endswith(MEDIAN_RANK) or self._printed(c)]

    def headings(self) -> list[str]:
        """The row's name, then each measure with the paper's beside it where the paper has it."""
        beside = ([column, PAPER] if self._printed(column) else [column] for column in self.columns)
        return ["recipe", *(heading for pair in beside for heading in pair)]

    def cells(self) -> list[list[Cell]]:
        """A list of cells for each line, under `headings`."""
        lines = [[Cell(_label(line))] for line in self.lines]
        for column in self.columns:
            ours = [fmean(values) if (values := line.measured(column)) else None for line in self.lines]
            for cells, line, best in zip(lines, self.lines, _best(ours, column), strict=True):
                cells.append(Cell(spreads(line.rows, [column])[0], best))
            if not self._printed(column):
                continue
            theirs = [line.printed().get(column) for line in self.lines]
            for cells, value, best in zip(lines, theirs, _best(theirs, column), strict=True):
                cells.append(Cell(number(value), best))
        return lines

    def notes(self) -> list[str]:
        """What the figures are of, how ours depart from the paper, and what failed."""
        source, table = self.source
        protocols = dict.fromkeys(self.definition.protocol_of(row) for row in self.definition.rows)
        named = f"{', '.join(protocols)} on {corpus_title(self.corpus)}, {self.split}"
        paper = f"{source}, table {table}, on {corpus_title(self.paper_corpus)}"
        printed = any(line.printed() for line in self.lines)
        notes = [f"Ours: {named}. Paper: {paper}." if printed else f"Ours: {named}, after {paper}."]
        rows = [row for line in self.lines for row in line.rows]
        if (seeds := max(len(line.rows) for line in self.lines)) > 1:
            notes.append(f"Ours are the mean ± the standard deviation of {seeds} seeds.")
        if convention := conventions(rows):
            notes.append(convention)
        departures = dict.fromkeys(d for row in rows for d in row.get("departures", ()))
        if departures:
            notes.append(f"Ours depart: {'; '.join(departures)}.")
        if changes := dict.fromkeys(change for row in rows for change in row.get("changes") or ()):
            notes.append(f"Changed: {', '.join(changes)}.")
        return notes + self.failures

    def markdown(self) -> str:
        """A title, the table with the paper's names of its rows, and the notes below."""
        lines = []
        for line, cells in zip(self.lines, self.cells(), strict=True):
            name, *rest = (f"**{cell.text}**" if cell.best else cell.text for cell in cells)
            lines.append([f"`{line.name}`{name.removeprefix(line.name)}", *rest, _system(line)])
        headings = [*self.headings(), "in the paper"]
        table = markdown(headings, lines, left=("recipe", "in the paper"))
        notes = "\n".join(f"- {note}" for note in self.notes())
        return f"## {self.definition.title}\n\n{table}\n{notes}\n"

    def as_json(self) -> dict[str, Any]:
        """Every measured row beside the paper's figures, and what failed."""
        lines = [{"row": line.name, "measured": line.rows, PAPER: line.printed()} for line in self.lines]
        about = {"table": self.definition.name, "corpus": self.corpus, "split": self.split}
        return {**about, "paper_corpus": self.paper_corpus, "rows": lines, "failures": self.failures}

    def terminal(self) -> Group:
        """The same for a terminal; the best of each column is bold."""
        table = Table(
            title=Text(self.definition.title),
            title_justify="left",
            box=SIMPLE_HEAD,
            padding=0,
            pad_edge=False,
        )
        for position, heading in enumerate(self.headings()):
            dim = "dim" if heading == PAPER else ""
            table.add_column(heading, justify="right" if position else "left", style=dim, overflow="fold")
        for cells in self.cells():
            # Narrow, so that seven measures and the paper's seven fit.
            shown = ((cell.text.replace(" ± ", "±"), "bold not dim" if cell.best else "") for cell in cells)
            table.add_row(*(Text(*each) for each in shown))
        return Group(table, *(Text(note) for note in self.notes()))

    def write(self, path: Path) -> None:
        """The Markdown, and the plot beside it.

        Raises:
            SeesayError: there is no place to write to.
        """
        picture = plot_beside(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.plot(picture)
            replace_text(path, f"{self.markdown()}\n![R@1]({picture.name})\n")
        except OSError as error:
            raise SeesayError(f"{path}: cannot be written ({error.strerror}).") from error

    def plot(self, path: Path) -> None:
        """R@1, or the true order's share, of every row: ours, its deviation, and the paper's, as a PNG."""
        from matplotlib.figure import Figure

        recalls = [column for column in self.columns if is_plotted(column)]
        size = (1.5 + 4 * len(recalls), 1.5 + 0.35 * len(self.lines))
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(1, len(recalls), sharey=True, squeeze=False)[0] if recalls else []
        for axes, column in zip(panels, recalls, strict=True):
            self._draw(axes, column)
        if recalls:
            handles, labels = panels[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        with replacing(path) as beside:
            figure.savefig(beside, format="png", dpi=110)

    def _draw(self, axes: Any, column: str) -> None:
        ours = [(y, line.measured(column)) for y, line in enumerate(self.lines) if line.rows]
        spreads = [stdev(values) if len(values) > 1 else 0.0 for _, values in ours]
        means = [fmean(values) for _, values in ours]
        label = f"ours, {corpus_title(self.corpus)}"
        axes.errorbar(means, [y for y, _ in ours], xerr=spreads, fmt="o", capsize=3, label=label)
        theirs = [(y, value) for y, line in enumerate(self.lines) if (value := line.printed().get(column))]
        label = f"paper, {corpus_title(self.paper_corpus)}"
        if theirs:
            axes.plot([v for _, v in theirs], [y for y, _ in theirs], "D", mfc="none", label=label)
        axes.set_yticks(range(len(self.lines)), [line.name for line in self.lines])
        axes.set(
            xlabel=column if column.endswith("%") else f"{column}, %", ylim=(len(self.lines) - 0.5, -0.5)
        )
        axes.grid(alpha=0.3)

    def _published(self, row: TableRow) -> Published | None:
        wanted = row.published or row.recipe or row.name
        protocol = self.definition.protocol_of(row)
        published = find_published(wanted, self.paper_corpus, protocol, self.source)
        if row.published and published is None:
            source, table = self.source
            raise SeesayError(
                f"table {self.definition.name}: row '{row.name}': no row '{row.published}' "
                f"in table {table} of {source} on {self.paper_corpus}."
            )
        return published

    def _printed(self, column: str) -> bool:
        return any(line.printed().get(column) is not None for line in self.lines)


def plot_beside(path: Path) -> Path:
    """Where the plot of a Markdown file goes.

    Raises:
        SeesayError: the Markdown itself is to be a picture.
    """
    if path.suffix.lower() == ".png":
        raise SeesayError(f"{path}: name the Markdown file, such as {path.stem}.md; the plot goes beside it.")
    return path.with_suffix(".png")


def _label(line: Line) -> str:
    return line.name + (", failed" if line.failures and not line.rows else "")


def _system(line: Line) -> str:
    return line.published.system if line.published else ""


def _best(values: Sequence[float | None], column: str) -> list[bool]:
    """Which of a column's values, shown with one decimal, no other beats; none where there is but one."""
    shown = [None if value is None else round(value, 1) for value in values]
    known = [value for value in shown if value is not None]
    if len(known) < 2:
        return [False] * len(shown)
    best = min(known) if column.endswith(MEDIAN_RANK) else max(known)
    return [value == best for value in shown]
