"""A table, printed as Markdown, LaTeX, CSV or on a terminal, and its numbers; a report writes it as HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

    from seesay.protocols.base import Metrics

# Characters that are special in LaTeX, and those that its default fonts lack.
_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "±": r"$\pm$",
        "–": "--",
        "−": "$-$",
        "λ": r"$\lambda$",
        "≥": r"$\geq$",
        "×": r"$\times$",
        "<": "$<$",
        ">": "$>$",
    }
)
WAYS = {"S": "sentence", "I": "image"}  # of retrieval, by how their metrics begin
_NAME = 30  # letters of a name that stays on one line


def number(value: float | None) -> str:
    """Format with one decimal; a dash for None."""
    return "–" if value is None else f"{value:.1f}"


def numbers(row: Metrics, names: Iterable[str]) -> list[str]:
    """Format metrics of a row in that order; a dash for a missing one."""
    return [number(row.get(name)) for name in names]


def spread(values: Sequence[float]) -> str:
    """Format as mean ± standard deviation; a single value alone, and a dash for none."""
    if not values:
        return number(None)
    mean = number(fmean(values))
    return f"{mean} ± {stdev(values):.1f}" if len(values) > 1 else mean


def p_value(p: float) -> str:
    """Format a p-value: `p = 0.034`, or `p < 0.001`."""
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table, or a heading.

    Attributes:
        text: what it says.
        small: smaller text behind it, such as an interval.
        bold: whether it stands out, as the best of its column.
        dim: whether it stands back on a terminal, as a printed value beside a measured one.
        code: whether it is a name of something in seesay, which Markdown marks.
    """

    text: str
    small: str = ""
    bold: bool = False
    dim: bool = False
    code: bool = False

    def __str__(self) -> str:
        """Return the text, and the smaller text behind it."""
        return f"{self.text} {self.small}" if self.small else self.text


@dataclass(frozen=True, slots=True)
class Section:
    """A heading above the rows that follow; `sources` names the papers of their published values."""

    title: str = ""
    sources: str = ""

    def titled(self, form: str, escaped: Callable[[str], str] = str) -> str:
        """Return the title in that form, and the sources."""
        return form % escaped(self.title) + (f" ({escaped(self.sources)})" if self.sources else "")


CellContent: TypeAlias = Cell | str | float


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        headings: of the columns.
        rows: rows of as many cells, and headings of sections. Numbers are only for CSV.
        notes: lines below the table.
        title: a line above it.
        words: the columns whose cells are words and therefore begin on the left; by default the first.
        name: by which LaTeX refers to the table, as `tab:NAME`; empty for none.
    """

    headings: Sequence[Cell | str]
    rows: Sequence[Sequence[CellContent] | Section]
    notes: Sequence[str] = ()
    title: str = ""
    words: Collection[int] = (0,)
    name: str = ""

    def markdown(self) -> str:
        """Return the table, and its notes as a list."""
        rules = ["---" if column in self.words else "---:" for column in range(len(self.headings))]
        lines = [[str(each) for each in self.headings], rules]
        for row in self.rows:
            if isinstance(row, Section):
                lines.append([row.titled("**%s**"), *[""] * (len(self.headings) - 1)])
            else:
                marked = ((cell, "`" * cell.code or "**" * cell.bold) for cell in map(as_cell, row))
                lines.append([str(replace(cell, text=f"{mark}{cell.text}{mark}")) for cell, mark in marked])
        escaped = ([cell.replace("|", r"\|") for cell in cells] for cells in lines)
        table = "".join(f"| {' | '.join(cells)} |\n" for cells in escaped)
        return table + ("\n" + "".join(f"- {note}\n" for note in self.notes) if self.notes else "")

    def latex(self) -> str:
        """Return a LaTeX table with the rules of booktabs, after the notes as comments."""
        body = [] if self.rows and isinstance(self.rows[0], Section) else ["\\midrule"]
        for row in self.rows:
            if isinstance(row, Section):
                title = row.titled(r"\emph{%s}", _escaped)
                body.append(f"\\midrule\n\\multicolumn{{{len(self.headings)}}}{{l}}{{{title}}} \\\\")
            else:
                body.append(" & ".join(_as_latex(as_cell(each)) for each in row) + r" \\")
        spec = "".join("l" if column in self.words else "r" for column in range(len(self.headings)))
        notes = "".join(f"% {' '.join(note.split())}\n" for note in self.notes)
        label = f"\\label{{tab:{self.name}}}\n" if self.name else ""
        return (
            f"{notes}% \\usepackage{{booktabs}}\n\\begin{{table}}\n\\centering\n"
            f"\\caption{{{_escaped(self.title)}}}\n{label}\\begin{{tabular}}{{{spec}}}\n\\toprule\n"
            + "\n".join([*self._latex_headings(), *body])
            + "\n\\bottomrule\n\\end{tabular}\n\\end{table}\n"
        )

    def _latex_headings(self) -> list[str]:
        """Return lines of headings, with those of a direction of retrieval below its name."""
        above, below = [""], list[str]()
        for each in map(str, self.headings):
            way, _, metric = each.partition(" ")
            if metric and way in WAYS:
                above.append(f"{WAYS[way]} retrieval")
                each = metric
            else:  # a paper's column belongs to the metric on its left
                above.append(above[-1] if each.startswith("paper") else "")
            below.append(_escaped(each))
        groups, rules = list[str](), list[str]()
        for group, columns in groupby(range(1, len(above)), key=above.__getitem__):
            first, *others = columns
            groups.append(f"\\multicolumn{{{1 + len(others)}}}{{c}}{{{group}}}")
            rules += [f"\\cmidrule(lr){{{first}-{first + len(others)}}}"] if group else []
        grouped = [" & ".join(groups) + r" \\", " ".join(rules)] if rules else []
        return [*grouped, " & ".join(below) + r" \\"]

    def csv(self) -> str:
        """Return a line for each row, without sections and notes; numbers are not rounded."""
        written = io.StringIO()
        writer = csv.writer(written, lineterminator="\n")
        writer.writerow([str(each) for each in self.headings])
        for row in self.rows:
            if not isinstance(row, Section):
                writer.writerow([_no_formula(each) for each in row])
        return written.getvalue()

    def terminal(self) -> Group:
        """Return the table for a terminal, without lines between columns."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        title = Text(self.title) if self.title else None
        shown = RichTable(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0, pad_edge=False)
        # A long name is broken, or it would leave no room for the figures.
        names = [len(as_cell(row[0]).text) for row in self.rows if not isinstance(row, Section)]
        short = max(names, default=0) <= _NAME
        for at, each in enumerate(self.headings):
            side: Literal["left", "right"] = "left" if at in self.words else "right"
            heading = _as_text(as_cell(each))
            shown.add_column(heading, justify=side, no_wrap=short and at == 0, overflow="fold")
        notes = []
        for row in self.rows:
            if isinstance(row, Section):
                shown.add_section()
                if row.title:
                    shown.add_row(Text(row.title, style="bold"))
                notes += [f"{row.title}, paper: {row.sources}."] if row.sources else []
            else:
                shown.add_row(*(_as_text(as_cell(each)) for each in row))
        return Group(shown, *(Text(note) for note in (*notes, *self.notes)))


def as_cell(content: CellContent) -> Cell:
    """Return a cell; text and numbers become one."""
    return content if isinstance(content, Cell) else Cell(str(content))


def _as_latex(cell: Cell) -> str:
    text = f"\\textbf{{{_escaped(cell.text)}}}" if cell.bold else _escaped(cell.text)
    return text + (f" {{\\scriptsize {_escaped(cell.small)}}}" if cell.small else "")


def _escaped(text: str) -> str:
    return text.translate(_LATEX)


def _as_text(cell: Cell) -> Text:
    """Return a cell for a terminal, without spaces, so that fourteen columns fit."""
    from rich.text import Text

    text = Text(cell.text.replace(" ± ", "±"), "dim" * cell.dim)
    if cell.bold:
        text.style = "bold not dim"
    if cell.small:
        text.append(f" {cell.small.replace(', ', ',')}", "not bold dim")
    return text


def _no_formula(content: CellContent) -> str | float:
    """Quote a text that a spreadsheet would take for a formula; leave numbers as they are."""
    if not isinstance(content, Cell | str):
        return content
    text = str(content)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
