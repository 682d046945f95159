"""Instances of one image on one core, compared with a single pass over the image, and with the FLOPs.

36 squares of 160 pixels are compared with one pass over the whole image whose maps are pooled in the boxes.
The floor is the multiplications and additions of the squares at the rate of a large fp32 matrix product.
Time is processor time, which other work on the machine hardly affects. All variants take turns, and the
best turn of each counts.

    python -m benchmarks.instances [--data DIR]
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
from seesay.encoders.images.base import load_image_encoder
from seesay.encoders.images.efficientnet import load_lite
from seesay.encoders.images.instances import COUNT
from seesay.encoders.proposals import SIDE, diverse_regions
from seesay.encoders.regions import load_region_encoder

IMAGES = 4
MOST_OVER_FLOOR = 2.0


def main() -> int:
    options = arguments(__doc__ or "", data="a folder of photographs").parse_args()
    images = [decode(data, "image") for data in jpegs(options.data, IMAGES)]
    with one_core():
        row = measure(images)
    report("instances", [row], options)
    return 0 if row["squares, times the floor"] <= MOST_OVER_FLOOR else 1


def measure(images: list[NDArray[np.uint8]]) -> dict[str, Any]:
    load = os.getloadavg()[0]
    encoder = load_image_encoder("instances")
    pooled = load_region_encoder("efficientnet-lite0:roi")
    prepared = [encoder.prepare(pixels) for pixels in images]
    pairs = [(pixels, diverse_regions(pixels, COUNT)) for pixels in images]
    a, b = torch.rand(PRODUCT, PRODUCT), torch.rand(PRODUCT, PRODUCT)
    times = best_of_turns(
        {
            "prepare": lambda: [encoder.prepare(pixels) for pixels in images],
            "squares": lambda: encoder.encode_prepared(prepared),
            "pass": lambda: [pooled.encode(*pair) for pair in pairs],
            "product": lambda: a @ b,
        },
        time.process_time,
    )
    ms = {name: 1e3 * best / len(images) for name, best in times.items()}
    squares = sum(len(each) for each, *_ in prepared) / len(images)
    work = squares * flops(load_lite("efficientnet-lite0"), torch.zeros(1, SIDE, SIDE, 3, dtype=torch.uint8))
    rate = 2 * PRODUCT**3 / times["product"]
    floor = 1e3 * work / rate
    return {
        "instances": squares,
        "load before": load,
        "proposals and squares ms": ms["prepare"],
        "squares ms": ms["squares"],
        "image ms": ms["prepare"] + ms["squares"],
        "one pass, pooled ms": ms["pass"],
        "kB stored": 2 * sum(encoder.dims.values()) / 1e3,
        "GFLOP an image": work / 1e9,
        "product GFLOP/s": rate / 1e9,
        "floor ms": floor,
        "squares, times the floor": ms["squares"] / floor,
    }


if __name__ == "__main__":
    sys.exit(main())
