"""The sizes of the pages of Parquet files, read from their headers before anything is decompressed.

The sizes in the metadata at the end of a file may be false, and a page of a few kilobytes can expand to
gigabytes, which pyarrow does not limit. Page headers are structs in Thrift's compact encoding, read here as
Thrift's C++ library reads them, so that both find the same sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

_HEADER, _MAX_HEADER = 1 << 10, 1 << 20  # bytes that are read at first, and at most
_PADDING = 100  # bytes after a column that readers also look at, since old writers counted too few
_DEPTH = 8
_UNCOMPRESSED, _COMPRESSED = 2, 3  # fields of a page header
_TRUE, _FALSE, _BYTE, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 5, 6, 7, 8, 9, 10, 12

Read = Callable[[int, int], bytes]
"""Called with an offset and a size, returns that many bytes of a file, or fewer at its end."""


def page_sizes(read: Read, start: int, size: int) -> Iterator[tuple[int, int]]:
    """Iterate over the sizes of a column's pages in bytes, decompressed and in the file.

    Args:
        read: reads the file.
        start: the offset of the column's pages.
        size: their total size in the file.

    Raises:
        ValueError: a page header is invalid.
    """
    at = start
    while at < start + size + _PADDING:
        try:
            expanded, compressed, length = _page(read, at)
        except ValueError:
            if at < start + size:
                raise
            return
        yield expanded, compressed
        at += length + compressed


def _page(read: Read, at: int) -> tuple[int, int, int]:
    """Read a page header: the two sizes of the page, and the length of the header."""
    wanted = _HEADER
    while True:
        data = read(at, wanted)
        try:
            header = _Header(data)
            fields = header.fields()
        except IndexError:
            if len(data) < wanted or wanted >= _MAX_HEADER:
                raise ValueError("no page header") from None
            wanted *= 32
            continue
        sizes = fields.get(_UNCOMPRESSED, -1), fields.get(_COMPRESSED, -1)
        if min(sizes) < 0:
            raise ValueError("a page without sizes")
        return *sizes, header.at


class _Header:
    """Reads a struct; raises IndexError if it continues after the data."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def fields(self, depth: int = _DEPTH) -> dict[int, int]:
        """Read a struct: its 32-bit numbers by field, the last of each; other values are skipped."""
        found, field = dict[int, int](), 0
        while kind := self._byte():
            field = (field + (kind >> 4) if kind >> 4 else self._number()) & 0xFFFF
            value = self._value(kind & 15, depth)
            if value is not None and kind & 15 == _I32:
                found[field] = value
        return found

    def _value(self, kind: int, depth: int) -> int | None:
        """Read a value, or skip one that is not a number."""
        if kind in (_TRUE, _FALSE):
            return None
        if kind == _BYTE:
            return self._byte()
        if _BYTE < kind <= _I64:
            return self._number()
        if kind == _DOUBLE:
            self._skip(8)
        elif kind == _BINARY:
            self._skip(self._varint())
        elif kind in (_LIST, _SET) and depth:
            head = self._byte()
            for _ in range(self._varint() if head >> 4 == 15 else head >> 4):
                self._skip(1) if head & 15 in (_TRUE, _FALSE) else self._value(head & 15, depth - 1)
        elif kind == _STRUCT and depth:
            self.fields(depth - 1)
        else:
            raise ValueError(f"a page header with a value of kind {kind}")
        return None

    def _byte(self) -> int:
        byte = self.data[self.at]
        self.at += 1
        return byte

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self.data):
            raise IndexError(self.at)

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a number that is too long")

    def _number(self) -> int:
        value = self._varint() & 0xFFFFFFFF
        return value >> 1 ^ -(value & 1)
