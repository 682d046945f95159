"""Preprocessing that a library has put together from torchvision's steps, as open_clip and timm do."""

from __future__ import annotations

from typing import Any

from PIL import Image

from seesay.encoders.towers.preprocessing import Preprocessing
from seesay.errors import SeesayError


def preprocessing_of(transform: Any) -> Preprocessing:
    """Read the steps of a composed transform; raise SeesayError if one of them is unknown."""
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
