"""Summaries of corpora: counts, lengths and data-quality issues."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field

import numpy as np

from seesay.data.corpus import SPLITS, Corpus, CorpusImage, Issues
from seesay.data.images import EncodedImage
from seesay.errors import ImageError

BROKEN = "image that cannot be decoded"
SAME_CONTENT = "image with the content of another"
LEAK = "image with the content of one in another split"
NOT_FINITE = "row of features with NaN or infinity"

_BLOCK = 1024
# Enough to find out that an image is whole; a large JPEG is decoded at a fraction of its size.
_CHECK_SIDE = 64


@dataclass(frozen=True, slots=True)
class Spread:
    """Minimum, mean and maximum of some counts; zeros if there are none."""

    min: int
    mean: float
    max: int

    @classmethod
    def from_values(cls, values: Sequence[int]) -> Spread:
        """Summarise counts; the mean is rounded to two decimals."""
        if not values:
            return cls(0, 0.0, 0)
        return cls(min(values), round(sum(values) / len(values), 2), max(values))


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """Counts of one split; `texts` are its sentences or phrases, words are divided by white space."""

    images: int
    texts: int
    boxes: int | None
    texts_per_image: Spread
    words_per_text: Spread


@dataclass(frozen=True, slots=True)
class CheckedImages:
    """Numbers of images by size, and by format and mode, most frequent first."""

    sizes: dict[str, int]
    modes: dict[str, int]


@dataclass(slots=True)
class CorpusSummary:
    """Counts and data-quality issues of a corpus, whose texts are `text`: "sentence" or "phrase"."""

    corpus: str
    root: str
    text: str
    images: int
    texts: int
    splits: dict[str, SplitSummary]
    issues: Issues = field(default_factory=Issues)
    features: tuple[int, ...] | None = None
    checked: CheckedImages | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the summary ready for JSON, with keys such as `sentences` and `words_per_sentence`."""
        one = self.text
        splits = {
            name: {"images": split.images, f"{one}s": split.texts}
            | ({} if split.boxes is None else {"boxes": split.boxes})
            | {f"{one}s_per_image": asdict(split.texts_per_image)}
            | {f"words_per_{one}": asdict(split.words_per_text)}
            for name, split in self.splits.items()
        }
        counts = {"images": self.images, f"{one}s": self.texts}
        whole = {"corpus": self.corpus, "root": self.root, **counts, "splits": splits}
        if self.features is not None:
            whole["features"] = {"shape": list(self.features)}
        if self.checked is not None:
            whole["checked"] = asdict(self.checked)
        whole["issues"] = {
            kind: {"count": count, "examples": self.issues.examples[kind]}
            for kind, count in self.issues.counts.most_common()
        }
        return whole


def summarise(
    corpus: Corpus,
    check_images: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> CorpusSummary:
    """Count what a corpus holds.

    With `check_images`, also decode every image, or read every row of features, and add broken images and
    repeated content to the issues. `progress` is called with the number of images done and of all.
    """
    there = {image.split for image in corpus.images}
    summary = CorpusSummary(
        corpus.name,
        str(corpus.root),
        "phrase" if corpus.has_boxes else "sentence",
        len(corpus.images),
        len(corpus.texts()),
        {split: _split_summary(corpus.split(split)) for split in SPLITS if split in there},
        Issues(corpus.issues.counts.copy(), {k: list(v) for k, v in corpus.issues.examples.items()}),
    )
    if corpus.features is not None:
        summary.features = corpus.features.shape
        if check_images:
            _check_features(corpus, summary.issues)
    elif check_images and any(image.source is not None for image in corpus.images):
        summary.checked = _check_images(corpus.images, summary.issues, progress)
    return summary


def _split_summary(part: Corpus) -> SplitSummary:
    images = part.image_of_sentence()
    return SplitSummary(
        len(part.images),
        len(images),
        sum(len(phrase.boxes) for phrase in part.sentences) if part.has_boxes else None,
        Spread.from_values(np.bincount(images, minlength=len(part.images)).tolist()),
        Spread.from_values([len(text.split()) for text in part.texts()]),
    )


def _check_images(
    images: Sequence[CorpusImage], issues: Issues, progress: Callable[[int, int], None] | None
) -> CheckedImages:
    """Decode all images in threads, a block at a time, so that memory does not grow with their number."""
    sizes, modes = Counter[str](), Counter[str]()
    first: dict[str, CorpusImage] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(images), _BLOCK):
            block = images[start : start + _BLOCK]
            for image, checked in zip(block, pool.map(_check, block), strict=True):
                if isinstance(checked, ImageError):
                    issues.add(BROKEN, str(checked))
                    continue
                key, size, mode = checked
                sizes[size] += 1
                modes[mode] += 1
                other = first.setdefault(key, image)
                if other is not image:
                    kind = SAME_CONTENT if other.split == image.split else LEAK
                    issues.add(kind, f"{image.name} ({image.split}), {other.name} ({other.split})")
            if progress is not None:
                progress(start + len(block), len(images))
    return CheckedImages(dict(sizes.most_common()), dict(modes.most_common()))


def _check(image: CorpusImage) -> tuple[str, str, str] | ImageError:
    """Decode an image; return its content key, size and mode, or what is wrong with it."""
    assert image.source is not None
    try:
        encoded = EncodedImage(image.source.read(), image.name)
        encoded.pixels(min_side=_CHECK_SIDE)
        animated = " animated" if encoded.is_animated and encoded.format != "MPO" else ""
    except ImageError as error:
        return error
    width, height = encoded.stored_size
    return encoded.key, f"{width}×{height}", f"{encoded.format} {encoded.mode}{animated}"


def _check_features(corpus: Corpus, issues: Issues) -> None:
    assert corpus.features is not None
    images = [image for image in corpus.images if image.row is not None]
    for start in range(0, len(images), _BLOCK):
        block = images[start : start + _BLOCK]
        values = corpus.features[np.array([image.row for image in block], np.int64)]
        finite = np.isfinite(values.reshape(len(block), -1)).all(axis=1)
        for at in np.flatnonzero(~finite):
            issues.add(NOT_FINITE, block[at].name)
