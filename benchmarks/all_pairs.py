"""Score matrices of the pair matchers, compared with the plain forward pass and with bare matrix products.

The plain forward pass scores pairs in batches: each sentence is padded to 30 words and encoded again for
every image. Its images are encoded once, and it is timed at its best batch size. seesay's time excludes the
encoding of both sides, which is done once and has a column of its own. Both take turns in one run, and the
best turn of each counts. The share is the rate of seesay's multiplications and additions, without padding,
relative to the rate of a large fp32 matrix product in the same turns. Sentences are as long as Flickr8k's,
and widths are those of the papers.

The second part computes growing matrices, each in a process of its own, and measures time and peak memory.

The third part is a training step of m-CNN. All pairs of a mini-batch scored with gradients are compared with
what replaces this: all pairs scored without gradients or dropout, in half precision where that is fast, and
then 300 pairs, as many as are near or beyond the margin, scored with gradients.

    python -m benchmarks.all_pairs [--images 1000]
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from benchmarks._harness import arguments, peak_mib, report
from seesay.losses.margin import pairs_near_margin
from seesay.matchers.base import PairMatcher
from seesay.matchers.mcnn import LEVELS, MAX_LENGTH, MatchingCNN
from seesay.matchers.sentences import Sentences
from seesay.matchers.two_branch import SimilarityNetwork
from seesay.runs.onnx_backend import score_all_pairs
from seesay.runs.prepare import PreparedSentences
from seesay.runs.torch_backend import TorchBackend

SIMILARITY = "similarity network"
MATCHERS = (*LEVELS, SIMILARITY)
IMAGE_DIM, SENTENCE_DIM, WORDS = 4096, 6000, 8000
IMAGES, SENTENCES = 8, 400  # of the matrix that is computed both ways
BATCHES = (32, 128, 400)  # sentences in a batch of the plain forward pass
TURNS = 4
PRODUCT = 2048  # rows and columns of the matrices whose product gives the machine's rate
PER_IMAGE = 5
PARTS = (10, 4, 2, 1)  # of the largest matrix's images and sentences
BATCH, NEAR = 100, 300  # size of a mini-batch; pairs of its score matrix that a trained mcnn-st finds near

LEAST_RATIO, MOST_DIFFERENCE = 3.0, 1e-4  # of the word level, and of any score


def matcher_named(name: str) -> PairMatcher:
    torch.manual_seed(1)
    if name == SIMILARITY:
        return SimilarityNetwork(IMAGE_DIM, SENTENCE_DIM).eval()
    return MatchingCNN(IMAGE_DIM, WORDS, level=name).eval()  # type: ignore[arg-type]


def sentences_as_of_flickr8k(count: int, name: str) -> Sentences:
    """Draw sentences of random words, as long as Flickr8k's, and vectors for the similarity network."""
    lengths = (torch.randn(count) * 3.7 + 10.8).round().clamp(3, 34).long()
    vectors = torch.randn(count, SENTENCE_DIM if name == SIMILARITY else 0)
    return Sentences(torch.randint(1, WORDS, (int(lengths.sum()),)), lengths, vectors)


def encoded(matcher: PairMatcher, images: Tensor, sentences: Sentences) -> tuple[Tensor, Tensor]:
    """Encode both sides in batches, as runs do."""
    parts = (part.numpy() for part in (sentences.words, sentences.lengths, sentences.vectors))
    batches = [batch.to_tensors() for batch in PreparedSentences(*parts).split(512)]
    return matcher.encode_images(images), torch.cat(list(map(matcher.encode_sentences, batches)))


def all_pairs(matcher: PairMatcher, images: Tensor, sentences: Sentences) -> NDArray[np.float32]:
    return score_all_pairs(TorchBackend(matcher, "cpu"), *encoded(matcher, images, sentences))


class Plain:
    """The plain forward pass: one image against `batch` sentences at a time."""

    def __init__(self, matcher: PairMatcher, images: Tensor, sentences: Sentences) -> None:
        self.matcher = matcher
        self.vectors = sentences.vectors
        places = torch.arange(MAX_LENGTH)
        self.real = places < sentences.lengths[:, None]
        starts = sentences.lengths.cumsum(0) - sentences.lengths
        last = len(sentences.words) - 1
        self.words = sentences.words[(starts[:, None] + places).clamp(max=last)]
        if isinstance(matcher, MatchingCNN):
            self.images = functional.relu(matcher.image_map(images))
        else:
            self.images = matcher.encode_images(images)

    def __call__(self, batch: int) -> Tensor:
        """Return the score matrix."""
        rows = torch.split(torch.arange(len(self.words)), batch)
        return torch.stack([torch.cat([self._pairs(image, some) for some in rows]) for image in self.images])

    def _pairs(self, image: Tensor, rows: Tensor) -> Tensor:
        images = image.expand(len(rows), -1)
        if isinstance(self.matcher, MatchingCNN):
            return matching_cnn(self.matcher, images, self.words[rows], self.real[rows])
        assert isinstance(self.matcher, SimilarityNetwork)
        read = functional.normalize(self.matcher.branches["sentence_map"](self.vectors[rows]), dim=1)
        scores: Tensor = self.matcher.head(images * read)[:, 0]
        return scores


def matching_cnn(matcher: MatchingCNN, images: Tensor, words: Tensor, real: Tensor) -> Tensor:
    """Score image vectors (n, d) with padded sentences (n, 30) by the layers of Table 1; (n,)."""
    *convolutions, hidden = (layer for layer in matcher.layers if isinstance(layer, torch.nn.Linear))
    inputs = (matcher.words(words) * real[..., None]).transpose(1, 2)
    for number, layer in enumerate(convolutions):
        width = inputs.shape[1]
        kernel = layer.weight[:, : 3 * width].reshape(-1, 3, width).transpose(1, 2)
        if number == matcher.meeting:  # the image is at the first position of each window
            beside = functional.pad(layer.weight[:, 3 * width :, None], (0, 2))
            kernel = torch.cat([kernel, beside], dim=1)
            inputs = torch.cat([inputs, images[..., None].expand(-1, -1, inputs.shape[2])], dim=1)
        gate = real.unfold(1, 3, 1).any(dim=2)  # eq. 6
        responses = functional.relu(functional.conv1d(inputs, kernel, layer.bias)) * gate[:, None]
        inputs, real = functional.max_pool1d(responses, 2), gate.view(len(gate), -1, 2).any(dim=2)
    joint = inputs.transpose(1, 2).flatten(1)
    if matcher.meeting == len(convolutions):
        joint = torch.cat([joint, images], dim=1)
    scores: Tensor = matcher.score_map(functional.relu(hidden(joint)))[:, 0]
    return scores


def flops(work: Callable[[], object]) -> int:
    """Count the multiplications and additions of the matrix products and convolutions of a call."""
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


def best_of_turns(work: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the best wall time, in seconds, of several functions that take turns."""
    best = dict.fromkeys(work, float("inf"))
    for turn in range(TURNS + 1):
        for name, call in work.items():
            start = time.perf_counter()
            call()
            if turn:  # the first turn warms up
                best[name] = min(best[name], time.perf_counter() - start)
    return best


@torch.inference_mode()
def compare(name: str) -> dict[str, Any]:
    """Compute one matrix both ways, and the share of the products' rate that seesay reaches."""
    matcher = matcher_named(name)
    images, sentences = torch.rand(IMAGES, IMAGE_DIM), sentences_as_of_flickr8k(SENTENCES, name)
    plain = Plain(matcher, images, sentences)
    sides = encoded(matcher, images, sentences)
    a = torch.rand(PRODUCT, PRODUCT)
    times = best_of_turns(
        {
            "seesay": lambda: score_all_pairs(TorchBackend(matcher, "cpu"), *sides),
            "encoding": lambda: encoded(matcher, images, sentences),
            "product": lambda: a @ a,
            **{f"plain {batch}": partial(plain, batch) for batch in BATCHES},
        }
    )
    pairs = IMAGES * SENTENCES
    needed = flops(lambda: score_all_pairs(TorchBackend(matcher, "cpu"), *sides)) / pairs
    ours, plainly = pairs / times["seesay"], pairs / min(times[f"plain {batch}"] for batch in BATCHES)
    rate = 2 * PRODUCT**3 / times["product"]
    difference = all_pairs(matcher, images, sentences) - plain(SENTENCES).numpy()
    return {
        "matcher": name,
        "pairs/s": ours,
        "plain pairs/s": plainly,
        "ratio": ours / plainly,
        "encoding ms": 1000 * times["encoding"],
        "MFLOP a pair": needed / 1e6,
        "plain MFLOP a pair": flops(lambda: plain(SENTENCES)) / pairs / 1e6,
        "product GFLOP/s": rate / 1e9,
        "share of it": ours * needed / rate,
        "largest difference": float(np.abs(difference).max()),
    }


@torch.inference_mode()
def whole(name: str, count: int) -> dict[str, Any]:
    """Compute the whole matrix of that many images and their sentences, in this process."""
    matcher = matcher_named(name)
    images = torch.rand(count, IMAGE_DIM)
    sides = encoded(matcher, images, sentences_as_of_flickr8k(PER_IMAGE * count, name))
    before, start = peak_mib(), time.perf_counter()
    scores = score_all_pairs(TorchBackend(matcher, "cpu"), *sides)
    seconds = time.perf_counter() - start
    matrix = scores.nbytes / (1 << 20)
    return {
        "matcher": name,
        "images": count,
        "sentences": PER_IMAGE * count,
        "seconds": seconds,
        "pairs/s": scores.size / seconds,
        "matrix MiB": matrix,
        "peak MiB": peak_mib(),
        "beside sides and matrix MiB": max(peak_mib() - before - matrix, 0.0),
    }


def step(name: str) -> dict[str, Any]:
    """Time the gradient of all pairs of a mini-batch, and what replaces it when few are near the margin."""
    matcher = matcher_named(name).train()
    images, sentences = torch.rand(BATCH, IMAGE_DIM), sentences_as_of_flickr8k(BATCH, name)
    draw = torch.randperm(BATCH**2, generator=torch.Generator().manual_seed(1))[:NEAR]
    left, right = draw // BATCH, draw % BATCH

    with torch.no_grad():
        sides = matcher.encode_images(images), matcher.encode_sentences(sentences)

    def learn(score: Callable[[Tensor, Tensor], Tensor]) -> None:
        score(matcher.encode_images(images), matcher.encode_sentences(sentences)).sum().backward()  # type: ignore[no-untyped-call]

    times = best_of_turns(
        {
            "all": lambda: learn(matcher.score_encoded),
            "look": lambda: pairs_near_margin(matcher, *sides, margin=0.5),
            "chosen": lambda: learn(lambda x, y: matcher.score_pairs(x[left], y[right])),
        }
    )
    return {
        "matcher": name,
        "all with gradient ms": 1000 * times["all"],
        "all without ms": 1000 * times["look"],
        f"{NEAR} with gradient ms": 1000 * times["chosen"],
        "ratio": times["all"] / (times["look"] + times["chosen"]),
    }


def main() -> int:
    """Compare, measure growing matrices, and time a step."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--images", type=int, default=1000, help="in the largest matrix, five sentences each")
    options = parser.parse_args()
    # Memory first: a new process starts with the peak of its parent.
    grown: list[dict[str, Any]] = []
    for name in MATCHERS:
        for part in PARTS:
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
                grown.append(process.submit(whole, name, max(options.images // part, 1)).result())
    rows = [compare(name) for name in MATCHERS]
    report("all-pairs", rows, options)
    report("all-pairs-growth", grown, options)
    report("all-pairs-step", [step(name) for name in LEVELS], options)
    fine = rows[0]["ratio"] >= LEAST_RATIO
    return 0 if fine and all(row["largest difference"] <= MOST_DIFFERENCE for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
