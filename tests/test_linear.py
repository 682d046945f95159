"""The time of every parser of what strangers send grows no faster than its input."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pillow_heif import register_heif_opener

from seesay.data.images import EncodedImage, file_format
from seesay.data.readers import READERS, read_corpus
from seesay.data.texts import parse_json
from seesay.errors import ImageError, SeesayError
from seesay.paths import open_file
from seesay.search import filters, query
from seesay.search.filters import Filter
from seesay.search.query import Query
from seesay.text.chunker import noun_phrases
from seesay.text.concepts import content_words
from seesay.text.spelling import unknown_words
from seesay.text.tokens import replace_words
from seesay.text.vocabulary import Vocabulary
from seesay.text.words import words_or_signs
from seesay.web.routes import end_of
from seesay.web.security import host_allowed
from tests.data.readers.conftest import jpeg
from tests.linear import check_linear

JPEG = jpeg("a")
ANNOTATION = "<annotation><size><width>60</width><height>40</height></size></annotation>"

PARSERS: dict[str, Callable[[str], object]] = {
    "query": Query.parse,
    "filter": Filter.parse,
    "cursor": end_of,
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
    "karpathy-without-restval": ("karpathy-without-restval", "dataset_a.json", '{"images": [', "]}", False),
    "coco": ("coco", "captions_a.json", '{"annotations": [], "images": [', "]}", False),
    "precomp": ("precomp", "test_caps.txt", "", "", False),
    "pairs": ("pairs", "a.txt", "", "", False),
    "phrase-table": ("phrase-table", "a.jsonl", "", "", True),
    "flickr30k-entities": ("flickr30k-entities", "Sentences/1.txt", "", "", True),
}
BINARY = {"folder"}  # what has no text
IN_CORPORA = (
    *("a", " ", "\n", '"', ",", "#1 ", "a.jpg#1 b\n", "a.jpg,b\n", "a.jpg\tb\n"),
    *("[/EN#1/b", "[/EN#1/b ", "[/EN#1/b c] ", "[/EN#", "{}\n", '{"filename": "a", "file_name": "a"},'),
)


def test_every_reader_of_text_is_timed() -> None:
    assert {format for format, *_ in CORPORA.values()} | BINARY == READERS.keys()


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("repeated", IN_CORPORA)
def test_the_time_of_reading_a_corpus_is_linear(tmp_path: Path, name: str, repeated: str) -> None:
    format, file, start, end, phrases = CORPORA[name]
    for image in ("a.jpg", "1.jpg"):
        (tmp_path / image).write_bytes(JPEG)
    (tmp_path / "Annotations").mkdir()
    (tmp_path / "Annotations/1.xml").write_text(ANNOTATION)
    np.save(tmp_path / "test_ims.npy", np.zeros((1, 4), np.float32))
    (tmp_path / file).parent.mkdir(exist_ok=True)

    def parse(text: str) -> None:
        whole = start + (text.removesuffix(",") if end else text) + end
        (tmp_path / file).write_text(whole, encoding="utf-8")
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


def chunk(name: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def saved(format: str, **options: object) -> bytes:
    """A small image."""
    register_heif_opener()
    Image.new("RGB", (60, 40), "red").save(out := io.BytesIO(), format, **options)
    return out.getvalue()


def after(head: int, data: bytes) -> tuple[bytes, bytes]:
    """What stands before and behind a place in which something is repeated."""
    return data[:head], data[head:]


PNG, GIF, WEBP, HEIC, AVIF, JP2, TIFF = map(saved, ("PNG", "GIF", "WEBP", "HEIF", "AVIF", "JPEG2000", "TIFF"))
HEADERS = {
    "PNG texts": (*after(33, PNG), chunk(b"tEXt", b"a\0b")),
    "PNG compressed texts": (*after(33, PNG), chunk(b"zTXt", b"a\0\0" + zlib.compress(b"b" * 9))),
    "PNG Exif": (*after(33, PNG), chunk(b"eXIf", b"II*\0\x08\0\0\0\0\0")),
    "PNG unknown": (*after(33, PNG), chunk(b"aaAa", b"")),
    "PNG pixels": (*after(33, PNG), chunk(b"IDAT", b"")),
    "GIF comments": (*after(13, GIF), b"!\xfe\x02hi\0"),
    "GIF blocks": (*after(13, GIF), b"!\xff\x02hi\0"),
    "GIF frames": (*after(13, GIF), b",\0\0\0\0\1\0\1\0\0\2\2D\1\0"),
    "WebP chunks": (WEBP, b"", b"EXIF\2\0\0\0II"),
    "HEIC brands": (*after(16, HEIC), b"heic"),
    "HEIC boxes": (*after(int.from_bytes(HEIC[:4], "big"), HEIC), b"\0\0\0\x08free"),
    "AVIF boxes": (*after(int.from_bytes(AVIF[:4], "big"), AVIF), b"\0\0\0\x08free"),
    "JPEG 2000 boxes": (*after(32, JP2), b"\0\0\0\x08free"),
    "PPM comments": (b"P6 ", b"1 1 255 abc", b"#\n"),
    "PPM spaces": (b"P6", b" 1 1 255 abc", b" "),
    "BMP": (b"BM", b"", b"\0"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_the_time_of_reading_other_headers_is_linear(tmp_path: Path, name: str) -> None:
    start, end, repeated = HEADERS[name]
    file = tmp_path / "a"

    def parse(data: bytes) -> None:
        with suppress(ImageError):
            image = EncodedImage(data, "a")
            _ = image.facts, image.size
        file.write_bytes(data)
        with open_file(file) as opened:
            file_format(opened)

    parse(start + end)
    check_linear(parse, lambda size: start + repeated * (size // len(repeated)) + end, 256_000)


@pytest.mark.parametrize("kind", ["tags", "directories"])
def test_the_time_of_reading_the_header_of_a_tiff_is_linear(kind: str) -> None:
    def made(size: int) -> bytes:
        if kind == "tags":  # of one directory, which has two bytes for their number
            count = min(size // 12, 0xFFFF)
            tags = b"".join(struct.pack("<HHII", 0x9000 + i % 99, 3, 1, i) for i in range(count))
            return b"II*\0\x08\0\0\0" + struct.pack("<H", count) + tags + bytes(4)
        places = range(8, 8 + size - size % 6, 6)  # empty ones, each of which names the next
        return b"II*\0\x08\0\0\0" + b"".join(struct.pack("<HI", 0, place + 6) for place in places) + bytes(6)

    def parse(data: bytes) -> None:
        with suppress(ImageError):
            _ = EncodedImage(data, "a").facts, EncodedImage(data, "a").size

    parse(TIFF)
    check_linear(parse, made, 256_000)


@pytest.mark.parametrize("kind", ["groups of rows", "columns", "pages"])
def test_the_time_of_reading_parquet_is_linear(tmp_path: Path, kind: str) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'seesay[parquet]'")
    from pyarrow.parquet import write_table

    Image.new("RGB", (8, 8)).save(tmp_path / "1.jpg")

    def made(count: int) -> Path:
        file = tmp_path / f"{kind} {count}.parquet"
        rows = {"image": ["1.jpg"] * count, "caption": ["a dog"] * count}
        if kind == "columns":
            rows = {"image": ["1.jpg"], "caption": ["a dog"]} | {f"other {i}": ["x"] for i in range(count)}
        write_table(
            pa.table(rows),
            file,
            use_dictionary=False,
            row_group_size=1 if kind == "groups of rows" else count,
            data_page_size=1 if kind == "pages" else None,
            write_batch_size=1 if kind == "pages" else None,
        )
        return file

    read_corpus(made(1))
    check_linear(read_corpus, made, 960 if kind == "pages" else 1600)  # more pages would be refused


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
