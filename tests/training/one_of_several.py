"""Trains as one of several processes: `python -m tests.training.one_of_several CORPUS OUT STOPPED`.

CORPUS is a folder, OUT the folder of the runs, STOPPED the recipe whose training is interrupted and resumed.
The environment variables are those of torchrun.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import torch
from torch import distributed

from seesay.data.readers import read_corpus
from seesay.recipes.load import load_recipe
from seesay.training import train as module
from tests.training.steps import counted_steps

SMALL = ["encoders=[efficientnet-lite0]", "batch_size=25", "schedule.epochs=2", "schedule.patience=null"]
# No dropout: each process draws its own.
RECIPES = {
    "two-branch": [
        "sentence_encoder=mean",
        "sampler=neighbourhood",
        "matcher.dim=16",
        "matcher.image_hidden=32",
        "matcher.sentence_hidden=32",
        "matcher.dropout=0",
        "loss.weights=[1, 1.5, 0.1, 0.2]",
        "optimizer={kind: sgd, lr: 0.05}",  # Adam scales up what rounding leaves of biases before the norm
    ],
    "order-embeddings": [
        "matcher.dim=16",
        "matcher.word_dim=8",
        "matcher.image_dropout=0",
        "matcher.sentence_dropout=0",
    ],
    "mcnn-st": ["loss.negatives=hardest", "matcher.dropout=0", "optimizer.lr=0.03"],
    "seesay-small": [
        "sentence_encoder=mean",
        "class_pairs=0",
        "matcher.class_names=0",
        "matcher.dim=16",
        "matcher.hidden=32",
        "matcher.word_dim=8",
        "matcher.members=2",
        "matcher.image_dropout=0",
        "matcher.sentence_dropout=0",
        "matcher.hidden_dropout=0",
    ],
}


def train_all(corpus: Path, out: Path, stopped: str | None = None) -> None:
    """Train each recipe; that of the name `stopped` in two parts."""
    opened = read_corpus(corpus)
    module.try_export = lambda run: None
    for name, changes in RECIPES.items():
        recipe = load_recipe(name, changes=[*SMALL, *changes])
        if name == stopped:
            with suppress(KeyboardInterrupt), counted_steps(last=14):
                module.train(recipe, opened, out / name)
        module.train(recipe, opened, out / name, resume=name == stopped)


if __name__ == "__main__":
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    train_all(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    distributed.destroy_process_group()
