"""The application, and the arguments and options that several of its commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seesay import __version__

if TYPE_CHECKING:
    from seesay.data.corpus import Corpus
    from seesay.protocols.evaluate import Entry

app = typer.Typer(
    name="seesay",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"seesay {__version__}")
        raise typer.Exit


def _choose_device(device: str | None) -> str | None:
    if device is not None:
        from seesay.device import checked_device, choose_device

        choose_device(checked_device(device))
    return device


@app.callback()
def _seesay(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Match images with sentences, and phrases with regions: train, evaluate, search, serve."""


_Device = Annotated[
    str | None,
    typer.Option(
        help="Where PyTorch runs, such as cpu or cuda:1; by default SEESAY_DEVICE, or a GPU if there is one.",
        callback=_choose_device,
    ),
]


def command(device: bool = False, **settings: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command; a parameter that is a dataclass stands for its fields, which are options.

    With `device`, it has the option --device, which only its callback uses.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        own = signature(function, eval_str=True).parameters
        groups: dict[str, Any] = {
            name: each.annotation for name, each in own.items() if is_dataclass(each.annotation)
        }

        @wraps(function)
        def grouped(**given: Any) -> None:
            given.pop("device", None)
            for name, group in groups.items():
                given[name] = group(**{field: given.pop(field) for field in signature(group).parameters})
            function(**given)

        options: list[Parameter] = []
        for name, each in own.items():
            several = signature(groups[name], eval_str=True).parameters if name in groups else {name: each}
            options += [option.replace(kind=Parameter.KEYWORD_ONLY) for option in several.values()]
        if device:
            options.append(Parameter("device", Parameter.KEYWORD_ONLY, default=None, annotation=_Device))
        grouped.__signature__ = Signature(options)  # type: ignore[attr-defined]
        return app.command(**settings)(grouped)

    return register


NOTHING_FOUND = 1  # exit code
STOPPED = 130  # the exit code after Ctrl-C, by convention
HERE = Path()
RUNS = Path("runs")

Entries = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...",
        help="A run's folder, included weights (seesay-small) or LIBRARY:MODEL; or files of another model, "
        "in the order of the corpus: a score matrix (images, sentences) as SCORES.npy, or embeddings as "
        "IMAGES.npy,SENTENCES.npy (also .npz).",
    ),
]
Data = Annotated[Path | None, typer.Option(help="The corpus: a folder, or a file such as JSON, CSV or .tar.")]
Split = Annotated[str, typer.Option(help="train, val or test.")]
Protocol = Annotated[
    str | None, typer.Option(help="How to measure, such as coco-1k or k-shot; a wrong name lists all.")
]
Record = Annotated[Path | None, typer.Option(help="Also record the result in CORPUS.jsonl in this folder.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the recipe: epochs=5."),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Encode on a Ray cluster: auto for this machine's, ray://HOST:PORT, or local to start one.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True)
class Reading:
    """How a corpus is read."""

    images: Annotated[
        Path | None, typer.Option(help="The folder of the images, if they are not beside the corpus.")
    ] = None
    format: Annotated[str | None, typer.Option(help="The corpus's format, if it is not detected.")] = None
    allow_outside: Annotated[
        bool, typer.Option("--allow-outside", help="Allow images outside the folder of the corpus.")
    ] = False
    image_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The column that names the images, if it is not recognised."),
    ] = None
    caption_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The column of the sentences; text also means text1, text2 …"),
    ] = None
    subset: Annotated[
        int | None, typer.Option(min=1, help="Use only this many images, the same ones each time.")
    ] = None

    def read(self, path: Path, phrases: bool = False) -> Corpus:
        """Read a corpus."""
        from seesay.data.readers import read_corpus

        return read_corpus(path, phrases=phrases, **asdict(self))

    def read_of(self, entries: Sequence[Entry], path: Path | None) -> Corpus:
        """Read the corpus that entries are measured on, by default that of their training."""
        from seesay.protocols.evaluate import open_corpus_of
        from seesay.runs.run import Run

        return open_corpus_of([each for each in entries if isinstance(each, Run)], path, **asdict(self))
