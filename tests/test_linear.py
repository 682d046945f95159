"""The time of every parser of what strangers send grows no faster than its input."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from seesay.data.images import EncodedImage
from seesay.data.readers import READERS, read_corpus
from seesay.data.readers.files import parse_json
from seesay.errors import ImageError, SeesayError
from seesay.search import filters, query
from seesay.search.filters import Filter
from seesay.search.query import Query
from seesay.text.chunker import noun_phrases
from seesay.text.concepts import content_words
from seesay.text.vocabulary import Vocabulary, replace_words
from seesay.text.words import unknown_words, words_or_signs
from seesay.web.connections import host_allowed
from seesay.web.routes.parameters import place_of
from tests.data.readers.conftest import jpeg
from tests.linear import check_linear

JPEG = jpeg("a")
ANNOTATION = "<annotation><size><width>60</width><height>40</height></size></annotation>"

PARSERS: dict[str, Callable[[str], object]] = {
    "query": Query.parse,
    "filter": Filter.parse,
    "cursor": place_of,
    "host": lambda text: host_allowed(text, {"localhost"}),
    "JSON": lambda text: parse_json(text, "file"),
    "words": words_or_signs,
    "other words": lambda text: replace_words(text, {"a": "b"}),
    "noun phrases": noun_phrases,
    "content words": content_words,
    "unknown words": lambda text: unknown_words([text], Vocabulary(["dog"]), english=True),
}
SIZES = {
    "query": query.MAX_CHARACTERS,
    "filter": filters.MAX_CHARACTERS,
    "noun phrases": 8_000,
    "content words": 8_000,
}
"""Characters of the large input where 64,000 would be refused unread, or are slow."""
REPEATED = (
    *("a", " ", "9", "a ", "ä", "[", ",", "-", '"', '\\"', "(", ":", ".."),  # letters and signs
    *(" - ", "1*", "taken:2019 ", "id:1 + "),  # parts of queries and filters
)


CORPORA = {  # a format, a file, what stands before and behind the repeated text, and whether it is of phrases
    "table": ("table", "a.csv", "image,caption\n", "", False),
    "captions": ("table", "a.tsv", "image\tcap1\n", "", False),
    "flickr-token": ("flickr-token", "a.token", "", "", False),
    "karpathy": ("karpathy", "dataset_a.json", '{"images": [', "]}", False),
    "coco": ("coco", "captions_a.json", '{"annotations": [], "images": [', "]}", False),
    "precomp": ("precomp", "test_caps.txt", "", "", False),
    "webdataset": ("webdataset", "a.tar", "", "", False),
    "phrase-table": ("phrase-table", "a.jsonl", "", "", True),
    "flickr30k-entities": ("flickr30k-entities", "Sentences/1.txt", "", "", True),
    "refcoco": ("refcoco", "refs.json", "[", "]", True),
}
BINARY = {"parquet", "folder"}  # what has no text
IN_CORPORA = (
    *("a", " ", "\n", '"', ",", "#1 ", "a.jpg#1 b\n", "a.jpg,b\n", "a.jpg\tb\n"),
    *("[/EN#1/b", "[/EN#1/b ", "[/EN#1/b c] ", "[/EN#", "{}\n", '{"filename": "a", "file_name": "a"},'),
)


def test_every_reader_of_text_is_timed() -> None:
    assert {format for format, *_ in CORPORA.values()} | BINARY == READERS.keys()


def tar(text: str) -> bytes:
    """A shard of an image and its sentences."""
    with tarfile.open(fileobj=(out := io.BytesIO()), mode="w") as shard:
        for name, data in (("a.jpg", JPEG), ("a.txt", text.encode())):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            shard.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("repeated", IN_CORPORA)
def test_the_time_of_reading_a_corpus_is_linear(tmp_path: Path, name: str, repeated: str) -> None:
    format, file, start, end, phrases = CORPORA[name]
    for image in ("a.jpg", "1.jpg"):
        (tmp_path / image).write_bytes(JPEG)
    (tmp_path / "Annotations").mkdir()
    (tmp_path / "Annotations/1.xml").write_text(ANNOTATION)
    (tmp_path / "instances.json").write_text('{"images": [], "annotations": []}')
    np.save(tmp_path / "test_ims.npy", np.zeros((1, 4), np.float32))
    (tmp_path / file).parent.mkdir(exist_ok=True)

    def parse(text: str) -> None:
        whole = start + (text.removesuffix(",") if end else text) + end
        (tmp_path / file).write_bytes(tar(whole) if file.endswith(".tar") else whole.encode())
        with suppress(SeesayError):
            read_corpus(tmp_path, format, phrases=phrases)

    parse("a")
    check_linear(parse, lambda size: repeated * (size // len(repeated)), 64_000)


SEGMENTS = {
    "comments": b"\xff\xfe\x00\x04hi",
    "Exif": b"\xff\xe1\x00\x10Exif\x00\x00II*\x00\x00\x00\x00\x00",
    "profiles": b"\xff\xe2\x00\x10ICC_PROFILE\x00\x01\x01",
    "fill": b"\xff",
}


@pytest.mark.parametrize("segment", SEGMENTS.values(), ids=SEGMENTS)
def test_the_time_of_reading_the_header_of_a_jpeg_is_linear(segment: bytes) -> None:
    def parse(data: bytes) -> None:
        with suppress(ImageError):
            _ = EncodedImage(data, "a").facts

    parse(JPEG)
    check_linear(parse, lambda size: JPEG[:2] + segment * (size // len(segment)) + JPEG[2:], 256_000)


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("repeated", REPEATED)
def test_the_time_of_a_parser_is_linear(name: str, repeated: str) -> None:
    def parse(text: str) -> None:
        failure = ""
        try:
            PARSERS[name](text)
        except SeesayError as error:
            failure = str(error)
        assert "characters; the limit is" not in failure

    parse("a")  # what is loaded at the first call is none of its time
    check_linear(parse, lambda size: repeated * (size // len(repeated)), SIZES.get(name, 64_000))
