"""Types of arrays, named by what their numbers are."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Pixels: TypeAlias = NDArray[np.uint8]
Vector: TypeAlias = NDArray[np.float32]  # one, (d,)
Vectors: TypeAlias = NDArray[np.float32]  # several, (n, d)
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]  # numbers of images, sentences, words, rows, …
Mask: TypeAlias = NDArray[np.bool_]
