"""Rows of several feature files as if they were one array, read when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class RowSource(Protocol):
    """An array, or what reads rows of a file as one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, d) or (rows, r, d)."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


class FeatureRows:
    """Feature arrays stacked along their first axis without being copied together.

    Each part has shape (rows, d) or (rows, r, d), the same but for the rows, and may be memory-mapped.
    Takes a row, a slice or an array of rows, as a NumPy array does, and returns float32.
    """

    def __init__(self, parts: Sequence[RowSource]) -> None:
        if not parts or any(part.shape[1:] != parts[0].shape[1:] for part in parts):
            raise ValueError(f"parts of one shape are wanted, not {[part.shape for part in parts]}")
        self._parts = tuple(parts)
        self._starts = np.cumsum([0, *(len(part) for part in parts)])

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, d) or (rows, r, d)."""
        return (len(self), *self._parts[0].shape[1:])

    @property
    def ndim(self) -> int:
        """2 for global features, 3 for regions."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """What indexing returns, whatever the files hold."""
        return np.dtype(np.float32)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, rows: int | slice | NDArray[np.integer] | Sequence[int]) -> NDArray[np.float32]:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        wanted = np.asarray(rows, np.int64)
        flat = np.where(wanted < 0, wanted + len(self), wanted).reshape(-1)
        if flat.size and not (flat.min() >= 0 and flat.max() < len(self)):
            raise IndexError(f"row out of range for {len(self)} rows")
        out = np.empty((flat.size, *self.shape[1:]), np.float32)
        part_of = np.searchsorted(self._starts, flat, side="right") - 1
        for number in np.unique(part_of):
            here = part_of == number
            out[here] = self._parts[number][flat[here] - self._starts[number]]
        return out.reshape(*wanted.shape, *self.shape[1:])

    def __array__(
        self, dtype: np.dtype[np.generic] | None = None, copy: bool | None = None
    ) -> NDArray[np.generic]:
        """All rows in memory."""
        if copy is False:
            raise ValueError("rows of several files cannot be one array without a copy")
        whole = self[:]
        return whole if dtype is None else whole.astype(dtype)
