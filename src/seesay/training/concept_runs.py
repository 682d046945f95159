"""Which run of concepts a recipe reads: one that it names, or the run `concepts` of the same training."""

from __future__ import annotations

from pathlib import Path

from seesay.encoders.images.concepts import CONCEPT_ENCODERS
from seesay.errors import SeesayError
from seesay.recipes.schema import Recipe
from seesay.runs.summary import is_finished


def with_concept_runs(recipe: Recipe, run: Path) -> Recipe:
    """Name the run of concepts in a recipe whose encoder is `concepts` without a run.

    Args:
        recipe: such as `sco-full`, which reads the scores of concepts.
        run: the folder of the run of concepts that is meant.

    Raises:
        SeesayError: the recipe means a run of concepts, and there is no finished one in that folder.
    """
    if not any(name in CONCEPT_ENCODERS for name in recipe.encoders):
        return recipe
    if not is_finished(run):
        raise SeesayError(
            f"Recipe '{recipe.name}' reads the concepts that a run predicts, and none is at {run}: train one "
            f"with `seesay train concepts --out {run}`, or name it in the recipe: encoders=[…, concepts:RUN]."
        )
    named = tuple(f"{name}:{run}" if name in CONCEPT_ENCODERS else name for name in recipe.encoders)
    return recipe.model_copy(update={"encoders": named})
