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
        import torchvision  # type: ignore[import-untyped]  # noqa: F401
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for operator in ("nms", "qnms"):
            schema = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            library.define(schema)  # type: ignore[no-untyped-call]
        return library
    return None
