"""A table in the formats that people paste: Markdown, LaTeX, CSV, JSON; and on a terminal."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, stdev

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from seesay.errors import SeesayError
from seesay.paths import replace_text
from seesay.results.columns import markdown as markdown_table
from seesay.results.paper_table import PAPER, Cell, Line, PaperTable
from seesay.results.table_plot import plot

# What LaTeX reads as something else, and letters that its default fonts lack.
_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "±": r"$\pm$",
        "–": "--",
        "λ": r"$\lambda$",
        "≥": r"$\geq$",
        "×": r"$\times$",
        "<": "$<$",
        ">": "$>$",
    }
)


def as_markdown(table: PaperTable) -> str:
    """A title, the table with the paper's names of its rows, and the notes below."""
    return f"## {table.definition.title}\n\n{markdown_lines(table)}"


def markdown_lines(table: PaperTable, names: bool = True) -> str:
    """The table and the notes below; `names` adds the paper's names of its rows."""
    lines = []
    headings = [*table.headings(), *(["in the paper"] if names else [])]
    for group, sources, below in table.groups():
        if group:
            of = f" ({sources})" if sources else ""
            lines.append([f"**{group}**{of}", *[""] * (len(headings) - 1)])
        for line, cells in below:
            name, *rest = (f"**{cell.text}**" if cell.best else cell.text for cell in cells)
            first = f"`{line.name}`{name.removeprefix(line.name)}"
            lines.append([first, *rest, *([_system(line)] if names else [])])
    notes = "".join(f"- {note}\n" for note in table.notes())
    return f"{markdown_table(headings, lines, left=('recipe', 'in the paper'))}\n{notes}"


def as_latex(table: PaperTable) -> str:
    """A `table` of LaTeX's booktabs, with the notes as comments above."""
    headings = table.headings()
    body = []
    for group, sources, below in table.groups():
        if group:
            title = f"\\emph{{{_escaped(group)}}}" + (_escaped(f" ({sources})") if sources else "")
            body.append(f"\\midrule\n\\multicolumn{{{len(headings)}}}{{l}}{{{title}}} \\\\")
        elif not body:
            body.append("\\midrule")
        for _, cells in below:
            body.append(" & ".join(map(_latex_cell, cells)) + r" \\")
    notes = "".join(f"% {' '.join(note.split())}\n" for note in table.notes())
    return (
        f"{notes}% \\usepackage{{booktabs}}\n\\begin{{table}}\n\\centering\n"
        f"\\caption{{{_escaped(table.definition.title)}}}\n"
        f"\\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}\n\\toprule\n"
        f"{' & '.join(map(_escaped, headings))} \\\\\n" + "\n".join(body) + "\n"
        "\\bottomrule\n\\end{tabular}\n\\end{table}\n"
    )


def as_csv(table: PaperTable) -> str:
    """A line a row: mean, deviation and the paper's figure of every measure, not rounded."""
    kinds = [(column, what) for column in table.all_columns for what in ("", "deviation", PAPER)]
    about = ["group", "recipe", "changes", "seeds", "in the paper", "source", "table", "paper's corpus"]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([*about, *(f"{column} {what}".strip() for column, what in kinds)])
    for line in table.lines:
        paper = line.published
        origin = [paper.system, paper.source, paper.table, paper.corpus] if paper else [""] * 4
        row = [line.row.group or "", line.name, " ".join(line.row.changes), len(line.rows), *origin]
        writer.writerow([*row, *(value for column in table.all_columns for value in _values(line, column))])
    return written.getvalue()


def as_json(table: PaperTable) -> str:
    """What `seesay table --json` prints."""
    return json.dumps(table.as_json(), ensure_ascii=False, indent=1) + "\n"


FORMATS: dict[str, Callable[[PaperTable], str]] = {
    ".md": as_markdown,
    ".tex": as_latex,
    ".csv": as_csv,
    ".json": as_json,
}


def check_format(path: Path) -> None:
    """See that a table can be written there, before anything is trained for it.

    Raises:
        SeesayError: its name ends in none of the formats.
    """
    if path.suffix.lower() not in FORMATS:
        raise SeesayError(f"{path}: a table is written as one of {', '.join(FORMATS)}; name such a file.")


def write_table(table: PaperTable, path: Path) -> None:
    """The table in the format that the path's end names; Markdown has a plot beside it.

    Raises:
        SeesayError: no such format, or no place to write to.
    """
    check_format(path)
    text = FORMATS[path.suffix.lower()](table)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() == ".md":
            picture = path.with_suffix(".png")
            plot(table, picture)
            text += f"\n![R@1]({picture.name})\n"
        replace_text(path, text)
    except OSError as error:
        raise SeesayError(f"{path}: cannot be written ({error.strerror}).") from error


def terminal(table: PaperTable) -> Group:
    """The table for a terminal; the best of each column is bold."""
    shown = Table(
        title=Text(table.definition.title),
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=0,
        pad_edge=False,
    )
    for position, heading in enumerate(table.headings()):
        dim = "dim" if heading == PAPER else ""
        of_figures = {"justify": "right", "overflow": "fold"}
        shown.add_column(heading, style=dim, **(of_figures if position else {"no_wrap": True}))
    notes = []
    for group, sources, below in table.groups():
        if group:
            shown.add_section()
            shown.add_row(Text(group, style="bold"))
            notes += [f"{group}, paper: {sources}."] if sources else []
        for line, cells in below:
            # Narrow, so that seven measures and the paper's seven fit.
            texts = ((cell.text.replace(" ± ", "±"), "bold not dim" if cell.best else "") for cell in cells)
            shown.add_row(*(Text(*each) for each in texts), style="" if line.rows else "dim")
    return Group(shown, *(Text(note) for note in (*notes, *table.notes())))


def _values(line: Line, column: str) -> Iterator[float | str]:
    values, printed = line.measured(column), line.printed().get(column)
    yield fmean(values) if values else ""
    yield stdev(values) if len(values) > 1 else ""
    yield "" if printed is None else printed


def _latex_cell(cell: Cell) -> str:
    return f"\\textbf{{{_escaped(cell.text)}}}" if cell.best else _escaped(cell.text)


def _escaped(text: str) -> str:
    return text.translate(_LATEX)


def _system(line: Line) -> str:
    return line.published.system if line.published else ""
