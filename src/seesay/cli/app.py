"""The application that all commands are added to."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="seesay",
    help="Match images with sentences, and phrases with regions: train, evaluate, search, serve.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
