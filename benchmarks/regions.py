"""Proposals and region features of one image on one core, compared with a pass of the network and its FLOPs.

One pass over the whole image with pooling inside 200 boxes is compared with the pass alone, with encoding
each box as a separate crop, and with the floor: the network's multiplications and additions at the rate of
a large fp32 matrix product. Time is processor time, which other work on the machine hardly affects. All
variants take turns, and the best turn of each counts.

    python -m benchmarks.regions [--data DIR]
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._harness import arguments, report
from benchmarks.encoding import PRODUCT, best_of_turns, flops, jpegs, one_core
from seesay.data.images import decode
from seesay.encoders.images.base import load_image_encoder, resize, squares_of
from seesay.encoders.images.efficientnet import MAP_CHANNELS, lite_network, load_lite
from seesay.encoders.networks import PixelsToMaps
from seesay.encoders.proposals import propose
from seesay.encoders.regions import NETWORK, SIDE, load_region_encoder

IMAGES = 16
CROPPED = 1  # images whose boxes are encoded one by one
COUNT, AT_ONCE = 200, 32

MOST_PROPOSAL_MS, MOST_OVER_PASS, LEAST_OVER_CROPS = 100.0, 1.3, 10.0


def main() -> int:
    options = arguments(__doc__ or "", data="a folder of photographs").parse_args()
    images = [decode(data, "image") for data in jpegs(options.data, IMAGES)]
    with one_core():
        row = measure(images)
    report("regions", [row], options)
    fine = (
        row["proposals ms"] <= MOST_PROPOSAL_MS
        and row["times the pass"] <= MOST_OVER_PASS
        and row["crops ms"] >= LEAST_OVER_CROPS * row["regions ms"]
    )
    return 0 if fine else 1


def parts_of(pixels: NDArray[np.uint8], boxes: NDArray[np.float32]) -> list[NDArray[np.uint8]]:
    """Cut out boxes, and return them a few at a time, as crops for the network."""
    squares = squares_of(pixels, boxes, 224)
    return [np.stack(squares[i : i + AT_ONCE])[:, None] for i in range(0, len(squares), AT_ONCE)]


def measure(images: list[NDArray[np.uint8]]) -> dict[str, Any]:
    load = os.getloadavg()[0]
    pooled = load_region_encoder("roi-pooling")
    one = load_image_encoder("efficientnet-lite0")
    boxes = [propose(pixels, COUNT) for pixels in images]
    network, _ = lite_network(NETWORK, MAP_CHANNELS, SIDE, "cpu")
    squares = [resize(pixels, SIDE, SIDE)[None] for pixels in images]
    pairs = list(zip(images, boxes, strict=True))
    a, b = torch.rand(PRODUCT, PRODUCT), torch.rand(PRODUCT, PRODUCT)
    times = best_of_turns(
        {
            "proposals": lambda: [propose(pixels, COUNT) for pixels in images],
            "regions": lambda: [pooled.encode(*pair) for pair in pairs],
            "pass": lambda: [network(square) for square in squares],
            "crops": lambda: [one.encode(list(part)) for pair in pairs[:CROPPED] for part in parts_of(*pair)],
            "product": lambda: a @ b,
        },
        time.process_time,
    )
    ms = {name: 1e3 * best / len(images) for name, best in times.items()}
    work = flops(PixelsToMaps(load_lite(NETWORK).network).eval(), torch.from_numpy(squares[0]))
    rate = 2 * PRODUCT**3 / times["product"]
    floor = 1e3 * work / rate
    return {
        "boxes": sum(map(len, boxes)) / len(images),
        "load before": load,
        "proposals ms": ms["proposals"],
        "regions ms": ms["regions"],
        "the pass alone ms": ms["pass"],
        "times the pass": ms["regions"] / ms["pass"],
        "crops ms": 1e3 * times["crops"] / CROPPED,
        "GFLOP an image": work / 1e9,
        "product GFLOP/s": rate / 1e9,
        "floor ms": floor,
        "regions, times the floor": ms["regions"] / floor,
        "with proposals, times the floor": (ms["regions"] + ms["proposals"]) / floor,
    }


if __name__ == "__main__":
    sys.exit(main())
