"""Commands that train, evaluate and compare."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seesay.cli import options as opt
from seesay.cli import printing as console
from seesay.errors import SeesayError
from seesay.paths import home_expanded

if TYPE_CHECKING:
    from seesay.results.paper_table import PaperTable


@opt.command(device=True, epilog="Example: seesay train irmatch-s --data flickr8k --set schedule.epochs=5")
def train(
    context: typer.Context,
    recipe: Annotated[
        str,
        typer.Argument(metavar="RECIPE", help="A recipe's name or YAML file; `seesay recipes` lists them."),
    ],
    data: opt.Data = opt.HERE,
    *,
    reading: opt.Reading,
    out: Annotated[Path | None, typer.Option(help="The run's folder; runs/RECIPE by default.")] = None,
    change: opt.Changes = None,
    resume: Annotated[bool, typer.Option(help="Continue after the last finished epoch.")] = False,
    start_from: Annotated[
        str | None,
        typer.Option("--from", metavar="RUN", help="Start from the weights of a run of the same recipe."),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Train a matcher on captioned images, or on phrases with boxes; the result is a run.

    The corpus is by default the current folder.
    """
    from seesay.recipes.load import learns_phrases, load_recipe, settings_line
    from seesay.runs.load import load_run
    from seesay.runs.summary import TrainingSummary, is_finished
    from seesay.training.summarize import compared_with_included
    from seesay.training.train import can_resume
    from seesay.training.train import train as run_training

    start = load_run(start_from) if start_from is not None else None
    corpus = reading.read(data or opt.HERE, phrases=learns_phrases(recipe))
    console.print_omissions(corpus.issues)
    resolved = load_recipe(recipe, corpus.name, change or ())
    if line := settings_line(resolved.name, [resolved]):
        console.tell(line)
    folder = home_expanded(out or opt.RUNS / resolved.name)
    if resume and is_finished(folder):
        console.tell(f"{folder}: is finished. To train on, start another run from its weights with --from.")
    try:
        run = run_training(resolved, corpus, folder, resume, start_from=start)
    except KeyboardInterrupt:
        again = ["seesay", *context.obj, *(["--resume"] if can_resume(folder) and not resume else [])]
        console.tell(f"seesay: stopped; to continue: {shlex.join(again)}")
        raise SystemExit(opt.STOPPED) from None
    summary = TrainingSummary.load(folder)
    compared = compared_with_included(run, corpus)
    if as_json:
        console.print_json(summary.to_dict() | ({"compared": compared.to_dict()} if compared else {}))
    else:
        console.print_training(summary, folder, compared, reading.allow_outside)


@opt.command(epilog="Example: seesay export runs/irmatch-s --out irmatch-s")
def export(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's folder, or included weights (seesay-small).")
    ],
    out: Annotated[Path, typer.Option(help="The folder to write, with everything the run needs.")],
    as_json: opt.Json = False,
) -> None:
    """Write a run as a folder that works without PyTorch."""
    from seesay.runs.bundle import write_bundle

    extra = write_bundle(run, out)
    if as_json:
        console.print_json({"folder": str(out), "extra": extra})
    else:
        print(
            f"{out}: written. It needs {f'seesay[{extra}], for its encoders' if extra else 'seesay alone'}."
        )


@opt.command(device=True, epilog="Example: seesay evaluate runs/irmatch-s --data flickr8k --json")
def evaluate(
    runs: opt.Entries,
    data: opt.Data = None,
    *,
    reading: opt.Reading,
    split: opt.Split = "test",
    protocol: opt.Protocol = None,
    combine: Annotated[
        Literal["mean", "learned"] | None,
        typer.Option(help="Measure several RUNs as one: the mean of scores, or with weights learned on val."),
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="RUN", help="Compare with this run on the same queries.")
    ] = None,
    iou: Annotated[
        Literal["plummer", "mdetr"] | None,
        typer.Option(help="For grounding: IoU on inclusive pixels (plummer, the default) or coordinates."),
    ] = None,
    boxes: Annotated[
        Literal["merged", "any"] | None,
        typer.Option(
            help="For grounding: compare with the merged boxes of a phrase (default) or any of them."
        ),
    ] = None,
    record: opt.Record = None,
    as_json: opt.Json = False,
) -> None:
    """Measure a run, or several as one, on a split, with 95 % intervals.

    The corpus is by default that of training. The published row of the same system is shown beside the
    result, if there is one.
    """
    from seesay.protocols.evaluate import evaluate as measure
    from seesay.protocols.evaluate import open_entry
    from seesay.results.comparison import print_result
    from seesay.results.records import differences, make_record, record_row, row_of
    from seesay.runs.run import Run

    started = time.monotonic()
    entries = [open_entry(name) for name in runs]
    loaded = [entry for entry in entries if isinstance(entry, Run)]
    corpus = reading.read_of(entries, data)
    if record is not None:
        make_record(record, corpus.name, entries)
    result = measure(entries, corpus, protocol, split, combine=combine, against=against, iou=iou, boxes=boxes)
    if record is not None:
        record_row(record, corpus.name, row_of(result, entries, time.monotonic() - started))
    alone = loaded[0].recipe if len(entries) == len(loaded) == 1 and loaded[0].has_recipe else None
    system, departures = (alone.system, differences(alone)) if alone else (None, ())
    console.show(result, as_json, print_result, system, corpus.name, departures, console.wide())


@opt.command(device=True, epilog="Example: seesay report runs/two-branch runs/irmatch-s --out report.html")
def report(
    runs: opt.Entries,
    data: opt.Data = None,
    *,
    reading: opt.Reading,
    split: opt.Split = "test",
    out: Annotated[Path, typer.Option(help="The HTML file to write; an earlier report is replaced.")] = Path(
        "report.html"
    ),
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also answer these, one a line: a sentence, an image's name, or both with a tab between.",
        ),
    ] = None,
    overwrite: opt.Overwrite = False,
    as_json: opt.Json = False,
) -> None:
    """Write an HTML report of runs: recalls, queries with answers, training and provenance.

    The corpus is by default that of training.
    """
    from seesay.paths import check_file, check_output
    from seesay.protocols.evaluate import open_entries
    from seesay.report.page import is_page
    from seesay.report.write import FORMATS, write_report

    check_file(out, FORMATS)  # before anything is computed
    check_output(out, [data, queries, *runs], overwrite, is_page)
    entries = open_entries(runs)
    corpus = reading.read_of(entries, data)
    results = write_report(entries, corpus, split, out, console.tell, queries)
    if as_json:
        console.print_json({"report": out, "corpus": corpus.name, "results": results})
    else:
        print(out)


@dataclass(frozen=True)
class TableOutput:
    """How a table is shown and written."""

    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="METRIC,...",
            help="The columns to show, such as R@1,mR; S R@1 is of sentences alone.",
        ),
    ] = None
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Show the 95 % interval of each value of a single seed.")
    ] = False
    out: Annotated[
        Path | None,
        typer.Option(help="Also write the table: .md, .tex (LaTeX with booktabs), .csv or .json."),
    ] = None
    overwrite: opt.Overwrite = False
    as_json: opt.Json = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to show; empty for those of the table."""
        return tuple(name.strip() for name in self.metrics.split(",")) if self.metrics else ()

    @property
    def draws(self) -> int:
        """The bootstrap draws of each value: none if no interval is shown or written."""
        from seesay.metrics.bootstrap import RESAMPLES

        written = self.out is not None and self.out.suffix.lower() == ".json"
        return RESAMPLES if self.intervals or self.as_json or written else 0

    def check(self, *read: str | Path | None) -> None:
        """Check before anything is measured that the file can be written, and is none that is read."""
        from seesay.paths import check_file, check_output
        from seesay.results.paper_table import FORMATS

        if self.out is not None:
            check_file(self.out, FORMATS)
            check_output(self.out, read, self.overwrite)

    def show(self, table: PaperTable) -> None:
        """Write a table to the file, if one is named, and print it; exit with 1 if a row failed."""
        from seesay.results.paper_table import write_table

        table.intervals = self.intervals
        if self.out is not None:
            write_table(table, self.out)
        if self.as_json:
            console.print_json(table)
        else:
            shown = [each.terminal() for each in (table.table(), table.differences()) if each is not None]
            console.wide().print(*shown)
        if table.failures:
            raise typer.Exit(opt.NOTHING_FOUND)


@opt.command(
    device=True, epilog="Example: seesay compare runs/irmatch-s scores.npy --data flickr8k --out table.tex"
)
def compare(
    entries: opt.Entries,
    data: opt.Data = None,
    *,
    reading: opt.Reading,
    split: opt.Split = "test",
    protocol: opt.Protocol = None,
    output: TableOutput,
) -> None:
    """Show runs and other models' scores side by side, with their differences from the first.

    Runs that differ only in their seed share a row. Published rows of the same corpus stand beside them. The
    corpus is by default that of training.
    """
    from seesay.protocols.evaluate import open_entries
    from seesay.results.comparison import compare_entries

    output.check(data, reading.images, *entries)
    opened = open_entries(entries)
    corpus = reading.read_of(opened, data)
    output.check(corpus.root)  # which the runs name
    shown = compare_entries(
        opened,
        corpus,
        split,
        protocol,
        console.tell,
        metrics=output.columns,
        resamples=output.draws,
    )
    output.show(shown)


@opt.command(
    device=True, epilog="Example: seesay table two-branch-2 --data flickr8k --seeds 1,2,3 --out table.tex"
)
def table(
    name: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="The name of a table. Without it, the tables are listed."),
    ] = None,
    data: opt.Data = None,
    *,
    reading: opt.Reading,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|CORPUS",
            help="A file of recorded rows, or the corpus of rows in results/ or included in seesay.",
        ),
    ] = None,
    folder: Annotated[Path, typer.Option("--runs", help="The folder of the table's runs.")] = opt.RUNS,
    seeds: Annotated[str, typer.Option(help="The seeds of each row's runs, such as 1,2,3.")] = "1",
    change: opt.Changes = None,
    rows: Annotated[
        str | None, typer.Option(help="Show only these rows, such as cca-mean,two-branch.")
    ] = None,
    split: opt.Split = "test",
    may_train: Annotated[
        bool, typer.Option("--train/--no-train", help="Train missing and unfinished runs.")
    ] = True,
    record: opt.Record = None,
    output: TableOutput,
) -> None:
    """Show the recipes of a paper's table beside its published rows.

    With --data, missing runs are trained and measured on that corpus; run it again to resume. Without it,
    recorded rows are shown.
    """
    from seesay.recipes.table import list_tables, load_table, parse_numbers

    if name is None:
        console.show_names([(each.name, each.title) for each in list_tables()], output.as_json)
        return
    from seesay.results.paper_table import recorded_table
    from seesay.results.records import make_record, recorded_rows

    output.check(data, reading.images, results, name)
    numbers = parse_numbers(seeds, "--seeds")
    definition = load_table(name).only([row.strip() for row in rows.split(",")] if rows else ())
    if data is None:
        if change or record or seeds != "1" or not may_train:
            raise SeesayError("--set, --record, --seeds and --no-train need a corpus; name it with --data.")
        is_file = results is None or results.is_file() or results.suffix == ".jsonl"
        rows_of = results if is_file else recorded_rows(str(results))
        shown = recorded_table(definition, rows_of, split, output.columns)
    else:
        from seesay.training.table import TableRuns, measure_table

        if results is not None:
            raise SeesayError("--results names recorded rows; with --data they are measured.")
        corpus = reading.read(data, phrases=definition.grounds)
        if record is not None:
            make_record(record, corpus.name)
        runs = TableRuns(definition, corpus, folder, split, change or (), may_train, output.draws)
        shown = measure_table(runs, numbers, console.tell, record, output.columns)
    output.show(shown)
