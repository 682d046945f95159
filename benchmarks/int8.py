"""The shipped encoders, in 8 bits, compared with the same networks in 32.

Speed on one core, of each network alone and of all image encoders from a JPEG; similarity of the features;
and recall of the shipped weights with each of them. On splits other than val, only the recall is measured.
Needs a captioned corpus, and the run of `tools/weights/train.sh` from which the encoders were made, which has
the networks in 32 bits:

    python -m benchmarks.int8 [--data DIR] [--split val] [--run runs/seesay-small-tuned]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from tokenizers import Tokenizer

from benchmarks._harness import arguments, report
from benchmarks.encoding import best_of_turns, enlarged, jpegs, one_core
from seesay.arrays import Pixels
from seesay.data.corpus import Corpus
from seesay.data.images import decode
from seesay.data.readers import read_corpus
from seesay.encoders.images.base import resize
from seesay.encoders.images.efficientnet import EIGHT_BITS, LITE
from seesay.encoders.images.encode import SHARED_SIDE
from seesay.encoders.settings import EncoderSettings
from seesay.metrics.ranks import embedding_ranks
from seesay.metrics.recall import metrics_of
from seesay.onnx import onnx_session
from seesay.runs.prepare import join_features, number_words
from seesay.runs.run import Run
from seesay_weights.quantise import FOLDER, TOKENIZER
from seesay_weights.quantise_cnn import export_lite
from seesay_weights.quantise_minilm import export_minilm

OUTPUTS = ["pooled", "logits"]
CHUNK = 8  # images a call, as seesay encodes them
TIMED, SENTENCES = 32, 128  # images and sentences that are timed
MINILM = "minilm"

Arrays = dict[str, NDArray[np.float32]]


def squares(corpus: Corpus, side: int) -> Pixels:
    sources = [image.source for image in corpus.images]
    return np.stack([resize(decode(s.read(), "image"), side, side) for s in sources if s is not None])


def run_network(session: Any, images: Pixels) -> Arrays:
    """Return the features of squares (n, side, side, 3)."""
    chunks = [images[i : i + CHUNK] for i in range(0, len(images), CHUNK)]
    parts = [session.run(OUTPUTS, {"pixels": chunk}) for chunk in chunks]
    return {name: np.concatenate(rows) for name, rows in zip(OUTPUTS, zip(*parts, strict=True), strict=True)}


def run_minilm(
    session: Any, tokenizer: Tokenizer, texts: Sequence[str], batch: int = 64
) -> NDArray[np.float32]:
    """Return the vectors of sentences, (m, 384)."""
    codes = [code.ids for code in tokenizer.encode_batch(list(texts))]
    order = sorted(range(len(codes)), key=lambda i: len(codes[i]))
    vectors = np.empty((len(codes), 384), np.float32)
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        ids = np.zeros((len(chosen), len(codes[chosen[-1]])), np.int64)
        for row, i in enumerate(chosen):
            ids[row, : len(codes[i])] = codes[i]
        vectors[chosen] = session.run(None, {"ids": ids, "mask": (ids != 0).astype(np.int64)})[0]
    return vectors


@dataclass(frozen=True)
class Encoders:
    """The networks of the shipped weights, in 32 bits or in 8."""

    networks: dict[str, Any]
    minilm: Any

    def features(self, images: dict[str, Pixels]) -> dict[str, Arrays]:
        """Return the features of each network on its squares."""
        return {name: run_network(session, images[name]) for name, session in self.networks.items()}

    def from_jpegs(self, photos: Sequence[bytes]) -> None:
        """Decode photographs and run all networks on them."""
        for start in range(0, len(photos), CHUNK):
            pixels = [decode(data, "photo", SHARED_SIDE) for data in photos[start : start + CHUNK]]
            sides = {name: LITE[name].size for name in self.networks}
            self.features({n: np.stack([resize(p, side, side) for p in pixels]) for n, side in sides.items()})


def in_32_bits(tuned: dict[str, EncoderSettings], run: Path) -> Encoders:
    """Export the networks that a run has tuned, given by their names in it, and MiniLM; open them."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "network.onnx")

        def opened(model: Any) -> Any:
            onnx.save(model, path)
            return onnx_session(path, 1, "export it again")

        networks = {name: opened(export_lite(each, False, run)) for name, each in tuned.items()}
        return Encoders(networks, opened(export_minilm()))


def in_8_bits(names: Sequence[str]) -> Encoders:
    """Open the shipped files."""
    networks = {name: onnx_session(FOLDER / f"{name}.onnx", 1, "restore it") for name in names}
    return Encoders(networks, onnx_session(FOLDER / f"{MINILM}.onnx", 1, "restore it"))


def speeds(
    encoders: Sequence[Encoders],
    tokenizer: Tokenizer,
    images: dict[str, Pixels],
    texts: Sequence[str],
    photos: Sequence[bytes],
) -> list[dict[str, Any]]:
    """Time one image or sentence on one core: a row for each network, and one for all from a JPEG."""
    work: dict[str, tuple[int, list[Callable[[], object]]]] = {}
    for name, pixels in images.items():
        work[name] = len(pixels), [partial(run_network, e.networks[name], pixels) for e in encoders]
    for what, batch in ((MINILM, 64), (f"{MINILM}, one at a time", 1)):
        work[what] = len(texts), [partial(run_minilm, e.minilm, tokenizer, texts, batch) for e in encoders]
    work["all images' from a JPEG"] = len(photos), [partial(e.from_jpegs, photos) for e in encoders]
    calls = {f"{what} {i}": call for what, (_, pair) in work.items() for i, call in enumerate(pair)}
    with one_core():
        times = best_of_turns(calls, time.process_time)
    rows = []
    for what, (items, _) in work.items():
        full, eight = (times[f"{what} {i}"] / items * 1e3 for i in (0, 1))
        rows.append({"encoder": what, "fp32 ms": full, "int8 ms": eight, "times faster": full / eight})
    return rows


@dataclass(frozen=True)
class Encoded:
    """The features of a split's images and the vectors of its sentences."""

    features: dict[str, Arrays]
    vectors: NDArray[np.float32]

    def cosines(self, other: Encoded) -> dict[str, NDArray[np.float32]]:
        """Return the cosines between the features of both, for each encoder."""
        pairs = {
            name: (rows["pooled"], other.features[name]["pooled"]) for name, rows in self.features.items()
        }
        pairs[MINILM] = self.vectors, other.vectors
        sizes = {name: np.prod([np.linalg.norm(x, axis=1) for x in pair], 0) for name, pair in pairs.items()}
        return {name: (a * b).sum(axis=1) / sizes[name] for name, (a, b) in pairs.items()}

    def recall(self, run: Run, corpus: Corpus) -> float:
        """Return mR with the run's matcher."""
        images = run.embed_features(join_features(run.recipe.arrays, list(self.features.values())))
        sentences = number_words(corpus.texts(), run.vocabulary, self.vectors)
        ranks = embedding_ranks(images, run.embed_prepared(sentences), corpus.image_of_sentence())
        return metrics_of(ranks)["mR"]


def recalls(run: Run, corpus: Corpus, full: Encoded, eight: Encoded) -> list[dict[str, Any]]:
    """Measure mR with no encoder in 8 bits, each one, the image encoders, and all."""
    names = list(full.features)
    cases = {"nothing": [], **{name: [name] for name in [*names, MINILM]}, "the three networks": names}
    cases["all"] = [*names, MINILM]
    rows = []
    for case, chosen in cases.items():
        features = {name: (eight if name in chosen else full).features[name] for name in names}
        mixed = Encoded(features, (eight if MINILM in chosen else full).vectors)
        rows.append({"in 8 bits": case, "mR": mixed.recall(run, corpus)})
    return rows


def main() -> int:
    parser = arguments(__doc__ or "", data="a captioned corpus")
    parser.add_argument("--split", default="val", help="whose images and sentences are encoded")
    parser.add_argument(
        "--run", type=Path, default=Path("runs/seesay-small-tuned"), help="the run that was shipped"
    )
    options = parser.parse_args()
    for path, option in ((options.data, "--data"), (options.run, "--run")):
        if not path.exists():
            print(f"{path}: not there, nothing measured; name another with {option}.", file=sys.stderr)
            return 0
    run = Run.load("seesay-small")
    corpus = read_corpus(options.data).split(options.split)
    tuned = {encoder.kind: encoder for encoder in Run.load(str(options.run), "cpu").recipe.encoders}
    names = [encoder.kind.removesuffix(EIGHT_BITS) for encoder in run.recipe.encoders]
    tokenizer = Tokenizer.from_file(str(FOLDER / TOKENIZER))
    encoders = in_32_bits(tuned, options.run), in_8_bits(names)
    images, texts = {name: squares(corpus, LITE[name].size) for name in names}, corpus.texts()
    full, eight = (Encoded(e.features(images), run_minilm(e.minilm, tokenizer, texts)) for e in encoders)
    found = recalls(run, corpus, full, eight)
    if options.split != "val":
        report(f"int8-recall-{options.split}", found, options)
        return 0
    report("int8-recall", found, options)
    photos = [enlarged(data) for data in jpegs(options.data, TIMED)]
    some = {name: pixels[:TIMED] for name, pixels in images.items()}
    rows = speeds(encoders, tokenizer, some, texts[:SENTENCES], photos)
    for row in rows:
        cosines = full.cosines(eight).get(row["encoder"])
        row["least cosine"] = None if cosines is None else float(cosines.min())
        row["mean cosine"] = None if cosines is None else float(cosines.mean())
    report("int8", rows, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
