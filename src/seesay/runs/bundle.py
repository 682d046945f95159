"""A run as a folder that works without PyTorch and can be uploaded to a model hub.

It contains the run's files for search, the encoders as ONNX files, a model card (README.md) and the
config.json by which hubs recognise a model, but nothing about the machine.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from seesay import __version__
from seesay.encoders.images.concepts import HEAD_INPUTS
from seesay.encoders.images.tuned import copy_tuned
from seesay.encoders.regions.base import load_region_encoder
from seesay.encoders.spec import EXPORTED, PRECOMPUTED, EncoderSpec, is_two_tower
from seesay.encoders.towers.opened import export_digest, open_towers
from seesay.errors import SeesayError, naming_extras
from seesay.onnx import networks_run
from seesay.paths import new_folder
from seesay.runs.card import model_card
from seesay.runs.config import TEXT, VOCABULARY, WEIGHTS, RunConfig
from seesay.runs.folders import NETWORKS, run_config, run_folder, shipped_runs
from seesay.runs.run import Run
from seesay.text.concepts import FILE as CONCEPTS

CARD, CONFIG = "README.md", "config.json"
_COPIED = (WEIGHTS, VOCABULARY, TEXT, CONCEPTS, HEAD_INPUTS)
_DRAWN = 64  # pixels, a side of the image that encoders are tried with


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
        SeesayError: the run does not exist, was included with its export, or cannot be exported.
        MissingExtraError: PyTorch is not installed.
    """
    if is_two_tower(name):
        raise SeesayError(f"{name}: is exported on first use; name a folder to write it to with --out.")
    if run_folder(name) in shipped_runs():
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
        out: the folder to write, which must not exist or be empty.
        licence: of the weights, for the model card: an identifier such as "apache-2.0" or "cc-by-nc-4.0".

    Raises:
        SeesayError: the run does not exist or cannot be exported, or `out` is not empty or cannot be written.
        MissingExtraError: a package is not installed that exports the run.
    """
    with new_folder(out) as beside:
        source = run_folder(name)
        run = _fill(source, beside)
        _bring_networks(run)
        (beside / CONFIG).write_text(json.dumps(_hub_config(run), indent=1) + "\n", encoding="utf-8")
        extra = _needed_extra(run)
        (beside / CARD).write_text(model_card(run, source, out.name, licence, extra), encoding="utf-8")
        files = sorted(path for path in beside.rglob("*") if path.is_file())
        size = sum(path.stat().st_size for path in files)
        names = tuple(path.relative_to(beside).as_posix() for path in files)
    return Bundle(out, names, size, extra)


def _fill(source: Path, target: Path) -> Run:
    """Copy a run, exported if necessary, with its own encoders and towers."""
    config = run_config(source)
    for file in (*_COPIED, *(f"{graph}.onnx" for graph in config.graphs)):
        if (source / file).is_file():
            shutil.copyfile(source / file, target / file)
    for encoder in config.encoders:
        if encoder.endswith(".onnx"):
            raise SeesayError(
                f"{source}: its encoder {encoder} reads a file of yours, which cannot be exported; "
                f"export a run that was trained without it."
            )
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
    """Copy the towers of other libraries that a run uses, and name the copies in its recipe."""
    names = {name for name in (*config.encoders, config.sentence_encoder or "") if is_two_tower(name)}
    given = {name: _copied_towers(name, target) for name in names}
    recipe = dict(config.recipe)
    for name in sorted(given, key=len, reverse=True):  # one may be the beginning of another
        # As they were given on the command line; and a model's run has the name of the model.
        recipe["changes"] = [change.replace(name, given[name]) for change in recipe["changes"]]
        recipe["name"] = recipe["name"].replace(name, EncoderSpec.of_tower(name).title)
    recipe["encoders"] = [given.get(name, name) for name in config.encoders]
    recipe["sentence_encoder"] = given.get(config.sentence_encoder or "", config.sentence_encoder)
    return replace(config, recipe=recipe)


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


def _needed_extra(run: Run) -> str | None:
    """Name the extra of seesay that an exported run's encoders need; None if the core suffices.

    Fitted sentence encoders read GloVe's vectors.
    """
    return "train" if (run.folder / TEXT).is_file() else None


def _hub_config(run: Run) -> dict[str, object]:
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
