"""Summaries of corpora: counts, lengths and data-quality issues."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import numpy as np

from seesay.data.corpus import SPLITS, Corpus, CorpusImage, Issues, Omission
from seesay.data.images import EncodedImage
from seesay.errors import ImageError
from seesay.progress import progress

BROKEN = Omission("image that cannot be decoded")
SAME_CONTENT = "image with the content of another"
LEAK = "image with the content of one in another split"
NOT_FINITE = Omission("row of features with NaN or infinity")

_BLOCK = 1024
# Enough to find out whether an image is complete; a large JPEG is decoded at a fraction of its size.
_CHECK_SIDE = 64


def summarise(corpus: Corpus, check_images: bool = False) -> dict[str, Any]:
    """Count the images and the sentences or phrases of a corpus, by split, and its data-quality issues.

    With `check_images`, also decode every image, and add broken images and repeated content to the issues;
    look for NaN and infinity in precomputed features.

    Returns:
        Plain values for JSON, with keys such as `sentences` and `splits`; the `min`, `mean` and `max` of
        counts, such as `words_per_sentence`; and each issue's `count`, `examples` and `is_omission`.
    """
    text = "phrase" if corpus.has_boxes else "sentence"
    summary: dict[str, Any] = {
        "corpus": corpus.name,
        "root": str(corpus.root),
        "images": len(corpus.images),
        f"{text}s": len(corpus.texts()),
        "splits": {
            split: _split_summary(corpus.split(split), text) for split in SPLITS if split in corpus.splits
        },
    }
    issues = deepcopy(corpus.issues)
    if corpus.features is not None:
        summary["features"] = {"shape": list(corpus.features.shape)}
        images = [image for image in corpus.images if check_images and image.row is not None]
        for start in range(0, len(images), _BLOCK):
            block = images[start : start + _BLOCK]
            values = corpus.features[np.array([image.row for image in block], np.int64)]
            finite = np.isfinite(values.reshape(len(block), -1)).all(axis=1)
            for at in np.flatnonzero(~finite):
                issues.add(NOT_FINITE, block[at].name)
    if check_images:
        _check_images([image for image in corpus.images if image.source is not None], issues)
    found = {
        kind: {"count": count, "examples": issues.examples[kind], "is_omission": kind in issues.omissions}
        for kind, count in issues.counts.most_common()
    }
    return summary | {"columns": dict(corpus.columns), "issues": found}


def _split_summary(part: Corpus, text: str) -> dict[str, Any]:
    """Count the images and texts of a split; words are separated by white space."""
    images = part.image_of_sentence()
    return {
        "images": len(part.images),
        f"{text}s": len(images),
        **({"boxes": sum(len(phrase.boxes) for phrase in part.sentences)} if part.has_boxes else {}),
        f"{text}s_per_image": _spread(np.bincount(images, minlength=len(part.images)).tolist()),
        f"words_per_{text}": _spread([len(text.split()) for text in part.texts()]),
        **({} if part.has_boxes or (shared := shared_sentences(part)) is None else {"shared": shared}),
    }


def shared_sentences(part: Corpus) -> dict[str, int | float] | None:
    """Count the sentences that several images carry; None without any.

    Returns:
        `sentences` of `images`, and the highest R@1 in percent of a matcher that reads nothing but the texts,
        if each sentence counts as right for its own image alone: `i2t` (sentence retrieval), where equal
        sentences of others tie with an image's own, and `t2i` (image retrieval), where equal queries have one
        image first.
    """
    owners, texts = part.image_of_sentence(), part.text_numbers()
    pairs, copies = np.unique(np.column_stack([texts, owners]), axis=0, return_counts=True)
    shared = np.bincount(pairs[:, 0]) > 1
    if not shared.any():
        return None
    most = np.zeros(len(shared), np.int64)
    np.maximum.at(most, pairs[:, 0], copies)
    return {
        "sentences": int(shared[texts].sum()),
        "images": len(np.unique(owners[shared[texts]])),
        "i2t": round(100 * len(np.unique(owners[~shared[texts]])) / len(np.unique(owners)), 1),
        "t2i": round(100 * int(most.sum()) / len(texts), 1),
    }


def _spread(counts: Sequence[int]) -> dict[str, float]:
    """The minimum, the mean to two decimals, and the maximum of counts; zeros if there are none."""
    counts = counts or [0]
    return {"min": min(counts), "mean": round(sum(counts) / len(counts), 2), "max": max(counts)}


def _check_images(images: Sequence[CorpusImage], issues: Issues) -> None:
    """Decode all images in threads; add broken and repeated ones to the issues."""
    first: dict[str, CorpusImage] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool, progress("Checking", len(images), "images") as advance:
        for image, checked in zip(images, pool.map(_check, images), strict=True):
            advance(1)
            if isinstance(checked, ImageError):
                issues.add(BROKEN, str(checked))
            elif (other := first.setdefault(checked, image)) is not image:
                kind = SAME_CONTENT if other.split == image.split else LEAK
                issues.add(kind, f"{image.name} ({image.split}), {other.name} ({other.split})")


def _check(image: CorpusImage) -> str | ImageError:
    """Decode an image; return its content key, or its error."""
    assert image.source is not None
    try:
        encoded = EncodedImage(image.source.read(), image.name)
        encoded.pixels(min_side=_CHECK_SIDE)
    except ImageError as error:
        return error
    return encoded.key
