"""The files of a folder: which are images, by suffix and first bytes, and what else people keep there."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import translate
from importlib.util import find_spec
from pathlib import Path, PurePath
from shlex import quote

from seesay.errors import install_command

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

INDEX, RUN, WEIGHTS = "index.sqlite", "run.json", "weights.safetensors"
"""Files of indexes and runs, by which their folders are recognised."""

SYSTEM, OWN, EXCLUDED = "system folder", "seesay folder", "excluded path"
LEFT_OUT = {
    SYSTEM: "such as @eaDir or #recycle, left out",
    OWN: "an index or a run, left out",
    EXCLUDED: "left out by --exclude or .nomedia",
}
"""What a walk leaves out, and how it is explained."""

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


def unread_lines(counts: Mapping[str, int], raw: str = "") -> list[str]:
    """Return a line for each kind of file that was not read, most frequent first: how many, and what to do.

    Args:
        counts: the number of files of each kind.
        raw: what to do about raw files; by default, install the extra and update the index.

    >>> unread_lines({"SVG": 1, "video": 312})
    ['312 video files: only images are searched', '1 SVG file: export as JPEG']
    """
    advice = {
        "raw": raw or f"{install_command('raw')} and update the index",
        "video": "only images are searched",
        ARCHIVE: "unpack it with tar -xf or unzip if it has photos",
        **LEFT_OUT,
    }
    most_first = sorted(counts.items(), key=lambda kind: (-kind[1], kind[0]))
    return [
        f"{count} {kind}{'' if kind in LEFT_OUT else ' file'}{'' if count == 1 else 's'}: "
        f"{advice.get(kind, 'export as JPEG')}"
        for kind, count in most_first
    ]


LINK_OUT = "a link out of the folder"
_SYSTEM = frozenset(
    ("@eadir", "#recycle", "$recycle.bin", ".stversions", "lost+found", "system volume information")
)
_MOST_PATTERNS, _LONGEST_PATTERN = 100, 200

LeftOut = Callable[[Path, str, bool], None]
"""Called with a path that is left out, the reason, and whether it could not be read and may contain more."""


def walk_files(
    root: Path,
    left_out: LeftOut = lambda *_: None,
    *,
    exclude: Sequence[str] = (),
    walked: list[Path] | None = None,
    linked: bool = False,
    outside: bool = False,
) -> Iterator[Path]:
    """Iterate over the regular files below a folder, nearest first, sorted by name.

    Hidden files and folders are left out, and so are folders of systems (`@eaDir`, `#recycle`), of seesay (an
    index, a run) and with a file `.nomedia`. A folder is walked once, by its own path rather than by a link,
    so those behind links come last.

    Args:
        root: a folder, resolved unless links may lead outside.
        left_out: called with what else is left out.
        exclude: patterns of files and folders to leave out, see `pattern_of`.
        walked: a list to which the walked folders are added.
        linked: follow links to folders inside `root`, too; otherwise only links to files inside, because a
            linked folder is found at its own place.
        outside: follow all links, but no loops.
    """
    excluded, folders = pattern_of(exclude), deque([root])
    seen, links = set[tuple[int, int]](), deque[Path]()
    while folders or links:
        if not folders:
            folders, links = links, folders
        folder = folders.popleft()
        try:
            status = folder.stat()
            if (linked or outside) and (status.st_dev, status.st_ino) in seen:
                continue
            with os.scandir(folder) as entries:
                there = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:  # no permission, or a path too long for the system
            left_out(folder, _reason(error), True)
            continue
        seen.add((status.st_dev, status.st_ino))
        names = {entry.name for entry in there}
        is_own = INDEX in names or {RUN, WEIGHTS} <= names
        if folder != root and (is_own or ".nomedia" in names):
            left_out(folder, OWN if is_own else EXCLUDED, False)
            continue
        if walked is not None:
            walked.append(folder)
        for entry in there:
            path = Path(entry.path)
            if entry.name.lower() in _SYSTEM:
                left_out(path, SYSTEM, False)
            elif entry.name.startswith(".") or entry.name == "__MACOSX":
                continue
            elif excluded and excluded.fullmatch(f"/{path.relative_to(root).as_posix()}".casefold()):
                left_out(path, EXCLUDED, False)
            else:
                kind = _kind(entry, None if outside else root, left_out, linked)
                if kind == "folder":
                    (links if entry.is_symlink() else folders).append(path)
                elif kind == "file":
                    yield path


def pattern_of(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """Return a regular expression of the paths to leave out, in linear time; None for none.

    A pattern such as "*.png" or "Screenshots" is compared with each name, and one with a slash, such as
    "trip/*.png", with the path below the root. Paths are in lower case and begin with a slash.

    Raises:
        ValueError: there are too many, or one is too long.
    """
    kept = [pattern.casefold().rstrip("/") for pattern in patterns if pattern.strip("/")]
    if len(kept) > _MOST_PATTERNS or any(len(pattern) > _LONGEST_PATTERN for pattern in kept):
        raise ValueError(f"at most {_MOST_PATTERNS} patterns of {_LONGEST_PATTERN} characters; combine them.")
    whole = [translate(f"/{pattern.lstrip('/')}" if "/" in pattern else f"*/{pattern}") for pattern in kept]
    return re.compile("|".join(whole)) if whole else None


def _kind(entry: os.DirEntry[str], root: Path | None, left_out: LeftOut, linked: bool) -> str:
    """Return "folder", "file", or "" for what is left out; see `walk_files`."""
    path = Path(entry.path)
    try:
        is_link = root is not None and entry.is_symlink()
        if root is not None and is_link and not path.resolve(strict=True).is_relative_to(root):
            left_out(path, LINK_OUT, False)
        elif entry.is_dir():
            return "" if is_link and not linked else "folder"
        elif entry.is_file():
            return "file"
        else:
            left_out(path, "not a regular file", False)
    except FileNotFoundError:
        left_out(path, "a link to nothing", False)
    except (OSError, RuntimeError) as error:  # RuntimeError for a loop, up to Python 3.12
        left_out(path, _reason(error), True)
    return ""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
