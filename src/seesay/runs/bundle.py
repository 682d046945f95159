"""A run as a folder that can be uploaded to a model hub.

It contains the run's files for search, the encoders as ONNX files, a model card (README.md) and the
config.json by which hubs recognise a model, but nothing about the machine. Most runs then work without
PyTorch; `Bundle.extra` names what the encoders of the others need.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from pydantic import JsonValue

from seesay import __version__
from seesay.encoders.images.tuned import BASE, adopt_tuned, copy_tuned, metadata
from seesay.encoders.regions import load_region_encoder
from seesay.encoders.spec import EXPORTED, PRECOMPUTED, EncoderSpec, is_two_tower
from seesay.encoders.towers.opened import export_digest, open_towers
from seesay.errors import SeesayError, naming_extras
from seesay.onnx import networks_run
from seesay.paths import new_folder
from seesay.runs.config import TEXT, VOCABULARY, WEIGHTS, RunConfig
from seesay.runs.folders import NETWORKS, included_runs, run_config, run_folder
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary, is_finished
from seesay.text.concepts import FILE as CONCEPTS

if TYPE_CHECKING:
    from seesay.recipes.schema import Recipe

CARD, CONFIG = "README.md", "config.json"
_COPIED = (WEIGHTS, VOCABULARY, TEXT, CONCEPTS)
_FOLDERS = re.compile(r"([:=]\s*)(?:~|\.{1,2})?/(?:[^/'\",\]}]+/)*")  # folders of a path in a change
_DRAWN = 64  # pixels per side of the random image that encoders are run on


@dataclass(frozen=True)
class Bundle:
    """An exported folder of a run.

    Attributes:
        folder: where it is.
        files: paths of its files, relative to the folder.
        size: of all of them, in bytes.
        extra: the extra of seesay that its encoders need; None if the core suffices.
    """

    folder: Path
    files: tuple[str, ...]
    size: int
    extra: str | None


def export_in_place(name: str) -> Run:
    """Export a run's matcher again, beside its weights.

    Raises:
        SeesayError: the run does not exist, is included or of another library, or cannot be exported.
        MissingExtraError: PyTorch is not installed.
    """
    if is_two_tower(name):
        raise SeesayError(f"{name}: is exported on first use; name a folder to write it to with --out.")
    if run_folder(name) in included_runs():
        raise SeesayError(f"{name}: is included with its export; name a folder to copy it to with --out.")
    with naming_extras():
        from seesay.runs.export import export_run
    run = Run.load(name, "cpu")
    export_run(run)
    return run


def write_bundle(name: str, out: Path, licence: str = "unknown") -> Bundle:
    """Write a run's folder for use elsewhere, completely or not at all.

    Args:
        name: the run's folder, the name of included weights, or a CLIP model. It is exported first if
            necessary.
        out: the folder to write; it must be empty or not exist.
        licence: of the weights, for the model card: an identifier such as "apache-2.0" or "cc-by-nc-4.0".

    Raises:
        SeesayError: the run does not exist or cannot be exported, or `out` is not empty or cannot be written.
        MissingExtraError: a package that exports the run is not installed.
    """
    with new_folder(out) as beside:
        source = run_folder(name)
        run = _fill(source, beside)
        _bring_networks(run)
        hub = _hub_config(run)
        (beside / CONFIG).write_text(json.dumps(hub, indent=1) + "\n", encoding="utf-8")
        extra = _extra(beside)
        card = model_card(run, source, out.name, licence, extra, hub["fingerprint"])
        (beside / CARD).write_text(card, encoding="utf-8")
        files = sorted(path for path in beside.rglob("*") if path.is_file())
        size = sum(path.stat().st_size for path in files)
        names = tuple(path.relative_to(beside).as_posix() for path in files)
    return Bundle(out, names, size, extra)


def _extra(folder: Path) -> str | None:
    """Return the extra of seesay that a run's encoders need."""
    if (folder / TEXT).is_file():
        return "train"  # fitted sentence encoders read GloVe's vectors
    heads = map(metadata, folder.glob("encoder-*.safetensors"))
    return "hub" if any(is_two_tower(about.get(BASE, "")) for about in heads) else None


def _fill(source: Path, target: Path) -> Run:
    """Copy a run, exported if necessary, with its own encoders and towers."""
    config = run_config(source)
    for file in (*_COPIED, *(f"{graph}.onnx" for graph in config.graphs)):
        if (source / file).is_file():
            shutil.copyfile(source / file, target / file)
    for encoder in (*config.encoders, config.sentence_encoder or ""):
        if encoder.endswith((".onnx", ".txt", ".vec")):  # files of detectors and of word vectors
            raise SeesayError(
                f"{source}: its encoder {encoder} reads a file of yours, which cannot be exported; "
                f"export a run that was trained without it."
            )
    for encoder in config.encoders:
        if is_two_tower(encoder):
            adopt_tuned(encoder, source)  # if it was tuned, the towers below have these weights
        else:
            copy_tuned(encoder, source, target)
    _with_towers(config, target).save(target)
    run = Run.load(str(target), "cpu")
    if not run.config.graphs:
        with naming_extras():
            from seesay.runs.export import export_run
        export_run(run)
        run = Run.load(str(target), "cpu")
    return run


def _with_towers(config: RunConfig, target: Path) -> RunConfig:
    """Copy the CLIP towers that a run uses, and name the copies in its recipe."""
    names = {name for name in (*config.encoders, config.sentence_encoder or "") if is_two_tower(name)}
    given = {name: _copied_towers(name, target) for name in names}
    recipe = dict(config.recipe)
    for name in sorted(given, key=len, reverse=True):  # a name may be a prefix of another
        # Changes are as given on the command line; the recipe of a model's run has the model's name.
        here = given[name].replace(f"{target.resolve()}", ".", 1)
        recipe["changes"] = [change.replace(name, here) for change in recipe["changes"]]
        recipe["name"] = recipe["name"].replace(name, EncoderSpec.of_tower(name).title)
    recipe["encoders"] = [given.get(name, name) for name in config.encoders]
    recipe["sentence_encoder"] = given.get(config.sentence_encoder or "", config.sentence_encoder)
    return replace(config, recipe=_without_folders(recipe))


def _without_folders(recipe: dict[str, Any]) -> dict[str, Any]:
    """Name what a training has read, such as a run of concepts, without the folders of this machine.

    Changes that name the towers in the exported folder stay as they are.
    """
    files = {"words": "vectors", "loss": "teacher", "matcher": "word_vectors"}
    short = {
        holder: values | {key: _short(values[key])}
        for holder, key in files.items()
        if (values := recipe.get(holder)) and values.get(key)
    }
    short["encoders"] = [
        str(replace(spec, variant=_short(spec.variant))) if spec.weights and spec.variant else name
        for name, spec in ((name, EncoderSpec.parse(name)) for name in recipe["encoders"])
    ]
    short["changes"] = [
        change if f"{EXPORTED}:." in change else _FOLDERS.sub(r"\1", change) for change in recipe["changes"]
    ]
    return recipe | short


def _short(name: str) -> str:
    """The name of a file or run without its folder, unless it is a library's model."""
    return name if is_two_tower(name) else Path(name).name or "run"


def _copied_towers(name: str, run: Path) -> str:
    """Copy towers into a run's folder, as `towers/HASH`, and return their new name."""
    source = open_towers(name, "cpu").folder
    folder = run / "towers" / export_digest(source, without="")
    folder.mkdir(parents=True, exist_ok=True)
    for path in filter(Path.is_file, source.iterdir()):
        shutil.copyfile(path, folder / path.name)
    return f"{EXPORTED}:{folder.resolve()}"


def _bring_networks(run: Run) -> None:
    """Copy the exported networks of a run's encoders, after running them, into its folder."""
    config = run.config
    pixels = np.random.default_rng(0).integers(0, 256, (_DRAWN, _DRAWN, 3), dtype=np.uint8)
    with networks_run() as networks:
        if config.regions is not None:
            box = np.array([[0, 0, _DRAWN, _DRAWN]], np.float32)
            load_region_encoder(config.encoders[0]).encode(pixels, box)
        elif PRECOMPUTED not in config.encoders:
            for encoder in run.encoders:
                encoder.encode_prepared([encoder.prepare(pixels)])
        run.prepare(["a dog"])
    installed = Path(__file__).parents[1]
    for network in networks:
        if network.is_relative_to(installed) or network.is_relative_to(run.folder.resolve()):
            continue
        (run.folder / NETWORKS).mkdir(exist_ok=True)
        shutil.copyfile(network, run.folder / NETWORKS / network.name)


def _hub_config(run: Run) -> dict[str, JsonValue]:
    """Describe the run for model hubs."""
    config = run.config.relative_to(run.folder)
    return {
        "model_type": "seesay",
        "library_name": "seesay",
        "seesay_version": __version__,
        "recipe": config.name,
        "matcher": config.kind,
        "embedding_dim": run.dim if run.embeds else None,
        "image_encoders": list(config.encoders),
        "sentence_encoder": config.sentence_encoder,
        "fingerprint": None if PRECOMPUTED in config.encoders or config.regions else run.fingerprint,
    }


def model_card(
    run: Run, trained: Path, title: str, licence: str, extra: str | None, fingerprint: JsonValue
) -> str:
    """Write the model card, in Markdown with the front matter that hubs read.

    Args:
        run: the exported run.
        trained: the folder of its training, with its summary if there is one.
        title: the name of the card.
        licence: of the weights, an identifier such as "apache-2.0".
        extra: the extra of seesay that the run's encoders need, or None.
        fingerprint: of the run, if it has one.
    """
    summary = TrainingSummary.load(trained) if is_finished(trained) else None
    recipe = run.config.relative_to(run.folder).checked_recipe(run.folder)
    parts = [
        _front_matter(run, licence),
        f"# {title}\n\n{_about(run, recipe)}",
        _usage(run, title, extra),
        _data(recipe, licence, summary),
        _recipe(recipe),
        _results(summary),
        _identity(fingerprint),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(run: Run, licence: str) -> str:
    retrieves = "phrase-grounding" if run.config.regions else "image-text-retrieval"
    fields = {
        "license": licence,
        "library_name": "seesay",
        "language": ["en"],
        "tags": ["seesay", "image-text-matching", retrieves, "onnx"],
    }
    return f"---\n{yaml.safe_dump(fields, sort_keys=False)}---"


def _about(run: Run, recipe: Recipe) -> str:
    what = "regions of an image with phrases" if run.config.regions else "images with sentences"
    how = f"embeds both sides in {run.dim} dimensions" if run.embeds else "scores pairs of one of each"
    system = f" The published system is {recipe.system}." if recipe.system else ""
    about = f" {recipe.about[:1].upper()}{recipe.about[1:].rstrip('.')}." if recipe.about else ""
    return f"Matches {what}. It {how}.{about}{system}"


def _usage(run: Run, title: str, extra: str | None) -> str:
    if run.config.regions:
        lines = [f'seesay ground photo.jpg "two dogs chase a red ball" --run {title}']
    elif run.embeds:
        lines = [
            f"seesay index ~/Pictures --out pictures.seesay --run {title}",
            'seesay search pictures.seesay "two dogs play in the snow"',
        ]
    else:
        lines = [f'seesay search pictures.seesay "two dogs play in the snow" --rerank {title}']
    needs = "It needs seesay alone." if extra is None else f"It needs seesay[{extra}], for its encoders."
    commands = "\n".join(f"    {line}" for line in lines)
    folder = f"`{title}` is the folder that holds this file."
    python = f'    import seesay\n    run = seesay.load("{title}")'
    return f"## Use\n\n{needs} {folder}\n\n{commands}\n\nIn Python:\n\n{python}"


def _data(recipe: Recipe, licence: str, summary: TrainingSummary | None) -> str:
    if not recipe.corpus:
        return (
            f"## Licence\n\nThe weights are those of {recipe.name}, a CLIP model. "
            f"Their licence is given as `{licence}`."
        )
    name = summary.corpus.name if summary else recipe.corpus
    size = ""
    if summary:
        texts = summary.train.sentences or summary.train.phrases
        kind = "sentences" if summary.train.sentences else "phrases"
        size = f": {summary.train.images:,} images" + (f" with {texts:,} {kind}" if texts else "")
    return (
        f"## Data and licence\n\nTrained on the train split of {name}{size}. No image or sentence is in this "
        f"folder. The licence of the weights is given as `{licence}`; whether the terms of the data affect "
        "their use is for you to judge."
    )


def _recipe(recipe: Recipe) -> str:
    rows = {
        "recipe": f"`{recipe.name}`",
        "matcher": f"`{recipe.matcher.kind}`",
        "loss": f"`{recipe.loss.kind}`",
        "images seen by": ", ".join(f"`{name}`" for name in recipe.encoders),
        "sentences read by": f"`{recipe.sentence_encoder}`" if recipe.sentence_encoder else "its own words",
        "seed": str(recipe.seed),
        "changes": ", ".join(f"`{change}`" for change in recipe.changes) or "none",
    }
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    departures = "\n".join(f"- {line}" for line in recipe.departures)
    beside = f"\n\nIt departs from the paper:\n\n{departures}" if departures else ""
    return f"## Recipe\n\nEvery value is in `run.json`.\n\n| | |\n|---|---|\n{table}{beside}"


def _results(summary: TrainingSummary | None) -> str:
    if summary is None:
        return ""
    metrics = summary.best_val.get("metrics")
    if not isinstance(metrics, dict):
        return ""
    epoch = (
        f" of epoch {summary.best_epoch}, which was chosen by {summary.monitor},"
        if summary.best_epoch
        else ""
    )
    known = {name: value for name, value in metrics.items() if isinstance(value, float)}  # no counts
    table = "\n".join(f"| {name} | {value:g} |" for name, value in known.items())
    return (
        f"## Results\n\nMeasured on val{epoch} when it was trained; {summary.val.images:,} images.\n\n"
        f"| metric | val |\n|---|---:|\n{table}\n\n`seesay evaluate` measures it on other splits and data."
    )


def _identity(fingerprint: JsonValue) -> str:
    lines = [f"Written by seesay {__version__}."]
    if fingerprint:
        lines.append(f"Fingerprint: `{fingerprint}`; indexes of other fingerprints are not searched.")
    return "## Identity\n\n" + " ".join(lines)
