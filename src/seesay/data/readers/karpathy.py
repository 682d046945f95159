"""Karpathy's split files: `dataset_*.json`, images in a folder or a tar beside it, or `vgg_feats.mat`.

Features of regions, in files as of bottom-up attention, may lie beside it too, with images or without.

Source: Karpathy and Fei-Fei, "Deep Visual-Semantic Alignments", CVPR 2015, and its code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Corpus
from seesay.data.instance_files import InstanceFiles, find_instance_files
from seesay.data.readers._builder import MISSING_IMAGE, REPEATED_IMAGE, REPEATED_ROW, CorpusBuilder
from seesay.data.readers._finder import ImageFinder
from seesay.data.readers._splits import canonical_split
from seesay.data.readers._text import need, read_json
from seesay.errors import SeesayError

NAME = "karpathy"
LOOKS_LIKE = "dataset_*.json with images beside it"
FEATURES = "vgg_feats.mat"


def recognises(path: Path) -> bool:
    """A folder with a `dataset_*.json`, or such a file."""
    if path.is_file():
        return path.suffix == ".json" and path.name.startswith("dataset")
    return bool(_candidates(path))


def read(path: Path) -> Corpus:
    """Read the corpus; COCO's `restval` images count as train.

    Raises:
        SeesayError: no or several split files, malformed JSON, or no image left.
    """
    file = path if path.is_file() else _only_file(path)
    document = read_json(file)
    records = need(document, "images", list, str(file))
    name = document.get("dataset")
    builder = CorpusBuilder(name if isinstance(name, str) else file.stem, file.parent)
    finder = ImageFinder(file.parent, builder.issues)
    matrix = file.parent / FEATURES
    features: NDArray[np.float32] | InstanceFiles | None = None
    if regions := find_instance_files(file.parent):
        features = InstanceFiles(regions)
    elif matrix.exists() and not _any_there(finder, records):
        features = _load_features(matrix)
    seen_sentences: set[int] = set()
    for index, record in enumerate(records):
        where = f"{file}: images[{index}]"
        at = _add_image(builder, finder, record, where, features)
        if at is not None:
            _add_sentences(builder, at, record, where, seen_sentences)
    return builder.finish(features.features if isinstance(features, InstanceFiles) else features)


def _candidates(folder: Path) -> list[Path]:
    return sorted([*folder.glob("dataset_*.json"), *folder.glob("dataset.json")])


def _only_file(folder: Path) -> Path:
    files = _candidates(folder)
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise SeesayError(f"{folder}: one dataset_*.json is wanted, found {names}; give the file's path.")
    return files[0]


def _any_there(finder: ImageFinder, records: list[Any]) -> bool:
    """Whether any of the first listed images is there as pixels."""
    return any(
        isinstance(record, dict)
        and isinstance(record.get("filename"), str)
        and finder.find(record["filename"], str(record.get("filepath", ""))) is not None
        for record in records[:1000]
    )


def _add_image(
    builder: CorpusBuilder,
    finder: ImageFinder,
    record: object,
    where: str,
    features: NDArray[np.float32] | InstanceFiles | None,
) -> int | None:
    """The image's position, or None where it is missing."""
    filename = need(record, "filename", str, where)
    split = canonical_split(need(record, "split", str, where), where)
    if builder.has(filename):
        builder.issues.add(REPEATED_IMAGE, f"{where} {filename}")
        return builder.image(filename, split)
    row = _row(record, filename, where, features)
    assert isinstance(record, dict)
    source = (
        None if isinstance(features, np.ndarray) else finder.find(filename, str(record.get("filepath") or ""))
    )
    if source is None and row is None:
        builder.issues.add(MISSING_IMAGE, f"{where} {filename}")
        return None
    return builder.image(filename, split, source, row)


def _row(
    record: object, filename: str, where: str, features: NDArray[np.float32] | InstanceFiles | None
) -> int | None:
    """Where the image's features stand, if it has any."""
    if isinstance(features, InstanceFiles):
        assert isinstance(record, dict)
        return features.row(filename, record.get("cocoid"))
    if features is None:
        return None
    row = need(record, "imgid", int, where)
    if not 0 <= row < len(features):
        raise SeesayError(
            f"{where}: imgid {row} has no column in {FEATURES}, whose feats hold {len(features)}."
        )
    return row


def _add_sentences(builder: CorpusBuilder, at: int, record: object, where: str, seen: set[int]) -> None:
    for position, sentence in enumerate(need(record, "sentences", list, where)):
        spot = f"{where}.sentences[{position}]"
        if isinstance(sentence, dict) and isinstance(sentence.get("sentid"), int):
            if sentence["sentid"] in seen:
                builder.issues.add(REPEATED_ROW, spot)
                continue
            seen.add(sentence["sentid"])
        if isinstance(sentence, dict) and "raw" not in sentence and "tokens" in sentence:
            text = " ".join(map(str, need(sentence, "tokens", list, spot)))
        else:
            text = need(sentence, "raw", str, spot)
        builder.sentence(text, at, spot)


def _load_features(path: Path) -> NDArray[np.float32]:
    """`feats` of a MATLAB file, (d, n) there, as (n, d): row imgid is that image's."""
    from scipy.io import loadmat  # slow to import, and rarely wanted

    try:
        matrix = loadmat(path, variable_names=["feats"])["feats"]
    except (OSError, ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise SeesayError(f"{path}: not a MATLAB 5 file with 'feats' in it ({error}).") from error
    if not (isinstance(matrix, np.ndarray) and matrix.ndim == 2 and matrix.dtype.kind in "fiu"):
        raise SeesayError(f"{path}: 'feats' is to be a (d, n) matrix of numbers.")
    return np.asarray(matrix.T, np.float32)
