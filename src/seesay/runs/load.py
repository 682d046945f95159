"""Loading a run by name; a CLIP model, `open_clip:MODEL`, is exported as a run first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from seesay.encoders.settings import OPEN_CLIP, EncoderSettings
from seesay.errors import SeesayError, did_you_mean, naming_extras
from seesay.paths import home_expanded, locked, replacing_folder, unwritable_cache
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
    towers = clip_towers(name)
    if towers is None:
        return Run.load(name, device)
    return Run.open(folder_of(name), clip_name(towers), device)


def clip_towers(name: str) -> EncoderSettings | None:
    """Return the text tower of a CLIP model, with absolute paths; None for the name of another run.

    Args:
        name: `open_clip:ARCHITECTURE/WEIGHTS`, `open_clip:FOLDER` or `open_clip:hf-hub:REPOSITORY`.

    Raises:
        SeesayError: no model is named, or a folder does not exist.

    >>> str(clip_towers("open_clip:ViT-B-32/openai"))
    '{kind: open_clip, model: ViT-B-32, weights: openai}'
    >>> clip_towers("runs/mine") is None
    True
    """
    from seesay.encoders.towers.opened import checked_tower

    library, colon, which = name.partition(":")
    if not colon or library != OPEN_CLIP:
        if colon and (near := did_you_mean(library, [OPEN_CLIP])):
            raise SeesayError(f"{name}: no library of CLIP models{near}")
        return None
    model, _, weights = which.partition("/")
    if which.startswith(("hf-hub:", ".", "/", "~")) or home_expanded(which).is_dir():
        model, weights = which, ""
    return checked_tower(EncoderSettings(OPEN_CLIP).replaced(model=model, weights=weights))


def shown_name(name: str) -> str:
    """Return the name of a run without the folders of this machine, which clients must not see.

    >>> [shown_name(name) for name in ("/runs/mine", "open_clip:/models/clip", "open_clip:ViT-B-32/openai")]
    ['mine', 'open_clip:clip', 'open_clip:ViT-B-32/openai']
    """
    library, colon, path = name.rpartition(":")
    return name if colon and not Path(path).is_absolute() else library + colon + Path(path).name


def is_run(name: str) -> bool:
    """Return whether a name is that of a CLIP model, or of a folder with a run."""
    return clip_towers(name) is not None or (home_expanded(name) / RUN).is_file()


def clip_name(towers: EncoderSettings) -> str:
    """Return the name of a CLIP model as a run, which `clip_towers` reads."""
    return f"{OPEN_CLIP}:{'/'.join(filter(None, (towers.get('model'), towers.get('weights'))))}"


def folder_of(name: str) -> Path:
    """Return the folder of a run; a CLIP model is first exported as one, into the cache.

    Raises:
        SeesayError: the run or model does not exist, the model has no text tower, or the cache cannot be
            written.
        MissingExtraError: the model is not in the cache, and open_clip is not installed.
    """
    towers = clip_towers(name)
    if towers is None:
        return run_folder(name)
    from seesay.encoders.towers.opened import export_folder, open_towers

    folder = export_folder(towers) / "run"
    if (folder / RUN).is_file():
        return folder
    open_towers(towers, "cpu")  # exports them
    busy = f"{folder.parent}: another process exports this model; wait until it has finished."
    try:
        with locked(folder.with_name("run.lock"), busy, _PATIENCE):
            if not (folder / RUN).is_file():
                with naming_extras(of="hub"), replacing_folder(folder) as beside:
                    _write_run(towers, beside)
    except OSError as error:
        raise unwritable_cache(folder, error) from error
    return folder


def _write_run(settings: EncoderSettings, folder: Path) -> None:
    """Write a run with a model's towers as encoders and their cosine as matcher."""
    from seesay.encoders.towers.encoders import TowerSentenceEncoder
    from seesay.encoders.towers.opened import open_towers
    from seesay.matchers.adapter import Cosine
    from seesay.recipes.schema import Recipe
    from seesay.runs.export import export_run
    from seesay.runs.trained import save_weights
    from seesay.text.vocabulary import Vocabulary

    towers, name = open_towers(settings, "cpu"), clip_name(settings)
    sentences, dim = TowerSentenceEncoder(name, towers), towers.dim
    scale, bias = float(towers.about["logit_scale"]), float(towers.about["logit_bias"])
    recipe = Recipe.model_validate(
        {
            "name": name,
            "corpus": "",
            "encoders": (settings.dump(),),
            "sentence_encoder": settings.dump(),
            "matcher": {"kind": "cosine"},
            "loss": {"kind": "contrastive", "scale": scale},
        }
    )
    run = Run.from_matcher(folder, recipe, Vocabulary([]), sentences, Cosine(dim, dim), (dim,))
    run.config = replace(run.config, logit_scale=scale, logit_bias=bias)
    run.save_inputs()
    save_weights(folder, {})
    export_run(run)
