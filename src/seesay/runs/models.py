"""CLIP models of other libraries as runs: each becomes the folder of one when it is first named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from seesay.encoders.towers.encoders import TowerSentenceEncoder
from seesay.encoders.towers.names import EXPORTED, IMAGES_ONLY, LIBRARIES, TowerName
from seesay.encoders.towers.opened import Towers, open_towers
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
    if name.library in IMAGES_ONLY:
        others = ", ".join(sorted(set(LIBRARIES) - IMAGES_ONLY))
        raise SeesayError(
            f"{name} encodes images only; a run needs a text tower too, as models of {others} have."
        )
    folder = name.export_folder() / "run"
    if (folder / RUN).is_file():
        return folder
    towers = open_towers(name, "cpu")
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


def _write(name: TowerName, towers: Towers, folder: Path) -> None:
    from seesay.matchers.cosine import Cosine
    from seesay.recipes.schema import Recipe
    from seesay.runs.export import export_run
    from seesay.runs.run import Run
    from seesay.runs.trained import save_inputs, save_weights

    sentences, dim = TowerSentenceEncoder(str(name), towers), towers.about["dim"]
    scale, bias = float(towers.about["logit_scale"]), float(towers.about["logit_bias"])
    recipe = Recipe.model_validate(
        {
            "name": str(name),
            "corpus": "",
            "encoders": (str(name),),
            "sentence_encoder": str(name),
            "matcher": {"kind": "cosine"},
            "loss": {"kind": "contrastive", "scale": scale},
        }
    )
    run = Run.from_matcher(folder, recipe, Vocabulary([]), sentences, Cosine(dim, dim), (dim,))
    run.config = replace(run.config, logit_scale=scale, logit_bias=bias)
    save_inputs(run)
    save_weights(folder, {})
    export_run(run)
