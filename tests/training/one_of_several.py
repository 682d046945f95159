"""Trains as one of several processes: `python -m tests.training.one_of_several CORPUS OUT STOPPED`.

CORPUS is a folder, OUT the folder of the runs, STOPPED the recipe whose training is interrupted and resumed.
The environment variables are those of torchrun.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

from seesay.data.readers import read_corpus
from seesay.matchers import OrderEmbeddings, Sentences
from seesay.recipes.load import load_recipe
from seesay.recipes.schema import Recipe
from seesay.samplers import SAMPLERS
from seesay.training import summarize
from seesay.training import train as module
from seesay.training.distributed import shared
from tests.training.steps import counted_steps

_SHARED = {"about": "small", "encoders": ["efficientnet-lite0"], "batch_size": 25}
# No dropout, which each process draws for itself; all negatives, since rounding may decide which is hardest.
RECIPES: dict[str, dict[str, Any]] = {
    "triplets": {
        "sentence_encoder": "mean",
        "sampler": "neighbourhood",
        "matcher": {
            "kind": "embedding-network",
            "dim": 16,
            "image_hidden": 32,
            "sentence_hidden": 32,
            "dropout": 0,
        },
        "loss": {
            "kind": "triplet",
            "margin": 0.05,
            "top_k": 1000,
            "lambda1": 1,
            "lambda2": 1.5,
            "lambda3": 0.1,
            "lambda4": 0.2,
        },
        "optimizer": {
            "kind": "sgd",
            "lr": 0.03,
        },  # Adam scales up what rounding leaves of the biases before a batch norm
    },
    "encoded": {
        "matcher": {"kind": "order-embeddings", "dim": 16, "word_dim": 8, "standardise": True},
        "loss": {"kind": "margin", "margin": 0.05},
        "optimizer": {"lr": 0.001},
    },
    "pairs": {
        "matcher": {"kind": "mcnn", "level": "st", "dropout": 0},
        "loss": {"kind": "pair-margin", "negatives": "hardest", "count": 24},
        "optimizer": {"kind": "sgd", "lr": 0.0001},  # with more, rounding decides which ReLUs open
    },
    "ensemble": {
        "sentence_encoder": "mean",
        "matcher": {
            "kind": "projection",
            "dim": 16,
            "hidden": 32,
            "word_dim": 8,
            "members": 2,
            "image_dropout": 0,
            "sentence_dropout": 0,
            "hidden_dropout": 0,
        },
        "loss": {"kind": "contrastive"},
        "optimizer": {"lr": 0.001},
    },
}


def _load(name: str, corpus: str, folder: Path) -> Recipe:
    """The recipe of a name: 2 epochs of 10 steps on the drawn scenes."""
    values = _SHARED | {"name": name, "schedule": {"epochs": 2, "patience": None}} | RECIPES[name]
    path = folder / f"{name}-{os.getpid()}.yaml"
    path.write_text(json.dumps(values))  # which is YAML too
    return load_recipe(str(path), corpus)


def train_all(corpus: Path, out: Path, stopped: str | None = None) -> None:
    """Train each recipe; that of the name `stopped` in two parts."""
    opened = read_corpus(corpus)
    summarize.try_export = lambda run: None
    for name in RECIPES:
        recipe = _load(name, opened.name, out)
        if name == stopped:
            with suppress(KeyboardInterrupt), counted_steps(last=14):
                module.train(recipe, opened, out / name)
        module.train(recipe, opened, out / name, resume=name == stopped)


def compare_pairs() -> None:
    """Check that scores of pairs that the processes share, and their gradients, are those of one process."""
    torch.manual_seed(1)
    matcher = OrderEmbeddings(image_dim=6, vocabulary_size=10, dim=16, word_dim=4)
    images, words = torch.rand(7, 6), torch.randint(0, 10, (7, 3))
    sentences = Sentences.from_padded(words, torch.tensor([1, 2, 3, 3, 2, 1, 3]))

    def losses(whole: Any, batch: None) -> list[Tensor]:
        encoded = whole.encode_images(images), whole.encode_sentences(sentences)
        return [whole.score_pairs(*encoded).square().sum()]

    def gradients(losses_of: Callable[[None], list[Tensor]]) -> list[Tensor]:
        losses_of(None)[0].backward()
        found = [each.grad.clone() for each in matcher.parameters() if each.grad is not None]
        matcher.zero_grad()
        return found

    alone = gradients(partial(losses, matcher))
    with shared(matcher, losses) as losses_of:
        together = gradients(losses_of)
    assert len(alone) == len(together) > 0
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(alone, together, strict=True))


class Counting(OrderEmbeddings):
    """Remembers which rows this process has encoded: the first value of a row is its number."""

    def __init__(self) -> None:
        super().__init__(image_dim=1, vocabulary_size=2, dim=4, word_dim=4)
        self.rows: list[int] = []

    def encode_images(self, images: Tensor) -> Tensor:
        self.rows += images[:, 0].int().tolist()
        return super().encode_images(images)


def compare_shares() -> None:
    """Check that every pair of an epoch is encoded by one process, once, and by each about as many."""
    owners = np.arange(53)
    numbers = torch.arange(53.0)[:, None]
    for name in ("rounds", "random"):
        matcher = Counting()
        with shared(matcher, lambda whole, batch: [whole.encode_images(numbers[batch])]) as losses_of:
            for images, _ in SAMPLERS[name](owners, 8, 1, 1):
                losses_of(images)
        of_all: list[list[int]] = [[] for _ in range(distributed.get_world_size())]
        distributed.all_gather_object(of_all, matcher.rows)
        assert sorted(row for rows in of_all for row in rows) == owners.tolist()
        assert max(map(len, of_all)) - min(map(len, of_all)) <= 7  # one for each batch


if __name__ == "__main__":
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    compare_pairs()
    compare_shares()
    train_all(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    distributed.destroy_process_group()
