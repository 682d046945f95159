"""CLIP models of sentence-transformers, and text models that were trained to match an image tower."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seesay.encoders.towers.export import LoadedText, LoadedTowers
from seesay.encoders.towers.tokens import Ids
from seesay.encoders.towers.transformers import (
    ImageFeatures,
    bias_of,
    pixels_of,
    preprocessing_of,
    scale_of,
    tokens_of,
)
from seesay.errors import SeesayError
from seesay.paths import read_small_json

# The library's own modules of such models; the first three have weights of their own, which may be pickled.
_WITH_WEIGHTS = {"Dense", "LayerNorm", "WeightedLayerPooling"}
_MODULES = _WITH_WEIGHTS | {"CLIPModel", "Dropout", "Normalize", "Pooling", "Transformer"}

# A text model by name, and the model beside it whose images it was trained for.
IMAGES_OF = {"clip-ViT-B-32-multilingual-v1": "clip-ViT-B-32"}


def load(which: str) -> LoadedTowers:
    """Load a model; a text model is paired with the image tower that it was trained for."""
    model = _model(which)
    folder, slash, name = which.rstrip("/").rpartition("/")
    images = model
    if "image" not in model[0].modalities:
        if name not in IMAGES_OF:
            raise SeesayError("it only encodes sentences, and seesay does not know a matching image tower")
        images = _model(f"{folder}{slash}{IMAGES_OF[name]}")
    inner: Any = images[0].model
    processor = _on_pillow(images[0].processor.image_processor)
    return LoadedTowers(
        weights=model if images is model else nn.ModuleList([model, images]),
        image=_Modules(images, ImageFeatures(inner)),
        preprocessing=preprocessing_of(processor),
        library_pixels=lambda image: pixels_of(processor, image),
        text=_text(model),
        logit_scale=scale_of(inner),
        logit_bias=bias_of(inner),
    )


def _model(which: str) -> Any:
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()
    if "/" not in which and not Path(which).exists():
        which = f"sentence-transformers/{which}"  # as the library reads it
    _check_modules(which)
    options = {"use_safetensors": True, "dtype": torch.float32}
    return SentenceTransformer(which, device="cpu", trust_remote_code=False, model_kwargs=options).eval()


def _check_modules(which: str) -> None:
    """Reject a model with modules from outside the library, or with pickled weights."""
    from sentence_transformers.util import load_file_path

    listed = load_file_path(which, "modules.json")
    if listed is None:  # a model of transformers, which refuses both by itself
        return
    for module in read_small_json(Path(listed)):
        package, _, kind = str(module["type"]).rpartition(".")
        if package.partition(".")[0] != "sentence_transformers" or kind not in _MODULES:
            raise SeesayError(
                f"its module {module['type']} is unknown to seesay; models that bring code are rejected"
            )
        inside = str(module["path"])
        if kind in _WITH_WEIGHTS and load_file_path(which, "model.safetensors", inside) is None:
            raise SeesayError(
                f"{inside} has no model.safetensors; pickled weights are not supported. Save the model "
                f"again with sentence-transformers 3.0.1 or later"
            )


def _on_pillow(processor: Any) -> Any:
    """Return the variant of a processor that resizes with Pillow, as in training."""
    import transformers

    twin = getattr(transformers, f"{type(processor).__name__}Pil", None)
    return processor if twin is None else twin(**processor.to_dict())


class _Modules(nn.Module):
    """The first module of a model, followed by the others."""

    def __init__(self, model: Any, first: nn.Module) -> None:
        super().__init__()
        self.first, self.rest = first, nn.ModuleList(list(model)[1:])

    def forward(self, images: Tensor) -> Tensor:
        features: dict[str, Tensor] = {"sentence_embedding": self.first(images)}
        for module in self.rest:
            features = module(features)
        return features["sentence_embedding"]


class _Texts(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.modules_in_order = nn.ModuleList(list(model))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        features: dict[str, Tensor] = {"input_ids": ids, "attention_mask": mask}
        for module in self.modules_in_order:
            features = module(features)
        return features["sentence_embedding"]


def _text(model: Any) -> LoadedText:
    def library_ids(texts: Sequence[str]) -> Ids:
        return np.asarray(model.preprocess(list(texts))["input_ids"], np.int64)

    tokens = tokens_of(model.tokenizer, int(model.max_seq_length), fixed=False)
    return LoadedText(_Texts(model), tokens, library_ids)
