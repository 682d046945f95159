"""The application that the commands belong to."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="seesay",
    help="Match images with sentences, and phrases with regions: train, measure, search, serve.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
