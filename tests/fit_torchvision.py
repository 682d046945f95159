"""torchvision beside a PyTorch of another build: the package index has it only for the build with CUDA."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch


@cache
def fit_torchvision() -> torch.library.Library | None:
    """Declare the operators that torchvision's own library cannot bring, so that it can be imported.

    Its preprocessing, all that is used of it here, is plain PyTorch and Pillow.
    """
    if find_spec("torchvision") is None:
        return None
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library
    return None
