"""The keywords of `seesay.train`, for type checkers: keys of recipes and of their mappings.

`tests/recipes/test_keys.py` compares them with the settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict


class RecipeKeys(TypedDict, total=False):
    """Keys of a recipe and of its mappings; see the settings of recipes, matchers and losses."""

    name: str
    about: str
    system: str | None
    encoders: Sequence[str]
    arrays: Sequence[Literal["pooled", "logits"]]
    sentence_encoder: str | None
    sentence_dim: int
    min_count: int
    lemmas: bool
    words: Mapping[str, Any] | None
    word_dropout: float
    matcher: Mapping[str, Any]
    loss: Mapping[str, Any]
    losses: Sequence[Mapping[str, Any]]
    optimizer: Mapping[str, Any]
    schedule: Mapping[str, Any]
    batch_size: int
    sampler: str
    regions: Mapping[str, Any] | None
    val_images: int | None
    seed: int
    departures: Sequence[str]
    changes: Sequence[str]
    vectors: str
    std: float
    lr: float
    weight_decay: float
    momentum: float
    grad_clip: float | None
    clip: Literal["norm", "value"]
    epochs: int
    patience: int | None
    shape: Literal["constant", "cosine", "step"]
    step_epoch: int
    average: float | None
    scale: float
    proposals: int
    train_nms: float | None
    positives: Literal["single", "augmented", "jittered"]
    negatives: Literal["random", "hardest"] | int | None
    geometry: bool
    box_voting: float | None
    class_name: str
    hidden: int
    dropout: float
    dim: int
    power: float
    instances: int | None
    max_length: int
    word_vectors: str
    word_dim: int | None
    standardise: Literal[False, True, "power"]
    image_dropout: float
    sentence_dropout: float
    members: Sequence[str] | int
    matchers: Sequence[Mapping[str, Any]]
    at_once: int
    views: int | None
    frozen: bool
    keep_classes: float
    hidden_dropout: float
    class_names: bool | float
    steps: int
    attention: int
    gate: Mapping[str, Any] | None
    parts: Sequence[Sequence[int]]
    widths: Sequence[int]
    level: Literal["wd", "phs", "phl", "st"]
    image: int
    maps: Sequence[int]
    start: Literal["random", "product"]
    fusion: Literal["gate", "scaled-gate", "sum", "context", "concepts"]
    generation: Mapping[str, Any] | None
    count: int
    folds: int
    image_hidden: int
    sentence_hidden: int
    linear: bool
    lstm: int
    head: Sequence[int]
    ridges: Sequence[float]
    margin: float
    mean_over: Literal["pairs", "active"]
    reduction: Literal["mean", "sum"]
    top_k: int
    slack: Literal["query", "negative"]
    teacher: str
    student_scale: float
    lambda1: float
    lambda2: float
    lambda3: float
    lambda4: float
