"""Training curves and provenance of the runs of a report."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version

import numpy as np

from seesay import __version__
from seesay.data.corpus import Corpus
from seesay.errors import ImageError
from seesay.recipes.load import dump_recipe
from seesay.report.page import Page
from seesay.report.plots import training_curves
from seesay.results.rows import differences, encoder_and_crops
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary, is_finished
from seesay.training.epochs import read_history, val_curves

_PACKAGES = ("torch", "onnxruntime", "numpy")
_ROWS = 256


def add_training(page: Page, run: Run) -> None:
    """Add the training curves, or a line that says why there are none."""
    history, summary = read_history(run.folder), _summary(run)
    if len(history) < 2:
        if summary is not None and summary.members:
            page.text(f"Composed of {', '.join(summary.members)}, each trained separately.")
        else:
            page.text("There are no curves, because the run has no record of its epochs.")
        return
    # CCA has no epochs; its history has an entry for each ridge.
    ridges = [epoch.ridge for epoch in history if epoch.ridge is not None]
    xlabel, what = ("ridge", "Ridges") if ridges else ("epoch", "Training")
    x = np.array(ridges or [epoch.epoch for epoch in history], np.float64)
    best = summary.best_epoch if summary else None
    kept = next((at for at, epoch in enumerate(history) if epoch.epoch == best), -1)
    order = np.argsort(x, kind="stable")
    curves_on_val = val_curves([history[i] for i in order])
    # A single line has no legend.
    alone = "" if len(curves_on_val) > 1 else f"{next(iter(curves_on_val), '')} "
    val = {name: np.array(line, np.float64) for name, line in curves_on_val.items()}
    losses = np.array([history[i].loss for i in order], np.float64)
    curves = {"loss": {"train": losses}, f"{alone}on val, %": val}
    last = "; ".join(f"{name} {line[-1]:.1f}" for name, line in [*curves.values()][-1].items())
    page.figure(
        f"{what}: the mean loss, and metrics on val. The dotted line marks {xlabel} {x[kept]:g}, which was "
        "kept.",
        training_curves(
            x[order].tolist(), xlabel, curves, x[kept], f"Curves over {xlabel}. At the end: {last}."
        ),
    )


def add_provenance(
    page: Page, runs: Mapping[str, Run], corpus: Corpus, split: str, commit: str | None
) -> None:
    """Add the data, versions and machine, then the training and recipe of each run."""
    page.section("Where it comes from")
    what = "phrases" if corpus.has_boxes else "sentences"
    digest = data_digest(corpus, split)
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    python = ".".join(map(str, sys.version_info[:3]))
    about = [
        ("corpus", f"{corpus.name}, {corpus.root.resolve()}"),
        ("split", f"{split}: {split_size(corpus, split)}"),
        ("hash of the data", f"{digest} (BLAKE2b of the images, {what} and owners of {split} and val)"),
        ("versions", f"seesay {__version__}, Python {python}, {packages}"),
        ("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        ("measured", datetime.now().astimezone().isoformat(" ", "minutes")),
    ]
    page.definitions(about + ([("commit", commit)] if commit else []))
    for name, run in runs.items():
        page.heading(name)
        if not run.recipe.corpus:
            score = f"{run.config.logit_scale:.4g} × cosine {run.config.logit_bias:+.4g}"
            towers = f"{run.fingerprint} (of both towers' weights, the preprocessing and the tokenizer)"
            about = [("model", run.name), ("hash", towers), ("score", score)]
            page.definitions([*about, ("training", "none here: zero-shot")])
            continue
        page.definitions(_about_run(run))
        page.code(dump_recipe(run.recipe))


def split_size(corpus: Corpus, split: str) -> str:
    """Return the numbers of images and texts of a split as text."""
    part = corpus.split(split)
    what = "phrases" if part.has_boxes else "sentences"
    return f"{len(part.images):,} images, {len(part.sentences):,} {what}"


def _summary(run: Run) -> TrainingSummary | None:
    return TrainingSummary.load(run.folder) if is_finished(run.folder) else None


def _about_run(run: Run) -> list[tuple[str, str]]:
    recipe, summary = run.recipe, _summary(run)
    encoders, crops = encoder_and_crops(recipe)
    words = f"by their words, of {len(run.vocabulary.words):,} known"
    found = [
        ("run", str(run.folder.resolve())),
        ("recipe", f"{recipe.name}, {recipe.about}"),
        ("seed", str(recipe.seed)),
        ("images", f"{encoders}, {crops}"),
        ("sentences", str(recipe.sentence_encoder or words)),
        ("departures", "; ".join(differences(recipe)) or "none named"),
    ]
    if summary is not None:
        epochs = f"{summary.epochs} epochs, " if summary.epochs else ""
        versions = ", ".join(f"{name} {number}" for name, number in summary.versions.items())
        found += [
            ("training", f"{epochs}{summary.seconds:,.0f} s; val {summary.monitor} {summary.best:.1f}"),
            ("trained with", f"{versions}; {summary.machine}"),
        ]
    return found


def data_digest(corpus: Corpus, split: str) -> str:
    """Return a digest of the measured split and of val, on which weights are chosen: images, texts, boxes."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted({split, "val"} & corpus.splits):
        _add_split(digest, corpus.split(name))
    return digest.hexdigest()


def _add_split(digest: hashlib.blake2b, part: Corpus) -> None:
    for image in part.images:
        try:
            content = image.source.read() if image.source else b""
        except ImageError as error:
            content = str(error).encode()
        about = image.name, image.split, image.size, hashlib.blake2b(content).digest()
        digest.update(repr(about).encode())
    digest.update(repr(part.sentences).encode())
    if part.features is not None:
        rows = [image.row for image in part.images if image.row is not None]
        for start in range(0, len(rows), _ROWS):
            block = part.features[np.array(rows[start : start + _ROWS])]
            digest.update(np.ascontiguousarray(block).tobytes())
