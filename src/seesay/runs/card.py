"""The model card of an exported run: description, training data, results and use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from seesay import __version__
from seesay.runs.summary import TrainingSummary, is_finished

if TYPE_CHECKING:
    from seesay.recipes.schema import Recipe
    from seesay.runs.run import Run


def model_card(run: Run, trained: Path, title: str, licence: str, extra: str | None) -> str:
    """Write the model card, in Markdown with the front matter that hubs read.

    Args:
        run: the exported run.
        trained: the folder of its training, with its summary if there is one.
        title: the name of the card.
        licence: of the weights, an identifier such as "apache-2.0".
        extra: the extra of seesay that the run's encoders need, or None.
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
        _identity(run),
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
    package = f"'seesay[{extra}]'" if extra else "seesay"
    if run.config.regions:
        lines = [f'seesay ground photo.jpg "two dogs chase a red ball" --run {title}']
    elif run.embeds:
        lines = [
            f"seesay index ~/Pictures --out pictures.seesay --run {title}",
            'seesay search pictures.seesay "two dogs play in the snow"',
        ]
    else:
        lines = [f'seesay search pictures.seesay "two dogs play in the snow" --rerank {title}']
    needs = "Its encoders come with it." if extra is None else f"Its encoders need seesay[{extra}]."
    commands = "\n".join(f"    {line}" for line in (f"pip install {package}", *lines))
    folder = f"`{title}` is the folder that holds this file."
    python = f'    import seesay\n    run = seesay.load("{title}")'
    return f"## Use\n\n{needs} {folder}\n\n{commands}\n\nIn Python:\n\n{python}"


def _data(recipe: Recipe, licence: str, summary: TrainingSummary | None) -> str:
    if not recipe.corpus:
        return (
            f"## Licence\n\nThe weights are those of {recipe.name}, a model of another library. "
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


def _identity(run: Run) -> str:
    config = json.loads((run.folder / "config.json").read_text(encoding="utf-8"))
    lines = [f"Written by seesay {__version__}."]
    if config["fingerprint"]:
        lines.append(
            f"Fingerprint: `{config['fingerprint']}`; indexes of other fingerprints are not searched."
        )
    return "## Identity\n\n" + " ".join(lines)
