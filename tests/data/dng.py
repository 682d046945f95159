"""Raw photos for tests: small DNG files, as Adobe's specification lays them out, without a camera."""

from __future__ import annotations

import io
import struct

import numpy as np
from PIL import Image

_BYTE, _ASCII, _SHORT, _LONG, _RATIONAL, _SIGNED_RATIONAL = 1, 2, 3, 4, 5, 10
_BYTES = {_BYTE: 1, _ASCII: 1, _SHORT: 2, _LONG: 4, _RATIONAL: 8, _SIGNED_RATIONAL: 8}
_CODES = {_BYTE: "B", _SHORT: "H", _LONG: "I"}

Entry = tuple[int, int, list[int] | bytes]


def stripes(width: int, height: int, left: tuple[int, int, int], right: tuple[int, int, int]) -> Image.Image:
    """An image of two halves."""
    image = Image.new("RGB", (width, height), left)
    image.paste(right, (width // 2, 0, width, height))
    return image


def dng(sensor: Image.Image, preview: Image.Image | None = None, orientation: int = 1) -> bytes:
    """A DNG whose sensor saw one image, with the JPEG of another as its preview.

    Args:
        sensor: what the colour filter array saw, in linear RGB.
        preview: a picture in the file, as cameras put it there.
        orientation: as in EXIF.
    """
    rgb = np.asarray(sensor, np.uint16) * 64
    mosaic = np.where(np.indices(rgb.shape[:2]).sum(axis=0) % 2 == 1, rgb[..., 1], rgb[..., 0])
    mosaic[1::2, 1::2] = rgb[1::2, 1::2, 2]
    jpeg = io.BytesIO()
    if preview is not None:
        preview.save(jpeg, "JPEG", quality=95)
    raw = mosaic.astype("<u2").tobytes()
    start = 8
    preview_at, raw_at = start, start + len(jpeg.getvalue())
    directories = raw_at + len(raw)
    cfa: list[Entry] = [
        (254, _LONG, [0]),
        (256, _LONG, [sensor.width]),
        (257, _LONG, [sensor.height]),
        (258, _SHORT, [16]),
        (259, _SHORT, [1]),
        (262, _SHORT, [32803]),
        (273, _LONG, [raw_at]),
        (277, _SHORT, [1]),
        (278, _LONG, [sensor.height]),
        (279, _LONG, [len(raw)]),
        (33421, _SHORT, [2, 2]),
        (33422, _BYTE, [0, 1, 1, 2]),
        (50714, _SHORT, [0]),
        (50717, _LONG, [255 * 64]),
    ]
    camera: list[Entry] = [
        (271, _ASCII, b"Seesay\0"),
        (272, _ASCII, b"Test camera\0"),
        (274, _SHORT, [orientation]),
        (50706, _BYTE, [1, 4, 0, 0]),
        (50708, _ASCII, b"Seesay Test camera\0"),
        (50721, _SIGNED_RATIONAL, [value for each in np.eye(3, dtype=int).ravel() for value in (each, 1)]),
        (50728, _RATIONAL, [1, 1, 1, 1, 1, 1]),
        (50778, _SHORT, [21]),
    ]
    head = b"II*\0" + struct.pack("<I", directories) + jpeg.getvalue() + raw
    if preview is None:
        return head + _directory(sorted(cfa + camera), directories)
    first: list[Entry] = [
        (254, _LONG, [1]),
        (256, _LONG, [preview.width]),
        (257, _LONG, [preview.height]),
        (258, _SHORT, [8, 8, 8]),
        (259, _SHORT, [7]),
        (262, _SHORT, [6]),
        (273, _LONG, [preview_at]),
        (277, _SHORT, [3]),
        (278, _LONG, [preview.height]),
        (279, _LONG, [len(jpeg.getvalue())]),
    ]
    entries = sorted(first + camera + [(330, _LONG, [0])])
    second_at = directories + len(_directory(entries, directories))
    entries = sorted(first + camera + [(330, _LONG, [second_at])])
    return head + _directory(entries, directories) + _directory(cfa, second_at)


def _directory(entries: list[Entry], at: int) -> bytes:
    """An IFD of TIFF that stands at an offset, with the values that do not fit into it behind it."""
    rows, behind = b"", b""
    behind_at = at + 2 + 12 * len(entries) + 4
    for tag, kind, values in entries:
        if isinstance(values, bytes):
            data = values
        elif kind in (_RATIONAL, _SIGNED_RATIONAL):
            data = struct.pack(f"<{len(values)}{'I' if kind == _RATIONAL else 'i'}", *values)
        else:
            data = struct.pack(f"<{len(values)}{_CODES[kind]}", *values)
        count = len(data) // _BYTES[kind]
        if len(data) <= 4:
            rows += struct.pack("<HHI", tag, kind, count) + data.ljust(4, b"\0")
        else:
            rows += struct.pack("<HHII", tag, kind, count, behind_at + len(behind))
            behind += data + b"\0" * (len(data) % 2)
    return struct.pack("<H", len(entries)) + rows + struct.pack("<I", 0) + behind
