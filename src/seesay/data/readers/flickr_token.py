"""Flickr token files, `name.jpg#0<tab>sentence`, with lists of the images of each split.

Flickr8k: `Flickr8k.token.txt`, `Flickr_8k.trainImages.txt`, `.devImages`, `.testImages`. Flickr30k:
`results_20130124.token`, `train.txt`, `val.txt`, `test.txt`, which may leave `.jpg` out.
Sources: Hodosh et al., JAIR 47 (2013); Young et al., TACL 2 (2014).
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from seesay.data.corpus import ByteSource, Corpus
from seesay.data.readers._builder import (
    MALFORMED_LINE,
    MISSING_IMAGE,
    NO_SPLIT_LISTED,
    REPEATED_ROW,
    TWO_SPLITS,
    CorpusBuilder,
)
from seesay.data.readers._finder import ImageFinder
from seesay.data.readers._splits import canonical_split
from seesay.data.readers._text import read_lines
from seesay.errors import SeesayError

NAME = "flickr-token"
LOOKS_LIKE = "*.token or *.token.txt with train/dev/test lists"
_LIST = re.compile(r"(?:.*[._-])?(train|trn|dev|val|test)(?:_?images?)?\.(?:txt|lst)", re.IGNORECASE)
_LINE = re.compile(r"(?P<key>(?P<name>[^\t]+?)#\d+)\s+(?P<text>.*)|(?P<bare>[^\t]+?#\d+)\s*")


def recognises(path: Path) -> bool:
    """A folder with a token file, or the file."""
    return _is_token(path) if path.is_file() else bool(_token_files(path))


def read(path: Path) -> Corpus:
    """Read the sentences of the token file and the splits of the lists beside it.

    Raises:
        SeesayError: no or several token files, undecodable text, or no image left.
    """
    file = path if path.is_file() else _only_token(path)
    root = path if path.is_dir() else file.parent
    builder = CorpusBuilder(root.resolve().name, root)
    finder = ImageFinder(root, builder.issues)
    splits = _read_lists(root, builder)
    sources: dict[str, ByteSource | None] = {}
    reported: set[str] = set()
    seen: set[str] = set()
    for number, line in enumerate(read_lines(file), start=1):
        where = f"{file}:{number}"
        match = _LINE.fullmatch(line)
        if match is None:
            if line.strip():
                builder.issues.add(MALFORMED_LINE, where)
            continue
        key = match["key"] or match["bare"]
        name = key.rpartition("#")[0]
        if key in seen:
            builder.issues.add(REPEATED_ROW, f"{where} {key}")
            continue
        seen.add(key)
        split = splits.get(_stem(name)) if splits else None
        if name not in sources:
            sources[name] = finder.find(name)
        source = sources[name]
        if source is None or (splits and split is None):
            if name not in reported:
                kind = NO_SPLIT_LISTED if splits and split is None else MISSING_IMAGE
                builder.issues.add(kind, f"{where} {name}")
                reported.add(name)
            continue
        builder.sentence(match["text"] or "", builder.image(name, split, source), where)
    _add_silent(builder, finder, splits, {_stem(name) for name in sources})
    return builder.finish()


def _is_token(path: Path) -> bool:
    name = path.name.lower()
    return "lemma" not in name and name.endswith((".token", ".token.txt"))


def _near(folder: Path) -> list[Path]:
    """Files of the folder and of the folders in it: Flickr8k keeps its text in `Flickr8k_text/`."""
    return sorted(
        p
        for pattern in ("*.txt", "*.lst", "*.token")
        for depth in ("", "*/")
        for p in folder.glob(depth + pattern)
        if p.is_file() and not p.name.startswith(".")
    )


def _token_files(folder: Path) -> list[Path]:
    return [path for path in _near(folder) if _is_token(path)]


def _only_token(folder: Path) -> Path:
    files = _token_files(folder)
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise SeesayError(f"{folder}: one token file is wanted, found {names}; give the file's path.")
    return files[0]


def _stem(name: str) -> str:
    """What a list and a token file agree on: lists may leave the suffix out."""
    path = PurePosixPath(name)
    return path.stem if path.suffix.lower() in (".jpg", ".jpeg", ".png") else path.name


def _read_lists(root: Path, builder: CorpusBuilder) -> dict[str, str]:
    """The split of each image stem; empty when there are no lists."""
    splits: dict[str, str] = {}
    for path in _near(root):
        match = _LIST.fullmatch(path.name)
        if match is None:
            continue
        split = canonical_split(match[1], str(path))
        for number, line in enumerate(read_lines(path), start=1):
            name = line.strip()
            if name and splits.setdefault(_stem(name), split) != split:
                builder.issues.add(TWO_SPLITS, f"{path}:{number} {name}")
    return splits


def _add_silent(builder: CorpusBuilder, finder: ImageFinder, splits: dict[str, str], told: set[str]) -> None:
    """Images that the lists name and no sentence does: kept where they are there."""
    for stem in sorted(splits.keys() - told):
        source = finder.find(f"{stem}.jpg")
        if source is None:
            builder.issues.add(MISSING_IMAGE, f"{builder.root}: {stem} in the {splits[stem]} list")
        else:
            builder.image(f"{stem}.jpg", splits[stem], source)
