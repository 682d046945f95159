"""Commands that train and evaluate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seesay.cli import printing as console
from seesay.cli.app import app
from seesay.cli.options import (
    DEFAULT_RUNS,
    HERE,
    SHORTLIST,
    AgainstOption,
    AnswersOption,
    AnyBoxOption,
    ChangeOption,
    CombineOption,
    DataOption,
    Entries,
    ExtraPixelOption,
    FormatOption,
    ImagesOption,
    JsonOption,
    JudgementsOption,
    PlotOption,
    ProtocolOption,
    RecordOption,
    RerankOption,
    ShortlistOption,
    SplitOption,
)
from seesay.errors import SeesayError

if TYPE_CHECKING:
    from seesay.data.corpus import Corpus
    from seesay.data.phrases import PhraseCorpus
    from seesay.protocols.entries import Entry


@app.command(epilog="Example: seesay train irmatch-s --data flickr8k --set schedule.epochs=5")
def train(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or YAML file; `seesay recipes` lists them.")],
    data: DataOption = HERE,
    out: Annotated[Path | None, typer.Option(help="The run's folder; runs/RECIPE by default.")] = None,
    change: ChangeOption = None,
    resume: Annotated[bool, typer.Option(help="Continue after the last finished epoch.")] = False,
    images: ImagesOption = None,
    data_format: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a matcher on captioned images, or on phrases with boxes; the result is a run."""
    from seesay.data.open import open_corpus
    from seesay.recipes.load import load_recipe
    from seesay.training.runs import read_report
    from seesay.training.train import train as run_training

    grounds = load_recipe(recipe).regions is not None
    corpus = open_corpus(data, phrases=grounds, images=images, format=data_format)
    resolved = load_recipe(recipe, corpus.name, change or ())
    folder = out or DEFAULT_RUNS / resolved.name
    run_training(resolved, corpus, folder, resume)
    report = read_report(folder)
    console.show(report, as_json, console.print_training, folder)


@app.command(epilog="Example: seesay evaluate runs/irmatch-s --data flickr8k --json")
def evaluate(
    runs: Entries,
    data: Annotated[
        Path | None, typer.Option("--data", help="The corpus; by default the one of training.")
    ] = None,
    split: SplitOption = "test",
    protocol: ProtocolOption = None,
    combine: CombineOption = None,
    against: AgainstOption = None,
    judgements: JudgementsOption = None,
    answers: AnswersOption = None,
    images: ImagesOption = None,
    data_format: FormatOption = None,
    any_box: AnyBoxOption = False,
    extra_pixel: ExtraPixelOption = False,
    rerank: RerankOption = None,
    shortlist: ShortlistOption = SHORTLIST,
    plot: PlotOption = None,
    record: RecordOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a run, or several as one, on a split: its recalls and how sure they are.

    The published row of the same system stands beside, if there is one.
    """
    from seesay.protocols.entries import open_entry
    from seesay.protocols.people import read_people
    from seesay.protocols.request import Request, without_intervals
    from seesay.results.frequency_plot import check_plot, draw_by_frequency
    from seesay.results.rows import record_row, source_commit
    from seesay.results.terminal import print_report
    from seesay.runs.run import Run

    if plot is not None:
        check_plot(plot, protocol)  # before anything is computed
    started = time.monotonic()
    entries = [open_entry(name) for name in runs]
    beside = open_entry(against) if against is not None else None
    second = Run.load(rerank) if rerank is not None else None
    request = Request(entries, combine, beside, second, shortlist, any_box, extra_pixel)
    chosen = request.protocol(protocol)
    people = read_people(chosen, judgements, answers)
    corpus = _corpus(entries, request.grounds, data, images, data_format)
    origin = request.origin(0, source_commit(HERE.resolve())) if record is not None else {}
    measured = request.measure(corpus, split, chosen, people)
    if record is not None:
        origin["seconds"] = round(time.monotonic() - started, 1)
        record_row(record, corpus.name, without_intervals(measured) | origin)
    if plot is not None:
        draw_by_frequency({request.label: measured}, plot)
    if as_json:
        console.print_json(measured)
    else:
        print_report(measured, request.system, corpus.name, request.differences(), console.wide())


def _corpus(
    entries: Sequence[Entry], phrases: bool, data: Path | None, images: Path | None, data_format: str | None
) -> Corpus | PhraseCorpus:
    """The corpus that is named, or else the one that the first run was trained on."""
    from seesay.data.open import open_corpus
    from seesay.runs.run import Run
    from seesay.training.runs import trained_on

    run = next((entry for entry in entries if isinstance(entry, Run)), None)
    if data is not None:
        root, beside = data, None
    elif run is not None:
        root, beside = trained_on(run)
    else:
        raise SeesayError("files of scores do not say of which corpus they are; name it with --data.")
    return open_corpus(root, phrases=phrases, images=images or beside, format=data_format)
