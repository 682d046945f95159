"""Commands that train and evaluate."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from seesay.cli import printing as console
from seesay.cli.app import app
from seesay.cli.options import (
    DEFAULT_RUNS,
    HERE,
    SHORTLIST,
    AgainstOption,
    AnswersOption,
    BoxesOption,
    ChangeOption,
    CombineOption,
    DataOption,
    Entries,
    FormatOption,
    ImagesOption,
    IouOption,
    JsonOption,
    JudgementsOption,
    PlotOption,
    ProtocolOption,
    RecordOption,
    RerankOption,
    ShortlistOption,
    SplitOption,
)


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
    from seesay.data.readers import open_corpus
    from seesay.recipes.load import load_recipe
    from seesay.runs.summary import TrainingSummary
    from seesay.training.train import train as run_training

    grounds = load_recipe(recipe).regions is not None
    corpus = open_corpus(data, phrases=grounds, images=images, format=data_format)
    resolved = load_recipe(recipe, corpus.name, change or ())
    folder = out or DEFAULT_RUNS / resolved.name
    run_training(resolved, corpus, folder, resume)
    console.show(TrainingSummary.load(folder), as_json, console.print_training, folder)


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
    iou: IouOption = None,
    boxes: BoxesOption = None,
    rerank: RerankOption = None,
    shortlist: ShortlistOption = SHORTLIST,
    plot: PlotOption = None,
    record: RecordOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a run, or several as one, on a split, with 95 % intervals.

    The published row of the same system is shown beside it, if there is one.
    """
    from seesay.protocols.evaluate import evaluate as measure
    from seesay.protocols.evaluate import open_entry, provenance_of
    from seesay.protocols.provenance import differences
    from seesay.results.plots import check_plot, plot_by_frequency
    from seesay.results.rows import Row, record_row, source_commit
    from seesay.results.terminal import print_result
    from seesay.runs.corpus import open_corpus_of
    from seesay.runs.run import Run

    if plot is not None:
        check_plot(plot, protocol)  # before anything is computed
    started = time.monotonic()
    entries = [open_entry(name) for name in runs]
    second = Run.load(rerank) if rerank is not None else None
    if record is not None:
        provenance_of(entries, combine, second, 0, None)  # files of scores have none
    loaded = [entry for entry in entries if isinstance(entry, Run)]
    corpus = open_corpus_of(loaded, data, images, data_format)
    result = measure(
        entries,
        corpus,
        protocol,
        split,
        combine=combine,
        against=against,
        rerank=second,
        shortlist=shortlist,
        judgements=judgements,
        answers=answers,
        iou=iou,
        boxes=boxes,
    )
    if record is not None:
        commit = source_commit(HERE.resolve())
        provenance = provenance_of(entries, combine, second, time.monotonic() - started, commit)
        record_row(record, corpus.name, Row(provenance, result))
    alone = loaded[0].recipe if len(entries) == len(loaded) == 1 else None
    if plot is not None:
        name = alone.name if alone else " + ".join(entry.name for entry in entries)
        plot_by_frequency({name: result}, plot)
    if as_json:
        console.print_json(result.to_dict())
    else:
        system = alone.system if alone and second is None else None
        print_result(result, system, corpus.name, differences(alone) if alone else (), console.wide())
