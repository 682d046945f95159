"""CLIP models of other libraries as runs: each becomes the folder of one when it is first named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from seesay.encoders.towers import TwoTower, load_two_tower
from seesay.encoders.towers.names import EXPORTED, TowerName
from seesay.errors import SeesayError, naming_extras
from seesay.paths import replacing_folder, sole_writer
from seesay.runs.config import RUN
from seesay.text.vocabulary import Vocabulary

_PATIENCE = 600.0  # seconds to wait for another process that exports


def model_folder(name: TowerName) -> Path:
    """Return the folder of a model's run in the cache, which is made if it is not there.

    The run reads images and sentences by the model's towers, and its matcher is their cosine.

    Args:
        name: of the model, such as `open_clip:ViT-B-32/laion2b_s34b_b79k`.

    Raises:
        SeesayError: there is no such model, it has no text tower, or the cache cannot be written.
        MissingExtraError: it is not in the cache, and its library is not installed.
    """
    if name.library == EXPORTED:
        raise SeesayError(f"{name}: holds towers, and is no run; name the folder of the run that holds them.")
    folder = name.export_folder() / "run"
    if (folder / RUN).is_file():
        return folder
    towers = load_two_tower(str(name), "cpu")
    busy = f"{folder.parent}: another process exports this model; wait until it has finished."
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with sole_writer(folder.with_name("run.lock"), busy, _PATIENCE):
            if not (folder / RUN).is_file():
                with naming_extras(of="hub"), replacing_folder(folder) as beside:
                    _write(name, towers, beside)
    except OSError as error:
        raise SeesayError(
            f"{folder}: cannot be written ({error.strerror or error}); set SEESAY_CACHE to a folder that can."
        ) from error
    return folder


def _write(name: TowerName, towers: TwoTower, folder: Path) -> None:
    from seesay.matchers.cosine import Cosine
    from seesay.recipes.schema import Recipe
    from seesay.runs.export import export_run
    from seesay.runs.run import Run
    from seesay.runs.trained import save_inputs, save_weights

    recipe = Recipe.model_validate(
        {
            "name": str(name),
            "corpus": "",
            "encoders": (str(name),),
            "sentence_encoder": str(name),
            "matcher": {"kind": "cosine"},
            "loss": {"kind": "contrastive", "scale": towers.logit_scale},
        }
    )
    matcher = Cosine(towers.dim, towers.dim)
    run = Run.from_matcher(folder, recipe, Vocabulary([]), towers.text, matcher, (towers.dim,))
    run.config = replace(run.config, logit_scale=towers.logit_scale, logit_bias=towers.logit_bias)
    save_inputs(run)
    save_weights(folder, {})
    export_run(run)
