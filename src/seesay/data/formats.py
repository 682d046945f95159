"""Which files are images, by suffix and first bytes, and what else people keep beside them."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path, PurePath
from shlex import quote

_CAMERAS = "cr2 cr3 nef nrw arw sr2 dng orf raf rw2 pef srw raw"
RAW_SUFFIXES = frozenset(f".{suffix}" for suffix in _CAMERAS.split())
"""Suffixes of raw photos, in lower case."""
FORMATS = {  # as Pillow calls them, which also reads formats that run other programs, such as EPS
    "JPEG": "jpg jpeg jpe jfif jfi",
    "MPO": "mpo jps",
    "PNG": "png apng",
    "GIF": "gif",
    "WEBP": "webp",
    "BMP": "bmp",
    "DIB": "dib",
    "TIFF": "tif tiff",
    "AVIF": "avif avifs",
    "HEIF": "heic heif hif heics heifs",
    "JPEG2000": "jp2 j2k jpc jpf jpx j2c",
    "PPM": "ppm pgm pbm pnm pfm",
}
"""The formats that are read, and the suffixes of their files."""
_READ = frozenset(f".{suffix}" for suffixes in FORMATS.values() for suffix in suffixes.split())
_SIGNATURES = {
    "JPEG": rb"\xff\xd8\xff",
    "PNG": rb"\x89PNG\r\n\x1a\n",
    "GIF": rb"GIF8[79]a",
    "WEBP": rb"RIFF.{4}WEBP",
    "TIFF": rb"II[*+]\0|MM\0[*+]",
    "AVIF": rb".{4}ftyp(?:.{4}){0,12}avi[fs]",
    "HEIF": rb".{4}ftyp(?:hei|hev|mif|msf)",
    "JPEG2000": rb"\0\0\0\x0cjP  \r\n|\xff\x4f\xff\x51",
    "BMP": rb"BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0",
    "DIB": rb"\x28\0\0\0.{8}\x01\0[\x01\x04\x08\x10\x18\x20]\0",
    "PPM": rb"P[1-6Ff]\s+(?:#|\d+\s+\d+\s)",  # a text may begin with P1
}
_SIGNATURE = re.compile(b"|".join(b"(%b)" % each for each in _SIGNATURES.values()), re.DOTALL)
SIGNATURE_BYTES = 64

CAN_READ_RAW = find_spec("rawpy") is not None
"""Whether the package that reads raw photos, installed by `seesay[raw]`, is available."""

IMAGE_SUFFIXES = _READ | RAW_SUFFIXES if CAN_READ_RAW else _READ
"""Suffixes of the files that are read as images, in lower case."""

ARCHIVE = "archive"
_OTHERS = {
    ARCHIVE: "tar tgz tbz2 txz zip",
    "raw": _CAMERAS,
    "video": "mp4 m4v mov avi mkv webm mpg mpeg mts m2ts 3gp wmv",
    "JPEG XL": "jxl",
    "SVG": "svg",
    "Photoshop": "psd psb",
    "other image": "tga ico icns cur eps ai xcf exr hdr dds pcx qoi xbm xpm fits fit emf wmf svgz jxr wdp",
}
_KIND = {f".{suffix}": kind for kind, suffixes in _OTHERS.items() for suffix in suffixes.split()}


def is_image(file: Path) -> bool:
    """Whether a file is read as an image: by its suffix, or by its first bytes if it has none."""
    if suffix := file.suffix.lower():
        return suffix in IMAGE_SUFFIXES
    try:
        with file.open("rb") as opened:
            return format_of(opened.read(SIGNATURE_BYTES)) is not None
    except OSError:
        return False


def format_of(head: bytes) -> str | None:
    """Return the format of an image by its first bytes, as Pillow calls it; None for other files.

    >>> format_of(b"RIFF....WEBPVP8 "), format_of(b"....ftypheic"), format_of(b"%PDF-1.7")
    ('WEBP', 'HEIF', None)
    """
    found = _SIGNATURE.match(head[:SIGNATURE_BYTES])
    return list(_SIGNATURES)[found.lastindex - 1] if found and found.lastindex else None


def unread_kind(name: str) -> str | None:
    """Return the kind of a file that is not read, such as "video"; None for images and unknown suffixes.

    >>> unread_kind("IMG_0001.MOV"), unread_kind("notes.txt"), unread_kind("a.jpg")
    ('video', None, None)
    """
    path = PurePath(name)
    suffix = path.suffix.lower()
    if suffix in (".gz", ".bz2", ".xz", ".zst") and path.stem.lower().endswith(".tar"):
        return ARCHIVE
    return None if suffix in IMAGE_SUFFIXES else _KIND.get(suffix)


def unpacking(archive: PurePath) -> str:
    """Return the command that unpacks an archive into a folder beside it.

    >>> unpacking(PurePath("train-0001.tar.gz"))
    'mkdir train-0001 && tar -xf train-0001.tar.gz -C train-0001'
    """
    stem = archive.with_suffix("")
    folder = quote(str(stem.with_suffix("") if stem.suffix.lower() == ".tar" else stem))
    file = quote(str(archive))
    if archive.suffix.lower() == ".zip":
        return f"unzip {file} -d {folder}"
    return f"mkdir {folder} && tar -xf {file} -C {folder}"
