"""Raw photos: the preview that the camera embedded, or else an image developed from the sensor data.

Needs rawpy, which `seesay[raw]` installs.
"""

from __future__ import annotations

import io
import struct
from pathlib import PurePath
from typing import TYPE_CHECKING

from PIL import ExifTags, Image

from seesay.data.formats import CAN_READ_RAW, RAW_SUFFIXES
from seesay.errors import ImageError

if TYPE_CHECKING:
    import rawpy

_HEADS = (b"FUJIFILMCCD-RAW", b"IIRO", b"IIRS", b"MMOR", b"IIU\0")  # RAF, ORF, RW2
_CR3 = b"ftypcrx "
_DNG = {b"II*\0": b"\x12\xc6\1\0\4\0\0\0", b"MM\0*": b"\xc6\x12\0\1\0\0\0\4"}
"""The tag with the version of DNG (50706, of four bytes) in a TIFF of either order of bytes."""
_MIN_PREVIEW = 440  # pixels of the shorter side, the height of thumbnails; a smaller preview is an icon
_ORIENTATIONS = {0: 1, 3: 3, 5: 8, 6: 6}  # LibRaw's values of flip, and the EXIF orientations


def is_raw(head: bytes, name: str) -> bool:
    """Return whether a file of that name with these first bytes is a raw photo.

    Most kinds are TIFF, like the files of image editors, so some are only recognised by their name.
    """
    if head.startswith(_HEADS) or head[4:12] == _CR3:
        return True
    if (version := _DNG.get(head[:4])) is None:
        return False
    return head[8:10] == b"CR" or version in head or PurePath(name).suffix.lower() in RAW_SUFFIXES


def developed(data: bytes, name: str, max_pixels: int) -> bytes:
    """Return an encoded image made from a raw photo; other data are returned unchanged.

    Raises:
        ImageError: the photo is damaged or of an unknown kind, has too many pixels, or the package that reads
            it is not installed.
    """
    if not is_raw(data, name):
        return data
    if not CAN_READ_RAW:
        raise ImageError(f"{name}: a raw photo, which needs the extra seesay[raw].")
    import rawpy

    try:
        with rawpy.imread(io.BytesIO(data)) as raw:
            return _preview(raw) or _made(raw, name, max_pixels)
    except rawpy.LibRawError as error:
        raise ImageError(
            f"{name}: a damaged raw photo, or one of a camera that LibRaw does not know; export it as JPEG."
        ) from error


def _preview(raw: rawpy.RawPy) -> bytes | None:
    """The embedded JPEG, with an EXIF orientation; None if there is none that is large enough."""
    import rawpy

    try:
        thumbnail = raw.extract_thumb()
    except rawpy.LibRawError:
        return None
    if thumbnail.format != rawpy.ThumbFormat.JPEG:
        return None
    data = bytes(thumbnail.data)
    try:
        image = Image.open(io.BytesIO(data), formats=("JPEG", "MPO"))
        exif = image.getexif()
    except Exception:  # Pillow's plugins raise nearly anything on damaged files
        return None
    if min(image.size) < _MIN_PREVIEW:
        return None
    if ExifTags.Base.Orientation in exif:
        return data
    # Few previews have an orientation of their own, but the raw file has one.
    exif[ExifTags.Base.Orientation] = _ORIENTATIONS.get(raw.sizes.flip, 1)
    segment = b"Exif\0\0" + exif.tobytes().removeprefix(b"Exif\0\0")
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + data[2:]


def _made(raw: rawpy.RawPy, name: str, max_pixels: int) -> bytes:
    """A bitmap of half the sensor's width and height, which takes a fraction of the time."""
    if raw.sizes.raw_width * raw.sizes.raw_height > max_pixels:
        raise ImageError(f"{name}: more than {max_pixels} pixels; make it smaller first.")
    out = io.BytesIO()
    Image.fromarray(raw.postprocess(half_size=True, use_camera_wb=True)).save(out, "PPM")
    return out.getvalue()
