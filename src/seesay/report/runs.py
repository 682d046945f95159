"""What a report says of one run: how it was trained, and where all of it comes from."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from seesay import __version__
from seesay.data.corpus import Corpus
from seesay.data.phrases import PhraseCorpus
from seesay.errors import SeesayError
from seesay.protocols.measure import differences, encoder_and_crops
from seesay.recipes.load import dump_recipe
from seesay.report.html import Page, definitions, tag
from seesay.report.plots import Series, training_curves
from seesay.results.columns import SENTENCE
from seesay.runs.run import Run
from seesay.training.measured import data_digest
from seesay.training.metrics import METRICS
from seesay.training.runs import REPORT, read_report

_WAYS = {"sentence_retrieval": "S", "image_retrieval": "I"}
_KS = ("R@1", "R@10")
_ONE = ("mR", "mAP", "R@1", "R@10")
_PACKAGES = ("torch", "onnxruntime", "numpy")


def add_training(page: Page, run: Run) -> None:
    """The curves of training, epoch by epoch, where the run keeps them."""
    history, report = _history(run), _report(run)
    if len(history) < 2:
        if members := report.get("members"):
            page.text(f"Put together of {', '.join(members)}, each trained by itself.")
        else:
            page.text("No curves: the run keeps no epochs of its training.")
        return
    # CCA has no epochs: what its rows differ by is the ridge.
    x, of = ("ridge", "Ridges tried") if "ridge" in history[0] else ("epoch", "Training")
    shown = next((row for row in history if row["epoch"] == report.get("best_epoch")), history[-1])
    history = sorted(history, key=lambda row: row[x])
    curves = _curves(history)
    last = "; ".join(f"{name} {line[-1]:.1f}" for name, line in [*curves.values()][-1].items())
    alt = f"Curves of training over {x}. At the end: {last}."
    page.figure(
        f"{of}: the loss's mean, and measures of val. Dotted: {x} {shown[x]:g}, which was kept.",
        training_curves([row[x] for row in history], x, curves, shown[x], alt),
    )


def _curves(history: Sequence[Mapping[str, Any]]) -> dict[str, Series]:
    val = [row["val"] for row in history]
    measures = {name: [row[name] for row in val] for name in _ONE if name in val[0]}
    if SENTENCE in val[0]:
        measures |= {f"{s} {k}": [row[way][k] for row in val] for way, s in _WAYS.items() for k in _KS}
    known = {name: np.array(line, np.float64) for name, line in measures.items()}
    losses = {"train": np.array([row["loss"] for row in history], np.float64)}
    of = "" if len(known) > 1 else f"{next(iter(known))} "  # a single line has no legend
    return {"loss": losses, f"{of}on val, %": known}


def _history(run: Run) -> list[dict[str, Any]]:
    """The rows of training; none where the run keeps none, as shipped weights."""
    try:
        lines = (run.folder / METRICS).read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]
    except OSError:
        return []
    except ValueError as failure:
        raise SeesayError(f"{run.folder / METRICS}: no metrics of a training ({failure}).") from failure


def _report(run: Run) -> dict[str, Any]:
    return read_report(run.folder) if (run.folder / REPORT).is_file() else {}


def add_provenance(
    page: Page, named: Mapping[str, Run], corpus: Corpus | PhraseCorpus, split: str, commit: str | None
) -> None:
    """Data, versions and machine; then each run's training and its recipe."""
    page.section("Where it comes from")
    page.add(definitions([*_data(corpus, split), *_place(commit)]))
    for name, run in named.items():
        page.heading(name)
        page.add(definitions(_of_run(run)))
        page.add(tag("pre", dump_recipe(run.recipe)))


def _data(corpus: Corpus | PhraseCorpus, split: str) -> list[tuple[str, str]]:
    part = corpus.split(split)
    texts, what = (
        (part.phrases, "phrases") if isinstance(part, PhraseCorpus) else (part.sentences, "sentences")
    )
    return [
        ("corpus", f"{corpus.name}, {corpus.root.resolve()}"),
        ("split", f"{split}: {len(part.images):,} images, {len(texts):,} {what}"),
        (
            "hash of the data",
            f"{data_digest(corpus, split)} (BLAKE2b of the images, {what} and owners of {split} and val)",
        ),
    ]


def _place(commit: str | None) -> list[tuple[str, str]]:
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    python = ".".join(map(str, sys.version_info[:3]))
    told = [
        ("versions", f"seesay {__version__}, Python {python}, {packages}"),
        ("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        ("measured", datetime.now().astimezone().isoformat(" ", "minutes")),
    ]
    return told + ([("commit", commit)] if commit else [])


def _of_run(run: Run) -> list[tuple[str, str]]:
    recipe, report = run.recipe, _report(run)
    encoders, crops = encoder_and_crops(recipe)
    told = [
        ("run", str(run.folder.resolve())),
        ("recipe", f"{recipe.name}, {recipe.about}"),
        ("seed", str(recipe.seed)),
        ("images", f"{encoders}, {crops}"),
        ("sentences", recipe.sentence_encoder or f"by their words, of {len(run.vocabulary.words):,} known"),
        ("departures", "; ".join(differences(recipe)) or "none named"),
    ]
    if report:
        best = report["best_val"][report["monitor"]]
        course = f"{report['epochs']} epochs, " if "epochs" in report else ""
        versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
        told += [
            ("training", f"{course}{report['seconds']:,.0f} s; val {report['monitor']} {best:.1f}"),
            ("trained with", f"{versions}; {report['machine']}"),
        ]
    return told
