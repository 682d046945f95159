"""What search needs of a matcher: two functions into one vector space.

`query` asks for the vectors of what asks, where they are others than the vectors of what is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from seesay.errors import ImageError


class Embedder(Protocol):
    """A trained matcher with all it needs to embed raw images and sentences."""

    @property
    def name(self) -> str:
        """Shipped weights (`seesay-small`) or a run's folder; an index records it for its queries."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever weights or preprocessing change: vectors of two fingerprints never mix."""
        ...

    @property
    def dim(self) -> int:
        """Length of a vector."""
        ...

    def embed_images(
        self, images: Sequence[bytes], names: Sequence[str], query: bool = False
    ) -> tuple[NDArray[np.float32], list[ImageError | None]]:
        """Rows, shape (n, dim), of encoded images; a broken image has a zero row and its error."""
        ...

    def embed_sentences(self, sentences: Sequence[str], query: bool = False) -> NDArray[np.float32]:
        """Rows, shape (m, dim); the score is the inner product of a query's row and a candidate's."""
        ...
