"""Images: where their encoded bytes lie, and how they become pixels: 8-bit RGB, upright.

- EXIF rotation is applied; transparency is laid on white; of an animation the first frame counts.
- 16-bit grey maps 0..65535 to 0..255. 32-bit integers and floats have no fixed range: see `pixels.py`.
- Of a raw photo the picture that its camera put into it counts: see `raw.py`.
- A truncated image is refused: half a picture would be encoded as if it were whole.
- An image of more than MAX_PIXELS, or one that would take too much memory or time, is refused unread.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path, PurePosixPath
from typing import cast

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from seesay.data.corpus import ByteSource, Issues
from seesay.data.pixels import check_cost, decode_jpeg, in_flight, to_rgb, turned
from seesay.data.raw import developed, is_raw
from seesay.data.remote import as_remote, is_remote, version_of
from seesay.data.suffixes import CAN_READ_HEIC, IMAGE_SUFFIXES, RAW_SUFFIXES
from seesay.errors import ImageError, SeesayError, UnavailableImageError

MAX_PIXELS = 178_956_970  # width × height, where Pillow's decompression bomb guard raises too

# Pillow also knows formats that run other programs (EPS) or fetch things: these do neither.
_FORMATS = ("JPEG", "MPO", "PNG", "GIF", "WEBP", "BMP", "TIFF", "AVIF", "HEIF", "JPEG2000", "PPM")
_HEIC_HEADS = (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypmsf1", b"ftyphevc")
_HEAD = 1 << 16  # bytes; holds the header of nearly every JPEG, EXIF thumbnail included


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """The header of an image; `width` and `height` in pixels, before EXIF rotation."""

    format: str
    mode: str
    width: int
    height: int
    animated: bool


def content_key(data: bytes) -> str:
    """Hash the encoded bytes: 32 hexadecimal digits that identify an image everywhere in seesay."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def decode(
    data: bytes, name: str, min_side: int | None = None, max_pixels: int = MAX_PIXELS
) -> NDArray[np.uint8]:
    """Decode an image to RGB, upright, (h, w, 3).

    Threads that decode large images wait for each other, so that the memory of all is bounded.

    Args:
        data: the encoded image.
        name: what error messages call it.
        min_side: decode a JPEG of more than twice this size at a fraction of it, which is faster. The shorter
            side of the result is at least `min_side` wherever the image's own is.
        max_pixels: width × height that is refused beyond.

    Raises:
        ImageError: not an image, truncated, damaged, of more than `max_pixels`, or too costly to decode.
        UnavailableImageError: the memory does not suffice now.
    """
    data = developed(data, name, max_pixels)
    image = _open(data, name, max_pixels)
    check_cost(image, data, name)
    try:
        with in_flight(image):
            if image.format in ("JPEG", "MPO") and image.mode in ("RGB", "L"):
                pixels = decode_jpeg(data, image, min_side)
            elif (raw := _raw_pixels(data, image)) is not None:
                pixels = raw
            else:
                pixels = to_rgb(image)
            orientation = _orientation(image)  # after loading: a TIFF is upright by then, and says so
            del image
            return turned(pixels, orientation)
    except Exception as error:  # Pillow's plugins raise nearly anything on damaged files
        if isinstance(error, MemoryError) or "out of memory" in str(error):
            raise UnavailableImageError(f"{name}: not enough memory to decode it now.") from error
        if _is_of_system(error):
            raise UnavailableImageError(f"{name}: cannot be decoded now ({error}).") from error
        raise ImageError(f"{name}: truncated or damaged ({_reason(error)}).") from error


def _raw_pixels(data: bytes, image: Image.Image) -> NDArray[np.uint8] | None:
    """The pixels of a PPM as the decoder of uploads writes it; Pillow would hold them twice meanwhile."""
    head = f"P6 {image.width} {image.height} 255\n".encode()
    if not data.startswith(head) or len(data) != len(head) + 3 * image.width * image.height:
        return None
    return np.frombuffer(data, np.uint8, offset=len(head)).reshape(image.height, image.width, 3).copy()


def read_header(data: bytes, name: str) -> ImageHeader:
    """Read format, mode and size without decoding; raise ImageError as `decode` does."""
    image = _open(developed(data, name, MAX_PIXELS), name)
    try:
        animated = bool(getattr(image, "is_animated", False))  # unlike n_frames, reads no further
    except Exception as error:
        raise ImageError(f"{name}: truncated or damaged ({_reason(error)}).") from error
    return ImageHeader(image.format or "?", image.mode, image.width, image.height, animated)


def opened_header(file: Path, data: bytes | None = None) -> Image.Image:
    """Open an image file of a format that is read, to look at what stands before its pixels.

    Args:
        file: its path.
        data: what is in it, if that has been read.
    """
    remote = as_remote(file)
    source = io.BytesIO(data) if data is not None else remote.open(buffering=_HEAD) if remote else file
    try:
        # Of a raw photo that is TIFF, too: its EXIF is the camera's.
        return Image.open(source, formats=_formats())
    except Exception:  # Pillow's plugins raise nearly anything on damaged files
        if file.suffix.lower() not in RAW_SUFFIXES:
            raise
        whole = file.read_bytes() if data is None else data
        return _open(developed(whole, file.name, MAX_PIXELS), file.name)


def file_format(file: Path) -> str | None:
    """Read the format of an image file from its first bytes, such as "PNG" or "RAW"; None if it is none."""
    try:
        if file.suffix.lower() in RAW_SUFFIXES and is_raw(_read(file, 0, _HEAD), file.name):
            return "RAW"
        with opened_header(file) as image:
            return image.format
    except Exception:  # Pillow's plugins raise nearly anything on damaged files
        return None


def upright_size(data: bytes, name: str) -> tuple[int, int]:
    """Read width and height in pixels after EXIF rotation, without decoding; raise ImageError as `decode`."""
    image = _open(developed(data, name, MAX_PIXELS), name)
    turned = image.format != "TIFF" and _orientation(image) >= 5  # Pillow gives a TIFF's upright size already
    return (image.height, image.width) if turned else (image.width, image.height)


def taken_at(file: Path, data: bytes | None = None) -> str:
    """Read when a photo was taken, as its EXIF says: "2019-06-30T12:00:00", the camera's time; else "".

    Only what stands before the pixels is read, or nothing if the file's `data` have been read.
    """
    try:
        with opened_header(file, data) as image:
            exif = image.getexif().get_ifd(ExifTags.IFD.Exif)
        for tag in (ExifTags.Base.DateTimeOriginal, ExifTags.Base.DateTimeDigitized):
            if found := _EXIF_TIME.match(str(exif.get(tag, ""))):
                return datetime.strptime(found[0], "%Y:%m:%d %H:%M:%S").isoformat()
    except Exception:  # Pillow's plugins raise nearly anything on damaged files
        return ""
    return ""


def source_size(source: ByteSource, name: str) -> tuple[int, int]:
    """Read the upright size of an image from its first bytes, or from all where these do not suffice."""
    head = source.read(_HEAD)
    if not is_raw(head, name):
        with suppress(ImageError):
            return upright_size(head, name)
    return upright_size(source.read(), name)


def _open(data: bytes, name: str, max_pixels: int = MAX_PIXELS) -> Image.Image:
    if not data:
        raise ImageError(f"{name}: empty, 0 bytes.")
    try:
        image = Image.open(io.BytesIO(data), formats=_formats())
    except Image.DecompressionBombError as error:
        raise ImageError(f"{name}: more than {max_pixels} pixels; make it smaller first.") from error
    except MemoryError as error:
        raise UnavailableImageError(f"{name}: not enough memory to read it now.") from error
    except Exception as error:
        if _is_of_system(error):
            raise UnavailableImageError(f"{name}: cannot be read now ({error}).") from error
        if not CAN_READ_HEIC and data[4:12] in _HEIC_HEADS:
            raise ImageError(f"{name}: HEIC, which needs pip install 'seesay[heic]'.") from error
        raise ImageError(f"{name}: no image that seesay reads, or damaged ({_reason(error)}).") from error
    if image.width * image.height > max_pixels:
        raise ImageError(
            f"{name}: {image.width}×{image.height}, more than {max_pixels} pixels; make it smaller first."
        )
    return image


@cache
def _formats() -> tuple[str, ...]:
    """The formats that this build of Pillow has; naming another makes it raise KeyError."""
    Image.init()
    if CAN_READ_HEIC:
        import pillow_heif

        pillow_heif.register_heif_opener(thumbnails=False)
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _is_of_system(error: Exception) -> bool:
    """Whether the system failed, and not the image, which is in memory: such as where no file can be opened.

    Pillow loads its plugins when they are first needed.
    """
    return isinstance(error, OSError) and error.errno is not None


def _reason(error: Exception) -> str:
    """The decoder's complaint, without the address of a BytesIO in it."""
    if isinstance(error, UnidentifiedImageError):
        return "unknown format"
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 to 8; 1 where there is none or it is damaged."""
    try:
        value = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:
        return 1
    return value if value in range(1, 9) else 1


_EXIF_TIME = re.compile(r"[0-9]{4}(:[0-9]{2}){2} [0-9]{2}(:[0-9]{2}){2}")

AMBIGUOUS = "several files of one name, the first taken"
MAX_BYTES = 1 << 29  # of an encoded image: a larger file is not a photograph


@dataclass(frozen=True, slots=True)
class FileSource:
    """One image in a file of its own."""

    path: Path

    def place(self) -> str:
        """Return what names the bytes at a URL, see `Placed`."""
        try:
            return version_of(self.path)
        except OSError:  # said when they are read
            return ""

    def read(self, limit: int | None = None) -> bytes:
        """Return the file's bytes, or the first `limit`; raise UnavailableImageError if it cannot be read."""
        most = MAX_BYTES + 1 if limit is None else limit
        try:
            # A request for the size first would take as long as one for an image.
            size = 0 if is_remote(self.path) else self.path.stat().st_size
            data = b"" if size > MAX_BYTES else _read(self.path, 0, most)
        except OSError as error:
            raise UnavailableImageError(f"{self.path}: cannot be read ({error.strerror}).") from error
        if max(size, len(data)) > MAX_BYTES:
            raise ImageError(f"{self.path}: at most {MAX_BYTES} bytes are read, and it has more.")
        return data


@dataclass(frozen=True, slots=True)
class TarMember:
    """`size` bytes from `offset` of an uncompressed tar; any number of threads may read at once.

    Of a tar at a URL, `version` is its own, and `held` are the bytes of a short text, which would take a
    request each.
    """

    path: Path
    offset: int
    size: int
    version: str = ""
    held: bytes | None = None

    def place(self) -> str:
        """Return what names the bytes at a URL, see `Placed`."""
        return f"{self.version} {self.offset} {self.size}" if self.version else ""

    def read(self, limit: int | None = None) -> bytes:
        """Return the member's bytes, or the first `limit`; raise ImageError if they cannot be read."""
        if self.size > MAX_BYTES:
            raise ImageError(f"{self.path}: a member of {self.size} bytes; at most {MAX_BYTES} are read.")
        size = self.size if limit is None else min(self.size, limit)
        try:
            data = self.held[:size] if self.held is not None else _read(self.path, self.offset, size)
        except OSError as error:
            raise UnavailableImageError(f"{self.path}: cannot be read ({error.strerror}).") from error
        if len(data) != size:
            raise ImageError(
                f"{self.path}: ends at {len(data)} of {size} bytes of the member at {self.offset}."
            )
        return data


def _read(path: Path, start: int, size: int) -> bytes:
    """Read a part of a file, here or at a URL."""
    if remote := as_remote(path):
        return remote.read_range(start, start + size)
    with path.open("rb") as file:
        file.seek(start)
        return file.read(size)


def tar_members(path: Path, limit: int | None = None) -> dict[str, TarMember]:
    """Index a tar by its headers alone; keys are member paths, without a leading `./`.

    Folders, links to nowhere, hidden files (`.DS_Store`, `._name`) and pax leftovers are left out. Of members
    with one name the last counts, as in tar itself. With `limit`, only the first headers are read. One at a
    URL is read once from beginning to end, and its short texts are kept. Raises
    SeesayError for a file that is not a tar, is compressed, or ends too early.
    """
    members: dict[str, TarMember] = {}
    try:
        version = version_of(path)
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
            size = path.stat().st_size
            for position, info in enumerate(tar):
                name = _plain_name(info.name)
                if limit is not None and position >= limit:
                    break
                if name is None:
                    continue
                if info.islnk() and (target := _plain_name(info.linkname)) in members:
                    members[name] = members[target]
                elif info.isreg() and info.sparse is None:
                    if not 0 <= info.size <= size - info.offset_data:
                        raise tarfile.ReadError(f"'{name}' reaches past the end")
                    held = _held(path, tar, info)
                    members[name] = TarMember(path, info.offset_data, info.size, version, held)
    except OSError as error:
        raise SeesayError(f"{path}: cannot be read ({error.strerror}).") from error
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise SeesayError(
            f"{path}: not a whole, uncompressed tar ({error}); decompress it, or copy it again."
        ) from error
    return members


def _held(path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes | None:
    is_text = PurePosixPath(member.name).suffix.lower() in (".txt", ".json")
    if not (is_remote(path) and is_text and member.size <= _HEAD):
        return None
    opened = tar.extractfile(member)
    return opened.read() if opened else None


def _plain_name(name: str) -> str | None:
    """The member's path as a corpus writes it, or None for files that no corpus lists."""
    parts = PurePosixPath(name).parts
    if not parts or any(part.startswith((".", "PaxHeader")) or part == "__MACOSX" for part in parts):
        return None
    return "/".join(part for part in parts if part != "/")


OUTSIDE = "absolute path outside of the corpus, ignored (--allow-outside takes it)"
_outside_allowed: ContextVar[bool] = ContextVar("outside_allowed", default=False)


@contextmanager
def outside_allowed(allowed: bool = True) -> Iterator[None]:
    """Let the corpora that are read inside name images anywhere, by absolute paths.

    A corpus of someone else could otherwise have private images measured, drawn into reports and shared.
    """
    token = _outside_allowed.set(allowed)
    try:
        yield
    finally:
        _outside_allowed.reset(token)


class ImageFinder:
    """Looks names up in every folder below a root, then in the tars that lie in the root.

    Corpora do not say where their images are, so a name is looked up as it stands, then by its last part.
    """

    def __init__(self, root: Path, issues: Issues) -> None:
        self._root, self._issues = root, issues
        self._by_name: dict[str, list[tuple[str, ByteSource]]] = {}
        self._tars_read = False
        for path in walk_files(root):
            if path.suffix.lower() in IMAGE_SUFFIXES:
                self._add(path.relative_to(root).as_posix(), FileSource(path))

    def find(self, name: str, folder: str = "") -> ByteSource | None:
        """Find the image of that name, listed as being in `folder`; None if it is missing."""
        path = Path(name)
        absolute = path.is_absolute() and path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()
        if absolute and (_outside_allowed.get() or path.resolve().is_relative_to(self._root.resolve())):
            return FileSource(path)
        key = _key(f"{folder}/{name}" if folder else name)
        found = self._look_up(key)
        if found is None and not self._tars_read:
            self._read_tars()
            found = self._look_up(key)
        if found is None and absolute:
            self._issues.add(OUTSIDE, name)
        return found

    def _look_up(self, key: str) -> ByteSource | None:
        candidates = self._by_name.get(key.rpartition("/")[2], [])
        candidates = [c for c in candidates if f"/{c[0]}".endswith(f"/{key}")] or candidates
        if len(candidates) > 1 and candidates[0][0] != key:
            self._issues.add(AMBIGUOUS, f"{key}: {candidates[0][0]}, {candidates[1][0]}")
        return candidates[0][1] if candidates else None

    def _read_tars(self) -> None:
        self._tars_read = True
        for tar in sorted(self._root.glob("*.tar")):
            for name, member in tar_members(tar).items():
                if PurePosixPath(name).suffix.lower() in IMAGE_SUFFIXES:
                    self._add(name, member)

    def _add(self, path: str, source: ByteSource) -> None:
        path = _key(path)
        self._by_name.setdefault(path.rpartition("/")[2], []).append((path, source))


def walk_files(root: Path) -> Iterator[Path]:
    """Iterate over the regular files below a folder, nearest first, in name order.

    Hidden files, loops of links and what cannot be read are left out.
    """
    if remote := as_remote(root):
        for path, _ in remote.walk():
            parts = path.relative_to(root).parts
            if not any(part.startswith(".") or part == "__MACOSX" for part in parts):
                yield cast(Path, path)
        return
    level, seen = [root], set[tuple[int, int]]()
    while level:
        folders: list[Path] = []
        for folder in level:
            try:
                status = folder.stat()
                if (status.st_dev, status.st_ino) in seen:
                    continue
                with os.scandir(folder) as entries:
                    there = sorted(entries, key=lambda entry: entry.name)
            except OSError:  # no permission, or a path too long for the system
                continue
            seen.add((status.st_dev, status.st_ino))
            for entry in there:
                if entry.name.startswith(".") or entry.name == "__MACOSX":
                    continue
                try:
                    folder_too, file_too = entry.is_dir(), entry.is_file()  # both False for a link to nothing
                except OSError:
                    continue
                if folder_too:
                    folders.append(Path(entry.path))
                elif file_too:
                    yield Path(entry.path)
        level = folders


def _key(name: str) -> str:
    """One spelling of a name: macOS decomposes accents in file names, lists do not."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    return unicodedata.normalize("NFC", "/".join(parts))
