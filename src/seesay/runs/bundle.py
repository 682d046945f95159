"""A run as a folder that works elsewhere.

It contains the run's files for search and the encoders as ONNX files, but nothing about the machine. Most
runs then work without PyTorch; `Bundle.extra` names what the encoders of the others need.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

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
from seesay.text.concepts import FILE as CONCEPTS

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


def write_bundle(name: str, out: Path) -> Bundle:
    """Write a run's folder for use elsewhere, completely or not at all.

    Args:
        name: the run's folder, the name of included weights, or a CLIP model. It is exported first if
            necessary.
        out: the folder to write; it must be empty or not exist.

    Raises:
        SeesayError: the run does not exist or cannot be exported, or `out` is not empty or cannot be written.
        MissingExtraError: a package that exports the run is not installed.
    """
    with new_folder(out) as beside:
        _bring_networks(_fill(run_folder(name), beside))
        extra = _extra(beside)
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
