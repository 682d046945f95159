"""Commands that show corpora, recipes, encoders and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seesay.cli import options as opt
from seesay.cli import printing as console
from seesay.errors import SeesayError


@opt.command(epilog="Example: seesay data flickr8k --check")
def data(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A corpus of captioned images, or phrases.")],
    reading: opt.Reading,
    phrases: Annotated[bool, typer.Option("--phrases", help="The corpus has phrases with boxes.")] = False,
    check: Annotated[
        bool,
        typer.Option(help="Also decode every image; exit with status 1 if anything is broken or dropped."),
    ] = False,
    similar: Annotated[
        bool, typer.Option("--similar", help="Compare the sentences of each image, which takes minutes.")
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Read a corpus; print its counts, issues and vocabulary."""
    from seesay.data.summary import summarise
    from seesay.encoders.sentences.base import load_sentence_encoder
    from seesay.text.vocabulary import rare_word_summary, similar_summary

    corpus = reading.read(folder, phrases)
    summary = summarise(corpus, check)
    if not corpus.has_boxes:
        known = {"train", "test"} <= corpus.splits
        texts = [corpus.split(split).texts() for split in ("train", "test") if known]
        summary["rare_words"] = rare_word_summary(*texts) if known else {}
        if similar:
            summary["similar_sentences"] = similar_summary(
                corpus, load_sentence_encoder("minilm-int8").encode
            )
    console.show(summary, as_json, console.print_corpus)
    console.print_omissions(corpus.issues)
    if check and any(found["is_omission"] for found in summary["issues"].values()):
        raise typer.Exit(opt.NOTHING_FOUND)


@opt.command(
    device=True, epilog="Example: seesay features flickr8k --encoder efficientnet-lite0 --out features"
)
def features(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A corpus or a folder of images.")],
    encoder: Annotated[str, typer.Option(help="An encoder in YAML; `seesay encoders` lists them.")],
    out: Annotated[Path, typer.Option(help="The folder of feature stores.")],
    reading: opt.Reading,
    cluster: opt.Cluster = None,
    as_json: opt.Json = False,
) -> None:
    """Compute the features of a corpus's images and store them. Run it again to resume."""
    from seesay.device import default_device
    from seesay.encoders.images.base import load_image_encoder
    from seesay.encoders.images.encode import fill_stores
    from seesay.encoders.settings import EncoderSettings
    from seesay.encoders.stores import has_stores
    from seesay.paths import check_folder
    from seesay.recipes.files import Change

    settings = EncoderSettings.parse(Change.parse(f"encoder={encoder}").value)
    check_folder(out, has_stores(out))
    chosen = load_image_encoder(settings, default_device())
    images = reading.read(folder.resolve() if cluster else folder).images
    report = fill_stores([chosen], out, images, cluster or "")
    store, count, broken = report.stores[0].folder, len(report.keys), list(map(str, report.errors))
    if as_json:
        facts = {"store": str(store), "encoder": chosen.source.name, "arrays": chosen.source.dims}
        console.print_json(facts | {"images": count, "encoded": report.encoded, "broken": broken})
    else:
        arrays = ", ".join(f"{name} ({width})" for name, width in chosen.source.dims.items())
        print(f"{store}: {arrays} of {count} images, {report.encoded} encoded now")
        console.print_skipped(broken)
    if len(broken) == count:
        raise typer.Exit(opt.NOTHING_FOUND)


@opt.command(epilog="Example: seesay concepts runs/concepts dog.jpg")
def concepts(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run of the recipe 'concepts'.")],
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="An image file.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Number of concepts.")] = 10,
    as_json: opt.Json = False,
) -> None:
    """List the likeliest concepts that a run sees in an image; print score, part of speech and word."""
    from seesay.data.images import FileSource
    from seesay.protocols.concepts import image_concepts
    from seesay.runs.load import load_run

    found = image_concepts(load_run(run), FileSource(image).read(), str(image), k)
    if as_json:
        kinds = [
            {"word": concept.word, "part_of_speech": concept.part_of_speech, "score": score}
            for concept, score in found
        ]
        console.print_json(kinds)
    for concept, score in found if not as_json else ():
        print(f"{score:.3f}  {concept.part_of_speech:<9}  {concept.word}")


@opt.command(epilog="Example: seesay recipes irmatch-s > mine.yaml")
def recipes(
    name: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="Print this recipe as YAML, which train takes.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those with a paper's printed settings, which learn less here.")
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """List the recipes by paper, and the corpora that they have settings for; with RECIPE, print it."""
    from seesay.recipes.files import included_recipes  # unchecked, because matchers import PyTorch

    if name is not None:
        import yaml

        from seesay.recipes.load import dump_recipe, load_recipe

        # A copy that is edited is for any corpus, and no longer the paper's.
        of_paper = ("corpus", "settings_of", "system", "departures", "changes")
        text = dump_recipe(load_recipe(name), *of_paper)
        console.show(yaml.safe_load(text), as_json, lambda _: print(text, end=""))
        return
    rows = [
        {"paper": values["source"], "name": each, "about": values["about"], "corpora": [*values["corpora"]]}
        for each, values in sorted(included_recipes().items())
        if everything or as_json or not each.endswith("-printed")
    ]
    if as_json:
        console.print_json(rows)
        return
    for paper in sorted({row["paper"] for row in rows}):
        print(f"{paper}:")
        below = [row for row in rows if row["paper"] == paper]
        console.show_names(
            [(f"  {row['name']}", f"{row['about']} ({', '.join(row['corpora'])})") for row in below]
        )


@opt.command()
def encoders(as_json: opt.Json = False) -> None:
    """List the image encoders."""
    from seesay.encoders import list_encoders

    console.show_names(list_encoders(), as_json)


@opt.command()
def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of runs.")] = opt.RUNS,
    as_json: opt.Json = False,
) -> None:
    """List the runs below a folder, and those included in seesay."""
    from seesay.runs.summary import list_runs

    if folder != opt.RUNS and not folder.is_dir():
        raise SeesayError(f"{folder}: no such folder; name the folder of your runs.")
    console.show_names(list_runs(folder), as_json)
