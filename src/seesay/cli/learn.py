"""Commands that train, evaluate and compare."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seesay.cli import options as opt
from seesay.cli import printing as console
from seesay.errors import SeesayError
from seesay.paths import home_expanded

if TYPE_CHECKING:
    from rich.console import Group

    from seesay.recipes.table import TableDefinition
    from seesay.results.tables import PaperTable


@opt.app.command(epilog="Example: seesay train irmatch-s --data flickr8k --set schedule.epochs=5")
@opt.reads_corpora
def train(
    context: typer.Context,
    recipe: Annotated[
        str,
        typer.Argument(metavar="RECIPE", help="A recipe's name or YAML file; `seesay recipes` lists them."),
    ],
    data: Annotated[
        Path,
        typer.Option(help="The corpus: a folder, or a JSON or CSV file; by default the current folder."),
    ] = opt.HERE,
    out: Annotated[Path | None, typer.Option(help="The run's folder; runs/RECIPE by default.")] = None,
    change: opt.Changes = None,
    resume: Annotated[bool, typer.Option(help="Continue after the last finished epoch.")] = False,
    images: opt.Images = None,
    data_format: opt.Format = None,
    start_from: Annotated[
        str | None,
        typer.Option("--from", metavar="RUN", help="Start from the weights of a run of the same recipe."),
    ] = None,
    device: opt.Device = None,  # noqa: ARG001 — see its callback
    as_json: opt.Json = False,
) -> None:
    """Train a matcher on captioned images, or on phrases with boxes; the result is a run."""
    from seesay.data.readers import read_corpus
    from seesay.recipes.load import learns_phrases, load_recipe, settings_line
    from seesay.runs.load import load_run
    from seesay.runs.summary import TrainingSummary
    from seesay.training.train import can_resume
    from seesay.training.train import train as run_training

    start = load_run(start_from) if start_from is not None else None
    corpus = read_corpus(data, phrases=learns_phrases(recipe), images=images, format=data_format)
    console.print_left_out(corpus.issues)
    console.tell_if_small(corpus, "val")
    resolved = load_recipe(recipe, corpus.name, change or ())
    if line := settings_line(resolved.name, [resolved]):
        console.tell(line)
    folder = home_expanded(out or opt.RUNS / resolved.name)
    try:
        run_training(resolved, corpus, folder, resume, start_from=start)
    except KeyboardInterrupt:
        again = ["seesay", *context.obj, *(["--resume"] if can_resume(folder) and not resume else [])]
        console.tell(f"seesay: stopped; to continue: {shlex.join(again)}")
        raise SystemExit(opt.STOPPED) from None
    summary, outside = TrainingSummary.load(folder), bool(context.params["allow_outside"])
    console.show(summary, as_json, console.print_training, folder, outside)


@opt.app.command(epilog="Example: seesay export runs/irmatch-s --out irmatch-s")
def export(
    run: opt.Run,
    out: Annotated[
        Path | None,
        typer.Option(help="Write a folder with everything the run needs."),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Export a run's matcher to ONNX again, or write the run as a folder that works without PyTorch."""
    from seesay.runs.bundle import export_in_place, write_bundle

    if out is not None:
        console.show(write_bundle(run, out), as_json, console.print_bundle)
    else:
        console.show(export_in_place(run).config, as_json, console.print_export, run)


@opt.app.command(epilog="Example: seesay evaluate runs/irmatch-s --data flickr8k --json")
@opt.reads_corpora
def evaluate(
    runs: opt.Entries,
    data: opt.DataOfRuns = None,
    split: opt.Split = "test",
    protocol: opt.Protocol = None,
    combine: opt.Combine = None,
    against: opt.Against = None,
    images: opt.Images = None,
    data_format: opt.Format = None,
    iou: opt.Iou = None,
    boxes: opt.Boxes = None,
    at: opt.At = None,
    record: opt.Record = None,
    device: opt.Device = None,  # noqa: ARG001 — see its callback
    as_json: opt.Json = False,
) -> None:
    """Measure a run, or several as one, on a split, with 95 % intervals.

    The published row of the same system is shown beside it, if there is one.
    """
    from seesay.protocols.evaluate import evaluate as measure
    from seesay.protocols.evaluate import open_entry
    from seesay.recipes.table import parse_numbers
    from seesay.results.rows import (
        Row,
        differences,
        make_record,
        provenance_of,
        record_row,
        source_commit,
    )
    from seesay.results.terminal import print_result
    from seesay.runs.run import Run
    from seesay.runs.summary import open_corpus_of

    started = time.monotonic()
    entries = [open_entry(name) for name in runs]
    if record is not None:
        provenance_of(entries, combine, 0, None)  # refuses files of scores at once
    loaded = [entry for entry in entries if isinstance(entry, Run)]
    corpus = open_corpus_of(loaded, data, images, data_format)
    if record is not None:
        make_record(record, corpus.name)
    result = measure(
        entries,
        corpus,
        protocol,
        split,
        combine=combine,
        against=against,
        iou=iou,
        boxes=boxes,
        at=parse_numbers(at, "--at") if at is not None else None,
    )
    if record is not None:
        commit = source_commit(opt.HERE.resolve())
        provenance = provenance_of(entries, combine, time.monotonic() - started, commit)
        record_row(record, corpus.name, Row(provenance, result))
    alone = loaded[0].recipe if len(entries) == len(loaded) == 1 else None
    if as_json:
        console.print_json(result)
    else:
        system = alone.system if alone else None
        console.tell_if_small(corpus, split)
        print_result(result, system, corpus.name, differences(alone) if alone else (), console.wide())


@opt.app.command(epilog="Example: seesay report runs/two-branch runs/irmatch-s --out report.html")
@opt.reads_corpora
def report(
    runs: opt.Entries,
    data: opt.DataOfRuns = None,
    split: opt.Split = "test",
    images: opt.Images = None,
    data_format: opt.Format = None,
    out: Annotated[Path, typer.Option(help="The HTML file to write; an earlier report is replaced.")] = Path(
        "report.html"
    ),
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also answer these queries, one a line: a sentence, an image's name, or both with a "
            "tab between them, whose score is shown.",
        ),
    ] = None,
    overwrite: opt.Overwrite = False,
    device: opt.Device = None,  # noqa: ARG001 — see its callback
    as_json: opt.Json = False,
) -> None:
    """Write an HTML report of runs: recalls, curves, queries with answers, training and provenance."""
    from seesay.paths import check_file, check_output
    from seesay.protocols.evaluate import open_entries
    from seesay.report.write import FORMATS, write_report
    from seesay.results.html import is_page
    from seesay.results.rows import source_commit
    from seesay.runs.run import Run
    from seesay.runs.summary import open_corpus_of

    check_file(out, FORMATS)  # before anything is computed
    check_output(out, [data or "", queries or "", *runs], overwrite, is_page)
    entries = open_entries(runs)
    corpus = open_corpus_of([e for e in entries if isinstance(e, Run)], data, images, data_format)
    commit = source_commit(opt.HERE.resolve())
    results = write_report(entries, corpus, split, out, console.tell, commit, queries)
    if as_json:
        measured = {name: result.to_dict() for name, result in results.items()}
        console.print_json({"report": str(out), "corpus": corpus.name, "results": measured})
    else:
        print(out)


@opt.app.command(epilog="Example: seesay compare runs/irmatch-s scores.npy --data flickr8k --out table.tex")
@opt.reads_corpora
def compare(
    entries: opt.Entries,
    data: opt.DataOfRuns = None,
    split: opt.Split = "test",
    protocol: opt.Protocol = None,
    against: opt.Against = None,
    images: opt.Images = None,
    data_format: opt.Format = None,
    record: opt.Record = None,
    metrics: opt.Metrics = None,
    intervals: opt.Intervals = False,
    out: opt.TableFile = None,
    overwrite: opt.Overwrite = False,
    device: opt.Device = None,  # noqa: ARG001 — see its callback
    as_json: opt.Json = False,
) -> None:
    """Show runs and other models' scores side by side, with their differences from the first.

    Runs that differ only in their seed share a row. Published rows of the same corpus stand beside them.
    """
    from rich.console import Group

    from seesay.paths import check_output
    from seesay.protocols.evaluate import open_entries, open_entry
    from seesay.results.comparison import compare_entries, differences_table
    from seesay.results.rows import make_record, source_commit
    from seesay.results.tables import check_format
    from seesay.runs.run import Run
    from seesay.runs.summary import open_corpus_of

    if out is not None:
        check_format(out)  # before anything is measured
        read = [each for each in (data, images, against) if each is not None]
        check_output(out, [*read, *entries], overwrite)
    opened = open_entries(entries)
    other = open_entry(against) if against is not None else None
    corpus = open_corpus_of([e for e in opened if isinstance(e, Run)], data, images, data_format)
    if out is not None:
        check_output(out, [corpus.root], overwrite)  # which the runs name
    if record is not None:
        make_record(record, corpus.name)
    commit = source_commit(opt.HERE.resolve())
    columns, draws = _columns(metrics), _draws(intervals, out, as_json)
    shown = compare_entries(
        opened, corpus, split, protocol, console.tell, other, record, commit, columns, draws
    )
    differences = differences_table(shown)
    below = [differences.terminal(boxed=False)] if differences is not None else []
    _show_table(shown, intervals, out, as_json, lambda table: Group(table, *below))


@opt.app.command(epilog="Example: seesay table two-branch-2 --data flickr8k --seeds 1,2,3 --out table.tex")
@opt.reads_corpora
def table(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE", help="The name of a table or its YAML file. Without it, the tables are listed."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="The corpus to train and measure on. Without it, recorded rows are shown."),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|CORPUS",
            help="A file of recorded rows, or the name of their corpus: rows of results/CORPUS.jsonl, or "
            "rows included in seesay. By default the corpus of the table.",
        ),
    ] = None,
    images: opt.Images = None,
    data_format: opt.Format = None,
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
    metrics: opt.Metrics = None,
    intervals: opt.Intervals = False,
    out: opt.TableFile = None,
    overwrite: opt.Overwrite = False,
    device: opt.Device = None,  # noqa: ARG001 — see its callback
    as_json: opt.Json = False,
) -> None:
    """Show the recipes of a paper's table beside its published rows.

    With --data, missing runs are trained and measured; run it again to resume.
    """
    from seesay.recipes.table import list_tables, parse_numbers

    if name is None:
        of_one: dict[str, object] = {"--data": data, "--results": results, "--rows": rows, "--set": change}
        of_one |= {"--record": record, "--metrics": metrics, "--intervals": intervals, "--out": out}
        opt.refuse(of_one, "is for a table; name one.")
        console.show_names([(each.name, each.title) for each in list_tables()], as_json)
        return
    from seesay.data.readers import read_corpus
    from seesay.paths import check_output
    from seesay.results.rows import make_record, recorded_rows, source_commit
    from seesay.results.tables import check_format, recorded_table

    if out is not None:
        check_format(out)  # before anything is trained
        read = [each for each in (data, images, results, name) if each is not None]
        check_output(out, read, overwrite)
    numbers, columns = parse_numbers(seeds, "--seeds"), _columns(metrics)
    definition = _definition(name, rows)
    if data is None:
        needing: dict[str, object] = {"--set": change, "--record": record, "--intervals": intervals}
        needing |= {"--seeds": seeds != "1", "--no-train": not may_train, "--runs": folder != opt.RUNS}
        opt.refuse(needing, "needs a corpus to measure on; name it with --data.")
        is_file = results is None or results.is_file() or results.suffix == ".jsonl"
        rows_of = results if is_file else recorded_rows(str(results))
        shown = recorded_table(definition, rows_of, split, columns)
    else:
        from seesay.training.table import TableRuns, measure_table

        opt.refuse({"--results": results}, "is for rows that were recorded; with --data they are measured.")
        corpus = read_corpus(data, phrases=definition.grounds, images=images, format=data_format)
        if record is not None:
            make_record(record, corpus.name)
        commit, draws = source_commit(opt.HERE.resolve()), _draws(intervals, out, as_json)
        runs = TableRuns(definition, corpus, folder, split, change or (), may_train, commit, draws)
        shown = measure_table(runs, numbers, console.tell, record, columns)
    _show_table(shown, intervals, out, as_json)


def _definition(name: str, rows: str | None) -> TableDefinition:
    """Return the table of that name, with those rows; a run is named in the error."""
    from seesay.recipes.table import is_table, load_table
    from seesay.runs.folders import included_runs

    if not is_table(name) and (Path(name).exists() or name in {run.name for run in included_runs()}):
        raise SeesayError(f"{name} is no table; to show runs and scores: seesay compare {shlex.quote(name)}")
    return load_table(name).only([row.strip() for row in rows.split(",")] if rows else ())


def _columns(metrics: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in metrics.split(",")) if metrics else ()


def _draws(intervals: bool, out: Path | None, as_json: bool) -> int:
    """Return the bootstrap draws of a table: none if no interval is shown or written."""
    from seesay.metrics.bootstrap import RESAMPLES

    return RESAMPLES if intervals or as_json or (out is not None and out.suffix.lower() == ".json") else 0


def _show_table(
    shown: PaperTable,
    intervals: bool,
    out: Path | None,
    as_json: bool,
    framed: Callable[[Group], Group] = lambda table: table,
) -> None:
    """Write a table to the file, if one is named, and print it; exit with 1 if a row failed."""
    from seesay.results.tables import write_table

    shown.intervals = intervals
    if out is not None:
        write_table(shown, out)
    on_screen = framed(shown.table().terminal(boxed=False))
    console.show(shown, as_json, lambda _: console.wide().print(on_screen))
    if shown.failures:
        raise typer.Exit(opt.NOTHING_FOUND)
