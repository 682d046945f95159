"""The folder of a run: its own, included weights, or that of a CLIP model in the cache.

A CLIP model becomes the folder of a run when it is first named.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from seesay.encoders.images.tuned import adopt_tuned
from seesay.encoders.spec import EXPORTED, TIMM, EncoderSpec, is_two_tower
from seesay.errors import SeesayError, did_you_mean, naming_extras
from seesay.onnx import use_networks_of
from seesay.paths import home_expanded, locked, replacing_folder, unwritable_cache
from seesay.runs.config import RUN, RunConfig
from seesay.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from seesay.encoders.towers.opened import Towers

NETWORKS = "encoders"  # in the folder of a run: the packaged networks that it brings as ONNX
_PATIENCE = 600.0  # seconds to wait for another process that exports


def included_runs() -> list[Path]:
    """Return the folders of the included weights, by name."""
    return sorted(path.parent for path in (Path(str(files("seesay"))) / "weights").glob(f"*/{RUN}"))


def run_config(folder: Path) -> RunConfig:
    """Read the metadata of a run, and make its own encoders available.

    Raises:
        SeesayError: it cannot be read, or the weights of one of its own encoders are missing.
    """
    config = RunConfig.load(folder)
    use_networks_of(folder / NETWORKS)
    for encoder in config.encoders:
        adopt_tuned(encoder, folder)
    return config


def run_folder(name: str) -> Path:
    """Return the folder of a run, included weights or a CLIP model.

    Raises:
        SeesayError: there is none.
    """
    if is_two_tower(name):
        return _model_folder(EncoderSpec.of_tower(name))
    path = home_expanded(name)
    if (path / RUN).is_file():
        return path
    included = {folder.name: folder for folder in included_runs()}
    if name in included:
        return included[name]
    library, colon, _ = name.partition(":")
    if colon and "/" not in library:
        EncoderSpec.of_tower(name)  # raises an error that lists the libraries
    from seesay.recipes.files import included_recipes

    if name in included_recipes():
        raise SeesayError(
            f"{name}: a recipe and not yet a run; train it, and name the folder of its run, such as "
            f"runs/{name}: seesay train {name} --data CORPUS"
        )
    raise SeesayError(
        f"{name}: no run there (no {RUN}), and no included weights of that name"
        f"{did_you_mean(name, included) or '.'} Included: {', '.join(included) or 'none'}."
    )


def _model_folder(spec: EncoderSpec) -> Path:
    """Return the folder of a model's run in the cache, created if missing.

    Raises:
        SeesayError: the model does not exist or has no text tower, or the cache cannot be written.
        MissingExtraError: it is not in the cache, and its library is not installed.
    """
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
    towers = open_towers(str(spec), "cpu")
    busy = f"{folder.parent}: another process exports this model; wait until it has finished."
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_name("run.lock"), busy, _PATIENCE):
            if not (folder / RUN).is_file():
                with naming_extras(of="hub"), replacing_folder(folder) as beside:
                    _write_run(str(spec), towers, beside)
    except OSError as error:
        raise unwritable_cache(folder, error) from error
    return folder


def _write_run(name: str, towers: Towers, folder: Path) -> None:
    """Write a run with a model's towers as encoders and their cosine as matcher."""
    from seesay.encoders.towers.encoders import TowerSentenceEncoder
    from seesay.matchers.adapter import Cosine
    from seesay.recipes.schema import Recipe
    from seesay.runs.export import export_run
    from seesay.runs.run import Run
    from seesay.runs.trained import save_inputs, save_weights

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
    save_inputs(run)
    save_weights(folder, {})
    export_run(run)
