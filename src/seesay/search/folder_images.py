"""The images in the folders of an index, looked through before anything is embedded."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from seesay.data.formats import IMAGE_SUFFIXES, is_image, unread_kind
from seesay.data.images import FileSource
from seesay.data.walk import EXCLUDED, LEFT_OUT, pattern_of, unread_lines, walk_files
from seesay.errors import SeesayError
from seesay.paths import is_folder
from seesay.seal import seal
from seesay.search.photo import FileState, Root, root_of
from seesay.search.store import MOST_ROOTS, Store

MAX_FILE_BYTES = 256 * 2**20
"""Larger files are skipped: they are not photographs, and a batch of them would fill the memory."""

_NO_TEXT = "its name is not valid UTF-8; rename it"
_NAMELESS = "images"  # of the root of a file system, whose own name is empty
_LATEST = 2**63 - 1
"""Nanoseconds that SQLite can hold: a file dated after the year 2262 counts as of that year."""


@dataclass
class FolderImages:
    """The images in folders of an index.

    Attributes:
        files: the states of image files; paths are those in the index, with `/`.
        skipped: other files, as (path, reason).
        unread: paths that could not be read.
        not_read: counts of files of other kinds, and of what was left out, by the names of the folders.
        roots: the existing folders, with their names in the index.
        absent: folders of the index that are missing or empty, such as an unmounted drive.
        walked: the folders that were looked through.
        alone: the new name of the index's only folder if others are added; else empty.
    """

    files: dict[str, FileState] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    not_read: dict[str, Counter[str]] = field(default_factory=lambda: {"": Counter()})
    roots: list[Root] = field(default_factory=list)
    absent: list[Path] = field(default_factory=list)
    walked: list[Path] = field(default_factory=list)
    alone: str = ""

    def add(self, root: Root, other: FolderImages) -> None:
        """Add the images of another folder."""
        prefix = root.path("")
        self.roots.append(root)
        self.walked += other.walked
        self.files |= {prefix + path: state for path, state in other.files.items()}
        self.skipped += [(prefix + path, reason) for path, reason in other.skipped]
        here = prefix.rstrip("/") or "."
        self.unread |= {here if place == "." else prefix + place for place in other.unread}
        self.not_read[root.name] = other.not_read[""]

    def file(self, path: str) -> FileSource:
        """Return the file of a path in these folders, which must not leave them."""
        root = root_of(self.roots, path)
        if root is None:
            raise FileNotFoundError(path)
        return FileSource(root.file(path), root.folder)

    def is_gone(self, path: str) -> bool:
        """Return True if a path of the index is in these folders and its file does not exist."""
        if path in self.files or root_of(self.roots, path) is None:  # most are
            return False
        parts = path.split("/")
        above = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        return self.unread.isdisjoint([".", *above])

    def emptied(self, path: str) -> Path | None:
        """Return the nearest folder above a path if it is empty, such as the mount point of a drive."""
        root = root_of(self.roots, path)
        nearest = next(filter(is_folder, root.file(path).parents), None) if root is not None else None
        if nearest is None:
            return None
        with suppress(OSError), os.scandir(nearest) as entries:  # whose photos stay if it cannot be read
            if next(entries, None) is not None:
                return None
        return nearest


def images_in(root: Path, exclude: Sequence[str] = ()) -> FolderImages:
    """Find all image files under `root` (a resolved path); see `walk_files` for what is left out."""
    result = FolderImages()
    not_read = result.not_read[""]

    def problem(file: Path, reason: str, unread: bool) -> None:
        if reason in LEFT_OUT:
            not_read[reason] += 1
            return
        if unread:
            result.unread.add(file.relative_to(root).as_posix())
        if unread or file.suffix.lower() in IMAGE_SUFFIXES or file.is_dir():
            result.skipped.append((file.relative_to(root).as_posix(), reason))

    for file in walk_files(root, problem, exclude=check_patterns(exclude), walked=result.walked):
        path = file.relative_to(root).as_posix()
        if is_image(file):
            _take_up(path, file, result)
        elif kind := unread_kind(file.name):
            not_read[kind] += 1
            if kind == "raw":  # one that was read while the extra was installed is not gone
                result.unread.add(path)
    return result


def check_patterns(exclude: Sequence[str]) -> list[str]:
    """Return the patterns of files and folders to leave out, see `pattern_of`, without empty ones.

    Raises:
        SeesayError: there are too many, or one is too long.
    """
    try:
        pattern_of(exclude)
    except ValueError as error:
        raise SeesayError(f"--exclude: {error}") from error
    return [pattern for pattern in exclude if pattern.strip("/")]


def _take_up(path: str, file: Path, result: FolderImages) -> None:
    """Record an image file, unless it is too large or has an invalid name."""
    try:
        path.encode()
        stat = file.stat()
    except UnicodeEncodeError:
        result.skipped.append((_printable(path), _NO_TEXT))
    except OSError as error:
        result.unread.add(path)
        result.skipped.append((path, error.strerror or str(error)))
    else:
        if stat.st_size > MAX_FILE_BYTES:
            result.skipped.append((path, f"{stat.st_size >> 20} MB, more than {MAX_FILE_BYTES >> 20}"))
        else:
            state = FileState(_within(stat.st_mtime_ns), stat.st_size, _within(stat.st_ctime_ns))
            result.files[path] = state


def _printable(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()


def _within(time_ns: int) -> int:
    """A time that SQLite can store, which file systems exceed in both directions."""
    return max(-_LATEST, min(time_ns, _LATEST))


def examine(
    store: Store, former: Sequence[Root], folders: Iterable[Path], exclude: Sequence[str]
) -> FolderImages:
    """Find the images of folders of an index, or of folders to add.

    A new folder with all images of one that is missing, at the same relative paths, takes its place.

    Raises:
        SeesayError: one is not a folder, is new and has no images, or lies in another; or all are missing.
    """
    found, absent = dict[Path, FolderImages](), dict[Path, str]()
    others = {root.folder: root for root in former}
    for folder in dict.fromkeys(_own(others, folder.resolve()) for folder in folders):
        there = images_in(folder, exclude) if is_folder(folder) else None
        known = others.get(folder)
        if known is None and (name := _printable(str(folder))) != str(folder):
            raise SeesayError(f"{name}: {_NO_TEXT}.")
        if there is not None and (there.files or (known and _has_none_now(store, known, there))):
            found[folder] = there
        elif known is not None:
            absent[folder] = _problem(folder, there, True)
        else:
            raise SeesayError(_problem(folder, there, bool(former)))
    if not any(there.files or there.not_read[""][EXCLUDED] for there in found.values()):
        raise SeesayError(next(iter(absent.values()), f"{store.place}: no images in its folders."))
    if len({*found, *others}) > MOST_ROOTS:
        raise SeesayError(f"{store.place}: an index has at most {MOST_ROOTS} folders.")
    known_by_folder = dict[Path, Root]()
    for folder, there in found.items():
        own = others.get(folder) or _moved(store, others.values(), there)
        if own is not None:
            known_by_folder[folder] = others.pop(own.folder)
    together = dict.fromkeys([*found, *others])
    for inner in together:
        if outer := next((outer for outer in inner.parents if outer in together), None):
            raise SeesayError(f"{inner}: lies in {outer} and is indexed with it; leave it out.")
    new = [folder for folder in found if folder not in known_by_folder]
    alone = named([former[0].folder])[0] if new and former and not former[0].name else ""
    names = named(new, [root.name or alone for root in former]) if former or len(new) > 1 else [""]
    name_of = dict(zip(new, names, strict=False)) | {
        folder: root.name or alone for folder, root in known_by_folder.items()
    }
    result = FolderImages(absent=list(absent), alone=alone, not_read={})
    for folder, there in found.items():
        result.add(Root(name_of[folder], folder, seal(store.meta["identity"], folder)), there)
    return result


def _has_none_now(store: Store, root: Root, there: FolderImages) -> bool:
    """Whether a folder without images never had any, or leaves them out; otherwise it may not be mounted."""
    known = store.paths(root)
    is_excluding = bool(there.not_read[""][EXCLUDED])
    return not known or (is_excluding and any(os.path.exists(root.file(path)) for path in known))  # noqa: PTH110


def _own(former: Collection[Path], folder: Path) -> Path:
    """The path by which an index knows a folder: another one if case does not count, or with two mounts."""
    same = (each for each in former if is_folder(each) and is_folder(folder) and each.samefile(folder))
    return folder if folder in former else next(same, folder)


def _moved(store: Store, former: Iterable[Root], there: FolderImages) -> Root | None:
    """The missing root whose images are all in a folder, at the same relative paths."""
    for root in former:
        sizes = {} if is_folder(root.folder) else store.paths(root)
        start = len(root.path(""))
        states = ((there.files.get(path[start:]), size) for path, size in sizes.items())
        if sizes and all(state is not None and state.size == size for state, size in states):
            return root
    return None


def named(folders: Sequence[Path], taken: Iterable[str] = ()) -> list[str]:
    """Return a unique name for each folder, ignoring case.

    >>> named([Path("/a/photos"), Path("/b/photos")], taken=["Photos"])
    ['photos-2', 'photos-3']
    """
    names, used = list[str](), {name.casefold() for name in taken}
    for folder in folders:
        plain = name = folder.name or _NAMELESS
        number = 1
        while name.casefold() in used:
            number += 1
            name = f"{plain}-{number}"
        used.add(name.casefold())
        names.append(name)
    return names


def check_has_images(folders: Iterable[Path]) -> None:
    """Check that each folder of a new index contains an image, so that a mistyped name leaves nothing behind.

    Raises:
        SeesayError: one is not a folder, or contains no image.
    """
    for folder in folders:
        there, root = is_folder(folder), folder.resolve()
        if not there or not any(map(is_image, walk_files(root))):
            raise SeesayError(_problem(folder, images_in(root) if there else None, False))


def _problem(folder: Path, there: FolderImages | None, indexed: bool) -> str:
    reason = dict(there.skipped).get(".") if there else None
    try:
        folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        reason = error.strerror or str(error)
    if reason is not None:
        return f"{folder}: cannot be read ({reason}); check its permissions, or connect its disk."
    if there is None:
        return f"{folder}: not a folder; name the folder that holds the images."
    suffixes = ", ".join(sorted(IMAGE_SUFFIXES))
    others = "".join(f" {line}." for line in unread_lines(there.not_read[""]))
    kept = "; the index is unchanged" if indexed else ""
    return f"{folder}: no images ({suffixes}) in it{kept}.{others}"
