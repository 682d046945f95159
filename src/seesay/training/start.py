"""Training that starts from the weights of another run."""

from __future__ import annotations

from torch import nn

from seesay.errors import SeesayError
from seesay.recipes.schema import Recipe
from seesay.runs.run import Run

# Weights that were learned of other inputs may have the right shapes, but they mean something else.
_INPUTS = ("encoders", "arrays", "sentence_encoder", "regions")


def recipe_from(start: Run, recipe: Recipe) -> Recipe:
    """Return the recipe of a training that starts from a run's weights: it says so among its departures.

    Raises:
        SeesayError: the recipe learns no weights by epochs, or reads other inputs than the run.
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
    departure = f"Starts from the weights of {start.recipe.name}, seed {start.recipe.seed}."
    return recipe.model_copy(update={"departures": (*recipe.departures, departure)})


def copy_weights(start: Run, matcher: nn.Module, recipe: Recipe) -> None:
    """Copy a run's weights into a matcher.

    Raises:
        SeesayError: the matcher has other weights, or weights of other shapes; names the first.
    """
    mine, theirs = matcher.state_dict(), start.matcher.state_dict()
    for name in [*mine, *theirs]:
        shapes = [tuple(weights[name].shape) if name in weights else "none" for weights in (mine, theirs)]
        if shapes[0] != shapes[1]:
            raise SeesayError(
                f"{start.name}: its weights do not fit recipe '{recipe.name}': '{name}' is {shapes[1]} there "
                f"and {shapes[0]} here; take the same recipe and the same sizes."
            )
    matcher.load_state_dict(theirs)
