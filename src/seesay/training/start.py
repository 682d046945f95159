"""Training that starts from a run's weights."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from seesay.errors import SeesayError
from seesay.recipes.schema import Recipe
from seesay.runs.run import Run
from seesay.runs.trained import misfit

_DEPARTURE = "Starts from the weights of"
# Weights that were learned from other inputs may have the right shapes, but another meaning.
_INPUTS = ("encoders", "arrays", "sentence_encoder", "regions")


def recipe_from(start: Run, recipe: Recipe) -> Recipe:
    """Return the recipe of a training that starts from a run's weights, with a departure that says so.

    Raises:
        SeesayError: the recipe is composed, is solved or learns concepts, or reads other inputs than the run.
    """
    if recipe.matcher.is_composed:
        raise SeesayError(f"Recipe '{recipe.name}' combines runs; start its members from others, one by one.")
    if recipe.loss.loss_class.closed_form or recipe.matcher.predicts_concepts:
        raise SeesayError(
            f"Recipe '{recipe.name}' cannot start from weights: it is solved, or learns concepts."
        )
    for key in _INPUTS:
        mine, theirs = getattr(recipe, key), getattr(start.recipe, key)
        if mine != theirs:
            raise SeesayError(
                f"{start.name}: was trained with '{key}' {theirs}, and recipe '{recipe.name}' has {mine}; "
                "a training can start only from a run with the same inputs."
            )
    departure = f"{_DEPARTURE} {start.recipe.name}, seed {start.recipe.seed} ({start.fingerprint[:8]})."
    return recipe.model_copy(update={"departures": (*recipe.departures, departure)})


def check_start(there: Recipe, asked: Recipe, out: Path) -> None:
    """Raise a `SeesayError` unless a run to resume started from the weights that `recipe_from` was given."""
    started, named = _start_of(there), _start_of(asked)
    if started != named and started is None:
        raise SeesayError(f"{out}: did not start from the weights of another run; omit --from.")
    if started != named:
        other = f", not of {named}" if named else ""
        raise SeesayError(f"{out}: started from the weights of {started}{other}; name that run with --from.")


def _start_of(recipe: Recipe) -> str | None:
    """Return what a training by this recipe started from, such as "mcnn-st, seed 1 (0a1b2c3d)"; or None."""
    lines = [line for line in recipe.departures if line.startswith(_DEPARTURE)]
    return lines[-1].removeprefix(_DEPARTURE).strip(" .") if lines else None


def start_matcher(start: Run, matcher: nn.Module, recipe: Recipe) -> None:
    """Copy a run's weights into a matcher.

    Raises:
        SeesayError: the matcher has other weights, or weights of other shapes; names the first.
    """
    theirs = start.matcher.state_dict()
    try:
        matcher.load_state_dict(theirs)
    except RuntimeError as failure:
        raise SeesayError(
            f"{start.name}: its weights do not fit recipe '{recipe.name}' "
            f"({misfit(matcher.state_dict(), theirs)}); take the same recipe and the same sizes."
        ) from failure
