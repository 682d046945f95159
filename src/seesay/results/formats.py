"""A table on a terminal, and as Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from seesay.errors import SeesayError
from seesay.paths import replace_text
from seesay.results.tables import PAPER, Cell, Line, PaperTable, markdown

_NAME = 30  # letters of a name that stays on one line
# Characters that are special in LaTeX, and those that its default fonts lack.
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
    """Return the title, the table with the rows' names in the paper, and the notes."""
    return f"## {table.definition.title}\n\n{markdown_table(table)}"


def markdown_table(table: PaperTable, names: bool = True) -> str:
    """Return the table and the notes; with `names`, also the rows' names in the paper."""
    lines = []
    headings = [*table.headings(), *(["in the paper"] if names else [])]
    for group, sources, below in table.groups():
        if group:
            of = f" ({sources})" if sources else ""
            lines.append([f"**{group}**{of}", *[""] * (len(headings) - 1)])
        for line, cells in below:
            name, *rest = (_joined(f"**{cell.text}**" if cell.best else cell.text, cell) for cell in cells)
            first = f"`{line.name}`{name.removeprefix(line.name)}"
            system = line.published.system if line.published else ""
            lines.append([first, *rest, *([system] if names else [])])
    notes = "".join(f"- {note}\n" for note in table.notes())
    return f"{markdown(headings, lines, left=('recipe', 'in the paper'))}\n{notes}"


def as_latex(table: PaperTable) -> str:
    """Return a LaTeX table with the rules of booktabs, after the notes as comments."""
    headings = table.headings()
    body = []
    for group, sources, below in table.groups():
        if group:
            title = f"\\emph{{{_escaped(group)}}}" + (_escaped(f" ({sources})") if sources else "")
            body.append(f"\\midrule\n\\multicolumn{{{len(headings)}}}{{l}}{{{title}}} \\\\")
        elif not body:
            body.append("\\midrule")
        body += [" & ".join(map(_latex_cell, cells)) + r" \\" for _, cells in below]
    notes = "".join(f"% {' '.join(note.split())}\n" for note in table.notes())
    return (
        f"{notes}% \\usepackage{{booktabs}}\n\\begin{{table}}\n\\centering\n"
        f"\\caption{{{_escaped(table.definition.title)}}}\n"
        f"\\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}\n\\toprule\n"
        f"{' & '.join(map(_escaped, headings))} \\\\\n" + "\n".join(body) + "\n"
        "\\bottomrule\n\\end{tabular}\n\\end{table}\n"
    )


def as_csv(table: PaperTable) -> str:
    """Return a line per row: the mean, deviation, interval and paper's value of every metric, not rounded.

    Intervals are only included if the table shows them.
    """
    ends = ("low", "high") if table.intervals else ()
    kinds = [(column, what) for column in table.all_columns for what in ("", "deviation", *ends, PAPER)]
    about = ["group", "recipe", "changes", "seeds", "in the paper", "source", "table", "paper's corpus"]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([*about, *(f"{column} {what}".strip() for column, what in kinds)])
    for line in table.lines:
        paper = line.published
        origin = [paper.system, paper.source, paper.table, paper.corpus] if paper else [""] * 4
        words = [line.row.group or "", line.name, " ".join(line.row.changes)]
        row = [*map(_no_formula, words), len(line.rows), *map(_no_formula, origin)]
        values = (_values(line, column, bool(ends)) for column in table.all_columns)
        writer.writerow(row + [value for each in values for value in each])
    return written.getvalue()


def _no_formula(cell: object) -> object:
    """Quote a text that a spreadsheet would take for a formula; leave numbers as they are."""
    risky = isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{cell}" if risky else cell


FORMATS: dict[str, Callable[[PaperTable], str]] = {
    ".md": as_markdown,
    ".tex": as_latex,
    ".csv": as_csv,
    ".json": lambda table: json.dumps(table.to_dict(), ensure_ascii=False, indent=1) + "\n",
}


def check_format(path: Path) -> None:
    """Check that a table can be written there, before anything is trained for it.

    Raises:
        SeesayError: the suffix is not that of a format.
    """
    if path.suffix.lower() not in FORMATS:
        raise SeesayError(f"{path}: tables are written as {', '.join(FORMATS)}; choose one of these.")


def write_table(table: PaperTable, path: Path) -> None:
    """Write the table in the format of the path's suffix.

    Raises:
        SeesayError: the format is unknown, or the file cannot be written.
    """
    check_format(path)
    text = FORMATS[path.suffix.lower()](table)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, text)
    except OSError as error:
        raise SeesayError(f"{path}: cannot be written ({error.strerror}).") from error


def for_terminal(table: PaperTable) -> Group:
    """Return the table for a terminal; the best of each column is bold."""
    title = Text(table.definition.title)
    shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    first, *others = table.headings()
    longest = max(len(line.name) for line in table.lines)
    # A long name, of a run with changes, is broken, or it would leave no room for the figures.
    shown.add_column(first, no_wrap=longest <= _NAME, overflow="fold")
    for heading in others:
        style = "dim" if heading.startswith(PAPER) else ""
        shown.add_column(heading, style=style, justify="right", overflow="fold")
    notes = []
    for group, sources, below in table.groups():
        if group:
            shown.add_section()
            shown.add_row(Text(group, style="bold"))
            notes += [f"{group}, paper: {sources}."] if sources else []
        for line, cells in below:
            # Without spaces, so that seven columns and the paper's seven fit.
            texts = [Text(c.text.replace(" ± ", "±"), "bold not dim" if c.best else "") for c in cells]
            for text, cell in zip(texts, cells, strict=True):
                text.append(_joined("", cell).replace(", ", ","), "not bold dim")
            shown.add_row(*texts, style="" if line.rows else "dim")
    return Group(shown, *(Text(note) for note in (*notes, *table.notes())))


def _values(line: Line, column: str, intervals: bool) -> tuple[float | str, ...]:
    values, printed = line.measured(column), line.printed.get(column)
    deviation = stdev(values) if len(values) > 1 else ""
    ends = (line.interval(column) or ("", "")) if intervals else ()
    return fmean(values) if values else "", deviation, *ends, "" if printed is None else printed


def _joined(text: str, cell: Cell) -> str:
    return f"{text} {cell.interval}" if cell.interval else text


def _latex_cell(cell: Cell) -> str:
    text = f"\\textbf{{{_escaped(cell.text)}}}" if cell.best else _escaped(cell.text)
    return text + (f" {{\\scriptsize {cell.interval}}}" if cell.interval else "")


def _escaped(text: str) -> str:
    return text.translate(_LATEX)
