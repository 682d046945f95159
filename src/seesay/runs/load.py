"""Loading a run by name; a CLIP model is exported as a run first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from seesay.encoders.spec import EXPORTED, TIMM, EncoderSpec, is_two_tower
from seesay.errors import SeesayError, naming_extras
from seesay.paths import locked, replacing_folder, unwritable_cache
from seesay.runs.config import RUN
from seesay.runs.folders import run_folder
from seesay.runs.run import Run

_PATIENCE = 600.0  # seconds to wait for another process that exports


def load_run(name: str, device: str | None = None) -> Run:
    """Load the run in a folder, included weights, or a CLIP model; see `seesay.load`.

    Raises:
        SeesayError: the run, model or device does not exist, or a file is missing or damaged.
        MissingExtraError: PyTorch is not installed, and the run is not exported or needs it for a
            device other than the CPU.
    """
    if not is_two_tower(name):
        return Run.load(name, device)
    return Run.open(folder_of(name), str(EncoderSpec.of_tower(name)), device)


def folder_of(name: str) -> Path:
    """Return the folder of a run; a CLIP model is first exported as one, into the cache.

    Raises:
        SeesayError: the run or model does not exist, the model has no text tower, or the cache cannot be
            written.
        MissingExtraError: the model is not in the cache, and open_clip is not installed.
    """
    if not is_two_tower(name):
        return run_folder(name)
    spec = EncoderSpec.of_tower(name)
    if spec.name == EXPORTED:
        raise SeesayError(
            f"{spec}: contains towers and is not a run; name the folder of the run that contains them."
        )
    if spec.name == TIMM:
        raise SeesayError(
            f"{spec} only encodes images; a run also needs a text tower, as in models of open_clip."
        )
    from seesay.encoders.towers.opened import export_folder, open_towers

    folder = export_folder(spec) / "run"
    if (folder / RUN).is_file():
        return folder
    open_towers(str(spec), "cpu")  # exports them
    busy = f"{folder.parent}: another process exports this model; wait until it has finished."
    try:
        with locked(folder.with_name("run.lock"), busy, _PATIENCE):
            if not (folder / RUN).is_file():
                with naming_extras(of="hub"), replacing_folder(folder) as beside:
                    _write_run(str(spec), beside)
    except OSError as error:
        raise unwritable_cache(folder, error) from error
    return folder


def _write_run(name: str, folder: Path) -> None:
    """Write a run with a model's towers as encoders and their cosine as matcher."""
    from seesay.encoders.towers.encoders import TowerSentenceEncoder
    from seesay.encoders.towers.opened import open_towers
    from seesay.matchers.adapter import Cosine
    from seesay.recipes.schema import Recipe
    from seesay.runs.export import export_run
    from seesay.runs.trained import save_weights
    from seesay.text.vocabulary import Vocabulary

    towers = open_towers(name, "cpu")
    sentences, dim = TowerSentenceEncoder(name, towers), towers.dim
    scale, bias = float(towers.about["logit_scale"]), float(towers.about["logit_bias"])
    recipe = Recipe.model_validate(
        {
            "name": name,
            "corpus": "",
            "encoders": (name,),
            "sentence_encoder": name,
            "matcher": {"kind": "cosine"},
            "loss": {"kind": "contrastive", "scale": scale},
        }
    )
    run = Run.from_matcher(folder, recipe, Vocabulary([]), sentences, Cosine(dim, dim), (dim,))
    run.config = replace(run.config, logit_scale=scale, logit_bias=bias)
    run.save_inputs()
    save_weights(folder, {})
    export_run(run)
