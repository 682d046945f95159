"""All pairs of a pair matcher: each side encoded once, the score matrix filled some images at a time.

On a GPU pairs are scored in half precision, on a CPU in single; scores are in single precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seesay.matchers.base import PairMatcher
from seesay.progress import progress
from seesay.runs.score_file import ScoreFile, drop_oldest

BLOCK = 1 << 17  # pairs, about: seconds of work, which is what a kill may cost
_IMAGES = 256  # of a block at most: each is held with all its places, however few the sentences
_PROBES = 64  # sentences whose scores say whether kept rows are what the matcher would score today
_CLOSE = {torch.float32: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.1}  # of scores' size, by precision


@torch.inference_mode()
def score_all_pairs(
    matcher: PairMatcher,
    images: Tensor,
    sentences: Tensor,
    block: int = BLOCK,
    precision: torch.dtype | None = None,
) -> Tensor:
    """The score matrix (n, m) of encoded images and sentences, single precision, in the CPU's memory.

    Args:
        matcher: whose pairs.
        images: what its `encode_images` gave, n rows.
        sentences: what its `encode_sentences` gave, m rows.
        block: pairs at a time, or one image's where that is more.
        precision: of a pair's activations; by default half on a GPU, single on a CPU.
    """
    scores = torch.empty(len(images), len(sentences))
    for top, rows in _blocks(matcher, images, sentences, block, precision):
        scores[top : top + len(rows)] = rows
    return scores


@torch.inference_mode()
def resume_all_pairs(
    matcher: PairMatcher, images: Tensor, sentences: Tensor, folder: Path, block: int = BLOCK
) -> NDArray[np.float32]:
    """The same as long work: it shows its progress and goes on behind the rows that `folder` holds.

    Args:
        matcher: whose pairs.
        images: what its `encode_images` gave, n rows.
        sentences: what its `encode_sentences` gave, m rows.
        folder: for this very matrix; made where it is missing. All rows are kept there at the end, so
            asking again only reads them; folders beside it go when they hold more than some gigabytes.
        block: as above. A matrix of one block is seconds of work, and is not kept.

    Raises:
        SeesayError: the folder cannot be read or written.
    """
    if len(images) * len(sentences) <= block:
        return score_all_pairs(matcher, images, sentences, block).numpy()
    scores = np.empty((len(images), len(sentences)), np.float32)
    with ScoreFile.opened(folder, len(sentences)) as file:
        there = file.read(scores)
        if there and not _as_today(matcher, images, sentences, scores):
            there = file.clear()
        left = (len(images) - there) * len(sentences)
        with progress("Scoring", left, "pairs") as advance:
            for top, rows in _blocks(matcher, images, sentences, block, None, there):
                scores[top : top + len(rows)] = rows
                file.append(top, scores[top : top + len(rows)])
                advance(rows.numel())
    drop_oldest(folder)
    return scores


def _blocks(
    matcher: PairMatcher,
    images: Tensor,
    sentences: Tensor,
    block: int,
    precision: torch.dtype | None,
    start: int = 0,
) -> Iterator[tuple[int, Tensor]]:
    """Rows of the score matrix from number `start` on: the first one's number, and (some images, m)."""
    if not len(sentences):
        return
    device = images.device.type
    precision = precision or _usual(device)
    few = min(max(block // len(sentences), 1), _IMAGES)
    images, sentences = images.to(precision), sentences.to(precision)
    for top in range(start, len(images), few):
        with torch.autocast(device, precision, enabled=precision != torch.float32):
            rows = matcher.score_encoded(images[top : top + few], sentences)
        yield top, rows.float().cpu()


def _usual(device: str) -> torch.dtype:
    return torch.float32 if device == "cpu" else torch.float16


def _as_today(matcher: PairMatcher, images: Tensor, sentences: Tensor, scores: NDArray[np.float32]) -> bool:
    """Whether the first image's kept scores are what the matcher gives: its code may be another since."""
    some = torch.linspace(0, len(sentences) - 1, min(_PROBES, len(sentences))).long()
    today = score_all_pairs(matcher, images[:1], sentences[some.to(sentences.device)])[0].numpy()
    within = _CLOSE[_usual(images.device.type)] * max(float(np.abs(today).max()), 1.0)
    return np.allclose(scores[0, some.numpy()], today, rtol=0, atol=within)
