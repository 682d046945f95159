"""A paper's table of measured rows beside published ones, and its files.

Measured values are shown as mean ± standard deviation over seeds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from pathlib import Path
from statistics import fmean, stdev

from pydantic import JsonValue

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import Interval
from seesay.paths import check_file, writing
from seesay.protocols.base import PROTOCOLS, Comparison, CorpusContent, Metrics
from seesay.protocols.grounding import conventions
from seesay.recipes.table import TableDefinition, TableRow, corpus_title
from seesay.results.formats import Cell, Section, Table, number, p_value, spread
from seesay.results.published import PublishedRow, find_published, published_rows, sources
from seesay.results.records import Row, read_rows, recorded_rows, repetitions

FORMATS = (".md", ".tex", ".csv", ".json")

_PAPER = "paper"
_MEDIAN_RANK = "Med r"
_PUBLISHED = ("system", "source", "table", "corpus", "protocol", "test_images", "note")  # in JSON


@dataclass(eq=False)
class Line:
    """A row of the table: the published row, a measured row for each seed, and failures."""

    row: TableRow
    published: PublishedRow | None
    rows: list[Row] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def printed(self) -> Metrics:
        """The paper's metrics."""
        return self.published.metrics if self.published else {}

    def name_of(self, row: Row) -> str:
        """The name of one of the measured rows, with its seed if there are several."""
        return f"{self.row.name}, seed {row.seed}" if len(self.rows) > 1 else self.row.name

    def measured(self, column: str) -> list[float]:
        """The column's known values, one for each seed."""
        return [value for row in self.rows if (value := row.shown.get(column)) is not None]

    def interval(self, column: str) -> Interval | None:
        """The 95 % interval of the column's value; None without one, or if there are several seeds."""
        return self.rows[0].intervals.get(column) if len(self.rows) == 1 else None


class PaperTable:
    """The lines of a table on a split of a corpus, to which measured rows are added.

    `metrics` are the columns to show: `S R@1`, or `R@1` for both directions; those of the definition by
    default. With `intervals`, cells of a single measurement have its 95 % interval.

    Raises:
        SeesayError: a row names a published row that the paper does not have, or no protocol of the table
            measures one of the metrics.
    """

    def __init__(
        self, definition: TableDefinition, corpus: str, split: str, metrics: Sequence[str] = ()
    ) -> None:
        self.definition, self.corpus, self.split = definition, corpus, split
        self.metrics = tuple(metrics) or definition.metrics
        self.intervals = False
        self.lines = [Line(row, self._published(row)) for row in definition.rows]
        protocols = [PROTOCOLS[definition.protocol_of(row)] for row in definition.rows]
        measured = [each.columns or each.metrics for each in protocols]
        if all(measured):  # a mistyped metric is refused before anything is trained
            self._chosen([*chain(*measured), *self.all_columns])

    def line(self, name: str) -> Line:
        """Return the line of that name, to which rows and failures are added."""
        return next(line for line in self.lines if line.row.name == name)

    @property
    def failures(self) -> list[str]:
        """Descriptions of the rows that failed."""
        return [failure for line in self.lines for failure in line.failures]

    @property
    def all_columns(self) -> list[str]:
        """Every column of the measured or the published rows."""
        ours = [row.shown for line in self.lines for row in line.rows]
        return list(dict.fromkeys(chain(*ours, *(line.printed for line in self.lines))))

    @property
    def columns(self) -> list[str]:
        """The columns to show; Med r only if every paper prints it, unless `metrics` names it.

        Raises:
            SeesayError: there is no column of a name in `metrics`.
        """
        if self.metrics:
            return self._chosen(self.all_columns)
        papers = [line.printed for line in self.lines if line.printed]
        return [
            column
            for column in self.all_columns
            if not column.endswith(_MEDIAN_RANK)
            or (papers and all(printed.get(column) is not None for printed in papers))
        ]

    def _chosen(self, columns: Sequence[str]) -> list[str]:
        """Return the columns that `metrics` names; raise a SeesayError if it names another one."""
        known = {column: {column, column.partition(" ")[2] or column} for column in columns}
        wanted = set(self.metrics)
        if missing := sorted(wanted.difference(*known.values())) if known else []:
            raise SeesayError(f"No metric '{missing[0]}' in this table; there are: {', '.join(known)}.")
        return [column for column, names in known.items() if names & wanted]

    def headings(self) -> list[str]:
        """Return the headings: the row's name, then each column, with the paper's beside it if printed.

        A paper's column names its corpus if that is not the one measured.
        """
        others = self._paper_corpora()
        other = f", {corpus_title(others[0])}" if len(others) == 1 and self.corpus not in others else ""
        paper = [f"{_PAPER}{other}"]
        return ["recipe", *chain(*([column, *paper * self._is_printed(column)] for column in self.columns))]

    @property
    def content(self) -> CorpusContent | None:
        """What most rows were measured on; None if no row says so."""
        known = Counter(row.content for line in self.lines for row in line.rows)
        return max(filter(None, known), key=known.__getitem__, default=None)

    @property
    def title(self) -> str:
        """The title, which says what was measured on unless this is the papers' test set."""
        usual = {row.test_images for row in published_rows(self.corpus)}
        if self.content is None or (self.split == "test" and self.content.images in usual):
            return self.definition.title
        return f"{self.definition.title}: {self.content}"

    def _unlike_papers(self) -> int | None:
        """Return the size of the papers' test set, if it is another one than what was measured."""
        papers = [line.published for line in self.lines if line.published]
        sizes = [paper.test_images for paper in papers if paper.corpus == self.corpus]
        return next((size for size in sizes if self.content and size != self.content.images), None)

    def _on_others(self, line: Line) -> str:
        """Return what a line was measured on if that is not what most are; empty otherwise."""
        counts = next(map(str, {row.content for row in line.rows} - {None, self.content}), "")
        return "other sentences" if counts and counts == str(self.content) else counts

    def cells(self) -> list[list[Cell]]:
        """Return the cells of each line, under `headings`.

        The best measured value of each column is marked, and the best printed one if all are of one table.
        What was measured on other images or sentences is not compared, neither with rows nor with papers.
        """
        others = [self._on_others(line) for line in self.lines]
        lines = []
        for line, other in zip(self.lines, others, strict=True):
            name = line.row.name + (", failed" if line.failures and not line.rows else "")
            lines.append([Cell(name, f"on {other}" if other else "", code=True)])
        for column in self.columns:
            ours = [line.measured(column) for line in self.lines]
            compared = [fmean(v) if v and not on else None for v, on in zip(ours, others, strict=True)]
            bold = [not self._unlike_papers() and best for best in _best(compared, column)]
            for cells, line, values, best in zip(lines, self.lines, ours, bold, strict=True):
                ends = line.interval(column) if self.intervals else None
                cells.append(Cell(spread(values), f"[{ends.low:.1f}, {ends.high:.1f}]" if ends else "", best))
            if self._is_printed(column):
                theirs = [line.printed.get(column) for line in self.lines]
                bold = [bool(self.definition.paper) and best for best in _best(theirs, column)]
                for cells, value, best in zip(lines, theirs, bold, strict=True):
                    cells.append(Cell(number(value), bold=best, dim=True))
        return lines

    def table(self, names: bool = False) -> Table:
        """Return the table to print, with headings above groups of lines.

        With `names`, the last column has the rows' names in the paper.
        """
        rows: list[Sequence[Cell | str] | Section] = []
        both = zip(self.lines, self.cells(), strict=True)
        for group, below in groupby(both, key=lambda each: each[0].row.group):
            lines = list(below)
            if group:
                known = [line.published for line, _ in lines if line.published]
                rows.append(Section(group, sources(known, self.corpus)))
            for line, cells in lines:
                system = [line.published.system if line.published else ""] if names else []
                rows.append([*(each if line.rows else replace(each, dim=True) for each in cells), *system])
        headings = [*self.headings(), *(["in the paper"] if names else [])]
        words = {0, len(headings) - 1} if names else {0}
        return Table(headings, rows, self.notes(), self.title, words, self.definition.name)

    def differences(self) -> Table | None:
        """Return the differences of the rows from the one that they are compared with; None without any."""
        compared = [
            (line.name_of(row), against)
            for line in self.lines
            for row in line.rows
            if (against := row.against) is not None
        ]
        if not compared:
            return None
        title = f"Differences from {compared[0][1].name} on the same queries, each with its two-sided p"
        return differences_table(self.columns, compared, title, f"{self.definition.name}-differences")

    def data(self) -> Table:
        """Return the mean, deviation, interval and paper's value of every metric, not rounded."""
        kinds = ("", " deviation", " low", " high", f" {_PAPER}")
        about = ["group", "recipe", "changes", "seeds", "in the paper", "source", "table", "paper's corpus"]
        rows: list[Sequence[str | float]] = []
        for line in self.lines:
            paper, on = line.published, line.rows[0].content if line.rows else None
            origin = [paper.system, paper.source, paper.table, paper.corpus] if paper else [""] * 4
            cells = [line.row.group or "", line.row.name, " ".join(line.row.changes), len(line.rows), *origin]
            cells.append(str(on or ""))
            for column in self.all_columns:
                values, printed = line.measured(column), line.printed.get(column)
                cells += [fmean(values) if values else "", stdev(values) if len(values) > 1 else ""]
                cells += [*(line.interval(column) or ("", "")), "" if printed is None else printed]
            rows.append(cells)
        return Table(
            [*about, "measured on", *(each + kind for each in self.all_columns for kind in kinds)], rows
        )

    def notes(self) -> list[str]:
        """Return notes on the metrics, departures from the paper and failures."""
        rows = [row for line in self.lines for row in line.rows]
        notes = [self._origin()]
        if seeds := sorted({len(line.rows) for line in self.lines} - {0, 1}):
            counts = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
            where = "Figures with ±" if any(len(line.rows) == 1 for line in self.lines) else "Ours"
            notes.append(f"{where} are the mean ± the standard deviation of {counts} seeds.")
        if self.intervals:
            notes.append("In brackets: 95 % bootstrap intervals, the images drawn with all their queries.")
        if convention := conventions(row.about for row in rows):
            notes.append(convention)
        if self.definition.paper:
            departures = dict.fromkeys(d for row in rows for d in row.departures)
            notes += [f"Departure from the paper: {departure}." for departure in departures]
        if (size := self._unlike_papers()) is not None:
            notes.append(
                f"Ours are on {self.content}; the papers' test set has {size:,}, so they do not compare."
            )
        if any(map(self._on_others, self.lines)):
            notes.append(f"Rows that name other images do not compare with the rest, on {self.content}.")
        notes += self._features()
        notes += [note for row in rows if not row.encoder for note in row.notes]
        variants = [line.row for line in self.lines if line.row.changes]
        notes += [f"{row.name} is {row.recipe} with {' '.join(row.changes)}." for row in variants]
        named = {change for row in variants for change in row.changes}
        changes = dict.fromkeys(change for row in rows for change in row.variant if change not in named)
        notes += [f"Changed: {', '.join(changes)}."] if changes else []
        unmeasured = [
            line for line in self.lines if line.row.measured and not line.rows and not line.failures
        ]
        notes += [f"Not measured: {', '.join(line.row.name for line in unmeasured)}."] if unmeasured else []
        return notes + self.failures

    def to_dict(self) -> dict[str, JsonValue]:
        """Return every measured row, the paper's metrics and what failed, as JSON-ready values."""
        lines: list[JsonValue] = [
            {
                "row": line.row.name,
                **({"group": line.row.group} if line.row.group else {}),
                "measured": [row.to_dict(uncertainty=True) for row in line.rows],
                _PAPER: dict(line.printed),
                "published": {k: getattr(line.published, k) for k in _PUBLISHED} if line.published else None,
            }
            for line in self.lines
        ]
        about = {"table": self.definition.name, "corpus": self.corpus, "split": self.split}
        return {**about, "rows": lines, "failures": list(self.failures)}

    def _is_printed(self, column: str) -> bool:
        return any(line.printed.get(column) is not None for line in self.lines)

    def _paper_corpora(self) -> list[str]:
        """Return the corpora of the published rows."""
        return list(dict.fromkeys(line.published.corpus for line in self.lines if line.published))

    def _origin(self) -> str:
        """Return a line that says what ours are, and from where the papers' figures."""
        protocols = dict.fromkeys(self.definition.protocol_of(row) for row in self.definition.rows)
        ours = f"Ours: {', '.join(protocols)} on {corpus_title(self.corpus)}, {self.split}."
        if self.definition.paper is None:
            known = [line.published for line in self.lines if line.published and not line.row.group]
            return ours + (f" Paper: {sources(known, self.corpus)}." if known else "")
        source, table = self.definition.paper
        on = " and ".join(map(corpus_title, self._paper_corpora() or [self.definition.corpus]))
        return f"{ours} Paper: {source}, table {table}, on {on}."

    def _features(self) -> list[str]:
        """Return notes on the image features of the rows, if these differ."""
        seen: dict[str, list[str]] = {}
        for line in self.lines:
            for features in dict.fromkeys(row.features for row in line.rows if row.features):
                seen.setdefault(features, []).append(line.row.name)
        if len(seen) < 2:
            return []
        usual = max(seen, key=lambda features: len(seen[features]))
        others = [f"Image features of {', '.join(rows)}: {by}." for by, rows in seen.items() if by != usual]
        return [f"Image features: {usual}, unless a line below says otherwise.", *others]

    def _published(self, row: TableRow) -> PublishedRow | None:
        """Return the row of a paper's table for this corpus, or else for the table's own; see `beside`."""
        if row.changes and not row.published:
            return None  # no paper measured the variant
        definition, paper = self.definition, self.definition.paper
        corpora = [*dict.fromkeys((self.corpus, definition.corpus, *definition.beside))]
        if paper is not None:
            of_corpus = published_rows(self.corpus, definition.protocol)
            same = any((each.source, each.table) == paper for each in of_corpus)
            corpora = [self.corpus if same else definition.corpus]
        wanted = row.published or row.recipe or row.name
        found = (find_published(wanted, each, definition.protocol_of(row), paper) for each in corpora)
        published = next(filter(None, found), None)
        if published is None and row.published:
            of = f"table {paper[1]} of {paper[0]}" if paper else "any paper"
            raise SeesayError(
                f"Table {definition.name}: row '{row.name}': no row '{row.published}' in {of} on "
                f"{', '.join(corpora)}."
            )
        return published


def differences_table(
    columns: Sequence[str], compared: Sequence[tuple[str, Comparison]], title: str = "", name: str = ""
) -> Table:
    """Return a table of the differences of named results from another one, with p-values."""
    rows = []
    for row, comparison in compared:
        rows.append([Cell(row)])
        for found in map(comparison.metrics.get, columns):
            if found is None or found.difference is None or found.p is None:
                rows[-1].append(Cell(number(None)))
                continue
            rows[-1].append(Cell(f"{found.difference:+.1f}".replace("-", "−"), p_value(found.p)))
    return Table(["", *columns], rows, title=title, name=name)


def _best(values: Sequence[float | None], column: str) -> list[bool]:
    """Mark the best of at least two values, rounded as they are shown."""
    shown = [None if value is None else round(value, 1) for value in values]
    known = [value for value in shown if value is not None]
    best = (min if column.endswith(_MEDIAN_RANK) else max)(known, default=None)
    return [len(known) > 1 and value == best for value in shown]


def recorded_table(
    definition: TableDefinition, path: Path | None = None, split: str = "test", metrics: Sequence[str] = ()
) -> PaperTable:
    """Return a table of recorded rows; by default those of the definition's corpus, see `recorded_rows`.

    Raises:
        SeesayError: the file has no rows, or a row names a published row that the paper does not have.
    """
    path = path or recorded_rows(definition.corpus)
    rows = read_rows(path)
    if not rows:
        other = "flickr8k-phrases" if definition.protocol == "grounding" else "flickr8k"
        raise SeesayError(
            f"{path}: no recorded rows; name a corpus with --data to train and measure the rows of the "
            f"table, or see those of another corpus: --results {other}."
        )
    table = PaperTable(definition, path.stem, split, metrics)
    counts = Counter(row.content for row in rows if row.split == split)
    usual = [content for content, _ in counts.most_common(1)]
    for line in (each for each in table.lines if each.row.measured):
        recipe = line.row.name if line.row.combine else line.row.recipes[0]
        wanted = (recipe, definition.protocol_of(line.row), split, sorted(line.row.changes))
        found = repetitions(
            each for each in rows if (each.recipe, each.protocol, each.split, each.variant) == wanted
        )
        on_usual = [each for each in found if each[0].content in usual]
        line.rows = max(on_usual or found, key=len, default=[])
    return table


def write_table(table: PaperTable, path: Path) -> None:
    """Write the table in the format of the path's suffix: Markdown, LaTeX, CSV or JSON.

    Raises:
        SeesayError: the format is unknown, every row failed, or the file cannot be written.
    """
    check_file(path, FORMATS)
    if table.failures and not any(line.rows for line in table.lines):
        raise SeesayError(f"{path}: not written, because every row failed; the first: {table.failures[0]}")
    suffix, below = path.suffix.lower(), table.differences()
    if suffix == ".csv":
        text = table.data().csv()
    elif suffix == ".json":
        text = json.dumps(table.to_dict(), ensure_ascii=False, indent=1) + "\n"
    else:
        tables = [table.table(names=suffix == ".md"), *([below] if below is not None else [])]
        text = "\n".join(
            each.latex() if suffix == ".tex" else f"## {each.title}\n\n{each.markdown()}" for each in tables
        )
    with writing(path) as beside:
        beside.write_text(text, encoding="utf-8")
