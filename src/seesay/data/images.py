"""Encoded images: where their bytes are, and how they become pixels: 8-bit RGB, upright.

- EXIF rotation is applied, transparency becomes white, and only the first frame of an animation is used.
- Colours are converted to sRGB: see `colours.py`.
- 16-bit grey maps 0..65535 to 0..255, and 32-bit integers and floats their least and greatest value.
- For raw photos, the preview that the camera embedded is used: see `raw.py`.
- A truncated picture is rejected, because half of it would be encoded as if it were whole; one of a truncated
  file that has all its pixels is not.
- An image of more than MAX_PIXELS is rejected. `decoders.py` also limits memory and time.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from io import BufferedReader, FileIO
from pathlib import Path
from tarfile import BLOCKSIZE
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from seesay.data.colours import is_converted_alike
from seesay.data.exif import facts_of
from seesay.data.formats import FORMATS, RAW_SUFFIXES, SIGNATURE_BYTES, format_of
from seesay.data.pixels import decode_jpeg, to_rgb, turned
from seesay.data.raw import developed, is_raw
from seesay.errors import ImageError, UnavailableImageError, first_line
from seesay.paths import open_file

MAX_BYTES = 1 << 29  # of an encoded image: a larger file is not a photograph
MAX_PIXELS = 178_956_970  # width × height; Pillow's decompression bomb guard raises above it, too
_RAW_HEAD = 1 << 16  # bytes that hold the tags by which raw photos are recognised
_MOST_EXIF = 100  # blocks, which Pillow joins one by one; a photo has one, and one in each photo inside
_METADATA = re.compile(rb"(infe.{4}(..)..)(?:Exif|mime)", re.DOTALL)  # an item of an AVIF or HEIC file


def content_key(data: bytes) -> str:
    """Hash the encoded bytes: 32 hexadecimal digits that identify an image everywhere in seesay."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class MemorySource:
    """An encoded image in memory."""

    data: bytes

    def read(self) -> bytes:
        """Return the encoded image."""
        return self.data


@dataclass(frozen=True, slots=True)
class FileSource:
    """One image in a file of its own, which must not leave the folder `inside`, if one is given."""

    path: Path
    inside: Path | None = None

    def __str__(self) -> str:
        return str(self.path)

    def open(self) -> FileIO:
        """Open the file; see `open_file`, also for the errors of the system that it raises."""
        return open_file(self.path, self.inside)

    def read(self) -> bytes:
        """Return the file's bytes.

        Raises:
            ImageError: the path is invalid, or the file is too large.
            UnavailableImageError: the file cannot be read.
        """
        try:
            with self.open() as file:
                return read_image(file)
        except OSError as error:
            raise UnavailableImageError(f"{self.path}: cannot be read ({error.strerror}).") from error
        except ValueError as error:
            raise ImageError(f"{self.path}: cannot be a path ({first_line(error)}).") from error


@dataclass(frozen=True, slots=True)
class TarSource:
    """A file in a tar archive: `size` bytes from `start`, and the CRC-32 of the header before them."""

    path: Path
    name: str
    start: int
    size: int
    header_crc: int

    def __str__(self) -> str:
        return f"{self.path}: {self.name}"

    def read(self) -> bytes:
        """Return the file's bytes.

        Raises:
            ImageError: the file is too large.
            UnavailableImageError: the archive cannot be read, or has changed since it was listed.
        """
        if self.size > MAX_BYTES:
            raise ImageError(f"{self}: at most {MAX_BYTES} bytes are read, and it has more.")
        try:
            with BufferedReader(open_file(self.path)) as file:
                file.seek(self.start - BLOCKSIZE)
                header, data = file.read(BLOCKSIZE), file.read(self.size)
        except OSError as error:
            raise UnavailableImageError(f"{self}: cannot be read ({error.strerror}).") from error
        if zlib.crc32(header) != self.header_crc or len(data) < self.size:
            raise UnavailableImageError(f"{self}: the archive has changed since it was listed.")
        return data


Source: TypeAlias = FileSource | TarSource | MemorySource


def read_image(file: FileIO) -> bytes:
    """Return the bytes of an opened file from its beginning.

    Raises:
        ImageError: it is too large.
        OSError: it cannot be read.
    """
    file.seek(0)
    if os.fstat(file.fileno()).st_size > MAX_BYTES:
        raise ImageError(f"{file.name}: at most {MAX_BYTES} bytes are read, and it has more.")
    return file.readall()


class EncodedImage:
    """An encoded image: its key, what its header says, and its pixels.

    The bytes are parsed once, when an attribute is first used. A PNG, whose EXIF may follow its pixels, is
    decoded for all that its EXIF says, and only once if `pixels` is also used.

    Args:
        data: the encoded bytes.
        name: what error messages call it.
        max_pixels: the largest width × height that is accepted.

    Raises:
        ImageError: from any attribute but `key`, `taken` and `facts`: not an image, truncated, damaged, or
            of more than `max_pixels`.
        UnavailableImageError: there is not enough memory now, or the system fails otherwise.

    Example:
        >>> import io
        >>> Image.new("RGB", (64, 48), "red").save(png := io.BytesIO(), "PNG")
        >>> image = EncodedImage(png.getvalue(), "red.png")
        >>> image.pixels().shape, image.format, image.size, image.taken
        ((48, 64, 3), 'PNG', (64, 48), '')
    """

    def __init__(self, data: bytes, name: str, max_pixels: int = MAX_PIXELS) -> None:
        self.data, self.name = data, name
        self._max_pixels = max_pixels

    @cached_property
    def key(self) -> str:
        """The key of the content; see `content_key`."""
        return content_key(self.data)

    @property
    def format(self) -> str:
        """The format as Pillow calls it, such as "PNG"."""
        return self._parsed.format or "?"

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, upright."""
        width, height = self._parsed.size
        return (height, width) if self.orientation >= 5 else (width, height)

    @property
    def orientation(self) -> int:
        """How the pixels are stored, 1 (upright) to 8, by EXIF or, without it, XMP."""
        if self.format == "TIFF":  # Pillow turns its size and pixels itself
            return 1
        value = self._exif.get(ExifTags.Base.Orientation, 1)
        return value if value in range(1, 9) else 1

    @property
    def is_same_in_browsers(self) -> bool:
        """Whether browsers show the image as it is decoded here: upright, see below, and in the same colours.

        They do not all read the orientation of other formats than JPEG, and of XMP.
        """
        if not is_converted_alike(self._parsed, self._developed):
            return False
        if self.orientation == 1:
            return True
        own = Image.Exif()
        own.load(self._parsed.info.get("exif", b""))
        return self.format in ("JPEG", "MPO") and own.get(ExifTags.Base.Orientation) == self.orientation

    @property
    def taken(self) -> str:
        """The EXIF time of the photo, by the camera's clock: "2019-06-30T12:00:00"; "" without one."""
        return self.facts.get("taken", "")

    @cached_property
    def facts(self) -> dict[str, str]:
        """How the photo was taken, from its EXIF: see `facts_of`; empty if that is damaged."""
        with suppress(Exception):  # Pillow's plugins raise nearly anything on damaged files
            if is_raw(self.data, self.name):
                with suppress(Exception):  # not a TIFF: its preview may have EXIF
                    return facts_of(parse_header(self.data, self.name).getexif())
            return facts_of(self._exif)
        return {}

    def pixels(self, min_side: int | None = None) -> NDArray[np.uint8]:
        """Decode to RGB, upright, (h, w, 3).

        Args:
            min_side: decode a JPEG whose shorter side is more than twice this at a fraction of its size,
                which is faster. The shorter side of the result is at least `min_side` if the image's own is.
        """
        image = self._parsed
        with _image_errors(self.name):
            if image.format in ("JPEG", "MPO"):
                pixels = decode_jpeg(self._developed, image, min_side)
            else:
                pixels = to_rgb(image, self._developed)
            return turned(pixels, self.orientation)

    def decoded(self, min_side: int) -> DecodedImage:
        """Decode the image for several uses; see `pixels`."""
        pixels = self.pixels(min_side)
        pixels.setflags(write=False)
        return DecodedImage(self.name, self.key, pixels, self.size, self.taken)

    @cached_property
    def _developed(self) -> bytes:
        return developed(self.data, self.name, self._max_pixels)

    @cached_property
    def _parsed(self) -> Image.Image:
        return parse_header(_without_cut_parts(self._developed), self.name, self._max_pixels)

    @cached_property
    def _exif(self) -> Image.Exif:
        """The EXIF, empty if it is damaged."""
        if self.format == "PNG":  # whose EXIF may follow the pixels
            with _image_errors(self.name):
                self._parsed.load()
        with suppress(Exception):  # Pillow's plugins raise nearly anything on damaged files
            return self._parsed.getexif()
        return Image.Exif()


def _without_cut_parts(data: bytes) -> bytes:
    """Return a WebP, AVIF or HEIC file; if it is cut off, without its last part or cut metadata.

    Its decoder refuses a file that lacks anything, even EXIF; of the rest, it says if the picture is whole.
    """
    if data[:4] == b"RIFF" and len(data) < 8 + int.from_bytes(data[4:8], "little"):
        end = 12
        while end + 8 + (size := int.from_bytes(data[end + 4 : end + 8], "little")) <= len(data):
            end += 8 + size + size % 2
        return b"RIFF" + (end - 8).to_bytes(4, "little") + data[8:end].ljust(end - 8, b"\0")
    start = end = 0
    while data[4:8] == b"ftyp" and end < len(data):
        start, end = end, end + int.from_bytes(data[end : end + 4], "big")
        if end < start + 8:  # up to the end of the file, or in 64 bits
            return data
    if end <= len(data):
        return data
    lacking = _lacking_items(data)

    def kept(item: re.Match[bytes]) -> bytes:
        return item[1] + b"free" if int.from_bytes(item[2], "big") in lacking else item[0]

    return _METADATA.sub(kept, data[:start]) + data[start:]


def _lacking_items(data: bytes) -> set[int]:
    """Return the numbers of the items that end beyond an AVIF or HEIC file, by ISO/IEC 14496-12 (`iloc`)."""
    at = max(data.find(b"iloc"), 4)
    box = io.BytesIO(data[at + 4 : at - 4 + int.from_bytes(data[at - 4 : at], "big")])

    def number(size: int) -> int:
        return int.from_bytes(box.read(size), "big")

    lacking, version, sizes = set[int](), number(4) >> 24, number(2)
    offset, length, base, index = (sizes >> shift & 15 for shift in (12, 8, 4, 0))
    index, wide = index if version else 0, 4 if version == 2 else 2
    number(wide)  # how many items follow, up to the end of the box
    while item := number(wide):
        in_file = version == 0 or number(2) == 0
        number(2)
        start, extents = number(base), number(2)
        for _ in range(extents if offset + length else 0):
            number(index)
            if start + number(offset) + number(length) > len(data) and in_file:
                lacking.add(item)
    return lacking


@dataclass(frozen=True, slots=True, eq=False)
class DecodedImage:
    """An image that was decoded once for several uses.

    Attributes:
        name: what error messages call it.
        key: the key of its content; see `content_key`.
        pixels: (h, w, 3) RGB, upright, perhaps a fraction of its size; read-only.
        size: width and height of the whole upright photo, in pixels.
        taken: when it was taken; see `EncodedImage.taken`.
    """

    name: str
    key: str
    pixels: NDArray[np.uint8]
    size: tuple[int, int]
    taken: str


def decode(
    data: bytes, name: str, min_side: int | None = None, max_pixels: int = MAX_PIXELS
) -> NDArray[np.uint8]:
    """Decode an image to RGB, upright, (h, w, 3); see `EncodedImage`."""
    return EncodedImage(data, name, max_pixels).pixels(min_side)


def parse_header(data: bytes, name: str, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Open an encoded image (not a raw photo) without decoding it; see `EncodedImage`."""
    if not data:
        raise ImageError(f"{name}: empty, 0 bytes.")
    if data.count(b"Exif\0\0") > _MOST_EXIF:
        raise ImageError(f"{name}: more than {_MOST_EXIF} blocks of EXIF; save the image again.")
    too_many = ImageError(f"{name}: more than {max_pixels} pixels; make it smaller first.")
    with _image_errors(name):
        try:
            image = Image.open(io.BytesIO(data), formats=_formats())
        except Image.DecompressionBombError as error:
            raise too_many from error
    if image.width * image.height > max_pixels:
        raise too_many
    return image


@contextmanager
def _image_errors(name: str) -> Iterator[None]:
    """Convert errors: Pillow's plugins raise nearly anything on damaged files."""
    try:
        yield
    except ImageError:
        raise
    except Exception as error:
        if isinstance(error, MemoryError) or "out of memory" in str(error):
            raise UnavailableImageError(f"{name}: not enough memory to decode it now.") from error
        if isinstance(error, OSError) and error.errno is not None:  # of the system
            raise UnavailableImageError(f"{name}: cannot be decoded now ({error}).") from error
        if isinstance(error, UnidentifiedImageError):  # whose message has the address of a BytesIO
            raise ImageError(f"{name}: unsupported or damaged (unknown format).") from error
        raise ImageError(f"{name}: truncated or damaged ({first_line(error).rstrip('.')}).") from error


def file_format(file: FileIO) -> str | None:
    """Return the format of an image file by its first bytes, such as "PNG" or "RAW"; None for other files."""
    name = str(file.name)
    may_be_raw = Path(name).suffix.lower() in RAW_SUFFIXES
    try:
        file.seek(0)
        head = file.read(_RAW_HEAD if may_be_raw else SIGNATURE_BYTES)
        file.seek(0)
    except OSError:
        return None
    return "RAW" if may_be_raw and is_raw(head, name) else format_of(head)


@cache
def _formats() -> tuple[str, ...]:
    """The formats that this build of Pillow has; it raises KeyError for others."""
    import pillow_heif  # takes longer to load than most photos take to open

    Image.init()
    pillow_heif.register_heif_opener(thumbnails=False)
    return tuple(name for name in FORMATS if name in Image.OPEN)
