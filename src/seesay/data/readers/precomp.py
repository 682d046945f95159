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
            stem, count = file.name.removesuffix(_SUFFIX), len(rows)
            split = canonical_split("test" if stem == "testall" else stem, str(file))
            captions = file.with_name(f"{stem}_caps.txt")
            builder.uses(captions)
            lines = read_lines(captions)
            each, rest = divmod(len(lines), max(count, 1))
            if rest or bool(each) != bool(count):
                raise SeesayError(
                    f"{captions}: {len(lines)} lines for {count} rows of features; expected one line for "
                    "each row, or the same number for each."
                )
            owners = np.repeat(np.arange(count), each) if each > 1 else _first_rows(rows)
            for number, (line, first) in enumerate(zip(lines, owners.tolist(), strict=True), start=1):
                at = builder.image(f"{stem}/{first}", split, row=start + first)
                builder.sentence(line, at, f"{captions}:{number}")
            start += count


def _first_rows(rows: NDArray[np.generic]) -> NDArray[np.integer]:
    """Return the first row of each row's image, if each row belongs to a sentence.

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
    return np.maximum.accumulate(np.where(new, np.arange(len(rows)), 0))
