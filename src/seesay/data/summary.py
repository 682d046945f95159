"""What a corpus holds, in counts, for people and for JSON."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from seesay.data.corpus import SPLITS, Corpus, CorpusImage, Issues
from seesay.data.phrases import PhraseCorpus
from seesay.data.pixels import content_key, decode, read_header
from seesay.errors import ImageError

BROKEN = "image that cannot be decoded"
SAME_CONTENT = "image with the content of another"
LEAK = "image with the content of one in another split"
NOT_FINITE = "row of features with NaN or infinity"

_BLOCK = 1024
# Enough to find out that an image is whole; a large JPEG is decoded at a fraction of its size.
_CHECK_SIDE = 64


@dataclass(frozen=True, slots=True)
class _Seen:
    """What decoding one image told."""

    key: str = ""
    size: str = ""
    mode: str = ""
    error: str = ""


def summarise(
    corpus: Corpus, check_images: bool = False, progress: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Counts a split, sentence lengths and issues, ready for JSON.

    Keys: `corpus`, `root`, `images`, `sentences`, `splits` (for each `images`, `sentences` and the least,
    mean and greatest of `sentences_per_image` and `words_per_sentence`; words are what white space parts),
    `issues` (for each `count` and the first `examples`) and, for precomputed features, `features` (shape).
    With `check_images` every image is decoded, or every row of features read: adds `checked` with
    `sizes` and `modes`, counted, most frequent first; and to the issues broken images and repeated content.
    `progress` is called with the number done and the number in all.
    """
    issues = Issues(corpus.issues.counts.copy(), {k: list(v) for k, v in corpus.issues.examples.items()})
    there = {image.split for image in corpus.images}
    summary: dict[str, Any] = {
        "corpus": corpus.name,
        "root": str(corpus.root),
        "images": len(corpus.images),
        "sentences": len(corpus.sentences),
        "splits": {split: _split_summary(corpus.split(split)) for split in SPLITS if split in there},
    }
    if corpus.features is not None:
        summary["features"] = {"shape": list(corpus.features.shape)}
        if check_images:
            _check_features(corpus, issues)
    elif check_images and any(image.source is not None for image in corpus.images):
        summary["checked"] = _check_images(corpus.images, issues, progress)
    summary["issues"] = _listed(issues)
    return summary


def summarise_phrases(corpus: PhraseCorpus) -> dict[str, Any]:
    """The same of phrases: `phrases` instead of `sentences`, and a split's `boxes`."""
    there = {image.split for image in corpus.images}
    return {
        "corpus": corpus.name,
        "root": str(corpus.root),
        "images": len(corpus.images),
        "phrases": len(corpus.phrases),
        "splits": {split: _phrases_summary(corpus.split(split)) for split in SPLITS if split in there},
        "issues": _listed(corpus.issues),
    }


def _listed(issues: Issues) -> dict[str, Any]:
    return {
        kind: {"count": count, "examples": issues.examples[kind]}
        for kind, count in issues.counts.most_common()
    }


def _phrases_summary(part: PhraseCorpus) -> dict[str, Any]:
    an_image = np.bincount(part.image_of_phrase(), minlength=len(part.images))
    return {
        "images": len(part.images),
        "phrases": len(part.phrases),
        "boxes": sum(len(phrase.boxes) for phrase in part.phrases),
        "phrases_per_image": _spread(an_image.tolist()),
        "words_per_phrase": _spread([len(text.split()) for text in part.texts()]),
    }


def _split_summary(part: Corpus) -> dict[str, Any]:
    a_image = np.bincount(part.image_of_sentence(), minlength=len(part.images))
    return {
        "images": len(part.images),
        "sentences": len(part.sentences),
        "sentences_per_image": _spread(a_image.tolist()),
        "words_per_sentence": _spread([len(text.split()) for text in part.texts()]),
    }


def _spread(values: Sequence[int]) -> dict[str, float]:
    if not values:
        return {"min": 0, "mean": 0.0, "max": 0}
    return {"min": min(values), "mean": round(sum(values) / len(values), 2), "max": max(values)}


def _check_images(
    images: Sequence[CorpusImage], issues: Issues, progress: Callable[[int, int], None] | None
) -> dict[str, Any]:
    """Decode all images in threads, a block at a time, so that memory does not grow with their number."""
    sizes, modes = Counter[str](), Counter[str]()
    first: dict[str, CorpusImage] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(images), _BLOCK):
            block = images[start : start + _BLOCK]
            for image, seen in zip(block, pool.map(_look, block), strict=True):
                if seen.error:
                    issues.add(BROKEN, seen.error)
                    continue
                sizes[seen.size] += 1
                modes[seen.mode] += 1
                other = first.setdefault(seen.key, image)
                if other is not image:
                    kind = SAME_CONTENT if other.split == image.split else LEAK
                    issues.add(kind, f"{image.name} ({image.split}), {other.name} ({other.split})")
            if progress is not None:
                progress(start + len(block), len(images))
    return {"sizes": dict(sizes.most_common()), "modes": dict(modes.most_common())}


def _look(image: CorpusImage) -> _Seen:
    assert image.source is not None
    try:
        data = image.source.read()
        header = read_header(data, image.name)
        decode(data, image.name, min_side=_CHECK_SIDE)
    except ImageError as error:
        return _Seen(error=str(error))
    animated = " animated" if header.frames > 1 and header.format != "MPO" else ""
    return _Seen(
        content_key(data),
        f"{header.width}×{header.height}",
        f"{header.format} {header.mode}{animated}",
    )


def _check_features(corpus: Corpus, issues: Issues) -> None:
    assert corpus.features is not None
    images = [image for image in corpus.images if image.row is not None]
    for start in range(0, len(images), _BLOCK):
        block = images[start : start + _BLOCK]
        values = corpus.features[np.array([image.row for image in block], np.int64)]
        finite = np.isfinite(values.reshape(len(block), -1)).all(axis=1)
        for at in np.flatnonzero(~finite):
            issues.add(NOT_FINITE, block[at].name)
