"""The feature store: features of images on disk, computed once, shared between runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.append_only import AppendOnlyStore
from seesay.errors import SeesayError

RECORD = np.dtype([("key", "V16"), ("crc", "<u4")])
VERSION = 1


class FeatureStore(AppendOnlyStore):
    """Features of images by content key (32 hexadecimal digits), in half precision.

    Args:
        folder: of all stores; the store's own is named after the fingerprint.
        encoder: name of the encoder.
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
        meta = {"version": VERSION, "encoder": encoder, "dims": self.dims}
        arrays = [(f"{name}.f16", "<f2", dim) for name, dim in self.dims.items()]
        super().__init__(folder / fingerprint, meta, arrays, "rows.bin", RECORD)

    def append(self, keys: Sequence[str], arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Add rows (n, width) of n images; images that are there already are left as they are."""
        halves = [arrays[name].astype("<f2") for name in self.dims]
        self._append({key: [rows[i : i + 1] for rows in halves] for i, key in enumerate(keys)})

    def read(self, keys: Sequence[str], name: str) -> NDArray[np.float32]:
        """Read the rows of one array, (n, width); raise SeesayError if an image is not in the store."""
        missing = next((key for key in keys if key not in self), None)
        if missing is not None:
            raise SeesayError(f"{self.folder}: image {missing} is not in this store.")
        places = np.array([self._ranges[key][0] for key in keys], np.int64)
        rows: NDArray[np.float16] = self._maps[list(self.dims).index(name)][places]
        return rows.astype(np.float32)
