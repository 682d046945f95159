"""The train split's images as mini-batches take them: rows on the device, and single crops."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seesay.data.corpus import Corpus
from seesay.encoders.feature_store import stores_folder
from seesay.encoders.images.base import EACH
from seesay.encoders.images.encode import fill_stores
from seesay.recipes.schema import Recipe
from seesay.runs.images import recipe_encoders

_AT_ONCE = 512  # images whose crops are read at a time


@dataclass(frozen=True)
class TrainImages:
    """Features of images, of which those of a mini-batch are taken.

    Copying a batch's rows to a GPU takes longer than a small matcher's step, so all are copied once.

    Attributes:
        features: joined image features, (n, d) float32.
        crops: features of single crops, an array (n, c, width) of half precision for each of the joined ones;
            empty if a batch takes `features`.
    """

    features: NDArray[np.float32]
    crops: tuple[NDArray[np.float16], ...] = ()
    _there: dict[str, list[Tensor]] = field(default_factory=dict)

    def take(self, rows: NDArray[np.int64], device: str) -> Tensor:
        """Return the features (b, d) of those images; of each a random crop, if there are crops."""
        chosen = torch.from_numpy(rows)
        parts = self._on(device)
        chosen = chosen.to(parts[0].device)
        if not self.crops:
            return parts[0][chosen].to(device)
        drawn = torch.randint(max(part.shape[1] for part in parts), chosen.shape, device=chosen.device)
        joined = torch.cat([part[chosen, drawn % part.shape[1]] for part in parts], dim=1)
        return joined.to(device).float()

    def _on(self, device: str) -> list[Tensor]:
        """All features on the device, unless they are too large for it."""
        arrays = self.crops or (self.features,)
        if device not in self._there:
            fitting = device if fits(device, sum(each.nbytes for each in arrays)) else "cpu"
            self._there[device] = [torch.from_numpy(np.asarray(each)).to(fitting) for each in arrays]
        return self._there[device]


def fits(device: str, size: int) -> bool:
    """Return whether that many bytes may be kept on a device: at most half of the free memory of a GPU."""
    where = torch.device(device)
    return where.type != "cuda" or size <= torch.cuda.mem_get_info(where)[0] // 2


def single_crops(recipe: Recipe, usable: Corpus) -> tuple[NDArray[np.float16], ...]:
    """Read features of the single crops of a split's images, encoding what is missing.

    Args:
        recipe: names the encoders; those that see the whole image have one crop.
        usable: the split without broken images.

    Returns:
        For each array that the recipe's features are joined from, (n, crops, width).
    """
    names = tuple(_of_single_crops(name) for name in recipe.encoders)
    encoders = recipe_encoders(recipe.model_copy(update={"encoders": names}))
    filled = fill_stores(encoders, stores_folder(), usable.images)
    keys = [key for key in filled.keys if key is not None]
    found = []
    for encoder, store in zip(encoders, filled.stores, strict=True):
        count = 10 if encoder.crop == EACH else 1
        for array in recipe.arrays:
            parts = (keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE))
            rows = np.concatenate([store.read(part, array).astype(np.float16) for part in parts])
            found.append(rows.reshape(len(rows), count, -1))
    return tuple(found)


def _of_single_crops(encoder: str) -> str:
    """The encoder that gives the features of each crop, where the one named gives their mean."""
    return f"{encoder.removesuffix(':ten')}:{EACH}" if encoder.endswith(":ten") else encoder
