"""Commands that train and measure."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from seesay import console
from seesay.cli.app import app
from seesay.cli.options import (
    DEFAULT_RUNS,
    HERE,
    SHORTLIST,
    AnyBoxOption,
    ChangeOption,
    DataOption,
    ExtraPixelOption,
    FormatOption,
    ImagesOption,
    JsonOption,
    PlotOption,
    ProtocolOption,
    RecordOption,
    RerankOption,
    RunName,
    ShortlistOption,
    SplitOption,
)
from seesay.errors import SeesayError


@app.command(epilog="Example: seesay train irmatch-s --data flickr8k --set schedule.epochs=5")
def train(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or YAML file; `seesay recipes` lists them.")],
    data: DataOption = HERE,
    out: Annotated[Path | None, typer.Option(help="The run's folder; runs/RECIPE by default.")] = None,
    change: ChangeOption = None,
    resume: Annotated[bool, typer.Option(help="Go on behind the last finished epoch.")] = False,
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
    run: RunName,
    data: Annotated[
        Path | None, typer.Option("--data", help="The corpus; by default the one of training.")
    ] = None,
    split: SplitOption = "test",
    protocol: ProtocolOption = None,
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
    """Measure a run on a split: its recalls, beside the published row of the same system if there is one."""
    from seesay.data.open import open_corpus
    from seesay.evaluation.frequency_plot import check_plot, draw_by_frequency
    from seesay.evaluation.measure import chosen_protocol, differences, measure_split, provenance
    from seesay.evaluation.report import print_report
    from seesay.evaluation.rerank import measure_reranked, reranked_provenance
    from seesay.evaluation.results import record_row, source_commit
    from seesay.matchers.run import Run
    from seesay.training.runs import trained_on

    if rerank is not None and (any_box or extra_pixel):
        raise SeesayError("--any-box and --extra-pixel compare boxes; --rerank is of whole images.")
    if plot is not None:
        check_plot(plot, protocol)  # before anything is computed
    started = time.monotonic()
    loaded = Run.load(run)
    other = Run.load(rerank) if rerank is not None else None
    grounds = loaded.recipe.regions is not None
    chosen = chosen_protocol(loaded.recipe, protocol)
    root, beside = (data, None) if data else trained_on(loaded)
    corpus = open_corpus(root, phrases=grounds, images=images or beside, format=data_format)
    if other is None:
        measured = measure_split(
            loaded, corpus, split, chosen, "any" if any_box else "enclosing", extra_pixel
        )
    else:
        measured = measure_reranked(loaded, other, corpus, split, chosen, shortlist)
    if record is not None:
        how = time.monotonic() - started, source_commit(HERE.resolve())
        origin = reranked_provenance(loaded, other, *how) if other else provenance(loaded, *how)
        record_row(record, corpus.name, measured | origin)
    if plot is not None:
        draw_by_frequency({loaded.recipe.name: measured}, plot)
    if as_json:
        console.print_json(measured)
    else:
        system = None if other else loaded.recipe.system
        print_report(measured, system, corpus.name, differences(loaded.recipe), console.wide())
