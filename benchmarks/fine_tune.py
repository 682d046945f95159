"""A training step of CNN and matcher together, in parts that fit into memory, compared with the whole batch.

Parts are encoded twice, once for the scores and once for the gradient; the whole batch keeps all its
activations instead. Each variant runs in a process of its own, and its memory is the growth of that process
after its imports. The floor is the multiplications and additions of the network's layers, once for the
forward pass and twice for the gradient, at the rate of a large fp32 matrix product. Time is processor time on
one core.

    python -m benchmarks.fine_tune
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from benchmarks._harness import arguments, peak_mib, report
from benchmarks.encoding import PRODUCT, flops
from seesay.encoders.images.efficientnet import DIMS, LITE, load_lite
from seesay.encoders.networks import PixelsToFeatures
from seesay.losses.margin import SoftMarginLoss
from seesay.matchers.sentences import Sentences
from seesay.matchers.settings import MatcherInputs
from seesay.recipes.load import load_recipe
from seesay.training.tuning import FromPixels

NETWORK, WORDS, BATCH = "efficientnet-lite0", 2900, 128
PARTS = (8, 32, 128)  # images at a time
WHOLE = 0  # the whole batch, encoded once
MOST_OVER_WHOLE, MOST_DIFFERENCE = 1.6, 1e-3  # in time, of the largest gradient


class EncodedOnce(FromPixels):
    """The whole batch, with all its activations in memory."""

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return the features as the base class does, without recomputation."""
        return self._part(*inputs)


def step(at_once: int) -> tuple[dict[str, float], np.ndarray[Any, np.dtype[np.float32]]]:
    """Return the cost of one step in this process, and the gradient of the network's first layer."""
    with threadpool_limits(1):
        torch.set_num_threads(1)
        module = _module(at_once)
        before, size = peak_mib(), LITE[NETWORK].size
        draw = torch.Generator().manual_seed(1)
        pixels = torch.randint(0, 256, (BATCH, size, size, 3), dtype=torch.uint8, generator=draw)
        lengths = torch.randint(6, 16, (BATCH,), generator=draw)
        words = torch.randint(1, WORDS, (int(lengths.sum()),), generator=draw)
        sentences = Sentences(words, lengths, torch.zeros(BATCH, 0))
        started = time.process_time()
        scores = module.matcher(module([pixels]), sentences)
        SoftMarginLoss(0.2, 1)(scores, torch.arange(BATCH)).backward()
        spent = time.process_time() - started
        grown = peak_mib() - before
        floor = 3 * BATCH * flops(load_lite(NETWORK), pixels[:1]) / _rate()
    gradient = next(each.grad for each in module.networks.parameters() if each.grad is not None)
    return {"s": spent, "floor s": floor, "MiB": grown}, gradient.numpy()


def _module(at_once: int) -> FromPixels:
    settings = load_recipe("flickr8k/gvse-common-finetuned").matcher
    torch.manual_seed(1)
    network: PixelsToFeatures = load_lite(NETWORK)
    kind = FromPixels if at_once else EncodedOnce
    matcher = settings.build(MatcherInputs((DIMS["pooled"],), WORDS))
    return kind([network], matcher, ("pooled",), at_once or BATCH).train()


def _rate() -> float:
    a, b = torch.rand(PRODUCT, PRODUCT), torch.rand(PRODUCT, PRODUCT)
    times = []
    for _ in range(4):
        started = time.process_time()
        a @ b
        times.append(time.process_time() - started)
    return 2 * PRODUCT**3 / min(times)


def main() -> int:
    options = arguments(__doc__ or "").parse_args()
    found = {}
    for at_once in (WHOLE, *PARTS):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            found[at_once] = process.submit(step, at_once).result()
    whole, gradient = found[WHOLE]
    rows: list[dict[str, Any]] = []
    for at_once, (cost, theirs) in found.items():
        rows.append(
            {
                "images at a time": f"{at_once}, encoded twice" if at_once else f"{BATCH}, all kept",
                "s a step": cost["s"],
                "times the whole": cost["s"] / whole["s"],
                "floor s": cost["floor s"],
                "times the floor": cost["s"] / cost["floor s"],
                "grown MiB": cost["MiB"],
                "gradients differ by": float(np.abs(theirs - gradient).max() / np.abs(gradient).max()),
            }
        )
    report("fine-tune", rows, options)
    fast = all(row["times the whole"] <= MOST_OVER_WHOLE for row in rows)
    return 0 if fast and all(row["gradients differ by"] <= MOST_DIFFERENCE for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
