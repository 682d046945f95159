"""Precomputed features: `{split}_ims.npy` and `{split}_caps.txt`, the layout of VSE++ and SCAN.

The array is (n, d) or (n, r, d), with a row for each image, or for each sentence, so that an image's rows
repeat. Sources: the data that Faghri et al. (BMVC 2018) and Lee et al. (ECCV 2018) published.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.features import FeatureRows, load_array
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import CorpusBuilder
from seesay.data.readers.files import canonical_split, read_lines
from seesay.errors import SeesayError

PART_OF_TESTALL = "test_ims.npy skipped: testall_ims.npy contains it"
_SUFFIX = "_ims.npy"
_BLOCK = 1024


@register_reader
class PrecompReader(Reader):
    """Reads the features and sentences of every split; images are named `{split}/{row}`, as in their file."""

    name = "precomp"
    looks_like = "{train,dev,test}_ims.npy with *_caps.txt"
    order = 40

    def files(self, path: Path) -> list[Path]:
        return sorted(path.glob(f"*{_SUFFIX}"))

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        if path.is_file():
            raise SeesayError(f"{path}: expected a folder with {self.looks_like}.")
        files, test = self.find(path), path / f"test{_SUFFIX}"
        if test in files and path / f"testall{_SUFFIX}" in files:
            files.remove(test)
            builder.issues.add(PART_OF_TESTALL, str(test))
        parts = {file: load_array(file) for file in files}
        builder.features = FeatureRows(parts)
        start = 0
        for file, rows in parts.items():
            _add_split(builder, file, rows, start)
            start += len(rows)


def _add_split(builder: CorpusBuilder, file: Path, rows: NDArray[np.generic], start: int) -> None:
    stem = file.name.removesuffix(_SUFFIX)
    split = canonical_split("test" if stem == "testall" else stem, str(file))
    captions = file.with_name(f"{stem}_caps.txt")
    builder.uses(captions)
    lines = read_lines(captions)
    for first, from_line, to_line in _images(rows, len(lines), captions):
        at = builder.image(f"{stem}/{first}", split, row=start + first)
        for number in range(from_line, to_line):
            builder.sentence(lines[number], at, f"{captions}:{number + 1}")


def _images(rows: NDArray[np.generic], lines: int, captions: Path) -> list[tuple[int, int, int]]:
    """Return for each image its first row, the first line of its sentences, and the line after the last."""
    count = len(rows)
    if count and lines > count and lines % count == 0:
        each = lines // count
        return [(row, row * each, (row + 1) * each) for row in range(count)]
    if lines != count:
        raise SeesayError(
            f"{captions}: {lines} lines for {count} rows of features; expected one line for each row, "
            "or the same number for each."
        )
    if not count:
        return []
    starts = _run_starts(rows)
    return [(a, a, b) for a, b in zip(starts, [*starts[1:], count], strict=True)]


def _run_starts(rows: NDArray[np.generic]) -> list[int]:
    """Find the first row of each image when each row belongs to a sentence.

    In published files, each row is repeated five times; otherwise, each run of equal rows is an image.
    """
    new = np.ones(len(rows), bool)
    for start in range(1, len(rows), _BLOCK):
        block = np.ascontiguousarray(rows[start - 1 : start + _BLOCK]).reshape(-1, rows[0].size)
        same = block.view(np.uint8)  # NaN is equal to itself
        new[start : start + _BLOCK] = (same[1:] != same[:-1]).any(axis=1)
    fives = np.arange(len(rows)) % 5 == 0
    if len(rows) % 5 == 0 and not new[~fives].any():
        new = fives  # two neighbouring images may have equal features
    return [int(start) for start in np.flatnonzero(new)]
