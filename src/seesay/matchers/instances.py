"""Instances: the regions of an image, whose features an encoder lays end to end."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from seesay.errors import SeesayError


def instance_width(image_dim: int, instances: int) -> int:
    """Return the width of one of so many instances laid end to end; raise `SeesayError` if they are not."""
    if image_dim % instances:
        raise SeesayError(
            f"matcher.instances: features of {image_dim} numbers are not {instances} instances."
        )
    return image_dim // instances


def normalised_instances(images: Tensor, instances: int, dtype: torch.dtype) -> Tensor:
    """Return instances (n, I, F) of joined ones (n, I·F): square roots of their numbers, in unit length.

    Computed in single precision: in half, the epsilon of `normalize` is zero, which makes padding NaN.
    """
    rows = images.view(images.shape[0], instances, images.shape[1] // instances).float()
    return functional.normalize(rows.sign() * rows.abs().sqrt(), dim=2).to(dtype)


def missing_instances(instances: Tensor) -> Tensor:
    """Return which of the instances (n, I, F) are padding, (n, I); where all are zeros, none is."""
    empty = (instances == 0).all(dim=2)
    return empty & ~empty.all(dim=1, keepdim=True)
