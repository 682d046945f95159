"""What a library's loader returns: two PyTorch modules, and all that their inputs are made by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from seesay.encoders.towers.preprocessing import Preprocessing
from seesay.encoders.towers.tokens import Ids, Tokens


@dataclass(frozen=True)
class LoadedText:
    """A text tower.

    Attributes:
        module: maps ids and mask, both (m, t), to sentence vectors (m, d).
        tokens: makes the ids.
        library_ids: makes them by the library's own code, to compare with.
    """

    module: nn.Module
    tokens: Tokens
    library_ids: Callable[[Sequence[str]], Ids]


@dataclass(frozen=True)
class LoadedTowers:
    """An image tower, with its text tower if it has one.

    Attributes:
        weights: the module whose tensors are all of the weights.
        image: maps images (n, 3, h, w), mean and deviation applied, to vectors (n, d).
        preprocessing: makes those images.
        library_pixels: makes one of them, (3, h, w), by the library's own code, to compare with.
        text: the text tower; None without.
        logit_scale: the factor of the cosine, not its logarithm.
        logit_bias: what is added to it.
    """

    weights: nn.Module
    image: nn.Module
    preprocessing: Preprocessing
    library_pixels: Callable[[Image.Image], NDArray[np.float32]]
    text: LoadedText | None = None
    logit_scale: float = 1.0
    logit_bias: float = 0.0
