"""Principal components of more rows than memory holds, from a covariance added up batch by batch.

A pass of symmetric rank-k updates costs n·D² flops and D² numbers of memory, whatever n is. At the
dimensions kept here (a third of D and more, as in the paper's 18,000 to 6,000) that is less work than a
randomised range finder, whose two products of D by d a row cost 4·n·D·d, and it is exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.blas import ssyrk

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Pca:
    """Projection on the directions of most variance.

    Attributes:
        mean: (D,).
        components: orthonormal columns, most variance first, (D, d).
    """

    mean: Rows
    components: Rows

    def project(self, rows: Rows) -> Rows:
        """Rows (n, D) to (n, d)."""
        projected: Rows = rows @ self.components
        projected -= self.mean @ self.components
        return projected


def fit_pca(batches: Iterable[Rows], dim: int) -> Pca:
    """The first `dim` principal components of all batches' rows (n_i, D), fewer where the rank is less.

    No more than one batch and four matrices of (D, D) are held.
    """
    mean, covariance = _moments(batches)
    # All eigenvectors by divide and conquer take a third of the time of most of them by their number.
    values, vectors = eigh(covariance, lower=False, driver="evd", overwrite_a=True)
    values, vectors = values[::-1][:dim], vectors[:, ::-1][:, :dim]
    # Single precision tells no smaller variance from none.
    kept = values > values[0] * np.sqrt(len(mean)) * np.finfo(np.float32).eps
    kept[0] = True
    return Pca(mean, np.ascontiguousarray(vectors[:, kept], np.float32))


def _moments(batches: Iterable[Rows]) -> tuple[Rows, Rows]:
    """Mean (D,) and covariance (D, D), of which only the upper triangle is filled in."""
    shift: Rows | None = None
    for rows in batches:
        if shift is None:
            # Rows less roughly their mean keep single precision where the variance is small.
            shift = rows.mean(axis=0)
            total = np.zeros(rows.shape[1])
            products = np.zeros((rows.shape[1],) * 2, np.float32, order="F")
            count = 0
        rows = rows - shift
        total += rows.sum(axis=0, dtype=np.float64)
        products = ssyrk(1, rows.T, 1, products, overwrite_c=True)
        count += len(rows)
    if shift is None:
        raise ValueError("no rows")
    offset = total / count
    products /= count
    products -= np.outer(offset, offset)
    return shift + offset.astype(np.float32), products
