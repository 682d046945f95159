"""Vision networks of timm; `@random` behind a name keeps the seeded initial weights, without a download."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from seesay.encoders.towers.libraries.torchvision_steps import preprocessing_of
from seesay.encoders.towers.loaded import LoadedTowers


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
