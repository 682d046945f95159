"""Commands that use a trained matcher."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from seesay.cli import options as opt
from seesay.cli import printing as console
from seesay.errors import SeesayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seesay.runs.run import Run
    from seesay.search import Answer, Query
    from seesay.search.update import UpdateReport


SUFFIX = ".seesay"  # of the folders of indexes
_GROUND_RUN = "seesay-ground"
_SHORTLIST = 100  # results that are ranked again, at least

ImageFile = Annotated[Path, typer.Argument(metavar="IMAGE", help="An image file.")]
IndexPlace = Annotated[
    list[str],  # none or one, because an argument that may be left out has to be a list before another one
    typer.Argument(
        metavar="[INDEX]",
        default_factory=list,
        show_default=False,
        help="The folder of the index, or its address in PostgreSQL; by default the only *.seesay here.",
    ),
]
Count = Annotated[int, typer.Option("-k", min=1, max=1000, help="Number of results.")]
Rerank = Annotated[
    str | None,
    typer.Option(metavar="RUN", help="Re-rank the best 100 results with this run, such as a pair matcher."),
]
Root = Annotated[
    list[str] | None,
    typer.Option(metavar="FOLDER", help="Where the images are, if they were moved; NAME=FOLDER for several."),
]


def _reranked(answer: Answer, run: Run, files: Sequence[Path], sentences: Sequence[str], k: int) -> Answer:
    """Return the best `k` hits by the scores of a run; those without a file in `files` come last."""
    import numpy as np

    scores = run.score(files, sentences).ravel()
    if not np.isfinite(scores).all():
        raise SeesayError("--rerank: a score is not finite; the weights of the run are damaged.")
    console.tell(f"{len(scores)} re-ranked.")
    best = [replace(answer[i], score=float(scores[i])) for i in np.argsort(-scores, kind="stable")]
    answer[:] = [*best, *answer[len(best) :]][:k]
    return answer


def _reranking(name: str | None) -> Run | None:
    from seesay.runs.load import load_run

    if name is None:
        return None
    run = load_run(name)
    if run.asymmetric:
        raise SeesayError(
            f"{run.name}: its scores depend on whether the image or the sentence is the query; re-ranking "
            "needs one score per pair. Use the sum of the metrics (recipe gvse-sum), or do not re-rank."
        )
    return run


@opt.command(device=True, epilog="Example: seesay index ~/Pictures --out pictures.seesay")
def index(
    out: Annotated[
        str,
        typer.Option(
            metavar="INDEX", help="The folder of the index, or postgresql://USER@HOST/DATABASE#NAME."
        ),
    ],
    photos: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PHOTOS...", help="Folders to add; by default those of the index are updated."
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="A run or LIBRARY:MODEL that embeds images; by default seesay-small.")
    ] = None,
    sentences: Annotated[
        Path | None, typer.Option(help="Also index sentences: a text file, one per line, or a corpus.")
    ] = None,
    remove: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="Remove a folder or emptied subfolder. Files are not touched."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB",
            help="Leave out files and folders of this name or path: '*.png' or 'trip/*.png'. The "
            "index remembers it; '' for none.",
        ),
    ] = None,
    text: Annotated[
        bool | None,
        typer.Option(
            "--text/--no-text",
            help="Also read the text in pictures, such as screenshots and receipts (needs the extra ocr). "
            "The index remembers it.",
        ),
    ] = None,
    root: Root = None,
    cluster: opt.Cluster = None,
    watch: Annotated[bool, typer.Option("--watch", help="Update the index when its folders change.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Index folders of images. Run it again to update the index: only new content is embedded."""
    from seesay.progress import progress_of
    from seesay.search import Index
    from seesay.search.update import UpdateReport, read_sentences

    texts = read_sentences(sentences) if sentences is not None else []
    photos = photos or []
    if root and photos:
        raise SeesayError("--root: says where the index's own folders are; add others in a second call.")
    with Index.open_or_create(out, run, photos, _roots(root or [])) as opened:

        def show(report: UpdateReport | SeesayError, added: int = 0) -> None:
            if isinstance(report, SeesayError):
                console.tell(str(report))
                return
            counts = {"images": opened.count("image"), "sentences": opened.count("sentence")}
            if as_json:
                console.print_json(asdict(report) | counts | {"sentences_added": added})
            else:
                console.print_update(out, report, added, **counts)

        removed = 0
        for folder in remove or ():
            removed += (images := opened.remove_images(folder))
            console.tell(f"{folder}: {images} images removed from {out}.")
        emptied = bool(remove) and not photos and not opened.roots()  # its last folder was removed
        report = UpdateReport()
        if not emptied:
            with progress_of("Indexing", "images") as at:
                report = opened.update_images(photos, at, cluster or "", exclude, text)
        report.deleted += removed
        with progress_of("Indexing", "sentences") as at:
            added = opened.add_sentences(texts, at) if texts else 0
        show(report, added)
        if emptied:
            return
        if not (opened.count("image") or watch):
            console.tell(f"{out}: has no images now: all were left out or could not be read.")
            raise typer.Exit(opt.NOTHING_FOUND)
        if watch:
            from threading import Event

            from seesay.search.watch import follow

            folders = ", ".join(str(root.folder) for root in opened.roots())
            console.tell(f"Watching {folders}; press Ctrl-C to stop.")
            follow(opened, show, Event())


@opt.command(device=True, epilog='Example: seesay search pictures.seesay "two dogs play in the snow" -k 5')
def search(
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="[INDEX] QUERY",
            help="The index's folder, by default the only *.seesay here. Then a sentence, an image file, or "
            "several joined by ' + ' and ' - '; '2*' is a weight, and id:12 an image of the index. "
            "Conditions such as taken:2021 may stand among the words, see --where. A sentence in double "
            "quotes is not corrected.",
        ),
    ],
    k: Count = 10,
    rerank: Rerank = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="FILTER",
            help="Only search images that meet all conditions: taken:2019 (or 2019-06..2020-01), "
            "folder:italy, name:IMG_2021, added:7d, text:invoice.",
        ),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Find the images that fit a sentence, an image or a combination; print probability and path.

    Conditions alone print the newest images that meet them.
    """
    from seesay.search import Index
    from seesay.search.filters import Filter

    run = _reranking(rerank)
    Filter.parse(where or "")  # a mistake in it is told before a run is loaded
    folder, query = _index_and_query(given)
    asked, where = _query(query, where)
    if run is not None and (asked is None or len(asked.parts) > 1 or not asked.sentences):
        raise SeesayError("--rerank needs a query of a single sentence.")
    with Index.open(folder) as opened:
        if asked is None:
            is_found = console.show_newest(opened, where or "", k, as_json)
        else:
            ready = opened.prepare(asked)
            answer = opened.search(ready, k if run is None else max(k, _SHORTLIST), where)
            if run is not None:
                answer.sort(key=lambda hit: opened.file_at(str(hit.path)) is None)
                files = [file for hit in answer if (file := opened.file_at(str(hit.path))) is not None]
                answer = _reranked(answer, run, files, ready.query.sentences, k)
            console.show_answer(answer, opened, as_json, run is not None)
            is_found = bool(answer)
    if not is_found:
        if where:
            console.tell(f"{folder}: no image matches --where '{where}'.")
        else:
            out = quote(str(folder))
            console.tell(f"{folder}: no images in this index; add some: seesay index PHOTOS --out {out}")
        raise typer.Exit(opt.NOTHING_FOUND)


def _index_and_query(given: list[str]) -> tuple[str, str]:
    """Return the index and the query of a search, whose words need no quotes in the shell."""
    first, *others = given
    is_index = first.endswith(SUFFIX) or Path(first).is_dir() or ("/" in first and not Path(first).is_file())
    if others and (is_index or not _indexes_here()):
        return first, " ".join(others)
    return _only_index(), " ".join(given)


def _indexes_here() -> list[str]:
    from seesay.search.index import store_exists

    return sorted(str(folder) for folder in Path().glob(f"*{SUFFIX}") if store_exists(folder))


def _only_index(given: Sequence[str] = ()) -> str:
    """Return the index that is given, or the only one in the current folder."""
    if len(given) > 1:
        raise SeesayError(f"Expected one index, got {', '.join(given)}.")
    here = given or _indexes_here()
    if len(here) == 1:
        return here[0]
    if here:
        raise SeesayError(f"There are several indexes here; name one of them first: {', '.join(here)}.")
    raise SeesayError(
        f"There is no index (*{SUFFIX}) in {Path().resolve()}; name one, or create one: "
        f"seesay index PHOTOS --out pictures{SUFFIX}"
    )


def _query(text: str, where: str | None) -> tuple[Query | None, str | None]:
    """Parse a query with conditions among its words, which are added to the filter.

    The query is None if there are only conditions. The name of an image file means that image, whatever signs
    it contains.
    """
    from seesay.data.formats import is_image
    from seesay.search import Query
    from seesay.search.filters import split_typed

    with suppress(OSError):  # the text is too long for a name
        if Path(text).is_file() and is_image(Path(text)):
            return Query.of(Path(text)), where
    query, conditions = split_typed(text)
    where = f"{where or ''} {conditions}".strip() or None
    return (None if conditions and not query else Query.parse(query)), where


@opt.command(device=True, epilog="Example: seesay sentences pictures.seesay photo.jpg")
def sentences(
    place: IndexPlace,
    image: ImageFile,
    k: Count = 10,
    rerank: Rerank = None,
    as_json: opt.Json = False,
) -> None:
    """Find the sentences of an index that describe an image; print score and sentence."""
    from seesay.search import Index

    folder, run = _only_index(place), _reranking(rerank)
    with Index.open(folder) as opened:
        answer = opened.sentences_for(image, k if run is None else max(k, _SHORTLIST))
        if run is not None:
            answer = _reranked(answer, run, [image], [str(hit.text) for hit in answer], k)
        console.show_answer(answer, opened, as_json, run is not None)
    if not answer:
        console.tell(
            f"{folder}: no sentences in this index; add some: "
            f"seesay index PHOTOS --out {quote(str(folder))} --sentences FILE"
        )
        raise typer.Exit(opt.NOTHING_FOUND)


@opt.command(device=True, epilog='Example: seesay ground dog.jpg "two dogs chase a red ball" --out boxed.png')
def ground(
    image: ImageFile,
    sentence: Annotated[
        str,
        typer.Argument(metavar="SENTENCE", help="A phrase, or a sentence whose noun phrases are located."),
    ],
    run: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN", help="A run that locates phrases, by default seesay-ground; repeatable."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="Maximum number of boxes of a phrase.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Also draw the boxes: a PNG or JPEG file.")] = None,
    overwrite: opt.Overwrite = False,
    as_json: opt.Json = False,
) -> None:
    """Locate the phrases of a sentence in an image; print probability, box (x1 y1 x2 y2) and phrase."""
    from seesay.data.images import FileSource
    from seesay.grounding import FORMATS, load_grounder, write_groundings
    from seesay.paths import check_file, check_output

    if out is not None:
        check_file(out, FORMATS)  # before anything is computed
        check_output(out, [image], overwrite)
    data = FileSource(image).read()
    found = {each: load_grounder(each).ground(data, str(image), sentence, k) for each in run or [_GROUND_RUN]}
    if out is not None:
        write_groundings(data, str(image), found, out)
    console.show(found if len(found) > 1 else next(iter(found.values())), as_json, console.print_grounding)
    if not any(phrase.boxes for each in found.values() for phrase in each.phrases):
        raise typer.Exit(opt.NOTHING_FOUND)


@opt.command(epilog="Example: seesay copy pictures.seesay postgresql://USER@HOST/DATABASE#pictures")
def copy(
    place: IndexPlace,
    to: Annotated[str, typer.Argument(metavar="COPY", help="A new folder or address, of the same forms.")],
) -> None:
    """Copy an index, with its vectors and thumbnails, between folders and PostgreSQL."""
    from seesay.progress import progress_of
    from seesay.search import Index

    folder = _only_index(place)
    with Index.open(folder) as opened, progress_of("Copying", "items") as at:
        opened.copy_to(to, at)
    console.tell(f"{folder}: copied to {to}.")


@opt.command(epilog="Example: seesay info pictures.seesay")
def info(place: IndexPlace, as_json: opt.Json = False) -> None:
    """Show an index: folders, run, counts, last change, and files that could not be read."""
    from seesay.search import Index

    with Index.open(_only_index(place)) as opened:
        console.show(opened.info(), as_json, console.print_info)


@opt.command(
    device=True,
    epilog="Example: seesay serve pictures.seesay --photos ~/Pictures --watch --open",
    context_settings={"auto_envvar_prefix": "SEESAY_SERVE"},
)
def serve(
    places: Annotated[
        list[str] | None,
        typer.Argument(metavar="[INDEX...]", help="The indexes; by default the only *.seesay here."),
    ] = None,
    host: Annotated[str, typer.Option(help="Listen on this address; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 chooses a free one.")] = 8000,
    ground: Annotated[str, typer.Option(metavar="RUN", help="The run that locates phrases.")] = _GROUND_RUN,
    root: Root = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Also answer to this name, such as *.example.org."),
    ] = None,
    prefix: Annotated[str, typer.Option(help="A prefix of all paths, such as /photos, behind a proxy.")] = "",
    proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="A proxy or network whose X-Forwarded headers are trusted."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file of tokens, one of which clients must send.")
    ] = None,
    photos: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="Index this folder; the index is created if it does not exist."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Update the indexes when their folders change.")
    ] = False,
    client_requests: Annotated[
        int, typer.Option(min=1, help="Requests at once of one client, by its token or else its address.")
    ] = 64,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Print a JSON line for each request, without queries.")
    ] = False,
    opens: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve the search page and the HTTP API."""
    import webbrowser

    from seesay.search import Index
    from seesay.search.index import store_exists
    from seesay.web.app import announce, name_of
    from seesay.web.app import serve as run_server
    from seesay.web.security import Limits
    from seesay.web.service import ServerOptions

    def ready(address: str) -> None:
        announce(address)
        if opens:
            webbrowser.open(address)

    places = places or [_only_index()]
    if (root or photos) and len(places) > 1:
        raise SeesayError("--root and --photos are for a single index; use seesay index for the others.")
    if photos and not store_exists(places[0]):
        Index.open_or_create(places[0], photos=photos).close()
    names = [name_of(place) for place in places]
    if len(set(names)) < len(names):
        raise SeesayError(f"Two of these indexes have the same name: {', '.join(names)}; rename a folder.")
    indexes = {name_of(place): Index.open(place, root=_roots(root or [])) for place in places}
    options = ServerOptions(
        hosts=allow_host or (),
        prefix=prefix,
        proxies=proxy or (),
        token_file=token_file,
        ground_run=ground,
        warm_up=True,
        access_log=access_log,
        photos={names[0]: photos or []},
        watch=watch,
        limits=Limits(requests=max(250, client_requests), requests_a_client=client_requests),
    )
    run_server(indexes, host, port, options, ready)


@opt.command(epilog="Example: seesay openapi > openapi.json")
def openapi() -> None:
    """Print the OpenAPI schema of what seesay serve answers, without a server."""
    from seesay.web.app import create_app

    console.print_json(create_app({}).openapi())


@opt.command(epilog="Example: seesay token > token; seesay serve --host 0.0.0.0 --token-file token")
def token() -> None:
    """Print a new token for seesay serve --token-file, short enough to type on a phone."""
    from seesay.web.security import new_token

    print(new_token())


def _roots(given: list[str]) -> str | dict[str, str] | None:
    """Return the folder of `--root`, or its folders by name; None without any."""
    if len(given) == 1 and (Path(given[0]).is_dir() or "=" not in given[0]):
        return given[0]
    for each in given:
        if "=" not in each:
            raise SeesayError(f"--root {each}: write NAME=FOLDER for each folder of the index.")
    return dict(each.split("=", 1) for each in given) or None
