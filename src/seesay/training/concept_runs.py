"""Which run of concepts a recipe reads: one that it names, or that of a recipe, of the same training.

The encoder `concepts` means the run of the recipe `concepts`, and `concepts:RECIPE` that of another, such as
`concepts-instances`; `concepts:FOLDER` is a run itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from seesay.encoders.images.concepts import CONCEPT_ENCODERS
from seesay.encoders.spec import EncoderSpec
from seesay.errors import SeesayError
from seesay.recipes.load import is_shipped
from seesay.recipes.schema import Recipe
from seesay.runs.summary import is_finished

CONCEPTS = "concepts"  # the recipe that is meant where none is named


def concept_recipe(encoder: str) -> str | None:
    """Return the recipe whose run an encoder means; None if it names a run, or reads no concepts.

    >>> concept_recipe("concepts"), concept_recipe("concepts:concepts-instances")
    ('concepts', 'concepts-instances')
    >>> concept_recipe("concepts:runs/concepts")
    """
    spec = EncoderSpec.parse(encoder)
    if spec.name not in CONCEPT_ENCODERS:
        return None
    name = spec.variant or CONCEPTS
    return name if encoder in CONCEPT_ENCODERS or (is_shipped(name) and not Path(name).exists()) else None


def with_concept_runs(recipe: Recipe, run_of: Callable[[str], Path]) -> Recipe:
    """Name the runs of concepts in a recipe whose encoders do not.

    Args:
        recipe: such as `sco-full`, which reads the scores of concepts.
        run_of: returns the folder of the run of a recipe of concepts.

    Raises:
        SeesayError: the recipe means a run of concepts, and there is no finished one in that folder.
    """
    named = []
    for encoder in recipe.encoders:
        if (meant := concept_recipe(encoder)) is None:
            named.append(encoder)
        elif is_finished(run := run_of(meant)):
            named.append(f"{EncoderSpec.parse(encoder).name}:{run}")
        else:
            raise SeesayError(
                f"Recipe '{recipe.name}' reads the concepts that a run predicts, and none is at {run}: train "
                f"one with `seesay train {meant} --out {run}`, or name it in the recipe: "
                "encoders=[…, concepts:RUN]."
            )
    return recipe.model_copy(update={"encoders": tuple(named)})


def beside(concepts: Path) -> Callable[[str], Path]:
    """Return where runs of concepts lie: that of `concepts` there, others beside it by their names."""
    return lambda name: concepts if name == CONCEPTS else concepts.parent / name
