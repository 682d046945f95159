"""Loading a run by name: that of a folder, of included weights, or of a CLIP model (`open_clip:MODEL`)."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from seesay.device import checked_device, default_device
from seesay.encoders.settings import OPEN_CLIP, EncoderSettings
from seesay.errors import SeesayError, did_you_mean, naming_extras, without_folders
from seesay.paths import home_expanded
from seesay.runs.run import Run
from seesay.text.vocabulary import Vocabulary


def load_run(name: str, device: str | None = None) -> Run:
    """Load the run in a folder, included weights, or a CLIP model; see `Run.load` for errors."""
    model = clip_model(name)
    return Run.load(name, device) if model is None else ClipRun(model, device)


def clip_model(name: str) -> EncoderSettings | None:
    """Return the settings of a CLIP model, with absolute paths; None for the name of another run.

    Its name is `open_clip:ARCHITECTURE/WEIGHTS`, `open_clip:FOLDER` or `open_clip:hf-hub:REPOSITORY`.

    Raises:
        SeesayError: no model is named, or a folder does not exist.

    >>> str(clip_model("open_clip:ViT-B-32/openai"))
    '{kind: open_clip, model: ViT-B-32, weights: openai}'
    >>> clip_model("runs/mine") is None
    True
    """
    library, colon, which = name.partition(":")
    if not colon or library != OPEN_CLIP:
        if colon and (near := did_you_mean(library, [OPEN_CLIP])):
            raise SeesayError(f"{name}: no library of CLIP models{near}")
        return None
    from seesay.encoders.towers import checked_model

    model, _, weights = which.partition("/")
    if which.startswith(("hf-hub:", ".", "/", "~")) or home_expanded(which).is_dir():
        model, weights = which, ""
    return checked_model(EncoderSettings(OPEN_CLIP).replaced(model=model, weights=weights))


class ClipRun(Run):
    """A CLIP model as a run without a folder: its encoders are the model's towers, the score their cosine."""

    def __init__(self, model: EncoderSettings, device: str | None = None) -> None:
        from seesay.encoders.towers import OpenClipSentenceEncoder, open_clip_model

        with naming_extras(of="hub"):
            from seesay.matchers.cosine import Cosine
            from seesay.recipes.schema import Recipe
            from seesay.runs.torch_backend import config_of

        device = default_device() if device is None else checked_device(device)
        towers = open_clip_model(model, device)
        scale, dim = towers.logit_scale, towers.dim
        name = f"{OPEN_CLIP}:{'/'.join(filter(None, (model.get('model'), model.get('weights'))))}"
        recipe = Recipe.model_validate(
            {
                "name": without_folders(name),
                "corpus": "",
                "encoders": (model,),
                "sentence_encoder": model,
                "matcher": {"kind": "cosine"},
                "loss": {"kind": "contrastive", "scale": scale},
            }
        )
        matcher = Cosine(dim, dim)
        config = config_of(recipe, matcher, (dim,), dim)
        config = replace(config, dim=dim, logit_scale=scale, logit_bias=towers.logit_bias)
        reader = OpenClipSentenceEncoder(towers)
        super().__init__(name, Path(name), config, Vocabulary([]), reader, device)
        self._recipe, self._matcher = recipe, matcher
        self.title, self.pretrained = without_folders(name), True

    @cached_property
    def fingerprint(self) -> str:
        """A hash of weights, vocabulary and preprocessing."""
        assert self.sentence_encoder is not None
        both = self.encoders[0].fingerprint + self.sentence_encoder.fingerprint
        return hashlib.blake2b(both.encode(), digest_size=16).hexdigest()
