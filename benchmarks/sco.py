"""A training step of SCO compared with its floor, its decoder with a padded one; concepts of 50 regions.

The floor is the multiplications and additions of the step's matrix products, without padding, at the rate
of a large fp32 product. The padded decoder is the same network over sentences padded to the longest of the
batch, with a mask. Time is processor time on one core. All variants take turns, and the best turn of each
counts.

    python -m benchmarks.sco [--data shared/flickr8k]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.utils.flop_counter import FlopCounterMode

from benchmarks._harness import arguments, report
from benchmarks.encoding import PRODUCT, best_of_turns, flops, jpegs, one_core
from seesay.data.images import decode
from seesay.encoders.images.base import resize
from seesay.encoders.images.concepts import REGIONS
from seesay.encoders.images.efficientnet import LiteEncoder
from seesay.encoders.networks.lite import load_lite
from seesay.encoders.regions.proposals import SIDE, diverse_regions
from seesay.matchers.sco import SCO
from seesay.matchers.sentences import Sentences
from seesay.matchers.settings import MatcherInputs
from seesay.recipes.load import load_recipe

NETWORK = "efficientnet-lite0"
WORDS, IMAGE_DIM, CONCEPTS, BATCHES, IMAGES = 2900, 1280, 256, 233, 2
MOST_OVER_FLOOR, LEAST_OVER_PADDED = 3.0, 1.2


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

    def packed(self) -> Tensor:
        """Return L_gen, as in training."""
        value = self.matcher.auxiliary_loss(self.images, self.sentences, 0.0)
        assert value is not None
        return value

    def padded(self) -> Tensor:
        """Return the decoder's loss with every sentence padded to the longest."""
        decoder, embedding = self.matcher.decoder, self.matcher.written_words
        assert decoder is not None
        assert embedding is not None
        each = torch.split(self.sentences.words, self.sentences.lengths.tolist())
        mark = torch.tensor([decoder.mark])
        read = pad_sequence([torch.cat([mark, words]) for words in each])
        targets = pad_sequence([torch.cat([words, mark]) for words in each], padding_value=-100)
        start = self.matcher.image_map(self.images)[None]
        states = decoder.lstm(embedding(read), (start, torch.zeros_like(start)))[0]
        logits = decoder.logits(states.flatten(0, 1), embedding.weight)
        return functional.cross_entropy(logits, targets.flatten(), reduction="sum") / self.batch

    def trained(self, *losses: Callable[[], Tensor]) -> Callable[[], None]:
        """Take the training step on these losses."""

        def work() -> None:
            self.matcher.zero_grad()
            sum((loss() for loss in losses), torch.zeros(())).backward()  # type: ignore[no-untyped-call]

        return work


def main() -> int:
    options = arguments(__doc__ or "", data="a folder with images.tar").parse_args()
    with one_core():
        step, regions = measure_step(), measure_regions(options.data)
    report("sco-step", step, options)
    report("sco-regions", [regions], options)
    fine = (
        step[1]["times the floor"] <= MOST_OVER_FLOOR and step[2]["padded, times ours"] >= LEAST_OVER_PADDED
    )
    return 0 if fine else 1


def measure_step() -> list[dict[str, Any]]:
    step = Step()
    packed, padded = step.packed().item(), step.padded().item()
    if abs(packed - padded) > 1e-3 * packed:
        raise SystemExit("the padded decoder computes another loss")
    kinds = {
        "matching": step.trained(step.matching),
        "matching and generation": step.trained(step.matching, step.packed),
        "generation": step.trained(step.packed),
    }
    a, b = torch.rand(PRODUCT, PRODUCT), torch.rand(PRODUCT, PRODUCT)
    load = os.getloadavg()[0]
    times = best_of_turns(
        kinds | {"padded": step.trained(step.padded), "product": lambda: a @ b}, time.process_time
    )
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
                "an epoch of Flickr8k, s": BATCHES * times[kind],
                "GFLOP": needed / 1e9,
                "floor ms": 1e3 * needed / rate,
                "times the floor": times[kind] * rate / needed,
                "padded, times ours": times["padded"] / times[kind] if kind == "generation" else "",
            }
        )
    return rows


def measure_regions(data: Path) -> dict[str, Any]:
    images = [decode(jpeg, "image") for jpeg in jpegs(data, IMAGES)]
    encoder = LiteEncoder.load(NETWORK, "cpu", SIDE)
    squares = np.stack(
        [resize(pixels, encoder.size, encoder.size) for pixels in images for _ in range(REGIONS)]
    )
    a, b = torch.rand(PRODUCT, PRODUCT), torch.rand(PRODUCT, PRODUCT)
    load = os.getloadavg()[0]
    times = best_of_turns(
        {
            "regions": lambda: [diverse_regions(pixels, REGIONS) for pixels in images],
            "network": lambda: [
                encoder.encode(squares[i : i + 32, None]) for i in range(0, len(squares), 32)
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
