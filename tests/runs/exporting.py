"""Runs of small matchers with random weights, to be exported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from seesay.matchers import Matcher
from seesay.recipes.load import load_recipe
from seesay.runs.run import Run
from seesay.runs.torch_backend import save_weights
from seesay.text.vocabulary import Vocabulary
from tests.matchers.test_registered import CASES, DIMS, INPUTS, VECTOR, WORDS, settings_of

# Every registered matcher, and settings of some that change what a side computes.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {kind: (kind, {}) for kind in CASES} | {
    "embedding-network, linear": ("embedding-network", {"linear": True, "sentence_hidden": 12}),
    "embedding-network, lstm": ("embedding-network", {"lstm": 6}),
    "mcnn, phrases": ("mcnn", {"level": "phs", "standardise": True}),
    "mcnn, long phrases": ("mcnn", {"level": "phl"}),
    "mcnn, sentence": ("mcnn", {"level": "st"}),
    "metric-fusion, sum": ("metric-fusion", {"gate": None}),
    "projection, class names": ("projection", {"class_names": 0.2}),
    "sco, context": ("sco", {"fusion": "context", "max_length": 6}),
    "sco, written sentence": ("sco", {"max_length": 6, "generation": {"role": "sentence", "shared": True}}),
    "sco, power normalisation": ("sco", {"standardise": "power"}),
    "similarity-network, lstm": ("similarity-network", {"lstm": 6}),
    "uncommon-vse, mean": ("uncommon-vse", {"steps": 0}),
}


@dataclass
class Encoder:
    """Stands for a sentence encoder of which only the width counts."""

    dim: int = VECTOR


def drawn_run(name: str, folder: Path, half: bool = False) -> Run:
    """A run of the variant of that name with random weights; in half precision, as runs are shipped."""
    kind, changes = VARIANTS[name]
    dims = (9, 1000, 6, 1000) if "class_names" in changes else DIMS
    torch.manual_seed(0)
    settings = settings_of(kind, **changes)
    matcher = settings.build(replace(INPUTS, image_dims=dims))
    assert isinstance(matcher, Matcher)
    for tensor in matcher.state_dict().values():
        if tensor.is_floating_point():
            tensor += 0.1 * torch.rand_like(tensor)  # also to what starts from zero
            tensor.copy_(tensor.half() if half else tensor)
    recipe = load_recipe("vse++").model_copy(update={"matcher": settings})
    vocabulary = Vocabulary(f"word{number}" for number in range(WORDS - 1))
    run = Run.from_matcher(folder, recipe, vocabulary, Encoder(), matcher, dims)  # type: ignore[arg-type]
    save(run, half)
    return run


def save(run: Run, half: bool = False) -> None:
    """Write the run's description and weights."""
    run.folder.mkdir(parents=True, exist_ok=True)
    run.config.save(run.folder)
    weights = run.matcher.state_dict().items()
    save_weights(run.folder, {key: value.half() if half else value for key, value in weights})
