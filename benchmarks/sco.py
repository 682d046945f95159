"""A training step of SCO compared with its floor and with PyTorch's LSTM; concepts of 50 regions.

The floor is the multiplications and additions of the step's matrix products, at the rate of a large fp32
product. `torch.nn.LSTM` computes the same from the same packed sentences. Time is processor time on one core.
All variants take turns, and the best turn of each counts.

    python -m benchmarks.sco [--data DIR]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.flop_counter import FlopCounterMode

from benchmarks._harness import arguments, report
from benchmarks.encoding import PRODUCT, best_of_turns, flops, jpegs, one_core
from seesay.data.images import decode
from seesay.encoders.images.base import resize
from seesay.encoders.images.concepts import REGIONS
from seesay.encoders.images.efficientnet import LiteEncoder, load_lite
from seesay.encoders.proposals import SIDE, diverse_regions
from seesay.encoders.settings import EncoderSettings
from seesay.matchers import layers, sco
from seesay.matchers.sco import SCO
from seesay.matchers.sentences import Sentences
from seesay.matchers.settings import MatcherInputs
from seesay.recipes.load import load_recipe

T = TypeVar("T")
NETWORK = "efficientnet-lite0"
WORDS, IMAGE_DIM, CONCEPTS, PAIRS, IMAGES = 7371, 1280, 256, 30_000, 2  # of Flickr8k, except for the images
MOST_OVER_FLOOR, LEAST_OVER_PYTORCH = 3.0, 1.1


class Step:
    """Forward pass, loss and backward pass of one mini-batch with sentences as long as Flickr8k's."""

    def __init__(self) -> None:
        recipe = load_recipe("flickr8k/sco-full")
        torch.manual_seed(1)
        self.loss, self.batch = recipe.loss.build(), recipe.batch_size
        matcher = recipe.matcher.build(MatcherInputs((IMAGE_DIM, CONCEPTS), WORDS))
        assert isinstance(matcher, SCO)
        self.matcher = matcher
        lengths = (torch.randn(self.batch) * 3.7 + 10.8).round().clamp(3, 34).long()
        words = torch.randint(1, WORDS, (int(lengths.sum()),))
        self.sentences = Sentences(words, lengths, torch.zeros(self.batch, 0))
        self.images = torch.rand(self.batch, IMAGE_DIM + CONCEPTS)

    def matching(self) -> Tensor:
        """Return L_mat."""
        value: Tensor = self.loss(self.matcher(self.images, self.sentences), torch.arange(self.batch))
        return value

    def generation(self) -> Tensor:
        """Return λ·L_gen."""
        return self.matcher.generation_loss(self.images, self.sentences, 0.0)

    def both(self) -> float:
        """Return L."""
        return (self.matching() + self.generation()).item()

    def trained(self, *losses: Callable[[], Tensor]) -> Callable[[], None]:
        """Return a function that takes the training step on these losses."""

        def work() -> None:
            self.matcher.zero_grad()
            sum((loss() for loss in losses), torch.zeros(())).backward()  # type: ignore[no-untyped-call]

        return work


def main() -> int:
    options = arguments(__doc__ or "", data="a folder of photographs").parse_args()
    with one_core():
        step, regions = measure_step(), measure_regions(options.data)
    report("sco-step", step, options)
    report("sco-regions", [regions], options)
    fine = (
        step[1]["times the floor"] <= MOST_OVER_FLOOR
        and min(each["PyTorch's LSTM, times ours"] for each in step) >= LEAST_OVER_PYTORCH
    )
    return 0 if fine else 1


def seeded(work: Callable[[], T]) -> T:
    """Call a function with the same dropout every time."""
    torch.manual_seed(1)
    return work()


def by_pytorch(work: Callable[[], T]) -> Callable[[], T]:
    """Return a function that does the same work with PyTorch's own layer."""

    def own(layer: nn.LSTM, packed: PackedSequence, start: Any = None) -> tuple[Tensor, Tensor]:
        states, (last, _) = layer(packed, start)
        return states.data, last[0]

    def patched() -> T:
        with patch.object(layers, "run_packed", own), patch.object(sco, "run_packed", own):
            return work()

    return patched


def measure_step() -> list[dict[str, Any]]:
    step = Step()
    kinds = {
        "matching": step.trained(step.matching),
        "matching and generation": step.trained(step.matching, step.generation),
        "generation": step.trained(step.generation),
    }
    theirs = {f"PyTorch's {kind}": by_pytorch(work) for kind, work in kinds.items()}
    if not np.isclose(seeded(step.both), seeded(by_pytorch(step.both)), rtol=1e-5):
        raise SystemExit("PyTorch's LSTM computes another loss")
    a, b = torch.rand(PRODUCT, PRODUCT), torch.rand(PRODUCT, PRODUCT)
    load = os.getloadavg()[0]
    times = best_of_turns(kinds | theirs | {"product": lambda: a @ b}, time.process_time)
    rate = 2 * PRODUCT**3 / times["product"]
    rows = []
    for kind, work in kinds.items():
        with FlopCounterMode(display=False) as counter:
            work()
        needed = int(counter.get_total_flops())
        rows.append(
            {
                "step": kind,
                "load before": load,
                "ms": 1e3 * times[kind],
                "an epoch of Flickr8k, s": ceil(PAIRS / step.batch) * times[kind],
                "GFLOP": needed / 1e9,
                "floor ms": 1e3 * needed / rate,
                "times the floor": times[kind] * rate / needed,
                "PyTorch's LSTM, times ours": times[f"PyTorch's {kind}"] / times[kind],
            }
        )
    return rows


def measure_regions(data: Path) -> dict[str, Any]:
    images = [decode(jpeg, "image") for jpeg in jpegs(data, IMAGES)]
    encoder = LiteEncoder.load(EncoderSettings(NETWORK), "cpu", side=SIDE)
    squares = np.stack(
        [resize(pixels, encoder.size, encoder.size) for pixels in images for _ in range(REGIONS)]
    )
    a, b = torch.rand(PRODUCT, PRODUCT), torch.rand(PRODUCT, PRODUCT)
    load = os.getloadavg()[0]
    times = best_of_turns(
        {
            "regions": lambda: [diverse_regions(pixels, REGIONS) for pixels in images],
            "network": lambda: [
                encoder.encode(list(squares[i : i + 32, None])) for i in range(0, len(squares), 32)
            ],
            "product": lambda: a @ b,
        },
        time.process_time,
    )
    work = REGIONS * flops(load_lite(NETWORK), torch.from_numpy(squares[:1]))
    ms = {name: 1e3 * best / len(images) for name, best in times.items()}
    floor = 1e3 * work * times["product"] / (2 * PRODUCT**3)
    return {
        "regions": REGIONS,
        "load before": load,
        "finding them ms": ms["regions"],
        "the network ms": ms["network"],
        "an image ms": ms["regions"] + ms["network"],
        "GFLOP": work / 1e9,
        "floor ms": floor,
        "times the floor": (ms["regions"] + ms["network"]) / floor,
    }


if __name__ == "__main__":
    sys.exit(main())
