"""The application, and the arguments and options that several of its commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from seesay import __version__
from seesay.errors import SeesayError

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


NOTHING_FOUND = 1  # exit code
HERE = Path()
GROUND_RUN = "seesay-ground"
SHORTLIST = 100
RUNS = Path("runs")
STOPPED = 130  # the exit code after Ctrl-C, by convention

Run = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run's folder, included weights (seesay-small) or LIBRARY:MODEL."),
]
Entries = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...",
        help="A run's folder, included weights (seesay-small) or LIBRARY:MODEL; or files of another model, "
        "in the order of the corpus: a score matrix (images, sentences) as SCORES.npy, or embeddings as "
        "IMAGES.npy,SENTENCES.npy (also .npz or .pt).",
    ),
]
ImageFile = Annotated[Path, typer.Argument(metavar="IMAGE", help="An image file.")]
IndexFolder = Annotated[Path, typer.Argument(metavar="INDEX", help="The index's folder.")]

DataOfRuns = Annotated[Path | None, typer.Option("--data", help="The corpus; by default that of training.")]
Format = Annotated[str | None, typer.Option("--format", help="The corpus's format, if it is not detected.")]
Images = Annotated[
    Path | None, typer.Option("--images", help="The folder of the images, if they are not beside the corpus.")
]


@contextmanager
def _reading(
    allow_outside: Annotated[
        bool,
        typer.Option(
            "--allow-outside",
            help="Allow images that the corpus names by absolute paths or links outside its folder.",
        ),
    ] = False,
    image_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The column of the table that names the images, if it is not recognised."
        ),
    ] = None,
    caption_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The column that holds the sentences; text also means text1, text2, and so on.",
        ),
    ] = None,
) -> Iterator[None]:
    from seesay.data.readers.builder import reading_with

    with reading_with(outside=allow_outside, image_column=image_column, caption_column=caption_column):
        yield


def reads_corpora(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `_reading` to a command, behind its --format, and read corpora as they say."""
    own, more = (signature(each, eval_str=True).parameters for each in (command, _reading))

    @wraps(command)
    def reading(**given: Any) -> None:
        with _reading(**{name: given.pop(name) for name in more}):
            command(**given)

    options = list(own.values())
    at = list(own).index("data_format") + 1
    options[at:at] = more.values()
    reading.__signature__ = Signature(options)  # type: ignore[attr-defined]
    return reading


Split = Annotated[str, typer.Option(help="train, val or test.")]
Protocol = Annotated[
    str | None,
    typer.Option(
        help="standard, shared-sentences, coco-1k, coco-5k, sentence-to-sentence, composition, no-match, "
        "many-matches, k-shot (or one K: 0-shot to 3-shot); grounding for phrases; concepts for a run of "
        "concepts."
    ),
]
Combine = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="Measure several RUNs as one: mean (of standardised scores), or learned (with weights "
        "chosen on val; name score files scores-{split}.npy).",
    ),
]
Against = Annotated[
    str | None,
    typer.Option(
        metavar="RUN", help="Compare with this run on the same queries: differences, intervals, p-values."
    ),
]
Iou = Annotated[
    Literal["plummer", "mdetr"] | None,
    typer.Option(
        help="For grounding: plummer (default) computes IoU on inclusive pixels, mdetr on the annotated "
        "coordinates."
    ),
]
Boxes = Annotated[
    Literal["merged", "any"] | None,
    typer.Option(
        help="For grounding: if a phrase has several boxes, compare with their enclosing box (merged, the "
        "default) or with any of them."
    ),
]
At = Annotated[
    str | None,
    typer.Option(metavar="K,...", help="For retrieval: also measure recall at these K, such as 20,50."),
]
Where = Annotated[
    str | None,
    typer.Option(
        metavar="FILTER",
        help="Only search images that meet all conditions: taken:2019 (or 2019-06..2020-01), "
        "folder:italy, name:IMG_2021, orientation:portrait, width:>3000, height:600..900, added:7d.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Encode on a Ray cluster: auto for the cluster of this machine, ray://HOST:PORT, or local to "
        "start one here.",
    ),
]
Store = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Search vectors in a database: postgresql://USER@HOST/DATABASE. The index "
        "remembers it. By default, vectors are searched in this process.",
    ),
]
Rerank = Annotated[
    str | None,
    typer.Option(metavar="RUN", help="Re-rank the best results with this run, such as a pair matcher."),
]
Root = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FOLDER",
        help="The folder of the images, if the index was made elsewhere or the folder was moved; NAME=FOLDER "
        "for several.",
    ),
]
Shortlist = Annotated[
    int,
    typer.Option(
        min=1, help="With --rerank: the number of results to re-rank; a search re-ranks at least -k."
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="METRIC,...",
        help="The columns to show, such as R@1,mR; S R@1 is of sentences alone. CSV and JSON have all.",
    ),
]
Intervals = Annotated[
    bool, typer.Option("--intervals", help="Show the 95 % interval of each value of a single seed.")
]
TableFile = Annotated[
    Path | None, typer.Option(help="Also write the table: .md, .tex (LaTeX with booktabs), .csv or .json.")
]
Record = Annotated[Path | None, typer.Option(help="Also record the result in CORPUS.jsonl in this folder.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the recipe: epochs=5."),
]
Count = Annotated[int, typer.Option("-k", min=1, max=1000, help="Number of results.")]
GroundRun = Annotated[
    str, typer.Option(metavar="RUN", help="The run of a grounding recipe that locates phrases.")
]
Device = Annotated[
    str | None,
    typer.Option(
        help="The device of PyTorch, such as cpu or cuda:1. The default is the environment variable "
        "SEESAY_DEVICE, or else a GPU if there is one.",
        callback=_choose_device,
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def check_shortlist(shortlist: int, rerank: str | None) -> None:
    """Raise a SeesayError if a shortlist is given that nothing re-ranks."""
    refuse({"--shortlist": rerank is None and shortlist != SHORTLIST}, "is for --rerank RUN; name the run.")


def refuse(options: Mapping[str, object], because: str) -> None:
    """Raise a SeesayError that names the first of these options that was given."""
    for option, value in options.items():
        if value:
            raise SeesayError(f"{option} {because}")
