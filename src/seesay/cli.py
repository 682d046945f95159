"""The command line. It holds no logic: each command calls the library and prints what it gives."""

from __future__ import annotations

import os
import sys
import time
import warnings
import webbrowser
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from seesay import console
from seesay.errors import SeesayError
from seesay.options import (
    ChangeOption,
    CountOption,
    DataOption,
    FormatOption,
    ImagesOption,
    IndexFolder,
    JsonOption,
    RecordOption,
    RunName,
    SplitOption,
)

app = typer.Typer(
    name="seesay",
    help="Match images with sentences: train, measure, search and serve.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

NOTHING_FOUND = 1
HERE = Path()
DEFAULT_RUNS = Path("runs")


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
    protocol: Annotated[
        str | None,
        typer.Option(help="standard, coco-1k, coco-5k, sentence-to-sentence; grounding for phrases."),
    ] = None,
    images: ImagesOption = None,
    data_format: FormatOption = None,
    record: RecordOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a run on a split: recall both ways, beside the published row of the same system."""
    from seesay.data.open import open_corpus
    from seesay.evaluation.measure import differences, measure_split, provenance
    from seesay.evaluation.protocols import protocol_named
    from seesay.evaluation.report import print_report
    from seesay.evaluation.results import record_row, source_commit
    from seesay.matchers.run import Run
    from seesay.training.runs import trained_on

    started = time.monotonic()
    loaded = Run.load(run)
    grounds = loaded.recipe.regions is not None
    chosen = protocol or ("grounding" if grounds else "standard")
    if chosen not in ("grounding", "sentence-to-sentence"):
        protocol_named(chosen)  # a mistake there is told before anything is computed
    root, beside = (data, images) if data else trained_on(loaded)
    corpus = open_corpus(root, phrases=grounds, images=beside, format=data_format)
    measured = measure_split(loaded, corpus, split, chosen)
    if record is not None:
        row = measured | provenance(loaded, time.monotonic() - started, source_commit(HERE.resolve()))
        record_row(record, corpus.name, row)
    if as_json:
        console.print_json(measured)
    else:
        recipe = loaded.recipe
        print_report(measured, recipe.system, corpus.name, differences(recipe), console.wide())


@app.command(epilog="Example: seesay table two-branch-2 --data flickr8k --seeds 1,2,3 --out table.md")
def table(
    name: Annotated[
        str | None, typer.Argument(help="A table's name or YAML file; lists them without.")
    ] = None,
    data: DataOption = HERE,
    images: ImagesOption = None,
    data_format: FormatOption = None,
    folder: Annotated[Path, typer.Option("--runs", help="The folder of runs.")] = DEFAULT_RUNS,
    seeds: Annotated[str, typer.Option(help="Of each row's runs, such as 1,2,3.")] = "1",
    change: ChangeOption = None,
    rows: Annotated[str | None, typer.Option(help="Only these rows, such as cca-mean,two-branch.")] = None,
    split: SplitOption = "test",
    may_train: Annotated[bool, typer.Option("--train/--no-train", help="Train what is missing.")] = True,
    record: RecordOption = None,
    out: Annotated[Path | None, typer.Option(help="Also write Markdown, and a plot beside it.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Train and measure the rows of a paper's table; run again, it goes on where it stopped."""
    from seesay.recipes.table import list_tables, load_table, parse_seeds

    if name is None:
        lines = [{"name": each.name, "about": each.title} for each in list_tables()]
        console.show(lines, as_json, console.print_lines)
        return
    from seesay.data.open import open_corpus
    from seesay.evaluation.results import source_commit
    from seesay.training.table import TableRuns, measure_table

    definition = load_table(name).only(rows.split(",") if rows else ())
    numbers, commit = parse_seeds(seeds), source_commit(HERE.resolve())
    corpus = open_corpus(data, phrases=definition.grounds, images=images, format=data_format)
    runs = TableRuns(definition, corpus, folder, split, change or (), may_train, commit)
    measured = measure_table(runs, numbers, console.tell, record, out)
    console.show(measured.as_json(), as_json, lambda _: console.wide().print(measured.terminal()))
    if measured.failures:
        raise typer.Exit(NOTHING_FOUND)


@app.command(epilog="Example: seesay index ~/Pictures --out pictures.seesay")
def index(
    photos: Annotated[Path, typer.Argument(metavar="PHOTOS", help="A folder of images, searched below too.")],
    out: Annotated[Path, typer.Option(help="The index's folder; made, or brought up to date.")],
    run: Annotated[
        str | None, typer.Option(help="The run that embeds; by default the index's, or seesay-small.")
    ] = None,
    sentences: Annotated[
        Path | None, typer.Option(help="Also index sentences: a text file, one a line, or a corpus.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Index a folder of images; run again, it takes up new, changed, moved and deleted files."""
    from seesay.progress import progress_of
    from seesay.search.open import open_or_create_index, read_sentences

    texts = read_sentences(sentences) if sentences is not None else []
    if not photos.is_dir():
        raise SeesayError(f"{photos}: no such folder; name the folder of your images.")
    here, embedder = open_or_create_index(out, run)
    with progress_of("Indexing", "images") as at:
        report = here.update_images(photos, embedder, at)
    added = 0
    if texts:
        with progress_of("Indexing", "sentences") as at:
            added = here.add_sentences(texts, embedder, at)
    found: dict[str, Any] = vars(report) | {
        "sentences_added": added,
        "images": here.count("image"),
        "sentences": here.count("sentence"),
    }
    console.show(found, as_json, console.print_update, out)
    here.close()


@app.command(epilog='Example: seesay search pictures.seesay "two dogs play in the snow" -k 5')
def search(
    folder: IndexFolder,
    sentence: Annotated[str, typer.Argument(help="What the image shows.")],
    k: CountOption = 10,
    open_sheet: Annotated[
        bool, typer.Option("--open", help="Write an HTML sheet of the results and open it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the images that a sentence describes; prints score and path."""
    from seesay.search.open import open_index
    from seesay.search.sheet import write_sheet

    opened, embedder = open_index(folder)
    hits = opened.search(sentence, embedder, k)
    console.show(console.hit_rows(opened, hits), as_json, console.print_hits, sentence)
    if open_sheet and hits:
        sheet = folder.resolve() / "sheet.html"
        write_sheet(opened, sentence, hits, sheet)
        typer.echo(f"Sheet: {sheet}", err=True)
        webbrowser.open(sheet.as_uri())
    if not hits:
        typer.echo(
            f"{folder}: no images in this index; add some: seesay index PHOTOS --out {folder}.", err=True
        )
        raise typer.Exit(NOTHING_FOUND)


@app.command(epilog="Example: seesay sentences pictures.seesay dog.jpg")
def sentences(
    folder: IndexFolder,
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="An image file.")],
    k: CountOption = 10,
    as_json: JsonOption = False,
) -> None:
    """Find the sentences of an index that an image fits."""
    from seesay.data.sources import FileSource
    from seesay.search.open import open_index

    opened, embedder = open_index(folder)
    hits = opened.sentences_for(FileSource(image).read(), embedder, k)
    console.show(console.hit_rows(opened, hits), as_json, console.print_hits, str(image))
    if not hits:
        typer.echo(
            f"{folder}: no sentences in this index; add some: seesay index PHOTOS --sentences FILE.", err=True
        )
        raise typer.Exit(NOTHING_FOUND)


@app.command(epilog='Example: seesay ground dog.jpg "two dogs chase a red ball" --out boxed.png')
def ground(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="An image file.")],
    sentence: Annotated[str, typer.Argument(help="A phrase, or a sentence whose noun phrases are wanted.")],
    run: Annotated[str, typer.Option(help="A run of a grounding recipe.")] = "seesay-ground",
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many boxes a phrase.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Also draw the boxes: a PNG or JPEG file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Point at what a sentence names in an image; prints score, box (x1 y1 x2 y2) and phrase."""
    from seesay.data.sources import FileSource
    from seesay.grounding.draw import check_out, write_grounding
    from seesay.grounding.ground import Grounder
    from seesay.matchers.run import Run

    if out is not None:
        check_out(out)  # before anything is computed
    data = FileSource(image).read()
    grounding = Grounder(Run.load(run)).ground(data, str(image), sentence, k)
    if out is not None:
        write_grounding(data, str(image), grounding, out)
    console.show(console.grounding_row(grounding), as_json, console.print_grounding, sentence)
    if not any(phrase.places for phrase in grounding.phrases):
        raise typer.Exit(NOTHING_FOUND)


@app.command(epilog="Example: seesay serve pictures.seesay --port 8080")
def serve(
    folder: IndexFolder,
    host: Annotated[str, typer.Option(help="Loopback unless you say otherwise.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any free one.")] = 8000,
) -> None:
    """Serve the search page and the HTTP API."""
    from seesay.search.open import open_index
    from seesay.web.serve import serve as run_server

    opened, embedder = open_index(folder)
    opened.close()
    run_server(folder, embedder, host, port)


@app.command(epilog="Example: seesay data flickr8k --check")
def data(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A corpus.")],
    data_format: FormatOption = None,
    check: Annotated[bool, typer.Option(help="Decode every image too; exit 1 when one is broken.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Read a corpus; print its counts, faults and vocabulary."""
    from seesay.data.readers import read_corpus
    from seesay.data.summary import BROKEN, summarise
    from seesay.progress import progress_of
    from seesay.text.vocabulary import vocabulary_summary

    corpus = read_corpus(folder, data_format)
    with progress_of("Checking", "images") as at:
        summary = summarise(corpus, check, at)
    summary["vocabulary"] = vocabulary_summary(corpus)
    console.show(summary, as_json, console.print_corpus)
    if BROKEN in summary["faults"]:
        raise typer.Exit(NOTHING_FOUND)


@app.command(epilog="Example: seesay features flickr8k --encoder efficientnet-lite0:ten --out features")
def features(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A corpus, or a folder of images.")],
    encoder: Annotated[str, typer.Option(help="An encoder's name; `seesay encoders` lists them.")],
    out: Annotated[Path, typer.Option(help="The folder of feature stores.")],
    data_format: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compute the features of a corpus's images and keep them; run again, it resumes."""
    from seesay.data.readers import read_corpus
    from seesay.features.encode import fill_stores
    from seesay.features.encoder import load_encoder
    from seesay.matchers.run import default_device

    chosen = load_encoder(encoder, default_device())
    report = fill_stores([chosen], out, read_corpus(folder, data_format).images)
    result = {
        "store": str(out / chosen.fingerprint),
        "encoder": chosen.name,
        "arrays": chosen.dims,
        "images": len(report.keys),
        "encoded": report.encoded,
        "broken": [str(error) for error in report.errors],
    }
    console.show(result, as_json, console.print_features)
    if len(report.errors) == len(report.keys):
        raise typer.Exit(NOTHING_FOUND)


@app.command()
def recipes(as_json: JsonOption = False) -> None:
    """List the recipes, a line each."""
    from seesay.recipes.load import list_recipes

    rows = [{"name": f"{r.corpus}/{r.name}", "about": r.about} for r in list_recipes()]
    console.show(rows, as_json, console.print_lines)


@app.command()
def encoders(as_json: JsonOption = False) -> None:
    """List the image encoders, a line each."""
    from seesay.features.encoder import list_encoders

    rows = [{"name": name, "about": about} for name, about in list_encoders()]
    console.show(rows, as_json, console.print_lines)


@app.command()
def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of runs.")] = DEFAULT_RUNS,
    as_json: JsonOption = False,
) -> None:
    """List the runs below a folder and the shipped ones, a line each."""
    from seesay.training.runs import list_runs

    if folder != DEFAULT_RUNS and not folder.is_dir():
        raise SeesayError(f"{folder}: no such folder; name the folder of your runs.")
    rows = list_runs(folder)
    console.show(rows, as_json, console.print_lines)
    if not rows:
        raise typer.Exit(NOTHING_FOUND)


def main() -> None:
    """Run a command; a user's mistake is one line on standard error and exit code 2."""
    # Pillow warns of damaged metadata and of large images; seesay counts and bounds both itself.
    warnings.filterwarnings("ignore", module="PIL")
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except SeesayError as error:
        _fail(str(error))
    except (typer.Abort, KeyboardInterrupt):
        sys.exit("seesay: stopped; run the same command again to go on.")
    except Exception as error:
        # Usage errors come from the click that typer carries inside, or from click itself.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        _fail(f"{message()} Ask with --help, such as: seesay search --help")
    finally:
        _let_go_of_closed_pipe()


def _fail(message: str) -> NoReturn:
    typer.echo(f"seesay: {message}", err=True)
    sys.exit(2)


def _let_go_of_closed_pipe() -> None:
    # `seesay recipes | head -1`: the reader has what it wants, so there is nothing to complain of.
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
