"""Encoding from JPEG, compared with the same network in eager PyTorch and with the floor of its FLOPs.

All variants take turns on the same cores in one run, and the best turn of each counts. With all cores the
time is wall time. With one core it is processor time, which other work on the machine hardly affects. The
eager network gets decoded batches, so that its rate excludes work that seesay's includes, and is compared
at its best batch size. The floor is the network's multiplications and additions at the rate of a large fp32
matrix product, without decoding. Peak memory is measured in new processes that fill a feature store with
more and more images.

    python -m benchmarks.encoding [--data DIR]
"""

from __future__ import annotations

import io
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor, nn

from benchmarks._harness import arguments, peak_mib, report
from seesay.data.corpus import CorpusImage
from seesay.data.images import MemorySource, decode
from seesay.data.walk import walk_files
from seesay.encoders.images.base import ImageEncoder, load_image_encoder
from seesay.encoders.images.efficientnet import load_lite
from seesay.encoders.images.encode import encode_images, fill_stores
from seesay.encoders.networks import PixelsToFeatures
from tools.scenes import write_scenes

NETWORK = "efficientnet-lite0"
IMAGES = 32
TURNS = 10
EAGER_BATCHES = (8, 32)
PRODUCT = 2048  # rows and columns of the matrices whose product gives the machine's rate
PHOTO = (500, 375)  # pixels of a photograph of Flickr's usual size
FILLS = (500, 2000, 8000)  # images in the runs whose peak memory is compared

LEAST_RATIO, LEAST_COSINE, MOST_OVER_FLOOR, MOST_GROWTH_MIB = 4.0, 0.999, 1.5, 32.0


def jpegs(data: Path, count: int) -> list[bytes]:
    """Return photographs if there are any, else drawn scenes."""
    files = walk_files(data.resolve()) if data.is_dir() else ()
    if photos := list(islice((file for file in files if file.suffix == ".jpg"), count)):
        return [file.read_bytes() for file in photos]
    with tempfile.TemporaryDirectory() as folder:
        write_scenes(Path(folder), images=count, seed=0, captions=1)
        return [path.read_bytes() for path in sorted(Path(folder, "images").iterdir())]


def enlarged(jpeg: bytes) -> bytes:
    out = io.BytesIO()
    Image.open(io.BytesIO(jpeg)).resize(PHOTO, Image.Resampling.BICUBIC).save(out, "JPEG", quality=90)
    return out.getvalue()


def flops(module: nn.Module, pixels: Tensor) -> int:
    """Count the multiplications and additions of the convolutions and linear layers for one image."""
    total = 0

    def count(layer: nn.Module, _: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        assert isinstance(layer, nn.Conv2d | nn.Linear)
        total += 2 * output[0].numel() * layer.weight[0].numel()

    counted = [layer for layer in module.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    hooks = [layer.register_forward_hook(count) for layer in counted]
    with torch.inference_mode():
        module(pixels)
    for hook in hooks:
        hook.remove()
    return total


def use_cores(cores: set[int]) -> None:
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(len(cores))


@contextmanager
def one_core() -> Iterator[None]:
    """Restrict all work to one core; all cores are available again afterwards."""
    every = os.sched_getaffinity(0)
    with threadpool_limits(1):
        use_cores({min(every)})
        yield
    use_cores(every)


def best_of_turns(work: dict[str, Callable[[], object]], clock: Callable[[], float]) -> dict[str, float]:
    """Return the best time, in seconds, of several functions that take turns."""
    best = dict.fromkeys(work, float("inf"))
    for turn in range(TURNS + 1):
        for name, call in work.items():
            start = clock()
            call()
            if turn:  # the first turn warms up
                best[name] = min(best[name], clock() - start)
    return best


def eager(module: PixelsToFeatures, pixels: NDArray[np.uint8], batch: int) -> NDArray[np.float32]:
    with torch.inference_mode():
        parts = [module(part)[0] for part in torch.split(torch.from_numpy(pixels), batch)]
        features: NDArray[np.float32] = torch.cat(parts).numpy()
        return features


def compare(name: str, cores: int, encoder: ImageEncoder, images: list[bytes]) -> dict[str, Any]:
    load = os.getloadavg()[0]  # if it is far above the cores, only one core's rows count
    module = load_lite(NETWORK)
    names = [f"{n}.jpg" for n in range(len(images))]
    pixels = np.concatenate([encoder.prepare(decode(data, n)) for data, n in zip(images, names, strict=True)])
    a, b = torch.rand(PRODUCT, PRODUCT), torch.rand(PRODUCT, PRODUCT)
    times = best_of_turns(
        {
            "seesay": lambda: encode_images([encoder], images, names),
            "product": lambda: a @ b,
            **{f"eager {n}": partial(eager, module, pixels, n) for n in EAGER_BATCHES},
        },
        time.process_time if cores == 1 else time.perf_counter,
    )
    rate = 2 * PRODUCT**3 / times["product"]
    work = flops(module, torch.from_numpy(pixels[:1]))
    ours = len(images) / times["seesay"]
    eagers = {f"eager images/s, {n} a batch": len(images) / times[f"eager {n}"] for n in EAGER_BATCHES}
    found = encode_images([encoder], images, names)[0]["pooled"]
    expected = eager(module, pixels, 32)
    cosine = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
    return {
        "images": name,
        "cores": cores,
        "load before": load,
        "seesay images/s": ours,
        **eagers,
        "ratio": ours / max(eagers.values()),
        "least cosine": float(cosine.min()),
        "GFLOP an image": work / 1e9,
        "product GFLOP/s": rate / 1e9,
        "floor images/s": rate / work,
        "times the floor": rate / work / ours,
    }


@dataclass(frozen=True)
class Distinct(MemorySource):
    """The bytes of a JPEG followed by a number: different content, same pixels."""

    number: int

    def read(self) -> bytes:
        """Return the JPEG and the number; decoders ignore data after the end of the picture."""
        return self.data + self.number.to_bytes(4)


def fill(data: Path, count: int) -> float:
    """Return the peak memory in MiB of filling a store with that many images, in this process."""
    some = jpegs(data, 64)
    images = [CorpusImage(f"{n}.jpg", "train", Distinct(some[n % len(some)], n)) for n in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        encoded = fill_stores([load_image_encoder(NETWORK)], Path(folder), images).encoded
    assert encoded == count
    return peak_mib()


def memory(data: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for count in FILLS:
        new = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=new) as process:
            peak = process.submit(fill, data, count).result()
        rows.append(
            {"images": count, "peak MiB": peak, "growth MiB": peak - (rows[0]["peak MiB"] if rows else peak)}
        )
    return rows


def main() -> int:
    options = arguments(__doc__ or "", data="a folder of photographs").parse_args()
    # Memory first: a new process starts with the peak of its parent.
    peaks = memory(options.data)
    encoder = load_image_encoder(NETWORK)
    small = jpegs(options.data, IMAGES)
    large = [enlarged(jpeg) for jpeg in small]
    every = os.sched_getaffinity(0)
    rows: list[dict[str, Any]] = []
    # All cores first: PyTorch's threads keep the cores they were started on.
    for cores in (every, {min(every)}):
        use_cores(cores)
        rows.append(compare(f"{PHOTO[0]}×{PHOTO[1]}", len(cores), encoder, large))
        rows.append(compare("as they are", len(cores), encoder, small))
    use_cores(every)  # the rows are stamped with the machine's cores
    report("encoding", rows, options)
    report("encoding-memory", peaks, options)
    fine = all(
        row["ratio"] >= LEAST_RATIO
        and row["least cosine"] >= LEAST_COSINE
        and row["times the floor"] <= MOST_OVER_FLOOR
        for row in rows
    )
    return 0 if fine and all(row["growth MiB"] <= MOST_GROWTH_MIB for row in peaks) else 1


if __name__ == "__main__":
    sys.exit(main())
