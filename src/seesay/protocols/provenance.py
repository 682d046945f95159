"""Where a recorded row is from: recipe, features, source, and the training behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from seesay.protocols.base import Part

if TYPE_CHECKING:
    from seesay.recipes.schema import Recipe
    from seesay.runs.run import Run

_CROPS = {
    "": "squash",
    "mirror": "squash and mirror",
    "ten": "ten crops",
    "roi": "pooled regions",
    "crops": "cropped regions",
}


class Provenance(Part):
    """What a recorded row holds beside its result.

    Attributes:
        seconds: of measuring.
        commit: of the source, with "+" if files differed from it; None outside git.
        epochs: of training.
        best_epoch: of these, by val.
        train_seconds: of training.
    """

    recipe: str
    system: str | None = None
    seed: int
    encoder: str
    crops: str | None = None
    changes: list[str] | None = None
    departures: list[str] = Field(default_factory=list)
    seconds: float = Field(ge=0)
    commit: str | None
    epochs: int | None = Field(None, ge=0)
    best_epoch: int | None = Field(None, ge=0)
    train_seconds: float | None = Field(None, ge=0)

    def to_dict(self) -> dict[str, Any]:
        """Return the provenance as JSON-ready values, without what is not known of the training."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


def provenance(run: Run, seconds: float, commit: str | None) -> Provenance:
    """Return the provenance of a row of a run, measured in so many seconds by the source of that commit."""
    from seesay.runs.corpus import training_of

    recipe = run.recipe
    encoder, crops = encoder_and_crops(recipe)
    return Provenance(
        recipe=recipe.name,
        system=recipe.system,
        seed=recipe.seed,
        encoder=encoder,
        crops=crops,
        changes=list(recipe.changes),
        departures=list(recipe.departures),
        seconds=round(seconds, 1),
        commit=commit,
        **training_of(run),
    )


def combined_provenance(rows: Sequence[Provenance], how: str) -> Provenance:
    """Join the provenances of the members of an ensemble; seeds are named if they differ."""
    seeds = {row.seed for row in rows}
    names = [row.recipe + (f" seed {row.seed}" if len(seeds) > 1 else "") for row in rows]
    name = f"{how} of {' + '.join(names)}"
    joined = {
        key: " + ".join(dict.fromkeys(getattr(row, key) for row in rows)) for key in ("encoder", "crops")
    }
    return _joined(rows, rows[0], {"recipe": name, "system": name, **joined})


def reranked_provenance(first: Provenance, second: Provenance) -> Provenance:
    """Join the provenances of a run and of the one that re-ranks it: `first > second` where they differ."""
    named = {key: f"{getattr(first, key)} > {getattr(second, key)}" for key in ("recipe", "encoder", "crops")}
    named |= {k: getattr(first, k) for k in ("encoder", "crops") if getattr(first, k) == getattr(second, k)}
    return _joined([first, second], second, named | {"system": named["recipe"]})


def _joined(rows: Sequence[Provenance], base: Provenance, values: dict[str, Any]) -> Provenance:
    """Change a provenance; what several trainings took is not one row's, and is left out."""
    lists = {
        key: list(dict.fromkeys(each for row in rows for each in getattr(row, key) or []))
        for key in ("changes", "departures")
    }
    kept = base.model_dump(exclude_unset=True, exclude={"epochs", "best_epoch", "train_seconds"})
    return Provenance(**kept | lists | values)


def encoder_and_crops(recipe: Recipe) -> tuple[str, str]:
    """Return the recipe's encoders without their crops, and the crops in words.

    Which weights a fine-tuned one has is left out: each seed has its own, and they tell no rows apart.
    Concepts have the crops of their run, and instances have none.
    """
    from seesay.encoders.images.concepts import CONCEPT_ENCODERS
    from seesay.encoders.images.instances import INSTANCES
    from seesay.encoders.names import untuned

    networks, crops = [], []
    for name in recipe.encoders:
        kind, _, crop = untuned(name).partition(":")
        tuned = name != untuned(name) and kind not in CONCEPT_ENCODERS
        networks.append(kind + " fine-tuned" if tuned else kind)
        if kind not in (*CONCEPT_ENCODERS, INSTANCES):
            crops.append(_CROPS.get(crop, "squash"))
    return "+".join(networks), ", ".join(dict.fromkeys(crops))


def differences(recipe: Recipe) -> list[str]:
    """Describe how a run differs from the published system."""
    return [*recipe.departures, *(f"--set {change}" for change in recipe.changes)]
