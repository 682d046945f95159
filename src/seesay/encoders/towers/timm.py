"""Vision networks of timm; `@random` after a name keeps the seeded initial weights, without a download."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image

from seesay.encoders.towers.export import LoadedTowers
from seesay.encoders.towers.preprocessing import Preprocessing
from seesay.errors import SeesayError


def load(which: str) -> LoadedTowers:
    """Load a network of timm without its classifier."""
    import timm

    architecture, _, weights = which.partition("@")
    with torch.random.fork_rng(devices=[]):  # the caller's own seed goes on as it was
        torch.manual_seed(0)
        module = timm.create_model(architecture, pretrained=weights != "random", num_classes=0).eval()
    config: dict[str, Any] = timm.data.resolve_model_data_config(module)
    transform = timm.data.create_transform(**config, is_training=False)
    return LoadedTowers(
        weights=module,
        image=module,
        preprocessing=preprocessing_of(transform),
        library_pixels=lambda image: np.asarray(transform(image)),
    )


def preprocessing_of(transform: Any) -> Preprocessing:
    """Convert a transform of timm or open_clip; raise SeesayError if a step is unknown."""
    found: dict[str, Any] = {"fill": 0}
    for step in transform.transforms:
        kind = type(step).__name__
        if kind == "Resize":
            found |= _resize(step)
        elif kind == "ResizeKeepRatio":
            found |= {"resize": "contain" if step.longest else "cover", "size": _pair(step.size)}
            found["interpolation"] = _name(step.interpolation)
        elif kind in ("CenterCrop", "CenterCropOrPad"):
            fill = getattr(step, "fill", 0)
            found |= {"crop": _pair(step.size), "fill": tuple(fill) if isinstance(fill, list) else fill}
        elif kind == "Normalize":
            found |= {key: tuple(float(each) for each in getattr(step, key)) for key in ("mean", "std")}
        elif kind not in ("MaybeConvertMode", "MaybeToTensor", "ToTensor", "function"):
            raise SeesayError(f"its preprocessing has a step {kind} that seesay does not know")
    try:
        return Preprocessing(**({"crop": found["size"]} | found))
    except (KeyError, TypeError) as missing:
        raise SeesayError(f"its preprocessing lacks a step: {missing}") from missing


def _resize(step: Any) -> dict[str, Any]:
    squash = not isinstance(step.size, int) and len(step.size) == 2
    if step.max_size is not None:
        raise SeesayError("its preprocessing limits the longer side, which seesay does not know")
    return {
        "resize": "squash" if squash else "shortest",
        "size": _pair(step.size),
        "interpolation": _name(step.interpolation),
    }


def _pair(size: Any) -> tuple[int, int]:
    sides = [size] if isinstance(size, int) else list(size)
    return int(sides[0]), int(sides[-1])


def _name(interpolation: Any) -> str:
    """Name an interpolation; torchvision's modes and their number in Pillow both occur."""
    if isinstance(interpolation, int):
        return Image.Resampling(interpolation).name.lower()
    return str(getattr(interpolation, "value", interpolation)).lower()
