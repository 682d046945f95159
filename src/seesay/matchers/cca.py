"""CCA: regularised, normalised canonical correlation analysis, the embedding networks' baseline.

The projections with the highest correlations (Hotelling 1936), each scaled by a power of its eigenvalue, are
compared by cosine (Gong, Ke, Isard, Lazebnik 2014; Klein, Lev, Sadeh, Wolf 2015). They are fitted to
covariances that are accumulated in batches, so the features are never all in memory.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from pydantic import PositiveInt
from scipy import linalg
from torch import Tensor

from seesay.arrays import Floats
from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, check_images
from seesay.matchers.layers import unit_vectors
from seesay.matchers.sentences import SentencesLike, read_vectors
from seesay.matchers.settings import register_matcher
from seesay.settings import NonNegative


class Covariances:
    """Means and covariances of pairs (x, y), from any number of batches.

    Rows are centred, multiplied in the precision of the batches (at least float32), and added in float64 on
    the device of the first batch; `n` counts the pairs.
    """

    def __init__(self) -> None:
        self.n = 0
        self.precision = torch.float32
        self._widths = (0, 0)
        self._mean = self._product = torch.zeros(0)

    def add(self, x: Tensor, y: Tensor) -> None:
        """Add a batch, (b, p) and (b, q), whose rows belong together.

        Raises:
            SeesayError: the shapes differ from each other or from earlier batches, or a value is not finite.
        """
        if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
            shapes = f"{tuple(x.shape)} and {tuple(y.shape)}"
            raise SeesayError(f"CCA: batches of shape {shapes}; they must be (b, p) and (b, q).")
        if not len(x):
            return
        widths, width = (x.shape[1], y.shape[1]), x.shape[1] + y.shape[1]
        if self.n and self._widths != widths:
            raise SeesayError(f"CCA: features of widths {widths} after batches of {self._widths}.")
        for name, side in (("image", x), ("sentence", y)):
            if not bool(torch.isfinite(side.sum())):
                raise SeesayError(
                    f"CCA: a NaN or infinity in the {name} features of pairs {self.n} to "
                    f"{self.n + len(side) - 1}; check the encoder's weights or the features' file."
                )
        if not self.n:
            self._widths = widths
            self.precision = torch.float64 if torch.float64 in (x.dtype, y.dtype) else torch.float32
            self._mean = x.new_zeros(width, dtype=torch.float64)
            self._product = x.new_zeros(width, width, dtype=torch.float64)
        rows, b, n = torch.cat([x.to(self.precision), y.to(self.precision)], dim=1), len(x), self.n
        own = rows.mean(dim=0, dtype=torch.float64)
        step = own - self._mean
        self._mean += step * (b / (n + b))
        # With a row for the change of the mean, the products add up to those of all rows minus the mean of
        # all (Chan, Golub, LeVeque 1983).
        shift = step * (n * b / (n + b)) ** 0.5
        centred = torch.cat([rows - own.to(self.precision), shift[None].to(self.precision)])
        self._product += centred.T @ centred
        self.n += b

    @property
    def means(self) -> tuple[Tensor, ...]:
        """The means of x, (p,), and of y, (q,)."""
        return torch.split(self._mean, list(self._widths))

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Covariances of x, (p, p), and of y, (q, q), and between them, (p, q), with the divisor n."""
        p, every = self._widths[0], self._product / self.n
        return every[:p, :p], every[p:, p:], every[:p, p:]


class CcaSolution(NamedTuple):
    """The projections of both sides: `(x - x_mean) @ x_map` (n, k) correlates with `(y - y_mean) @ y_map`.

    Each projection has variance 1, including the ridge, or is zero if its correlation is zero.
    """

    x_mean: Tensor  # (p,)
    y_mean: Tensor  # (q,)
    x_map: Tensor  # (p, k)
    y_map: Tensor  # (q, k)
    correlations: Tensor  # (k,), descending, in [0, 1]


def solve_cca(covariances: Covariances, dim: int, ridge_x: float, ridge_y: float) -> CcaSolution:
    """Compute the `dim` most correlated pairs of projections, in float64 on the CPU.

    The whitened cross-covariance K = Lx⁻¹ Σxy Ly⁻ᵀ, with Cholesky factors L Lᵀ = Σ + ridge·v·I, has the
    correlations as singular values. Only the leading ones are computed, from the smaller of K Kᵀ and KᵀK,
    so correlations below 1e-7 cannot be distinguished from 0.

    Args:
        covariances: those of at least two pairs.
        dim: the number of projections, at most the width of the narrower side.
        ridge_x: share of x's mean variance v that is added to each variance of x; 0 for plain CCA.
        ridge_y: the same for y.

    Raises:
        SeesayError: too few pairs, too many dimensions, or a covariance that is singular without a ridge.
    """
    if covariances.n < 2:
        raise SeesayError(f"CCA: {covariances.n} pairs of features; it needs at least two.")
    _check_dim(dim, *(len(mean) for mean in covariances.means))
    of_x, of_y, across = (part.cpu().numpy().copy() for part in covariances.parts)
    left = _cholesky(of_x, ridge_x, "image", covariances)
    right = _cholesky(of_y, ridge_y, "sentence", covariances)
    whitened = linalg.solve_triangular(left, across, lower=True, check_finite=False)
    whitened = linalg.solve_triangular(right, whitened.T, lower=True, check_finite=False).T
    u, correlations, v = _leading_singular(whitened, dim)
    x_map = linalg.solve_triangular(left, u, lower=True, trans="T", check_finite=False)
    y_map = linalg.solve_triangular(right, v, lower=True, trans="T", check_finite=False)
    x_mean, y_mean = (mean.cpu() for mean in covariances.means)
    return CcaSolution(x_mean, y_mean, *map(torch.from_numpy, (x_map, y_map, correlations)))


def _check_dim(dim: int, *widths: int) -> None:
    widest = min(widths)
    if not 0 < dim <= widest:
        raise SeesayError(
            f"CCA: dim {dim}; the narrower features have {widest}. Choose dim 1 to {widest}, "
            f"such as matcher.dim={widest}."
        )


def _cholesky(matrix: Floats, ridge: float, side: str, of: Covariances) -> Floats:
    """Return the lower Cholesky factor of a covariance with its ridge, which is overwritten."""
    variances = matrix.diagonal() + ridge * matrix.diagonal().mean()
    np.fill_diagonal(matrix, variances)
    try:
        # Symmetric, so the transpose is equal, and has the memory order that LAPACK overwrites.
        factor: Floats = linalg.cholesky(matrix.T, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        factor = np.zeros_like(matrix)
    # The remaining variance given the earlier features; only a rounding error if the matrix is singular.
    left_over, least = factor.diagonal() ** 2, 10 * torch.finfo(of.precision).eps * len(matrix) ** 0.5
    if (left_over <= least * variances).any():
        raise SeesayError(
            f"CCA: the covariance of {len(matrix)} {side} features over {of.n} pairs is singular with ridge "
            f"{ridge:g}: some features are constant or sums of others, or there are too few pairs. Leave "
            f"out constant ones, or set a larger ridge, such as {max(10 * ridge, 0.001):g}."
        )
    return factor


def _leading_singular(matrix: Floats, k: int) -> tuple[Floats, Floats, Floats]:
    """Return the k leading singular triplets, (p, k), (k,) and (q, k); vectors of zero values are zero."""
    if matrix.shape[0] > matrix.shape[1]:
        right, values, left = _leading_singular(matrix.T, k)
        return left, values, right
    size = len(matrix)
    squares, left = linalg.eigh(
        matrix @ matrix.T, subset_by_index=(size - k, size - 1), overwrite_a=True, check_finite=False
    )
    squares, left = squares[::-1], left[:, ::-1]
    values = np.sqrt(np.where(squares > 1e-14, squares, 0.0))
    right = matrix.T @ left
    right = np.divide(right, values, out=np.zeros_like(right), where=values > 0)
    return left * (values > 0), np.minimum(values, 1.0), right


@register_matcher("cca")
class CCA(EmbeddingMatcher):
    """Normalised CCA: the score is the cosine of projections scaled by eigenvalue**power.

    The eigenvalues are those of Gong et al.'s problem, in which a block matrix contains all covariances:
    1 + correlation. There are no training steps; `solve` fills the buffers.

    Args:
        image_dim: p.
        sentence_dim: q.
        dim: the number of components.
        power: of the eigenvalues; 0 for plain CCA, 4 in Gong et al. 2014.

    Raises:
        SeesayError: the narrower side has fewer features than components.

    Example:
        >>> import torch
        >>> from seesay.matchers import CCA
        >>> matcher = CCA(image_dim=6, sentence_dim=8, dim=4)
        >>> sentences = torch.rand(2, 8)  # vectors of a sentence encoder
        >>> matcher(torch.rand(4, 6), sentences).shape
        torch.Size([4, 2])
    """

    reads_words, reads_vectors = False, True

    def __init__(
        self,
        image_dim: PositiveInt,
        sentence_dim: PositiveInt,
        dim: PositiveInt = 512,
        power: NonNegative = 4.0,
    ) -> None:
        super().__init__()
        _check_dim(dim, image_dim, sentence_dim)
        self.power = power
        self.register_buffer("image_mean", torch.zeros(image_dim))
        self.register_buffer("sentence_mean", torch.zeros(sentence_dim))
        self.register_buffer("image_map", torch.zeros(image_dim, dim))
        self.register_buffer("sentence_map", torch.zeros(sentence_dim, dim))
        self.register_buffer("correlations", torch.zeros(dim))

    def solve(self, covariances: Covariances, ridge: float) -> None:
        """Solve for these covariances and set the buffers; one pass over the pairs is enough for many ridges.

        Raises:
            SeesayError: see `solve_cca`.
        """
        solution = solve_cca(covariances, len(self.get_buffer("correlations")), ridge, ridge)
        names = ("image_mean", "sentence_mean", "image_map", "sentence_map", "correlations")
        for name, value in zip(names, solution, strict=True):
            self.get_buffer(name).copy_(value)

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit vectors, (n, dim)."""
        check_images(images, len(self.get_buffer("image_mean")))
        return self._project(images, "image")

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return unit vectors of the sentence encoder's vectors, (m, dim)."""
        return self._project(read_vectors(sentences, len(self.get_buffer("sentence_mean"))), "sentence")

    def _project(self, features: Tensor, side: Literal["image", "sentence"]) -> Tensor:
        mean = self.get_buffer(f"{side}_mean")
        centred = features.to(mean.dtype) - mean
        projected = centred @ self.get_buffer(f"{side}_map")
        return unit_vectors(projected * (1 + self.get_buffer("correlations")) ** self.power)
