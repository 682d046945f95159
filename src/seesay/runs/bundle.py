"""A run as a folder that can be used where PyTorch is not installed, and be put on a hub of models.

It holds what the run's own folder does for search, the encoders as ONNX files, a model card (README.md) and
the config.json by which hubs recognise a model. Nothing in it names the machine that it was made on.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from seesay import __version__
from seesay.encoders.images.concepts import HEAD_INPUTS
from seesay.encoders.images.tuned import copy_tuned
from seesay.encoders.regions.base import load_region_encoder
from seesay.encoders.towers import bring_towers, is_two_tower
from seesay.errors import SeesayError, naming_extras
from seesay.onnx import exported_networks, used_networks
from seesay.paths import check_new_folder, new_folder
from seesay.recipes.load import dump_recipe, read_recipe
from seesay.runs.calibration import CALIBRATION
from seesay.runs.card import model_card
from seesay.runs.exported import EXPORT, WEIGHTS, Export, read_export
from seesay.runs.run import (
    NETWORKS,
    PRECOMPUTED,
    RECIPE,
    TEXT,
    VOCABULARY,
    Run,
    run_facts,
    run_folder,
    shipped_runs,
)
from seesay.text.concepts import FILE as CONCEPTS

CARD, CONFIG = "README.md", "config.json"
_COPIED = (RECIPE, WEIGHTS, VOCABULARY, TEXT, EXPORT, CALIBRATION, CONCEPTS, HEAD_INPUTS)
_DRAWN = 64  # pixels, a side of the image that encoders are tried with


@dataclass(frozen=True)
class Bundle:
    """A run's folder to give away.

    Attributes:
        folder: where it is.
        files: in it, by their paths below it.
        size: of all of them, in bytes.
        extra: of seesay, without which its encoders do not work; None if the core does.
    """

    folder: Path
    files: tuple[str, ...]
    size: int
    extra: str | None

    def to_dict(self) -> dict[str, object]:
        """Return the fields, as JSON has them."""
        return asdict(self) | {"folder": str(self.folder), "files": list(self.files)}


def export_in_place(name: str) -> Export:
    """Export a run's matcher anew, beside its weights.

    Raises:
        SeesayError: there is no such run, it came exported, or its matcher cannot be exported.
        MissingExtraError: PyTorch is not installed.
    """
    folder = _folder(name)
    if folder in shipped_runs():
        raise SeesayError(f"{name}: is shipped with its export; name a folder with --out to copy it to.")
    with naming_extras():
        from seesay.runs.export import export_run
    return export_run(Run.load(name, "cpu"))


def write_bundle(name: str, out: Path, licence: str = "unknown") -> Bundle:
    """Write a run's folder for use elsewhere, all of it or nothing.

    Args:
        name: the run's folder, or the name of shipped weights. It is exported first if it is not yet.
        out: the folder to write, which must not exist or be empty.
        licence: of the weights, for the model card: an identifier such as "apache-2.0" or "cc-by-nc-4.0".

    Raises:
        SeesayError: there is no such run, it cannot be exported, or `out` holds something or cannot be
            written.
    """
    source = _folder(name)
    check_new_folder(out)
    with new_folder(out) as beside:
        extra = _fill(source, beside, out.name, licence)
    files = sorted(path for path in out.rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in files)
    return Bundle(out, tuple(path.relative_to(out).as_posix() for path in files), size, extra)


def _folder(name: str) -> Path:
    if is_two_tower(name):
        raise SeesayError(
            f"{name}: a model of another library and no run; `seesay export {name} --out FOLDER` writes its "
            "towers."
        )
    return run_folder(name)


def _fill(source: Path, target: Path, title: str, licence: str) -> str | None:
    """Copy a run, exported if it was not, with encoders, card and configuration; return the extra needed."""
    export = read_export(source)
    graphs = [f"{graph}.onnx" for graph in export.graphs] if export else []
    for file in (*_COPIED, *graphs):
        if (source / file).is_file():
            shutil.copyfile(source / file, target / file)
    for encoder in run_facts(str(source)).encoders:
        if encoder.endswith(".onnx"):
            raise SeesayError(
                f"{source}: its encoder {encoder} reads a file of yours, which no exported run brings; give "
                "away a run that was trained without it."
            )
        copy_tuned(encoder, source, target)
    _bring_towers(source, target)
    run = Run.load(str(target), "cpu")
    if export is None:
        with naming_extras():
            from seesay.runs.export import export_run
        export_run(run)
        run = Run.load(str(target), "cpu")
    networks = _networks(run)
    if networks:
        (target / NETWORKS).mkdir()
    for network in networks:
        shutil.copyfile(network, target / NETWORKS / network.name)
    (target / CONFIG).write_text(json.dumps(_config(run), indent=1) + "\n", encoding="utf-8")
    extra = _needed_extra(run)
    (target / CARD).write_text(model_card(run, source, title, licence, extra), encoding="utf-8")
    return extra


def _bring_towers(source: Path, target: Path) -> None:
    """Copy the towers of other libraries that a run's encoders are, and name the copies in its files."""
    facts = run_facts(str(source))
    names = {name for name in (*facts.encoders, facts.sentence_encoder or "") if is_two_tower(name)}
    given = {name: brought for name in names if (brought := bring_towers(name, target)) is not None}
    if not given:
        return
    recipe = read_recipe(target / RECIPE)
    encoders = tuple(given.get(name, name) for name in recipe.encoders)
    sentences = given.get(recipe.sentence_encoder or "", recipe.sentence_encoder)
    changes = list(recipe.changes)  # as they were given on the command line
    for name in sorted(given, key=len, reverse=True):  # one may be the beginning of another
        changes = [change.replace(name, given[name]) for change in changes]
    renamed = {"encoders": encoders, "sentence_encoder": sentences, "changes": tuple(changes)}
    recipe = recipe.model_copy(update=renamed)
    (target / RECIPE).write_text(dump_recipe(recipe), encoding="utf-8")
    if (export := read_export(target)) is not None:
        export = replace(export, encoders=encoders, sentence_encoder=sentences)
        (target / EXPORT).write_text(export.to_json(), encoding="utf-8")


def _networks(run: Run) -> list[Path]:
    """Return the networks that PyTorch has exported for the run's encoders, which are tried for it."""
    facts = run.facts
    pixels = np.random.default_rng(0).integers(0, 256, (_DRAWN, _DRAWN, 3), dtype=np.uint8)
    with used_networks() as used:
        if facts.regions is not None:
            box = np.array([[0, 0, _DRAWN, _DRAWN]], np.float32)
            load_region_encoder(facts.encoders[0]).encode(pixels, box)
        elif PRECOMPUTED not in facts.encoders:
            for encoder in run.encoders:
                encoder.encode_prepared([encoder.prepare(pixels)])
        run.prepare(["a dog"])
    return exported_networks(used)


def _needed_extra(run: Run) -> str | None:
    """Name the extra of seesay without which an exported run's encoders do not work; None if the core does.

    Fitted sentence encoders read GloVe's vectors, and towers that have no export come from a hub.
    """
    names = (*run.facts.encoders, run.facts.sentence_encoder or "")
    if any(is_two_tower(name) and not name.startswith("onnx:@") for name in names):
        return "hub"
    return "train" if (run.folder / TEXT).is_file() else None


def _config(run: Run) -> dict[str, object]:
    """Describe the run as hubs of models expect it."""
    facts = run.facts
    return {
        "model_type": "seesay",
        "library_name": "seesay",
        "seesay_version": __version__,
        "recipe": facts.name,
        "matcher": run.recipe.matcher.kind,
        "embedding_dim": run.dim if run.embeds else None,
        "image_encoders": list(facts.encoders),
        "sentence_encoder": facts.sentence_encoder,
        "fingerprint": None if PRECOMPUTED in facts.encoders or facts.regions else run.fingerprint,
    }
