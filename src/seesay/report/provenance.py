"""Where the numbers of a report come from: the data, versions, machine, and the recipe of each run."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from seesay import __version__
from seesay.data.corpus import Corpus
from seesay.protocols.base import Content
from seesay.recipes.load import dump_recipe
from seesay.report.page import Page
from seesay.results.formats import Html, tag
from seesay.results.rows import differences, encoder_and_crops, source_commit
from seesay.runs.config import RECIPE
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary, is_finished

_PACKAGES = ("torch", "onnxruntime", "numpy")


def add_provenance(page: Page, runs: Mapping[str, Run], corpus: Corpus, split: str) -> None:
    """Add the data, versions and machine, then the training and recipe of each run."""
    page.section("Where it comes from")
    content = Content.of(corpus.split(split))
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    python = ".".join(map(str, sys.version_info[:3]))
    about = [
        ("corpus", f"{corpus.name}, {corpus.root.resolve()}"),
        ("split", f"{split}: {content}"),
        ("digest", f"{content.digest} (of the split's texts and boxes, as in recorded rows)"),
        ("versions", f"seesay {__version__}, Python {python}, {packages}"),
        ("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        ("measured", datetime.now().astimezone().isoformat(" ", "minutes")),
    ]
    commit = source_commit(Path.cwd())
    page.add(_definitions(about + ([("commit", commit)] if commit else [])))
    for name, run in runs.items():
        page.add(tag("h3", name))
        if run.has_recipe and run.recipe.corpus:
            page.add(_definitions(_about_run(run)), tag("pre", dump_recipe(run.recipe)))
            continue
        score = f"{run.config.logit_scale:.4g} × cosine {run.config.logit_bias:+.4g}"
        weights = f"{run.fingerprint} (of all weights, the preprocessing and the words or tokenizer)"
        about = [("model", run.name), ("hash", weights), *([("score", score)] if run.embeds else [])]
        training = "none here: zero-shot" if run.has_recipe else f"not recorded (no {RECIPE})"
        page.add(_definitions([*about, ("training", training)]))


def _definitions(pairs: Sequence[tuple[str, str]]) -> Html:
    return tag("dl", *(part for name, value in pairs for part in (tag("dt", name), tag("dd", value))))


def _about_run(run: Run) -> list[tuple[str, str]]:
    recipe = run.recipe
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
    if is_finished(run.folder):
        summary = TrainingSummary.load(run.folder)
        epochs = f"{summary.epochs} epochs, " if summary.epochs else ""
        versions = ", ".join(f"{name} {number}" for name, number in summary.versions.items())
        found += [
            ("training", f"{epochs}{summary.seconds:,.0f} s; val {summary.monitor} {summary.best:.1f}"),
            ("trained with", f"{versions}; {summary.machine}"),
        ]
    return found
