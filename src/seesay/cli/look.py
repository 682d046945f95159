"""Commands that show corpora, recipes, encoders and runs."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from seesay.cli import printing as console
from seesay.cli.app import app
from seesay.cli.options import (
    DEFAULT_RUNS,
    NOTHING_FOUND,
    FormatOption,
    ImageFile,
    ImagesOption,
    JsonOption,
    RunName,
)
from seesay.errors import SeesayError


@app.command(epilog="Example: seesay data flickr8k --check")
def data(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A corpus of captioned images, or phrases.")],
    data_format: FormatOption = None,
    phrases: Annotated[bool, typer.Option("--phrases", help="It holds phrases with boxes.")] = False,
    images: ImagesOption = None,
    check: Annotated[bool, typer.Option(help="Decode every image too; exit 1 when one is broken.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Read a corpus; print its counts, issues and vocabulary."""
    from seesay.data.corpus import Corpus
    from seesay.data.readers import open_corpus
    from seesay.data.summary import BROKEN, summarise
    from seesay.progress import progress_of
    from seesay.text.vocabulary import rare_word_summary, vocabulary_summary

    corpus = open_corpus(folder, phrases=phrases, images=images, format=data_format)
    with progress_of("Checking", "images") as at:
        summary = summarise(corpus, check, at)
    words = vocabulary_summary(corpus) if isinstance(corpus, Corpus) else None
    rare = rare_word_summary(corpus) if isinstance(corpus, Corpus) else None
    if as_json:
        more = {"vocabulary": words, "rare_words": rare} if words is not None else {}
        console.print_json(summary.to_dict() | more)
    else:
        console.print_corpus(summary, words, rare)
    if BROKEN in summary.issues.counts:
        raise typer.Exit(NOTHING_FOUND)


@app.command(epilog="Example: seesay features flickr8k --encoder efficientnet-lite0:ten --out features")
def features(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A corpus, or a folder of images.")],
    encoder: Annotated[str, typer.Option(help="An encoder's name; `seesay encoders` lists them.")],
    out: Annotated[Path, typer.Option(help="The folder of feature stores.")],
    data_format: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compute the features of a corpus's images and store them. Run it again to resume."""
    from seesay.data.readers import read_corpus
    from seesay.encoders.images.base import load_image_encoder
    from seesay.encoders.images.encode import fill_stores
    from seesay.runs.run import default_device

    chosen = load_image_encoder(encoder, default_device())
    report = fill_stores([chosen], out, read_corpus(folder, data_format).images)
    stored = console.StoredFeatures(
        store=str(out / chosen.source.fingerprint),
        encoder=chosen.source.name,
        arrays=chosen.source.dims,
        images=len(report.keys),
        encoded=report.encoded,
        broken=[str(error) for error in report.errors],
    )
    console.show(stored, as_json, console.print_features)
    if len(report.errors) == len(report.keys):
        raise typer.Exit(NOTHING_FOUND)


@app.command(epilog='Example: seesay explain runs/mcnn-phs dog.jpg "a dog runs in the grass" --out why.html')
def explain(
    run: RunName,
    image: ImageFile,
    sentence: Annotated[str, typer.Argument(help="What the image shows, or does not.")],
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="Number of windows.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Also write a figure: an HTML or PNG file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show which words of a sentence, or windows of words, raise or lower its score with an image."""
    from seesay.data.sources import FileSource
    from seesay.explain.draw import FORMATS, write_explanation
    from seesay.explain.explain import explain as explain_match
    from seesay.paths import check_output
    from seesay.runs.run import Run

    if out is not None:
        check_output(out, FORMATS)  # before anything is computed
    data = FileSource(image).read()
    loaded = Run.load(run)
    explanation = explain_match(loaded, data, str(image), sentence)
    if out is not None:
        write_explanation(data, image.name, loaded.recipe.name, explanation, out)
    console.show(explanation, as_json, console.print_explanation, k)


@app.command(epilog="Examples: seesay concepts flickr8k; seesay concepts runs/concepts dog.jpg")
def concepts(
    source: Annotated[
        str, typer.Argument(metavar="DIR|RUN", help="A corpus, or a run of the recipe 'concepts'.")
    ],
    image: Annotated[
        Path | None, typer.Argument(metavar="IMAGE", help="An image file, if the first argument is a run.")
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("-k", min=1, help="Number of concepts; by default 256 of a corpus, 10 of an image."),
    ] = None,
    min_count: Annotated[
        int, typer.Option(min=1, help="Of a corpus: only words in at least so many sentences.")
    ] = 5,
    regions: Annotated[
        bool, typer.Option("--regions", help="Also look at 50 regions of the image; takes a second.")
    ] = False,
    data_format: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the most frequent content words of a corpus, or the concepts that a run sees in an image."""
    from seesay.data.readers import read_corpus
    from seesay.data.sources import FileSource
    from seesay.runs.concepts import image_concepts, run_concepts
    from seesay.runs.run import RECIPE, Run
    from seesay.text.concepts import MAX_CONCEPTS, ConceptVocabulary

    if image is not None:
        found = image_concepts(Run.load(source), FileSource(image).read(), str(image), k or 10, regions)
        console.show([asdict(each) for each in found], as_json, console.print_image_concepts)
        return
    if (Path(source) / RECIPE).is_file():
        vocabulary = run_concepts(Run.load(source))
    else:
        train = read_corpus(Path(source), data_format).split("train")
        vocabulary = ConceptVocabulary.from_texts(train.texts(), k or MAX_CONCEPTS, min_count)
    console.show(vocabulary.to_dict(), as_json, console.print_concepts)


@app.command()
def recipes(as_json: JsonOption = False) -> None:
    """List the recipes, each with the corpora that it has settings for."""
    from seesay.recipes.load import list_recipes

    by_name = [list(group) for _, group in groupby(list_recipes(), key=lambda recipe: recipe.name)]
    rows = [console.RecipeLine(r[0].name, r[0].about, [each.corpus for each in r]) for r in by_name]
    console.show(rows, as_json, console.print_recipes)


@app.command()
def encoders(as_json: JsonOption = False) -> None:
    """List the image encoders."""
    from seesay.encoders.images.base import list_encoders

    rows = [{"name": name, "about": about} for name, about in list_encoders()]
    console.show(rows, as_json, console.print_lines)


@app.command()
def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of runs.")] = DEFAULT_RUNS,
    as_json: JsonOption = False,
) -> None:
    """List the runs below a folder, and the shipped ones."""
    from seesay.training.summarize import list_runs

    if folder != DEFAULT_RUNS and not folder.is_dir():
        raise SeesayError(f"{folder}: no such folder; name the folder of your runs.")
    rows = [{"name": name, "about": about} for name, about in list_runs(folder)]
    console.show(rows, as_json, console.print_lines)
