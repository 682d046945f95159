"""The command that shows measured rows beside published ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seesay.cli import printing as console
from seesay.cli.app import app
from seesay.cli.options import (
    DEFAULT_RUNS,
    HERE,
    NOTHING_FOUND,
    ChangeOption,
    FormatOption,
    ImagesOption,
    JsonOption,
    ProtocolOption,
    RecordOption,
    SplitOption,
)
from seesay.errors import SeesayError

if TYPE_CHECKING:
    from seesay.recipes.table import TableDefinition


What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE|RUN...",
        help="The name of a table or its YAML file, or runs to compare. Without it, the tables are listed.",
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        help="The corpus to train and measure on. Without it, a table shows recorded rows, and runs are "
        "measured on the corpus that they were trained on."
    ),
]
ResultsOption = Annotated[
    Path | None, typer.Option(help="The file of recorded rows, by default results/CORPUS.jsonl.")
]
RunsOption = Annotated[Path, typer.Option("--runs", help="The folder of the table's runs.")]
SeedsOption = Annotated[str, typer.Option(help="The seeds of each row's runs, such as 1,2,3.")]
RowsOption = Annotated[str | None, typer.Option(help="Show only these rows, such as cca-mean,two-branch.")]
TrainOption = Annotated[
    bool, typer.Option("--train/--no-train", help="Train the runs that are missing or unfinished.")
]
OutOption = Annotated[
    Path | None, typer.Option(help="Also write the table: .md with a plot beside it, .tex, .csv or .json.")
]


@app.command(epilog="Example: seesay table two-branch-2 --data flickr8k --seeds 1,2,3 --out table.tex")
def table(
    what: What = None,
    data: DataOption = None,
    results: ResultsOption = None,
    images: ImagesOption = None,
    data_format: FormatOption = None,
    folder: RunsOption = DEFAULT_RUNS,
    seeds: SeedsOption = "1",
    change: ChangeOption = None,
    rows: RowsOption = None,
    split: SplitOption = "test",
    protocol: ProtocolOption = None,
    may_train: TrainOption = True,
    record: RecordOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show runs, or the recipes of a paper's table, beside the published rows.

    With --data, runs that are missing are trained and measured; run it again to resume.
    """
    if not what:
        _list_tables(as_json)
        return
    from seesay.data.readers import open_corpus
    from seesay.recipes.table import parse_seeds
    from seesay.results.formats import check_format, for_terminal, write_table
    from seesay.results.rows import source_commit
    from seesay.results.tables import recorded_table

    if out is not None:
        check_format(out)  # before anything is trained
    numbers, commit = parse_seeds(seeds), source_commit(HERE.resolve())
    definition = _definition(what, rows, protocol)
    if definition is None:
        from seesay.runs.corpus import open_corpus_of
        from seesay.training.table_of_runs import load_runs, measure_runs

        _refuse({"--rows": rows, "--set": change, "--results": results}, "is for tables, not for runs.")
        loaded = load_runs(what)
        corpus = open_corpus_of(loaded, data, images, data_format)
        shown = measure_runs(loaded, corpus, split, protocol, console.tell, record, commit)
    elif data is None:
        _refuse({"--set": change, "--record": record}, "needs a corpus to measure on; name it with --data.")
        shown = recorded_table(definition, results, split)
    else:
        from seesay.training.table import TableRuns, measure_table

        corpus = open_corpus(data, phrases=definition.grounds, images=images, format=data_format)
        runs = TableRuns(definition, corpus, folder, split, change or (), may_train, commit)
        shown = measure_table(runs, numbers, console.tell, record)
    if out is not None:
        write_table(shown, out)
    console.show(shown.to_dict(), as_json, lambda _: console.wide().print(for_terminal(shown)))
    if shown.failures:
        raise typer.Exit(NOTHING_FOUND)


def _list_tables(as_json: bool) -> None:
    from seesay.recipes.table import list_tables

    lines = [{"name": each.name, "about": each.title} for each in list_tables()]
    console.show(lines, as_json, console.print_lines)


def _definition(what: Sequence[str], rows: str | None, protocol: str | None) -> TableDefinition | None:
    """The table that is named; None for runs."""
    from seesay.recipes.table import is_table, load_table

    if not is_table(what[0]):
        from seesay.runs.run import shipped_runs

        known = {run.name for run in shipped_runs()}
        if len(what) > 1 or what[0] in known or Path(what[0]).is_dir():
            return None
    elif len(what) > 1:
        raise SeesayError(f"{what[0]} is a table and is shown alone; if it is a run, name it ./{what[0]}.")
    if protocol is not None:
        raise SeesayError("--protocol is for runs; a table names its own.")
    return load_table(what[0]).only(rows.split(",") if rows else ())


def _refuse(options: dict[str, object], because: str) -> None:
    for option, value in options.items():
        if value:
            raise SeesayError(f"{option} {because}")
