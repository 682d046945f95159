"""Commands that put a trained matcher to work."""

from __future__ import annotations

import webbrowser
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from seesay.cli import printing as console
from seesay.cli.app import app
from seesay.cli.options import (
    GROUND_RUN,
    NOTHING_FOUND,
    SHORTLIST,
    CountOption,
    GroundRun,
    IndexFolder,
    JsonOption,
    RerankOption,
    RunName,
    ShortlistOption,
)
from seesay.errors import SeesayError


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
    rerank: RerankOption = None,
    shortlist: ShortlistOption = SHORTLIST,
    open_sheet: Annotated[
        bool, typer.Option("--open", help="Write an HTML sheet of the results and open it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the images that a sentence describes; prints score and path."""
    from seesay.search.open import open_index
    from seesay.search.rerank import open_reranker
    from seesay.search.sheet import write_sheet

    opened, embedder = open_index(folder)
    if rerank is None:
        hits = opened.search(sentence, embedder, k)
    else:
        reranked = open_reranker(rerank, shortlist).search(opened, sentence, embedder, k)
        hits = reranked.hits
        console.tell_reranking(reranked)
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
    rerank: RerankOption = None,
    shortlist: ShortlistOption = SHORTLIST,
    as_json: JsonOption = False,
) -> None:
    """Find the sentences of an index that an image fits."""
    from seesay.data.sources import FileSource
    from seesay.search.open import open_index
    from seesay.search.rerank import open_reranker

    opened, embedder = open_index(folder)
    data = FileSource(image).read()
    if rerank is None:
        hits = opened.sentences_for(data, embedder, k)
    else:
        reranked = open_reranker(rerank, shortlist).sentences_for(opened, data, embedder, k)
        hits = reranked.hits
        console.tell_reranking(reranked)
    console.show(console.hit_rows(opened, hits), as_json, console.print_hits, str(image))
    if not hits:
        typer.echo(
            f"{folder}: no sentences in this index; add some: seesay index PHOTOS --sentences FILE.", err=True
        )
        raise typer.Exit(NOTHING_FOUND)


@app.command("caption", epilog="Example: seesay caption runs/sco-full dog.jpg --beam 10 -k 3")
def write(
    run: RunName,
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="An image file.")],
    beam: Annotated[
        int, typer.Option(min=1, max=1000, help="How many beginnings of a sentence are kept; at least -k.")
    ] = 5,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many sentences.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Write a sentence of an image, by a run that learned to; prints its log-likelihood and the sentence."""
    from seesay.data.sources import FileSource
    from seesay.runs.captioning import write_sentences
    from seesay.runs.run import Run

    data = FileSource(image).read()
    written = write_sentences(Run.load(run), data, str(image), beam, k)
    console.show([asdict(each) for each in written], as_json, console.print_written)


@app.command(epilog='Example: seesay ground dog.jpg "two dogs chase a red ball" --out boxed.png')
def ground(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="An image file.")],
    sentence: Annotated[str, typer.Argument(help="A phrase, or a sentence whose noun phrases are wanted.")],
    run: GroundRun = GROUND_RUN,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many boxes a phrase.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Also draw the boxes: a PNG or JPEG file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Point at what a sentence names in an image; prints score, box (x1 y1 x2 y2) and phrase."""
    from seesay.data.sources import FileSource
    from seesay.grounding.draw import check_out, write_grounding
    from seesay.grounding.ground import Grounder
    from seesay.runs.run import Run

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
    ground: GroundRun = GROUND_RUN,
    rerank: RerankOption = None,
) -> None:
    """Serve the search page and the HTTP API."""
    from seesay.search.open import open_index
    from seesay.web.serve import serve as run_server

    opened, embedder = open_index(folder)
    opened.close()
    run_server(folder, embedder, host, port, ground, rerank)
