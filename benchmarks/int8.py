"""Encoders in 8 bits: their rate compared with fp32, and the recall of the shipped weights with them.

The three networks of seesay-small are quantised (QDQ, per channel, calibrated on 128 train images) and
encode the val split; the matcher stays the same. Needs a captioned corpus:

    python -m benchmarks.int8 --data flickr8k
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quant_pre_process,
    quantize_static,
)

from benchmarks._harness import arguments, report
from seesay.data.corpus import Corpus
from seesay.data.images import decode
from seesay.data.readers import read_corpus
from seesay.encoders.images.base import resize
from seesay.encoders.images.efficientnet import LITE
from seesay.metrics.ranks import embedding_ranks
from seesay.metrics.recall import metrics_of
from seesay.onnx import onnx_session
from seesay.paths import cache_dir
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.run import Run, join_features

CALIBRATION_IMAGES = 128
CHUNK = 8

Pixels = NDArray[np.uint8]


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, images: Pixels) -> None:
        self.left = iter(images)

    def get_next(self) -> dict[str, Pixels] | None:
        """Return the next calibration image."""
        image = next(self.left, None)
        return None if image is None else {"pixels": image[None]}


def squashes(corpus: Corpus, split: str, side: int, most: int | None = None) -> Pixels:
    sources = [image.source for image in corpus.split(split).images[:most]]
    return np.stack([resize(decode(s.read(), "image"), side, side) for s in sources if s is not None])


def exported_file(name: str) -> Path:
    return cache_dir() / "onnx" / f"{name}-{LITE[name].sha256[:16]}.onnx"


def quantised(name: str, images: Pixels, folder: Path) -> Path:
    prepared, path = folder / f"{name}-prepared.onnx", folder / f"{name}-int8.onnx"
    quant_pre_process(str(exported_file(name)), str(prepared), skip_symbolic_shape=True)
    quantize_static(
        str(prepared),
        str(path),
        _Reader(images),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return path


def encode(path: Path, images: Pixels) -> tuple[dict[str, NDArray[np.float32]], float]:
    """Return features of resized images on one core, and the milliseconds for one image."""
    session = onnx_session(path, threads=1)
    start = time.process_time()
    parts = [session.run(None, {"pixels": images[i : i + CHUNK]}) for i in range(0, len(images), CHUNK)]
    each = (time.process_time() - start) / len(images) * 1e3
    return {
        "pooled": np.concatenate([p for p, _ in parts]),
        "logits": np.concatenate([q for _, q in parts]),
    }, each


def recall(run: Run, features: NDArray[np.float32], inputs: Inputs) -> float:
    sentences = run.embed_prepared(inputs.sentences)
    found = embedding_ranks(run.embed_features(features), sentences, inputs.image_of_sentence)
    return metrics_of(found).mean_recall


def main() -> int:
    options = arguments(__doc__ or "", data="a captioned corpus").parse_args()
    if not options.data.exists():
        print(f"{options.data}: no corpus there, nothing measured; name one with --data.", file=sys.stderr)
        return 0
    corpus, run = read_corpus(options.data), Run.load("seesay-small")
    inputs = split_inputs(run.recipe, corpus, "val", run.vocabulary)
    arrays: dict[str, list[dict[str, NDArray[np.float32]]]] = {"fp32": [], "int8": []}
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        for name in run.recipe.encoders:
            calibration = squashes(corpus, "train", LITE[name].size, CALIBRATION_IMAGES)
            small = quantised(name, calibration, Path(folder))
            images = squashes(corpus, "val", LITE[name].size)
            (full, full_ms), (eight, eight_ms) = encode(exported_file(name), images), encode(small, images)
            arrays["fp32"].append(full)
            arrays["int8"].append(eight)
            a, b = full["pooled"], eight["pooled"]
            cosines = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
            row = {
                "encoder": name,
                "fp32 ms": full_ms,
                "int8 ms": eight_ms,
                "times faster": full_ms / eight_ms,
            }
            rows.append(row | {"least cosine": float(cosines.min()), "mean cosine": float(cosines.mean())})
    for row in rows:
        row["val mR fp32"] = recall(run, join_features(run.recipe, arrays["fp32"]), inputs)
        row["val mR int8"] = recall(run, join_features(run.recipe, arrays["int8"]), inputs)
    report("int8", rows, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
