"""The features of images, computed once for all runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.array_store import ArrayStore
from seesay.onnx import network_cache


def stores_folder() -> Path:
    """Return the folder of the stores of features and regions, which all runs share."""
    return network_cache("arrays")


class FeatureStore(ArrayStore):
    """Features of images by content key (32 hexadecimal digits), in half precision.

    Args:
        folder: of all stores; the store's own is named after the fingerprint.
        encoder: name of the encoder, noted for people.
        fingerprint: of the encoder.
        dims: width of each array.

    Raises:
        SeesayError: the folder holds something else.

    Example:
        >>> import numpy as np, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = FeatureStore(pathlib.Path(folder), "mean-colour", "f00d", {"pooled": 3})
        ...     store.append(["0" * 32], {"pooled": np.ones((1, 3), np.float32)})
        ...     print(len(store), store.read(["0" * 32], "pooled"))
        1 [[1. 1. 1.]]
    """

    def __init__(self, folder: Path, encoder: str, fingerprint: str, dims: Mapping[str, int]) -> None:
        self.dims = dict(dims)
        super().__init__(folder / fingerprint, encoder, {name: ("<f2", dim) for name, dim in dims.items()})

    def append(self, keys: Sequence[str], arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Add rows (n, width) of n images; images that are already stored keep their rows."""
        halves = {name: arrays[name].astype("<f2") for name in self.dims}
        self.add({key: {n: rows[i : i + 1] for n, rows in halves.items()} for i, key in enumerate(keys)})

    def read(self, keys: Sequence[str], name: str) -> NDArray[np.float32]:
        """Read the rows of one array, (n, width); raise SeesayError if an image is not in the store."""
        return self.first_rows(list(keys), name).astype(np.float32)
