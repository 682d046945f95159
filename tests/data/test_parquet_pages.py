"""Headers of Parquet's pages, read as pyarrow reads them: what it skips or cuts off hides no size."""

from __future__ import annotations

import pytest

from seesay.data.parquet_pages import page_sizes

I32, I64, LARGE = 5, 6, 2**31 - 1


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def field(number: int, kind: int, value: int) -> bytes:
    """A field with its number in full, and a value that is not negative."""
    return bytes([kind]) + varint(2 * number) + varint(2 * value)


KIND = field(1, I32, 0)


@pytest.mark.parametrize(
    "fields",
    [
        field(2, I32, LARGE) + field(3, I32, 7),
        field(2, I32, LARGE) + field(2, I64, 10) + field(3, I32, 7),
        field(2, I32, 10) + field(2 + (1 << 16), I32, LARGE) + field(3, I32, 7),
        field(2, I32, LARGE) + field(3, I32, 7 + (1 << 31)),
    ],
    ids=["plain", "of another kind", "a field of more than 16 bits", "a size of more than 32 bits"],
)
def test_sizes_are_those_that_thrift_reads(fields: bytes) -> None:
    header = KIND + fields + b"\0"
    pages = (header + b"content") * 2
    found = list(page_sizes(lambda at, size: pages[at : at + size], 0, len(pages)))
    assert found == [(LARGE, 7)] * 2
