"""The command that shows what runs can do, in one file."""

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
        Path | None, typer.Option("--data", help="The corpus; by default the one of training.")
    ] = None,
    split: SplitOption = "test",
    images: ImagesOption = None,
    data_format: FormatOption = None,
    out: Annotated[Path, typer.Option(help="The HTML file.")] = Path("report.html"),
) -> None:
    """Write one HTML file about runs: recalls, curves, queries and answers, and where it all comes from."""
    from seesay.report.subject import corpus_of, open_entries
    from seesay.report.write import check_out, write_report
    from seesay.results.rows import source_commit

    check_out(out)  # a mistake there is told before anything is computed
    entries = open_entries(runs)
    corpus = corpus_of(entries, data, images, data_format)
    write_report(entries, corpus, split, out, console.tell, source_commit(HERE.resolve()))
    print(out)
