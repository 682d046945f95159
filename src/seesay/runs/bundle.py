"""A run as a folder that works elsewhere.

It contains the run's files for search and the encoders as ONNX files, but nothing about the machine. Most
runs then work without PyTorch.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from seesay.encoders.images.tuned import copy_tuned
from seesay.encoders.regions import load_region_encoder
from seesay.encoders.sentences.base import TEXT
from seesay.encoders.settings import PRECOMPUTED, Encoder, EncoderSettings
from seesay.errors import SeesayError, naming_extras
from seesay.onnx import NETWORKS
from seesay.paths import new_folder
from seesay.runs.config import RunConfig
from seesay.runs.folder import VOCABULARY, WEIGHTS, run_folder
from seesay.runs.load import clip_model
from seesay.runs.run import Run
from seesay.text.concepts import FILE as CONCEPTS

_COPIED = (WEIGHTS, VOCABULARY, TEXT, CONCEPTS)


def write_bundle(name: str, out: Path) -> str | None:
    """Write a run's folder for use elsewhere, completely or not at all, to an empty or new folder `out`.

    The run, a folder or included weights, is exported first if necessary.

    Returns:
        The extra of seesay that the run's encoders need; None if the core suffices.

    Raises:
        SeesayError: the run does not exist, is a CLIP model or cannot be exported, or `out` is not empty or
            cannot be written.
        MissingExtraError: a package that exports the run is not installed.
    """
    if clip_model(name) is not None:
        raise SeesayError(
            f"{name}: cannot be exported. Name it on the other machine, with seesay[hub]; if it is a folder, "
            "copy that."
        )
    with new_folder(out) as beside:
        _copy_files(run_folder(name), beside)
        run = Run.load(str(beside), "cpu")
        if not run.config.graphs:
            with naming_extras():
                from seesay.runs.export import export_run
            export_run(run, name)  # its folder is a copy, which is deleted
        _bring_networks(run)
        if (beside / TEXT).is_file():
            return "train"  # fitted sentence encoders read GloVe's vectors
        return "hub" if any(each.is_tower for each in run.config.encoders_read(beside)) else None


def _copy_files(source: Path, target: Path) -> None:
    """Copy a run's files, and write a `run.json` that names only these.

    Its recipe, which may name files and runs of this machine, stays here.
    """
    config = RunConfig.load(source)
    for file in (*_COPIED, *(f"{graph}.onnx" for graph in config.graphs)):
        if (source / file).is_file():
            shutil.copyfile(source / file, target / file)
    for network in filter(Path.is_file, (source / NETWORKS).glob("*.onnx")):  # of a run exported before
        (target / NETWORKS).mkdir(exist_ok=True)
        shutil.copyfile(network, target / NETWORKS / network.name)
    reader = config.sentence_encoder
    replace(
        config,
        matcher=_without_folders(config.matcher),
        encoders=tuple(_brought(each, source, target) for each in config.encoders),
        sentence_encoder=None if reader is None else _brought(reader, source, target),
    ).save(target)


def _brought(encoder: EncoderSettings, source: Path, target: Path) -> EncoderSettings:
    """Copy what an encoder reads from a run's folder to another; return it without other folders."""
    reads_file = encoder.get("file") and encoder.kind != PRECOMPUTED
    if reads_file or (encoder.is_tower and encoder.names_path):
        raise SeesayError(
            f"{source}: its encoder {encoder} reads a file of yours, which cannot be exported; "
            f"export a run that was trained without it."
        )
    copy_tuned(encoder, source, target)
    of_run = encoder.get("run") and encoder.get("tuned")
    return encoder.replaced(run=Path(encoder.get("run")).name or "run") if of_run else encoder


def _without_folders(settings: Any) -> Any:
    """Return settings of a matcher with the names of files that its training has read, without folders."""
    if isinstance(settings, Mapping):
        return {key: _without_folders(value) for key, value in settings.items()}
    if isinstance(settings, list):
        return list(map(_without_folders, settings))
    return Path(settings).name if isinstance(settings, str) and "/" in settings else settings


def _bring_networks(run: Run) -> None:
    """Copy the exported networks of the packages that a run's encoders read into its folder."""
    encoders: list[Encoder] = [] if run.sentence_encoder is None else [run.sentence_encoder]
    if all(encoder.kind != PRECOMPUTED for encoder in run.config.encoders_read(run.folder)):
        of_regions = run.config.regions is not None and run.config.encoders[0]
        encoders += [load_region_encoder(of_regions, "cpu", run.folder)] if of_regions else run.encoders
    installed = Path(__file__).parents[1]
    for network in {session.file() for encoder in encoders for session in encoder.sessions}:
        if network.is_relative_to(installed) or network.is_relative_to(run.folder):
            continue
        (run.folder / NETWORKS).mkdir(exist_ok=True)
        shutil.copyfile(network, run.folder / NETWORKS / network.name)
