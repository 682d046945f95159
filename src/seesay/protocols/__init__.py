"""Protocols: how a split is measured, one a file; see `seesay.protocols.base`."""

from seesay.protocols import (
    agreement,
    composition,
    concepts,
    graded,
    grounding,
    image_to_image,
    k_shot,
    sentence_to_sentence,
    standard,
)

__all__ = [
    "agreement",
    "composition",
    "concepts",
    "graded",
    "grounding",
    "image_to_image",
    "k_shot",
    "sentence_to_sentence",
    "standard",
]
