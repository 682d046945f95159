"""Types of arrays, named by what their numbers are, and checks of arguments that must be arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import NanError, SeesayError

Pixels: TypeAlias = NDArray[np.uint8]
Vector: TypeAlias = NDArray[np.float32]  # one, (d,)
Vectors: TypeAlias = NDArray[np.float32]  # several, (n, d)
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]  # numbers of images, sentences, words, rows, …
Mask: TypeAlias = NDArray[np.bool_]

_WANTED = {"fiu": "real numbers", "iu": "whole numbers", "b": "true or false"}


def as_array(values: ArrayLike, name: str, *dims: str | int, kinds: str = "fiu") -> NDArray[Any]:
    """Convert to a NumPy array and check its shape and dtype.

    Args:
        values: an array, a tensor on any device, or nested lists.
        name: the argument's name, for errors.
        dims: the expected shape: a number, or a name for a dimension of any length; none for any shape.
        kinds: the dtype kinds allowed.

    Raises:
        SeesayError: the shape or dtype is wrong; names the argument, what was expected and what was given.

    >>> as_array([[0.5]], "scores", "n", 2)
    Traceback (most recent call last):
    seesay.errors.SeesayError: scores: shape (1, 1); it must be (n, 2).
    """
    tensor: Any = values
    try:
        if hasattr(tensor, "detach"):
            tensor = tensor.detach().cpu()
            tensor = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
        array = np.asarray(tensor)
    except ValueError as failure:
        raise SeesayError(f"{name}: lists of different lengths; it must be {_shape(dims)}.") from failure
    except (TypeError, RuntimeError) as failure:  # for example sparse tensors, and lists of tensors
        raise SeesayError(f"{name}: cannot be read as numbers ({failure}).") from failure
    fits = all(isinstance(want, str) or want == n for want, n in zip(dims, array.shape, strict=False))
    if dims and not (fits and len(dims) == array.ndim):
        raise SeesayError(f"{name}: shape {array.shape}; it must be {_shape(dims)}.")
    if array.dtype.kind not in kinds and array.size:
        wanted = _WANTED.get(kinds, "numbers")
        raise SeesayError(f"{name}: dtype {array.dtype}; it must hold {wanted}.")
    return array


def _shape(dims: Sequence[str | int]) -> str:
    return f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})" if dims else "rectangular"


def refuse_nan(values: NDArray[Any], name: str, start: int = 0) -> None:
    """Raise a SeesayError with the index of a NaN, if any; the array's first row has the index `start`."""
    if values.dtype.kind == "f" and (missing := np.isnan(values)).any():
        first, *rest = np.argwhere(missing)[0].tolist()
        place = ", ".join(map(str, (first + start, *rest)))
        raise NanError(f"{name}: NaN at [{place}]; {name} must not be NaN.")
