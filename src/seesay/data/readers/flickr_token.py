"""Flickr token files, `name.jpg#0<tab>sentence`, with lists of the images of each split.

Flickr8k: `Flickr8k.token.txt`, `Flickr_8k.trainImages.txt`, `.devImages`, `.testImages`. Flickr30k:
`results_20130124.token`, `train.txt`, `val.txt`, `test.txt`, which may omit `.jpg`.
Sources: Hodosh et al., JAIR 47 (2013); Young et al., TACL 2 (2014).
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import NO_SPLIT_LISTED, CorpusBuilder
from seesay.data.readers.files import MALFORMED_LINE, read_lines

_LIST = re.compile(r"(?:.*[._-])?(train|trn|dev|val|test)(?:_?images?)?\.(?:txt|lst)", re.IGNORECASE)
_LINE = re.compile(r"(?P<key>(?P<name>[^\t]+?)#\d+)\s+(?P<text>.*)|(?P<bare>[^\t]+?#\d+)\s*")


@register_reader
class FlickrTokenReader(Reader):
    """Reads the sentences of the token file and the splits of the lists beside it."""

    name = "flickr-token"
    looks_like = "*.token or *.token.txt with train/dev/test lists"
    order = 30

    def files(self, path: Path) -> list[Path]:
        return [file for file in ([path] if path.is_file() else _near(path)) if _is_token(file)]

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        (file,) = self.find(path, single=True)
        root = builder.root
        builder.name = root.resolve().name
        lists = ((list_, match[1]) for list_ in _near(root) if (match := _LIST.fullmatch(list_.name)))
        splits = builder.read_split_lists(lists, _stem)
        described = _add_sentences(file, splits, builder)
        for stem in sorted(splits.keys() - {_stem(name) for name in described}):
            builder.find_image(f"{stem}.jpg", splits[stem], f"{root}: in the {splits[stem]} list,")


def _add_sentences(file: Path, splits: dict[str, str], builder: CorpusBuilder) -> set[str]:
    """Add sentences and their images; return the names of all images that have a line."""
    described: set[str] = set()
    for number, line in enumerate(read_lines(file), start=1):
        where = f"{file}:{number}"
        match = _LINE.fullmatch(line)
        if match is None:
            if line.strip():
                builder.issues.add(MALFORMED_LINE, where)
            continue
        key = match["key"] or match["bare"]
        name, text = key.rpartition("#")[0], match["text"] or ""
        split = splits.get(_stem(name))
        if splits and split is None:
            if name not in described:
                builder.issues.add(NO_SPLIT_LISTED, f"{where} {name}")
        else:
            at = builder.find_image(name, split, where)
            if not builder.is_repeated(key, text, at, where):
                builder.sentence(text, at, where)
        described.add(name)
    return described


def _is_token(path: Path) -> bool:
    name = path.name.lower()
    return "lemma" not in name and name.endswith((".token", ".token.txt"))


def _near(folder: Path) -> list[Path]:
    """Files of the folder and of the folders in it: Flickr8k's texts are in `Flickr8k_text/`."""
    return sorted(
        path
        for pattern in ("*.txt", "*.lst", "*.token")
        for depth in ("", "*/")
        for path in folder.glob(depth + pattern)
        if path.is_file() and not path.name.startswith(".")
    )


def _stem(name: str) -> str:
    """Return the name as lists and token files share it: lists may omit the suffix."""
    path = PurePosixPath(name)
    return path.stem if path.suffix.lower() in (".jpg", ".jpeg", ".png") else path.name
