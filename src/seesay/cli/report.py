"""The command that writes an HTML report of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seesay.cli import printing as console
from seesay.cli.app import app
from seesay.cli.options import HERE, Entries, FormatOption, ImagesOption, SplitOption


@app.command(epilog="Example: seesay report runs/two-branch runs/irmatch-s --out report.html")
def report(
    runs: Entries,
    data: Annotated[
        Path | None, typer.Option("--data", help="The corpus, by default the one of training.")
    ] = None,
    split: SplitOption = "test",
    images: ImagesOption = None,
    data_format: FormatOption = None,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
) -> None:
    """Write an HTML report of runs: recalls, curves, queries with answers, training and provenance."""
    from seesay.report.subjects import open_entries
    from seesay.report.write import check_out, write_report
    from seesay.results.rows import source_commit
    from seesay.runs.corpus import open_corpus_of
    from seesay.runs.run import Run

    check_out(out)  # before anything is computed
    entries = open_entries(runs)
    corpus = open_corpus_of([e for e in entries if isinstance(e, Run)], data, images, data_format)
    write_report(entries, corpus, split, out, console.tell, source_commit(HERE.resolve()))
    print(out)
