"""Inverted lists in a file: a line of facts, then FAISS's own bytes, whose checksum the line has.

The checksum is made with this user's key (see `seesay.search.seal`): FAISS trusts its files, so lists that
came with a copy of an index must not reach it.

They are written in parts: a copy of all lists in memory would be as large as they are. They are mapped when
they are read, so that memory has what is searched, once for all processes, as long as it has room.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from seesay.paths import replacing
from seesay.search.seal import seal

_MAGIC = b"seesay vectors 2\n"
_PART = 1 << 24  # bytes


def write_lists(file: Path, index: Any, facts: Mapping[str, object]) -> None:
    """Write lists with facts about them, among these the index's identity.

    Raises:
        OSError: the file cannot be written, or no key can be kept.
    """
    checksum = _new_checksum(str(facts["identity"]))
    with replacing(file) as beside, beside.open("wb") as opened:
        opened.write(_line(facts, checksum))

        def write(part: bytes) -> int:
            checksum.update(part)
            return opened.write(part)

        faiss = _faiss()
        faiss.write_index(index, faiss.PyCallbackIOWriter(write, _PART))
        opened.seek(0)
        opened.write(_line(facts, checksum))  # which is as long as the first


def read_lists(file: Path, identity: str, generations: range) -> tuple[Any, dict[str, Any]] | None:
    """Read lists and the facts about them; None if they are damaged, of another index, or of another time.

    Args:
        file: that `write_lists` wrote, if there is one.
        identity: of the index whose vectors they have to be, among the facts.
        generations: one of which they must be of, among the facts.
    """
    try:
        with file.open("rb") as opened:
            if opened.readline(100) != _MAGIC:
                return None
            facts = json.loads(opened.readline(1000))
            if facts["identity"] != identity or facts["generation"] not in generations:
                return None
            start = opened.tell()
            if not secrets.compare_digest(str(facts["checksum"]).encode(), _checksum(opened, identity)):
                return None
            opened.seek(0)
            # Not by its name, under which another process may have written other lists meanwhile.
            return _mapped(Path(f"/dev/fd/{opened.fileno()}"), start), facts
    except (OSError, ValueError, KeyError, RuntimeError):
        return None


def is_mapped(index: Any) -> bool:
    """Whether the lists are in the file that they were read from, which cannot change."""
    return type(_faiss().downcast_InvertedLists(index.invlists)).__name__ == "OnDiskInvertedLists"


def to_memory(index: Any) -> None:
    """Copy mapped lists into memory, where they can change."""
    if not is_mapped(index):
        return
    mapped, lists = index.invlists, _faiss().ArrayInvertedLists(index.nlist, index.code_size)
    for i in range(index.nlist):
        lists.add_entries(i, mapped.list_size(i), mapped.get_ids(i), mapped.get_codes(i))
    index.replace_invlists(lists, True)
    lists.this.disown()  # they are the index's


def _mapped(file: Path, start: int) -> Any:
    """Read an index from a place in a file; where systems can, its lists stay there and are mapped."""
    faiss = _faiss()
    reader = faiss.FileIOReader(str(file))
    passed = np.empty(start, np.uint8)
    reader(faiss.swig_ptr(passed), 1, start)
    index = faiss.read_index(reader, faiss.IO_FLAG_MMAP if hasattr(faiss, "OnDiskInvertedLists") else 0)
    if is_mapped(index):  # a thread for each list of a query takes longer than its search does
        faiss.downcast_InvertedLists(index.invlists).prefetch_nthread = 0
    return index


def _line(facts: Mapping[str, object], checksum: Any) -> bytes:
    return _MAGIC + json.dumps({**facts, "checksum": checksum.hexdigest()}).encode() + b"\n"


def _new_checksum(identity: str) -> hashlib.blake2b:
    """A checksum that this user alone can make for an index; raise OSError if no key can be kept."""
    key = seal(identity, "lists").encode()
    if not key:
        raise PermissionError("no key can be kept")
    return hashlib.blake2b(key=key)


def _checksum(opened: BinaryIO, identity: str) -> bytes:
    checksum = _new_checksum(identity)
    while part := opened.read(_PART):
        checksum.update(part)
    return checksum.hexdigest().encode()


def _faiss() -> Any:
    """FAISS, whose stubs are of C++; slow to import."""
    import faiss

    return faiss
