"""The tables of an index, the same in SQLite and PostgreSQL."""

from __future__ import annotations

from typing import Literal

Kind = Literal["image", "sentence"]
KINDS: tuple[Kind, Kind] = ("image", "sentence")

# SQLite accepts at most 32,766 parameters, so many values are one parameter, in JSON.
AMONG_TEXTS = "IN (SELECT value FROM json_each(?))"
AMONG_IDS = "IN (SELECT CAST(value AS bigint) FROM json_each(?))"

_TABLES = (
    "CREATE TABLE meta (key {text} PRIMARY KEY, value {text} NOT NULL)",
    # A vector belongs to a content, so that identical files are embedded once. `taken` is when a photo was
    # taken, "2019-06-30T12:00:00", or empty.
    """CREATE TABLE vectors (
        id {id} PRIMARY KEY,
        kind {text} NOT NULL CHECK (kind IN ('image', 'sentence')),
        key {text} NOT NULL,
        width bigint,
        height bigint,
        taken {text} NOT NULL,
        data {vector} NOT NULL,
        UNIQUE (kind, key)
    )""",
    # Ids grow: one that a page or a cache still holds is never given to another image.
    # `time` and `dated_by`: see `Photo`. `folded` is the folder of an image and `name` that of its file,
    # without case and accents, stored because folding a million paths takes seconds.
    """CREATE TABLE items (
        id {id} PRIMARY KEY,
        kind {text} NOT NULL CHECK (kind IN ('image', 'sentence')),
        vector bigint NOT NULL REFERENCES vectors (id),
        path {text},
        text {text},
        mtime_ns bigint,
        size bigint,
        ctime_ns bigint,
        time {text},
        dated_by {text},
        folded {text},
        name {text},
        added double precision NOT NULL,
        generation bigint NOT NULL,
        {unique_path},
        {unique_text},
        CHECK ((kind = 'image') = (path IS NOT NULL) AND (kind = 'sentence') = (text IS NOT NULL))
    )""",
    "CREATE INDEX items_by_vector ON items (vector)",
    "CREATE INDEX items_by_generation ON items (kind, generation)",
    # A page of the newest images is read in order, however many there are.
    "CREATE INDEX items_by_time ON items (kind, time, id)",
    # Files that could not be used are listed on every update, and decoded again only when they change.
    """CREATE TABLE skipped (
        path {text} NOT NULL,
        mtime_ns bigint NOT NULL,
        size bigint NOT NULL,
        ctime_ns bigint NOT NULL,
        reason {text} NOT NULL,
        {unique_path}
    )""",
    # The text that was read in the picture of a content: `words` as filters compare it, `lines` in JSON, see
    # `seesay.data.ocr.TextLine`; `fault` says why it could not be read, or is empty.
    """CREATE TABLE texts (
        vector bigint PRIMARY KEY REFERENCES vectors (id) ON DELETE CASCADE,
        words {text} NOT NULL,
        lines {text} NOT NULL,
        fault {text} NOT NULL
    )""",
    # An index may be of several folders; files of other kinds are counted for each.
    """CREATE TABLE roots (
        name {text} PRIMARY KEY,
        folder {text} NOT NULL,
        seal {text} NOT NULL,
        not_read {text} NOT NULL
    )""",
)


def table_statements(text: str, id_: str, vector: str, unique: str) -> list[str]:
    """Return the statements that create the tables.

    Args:
        text: the type of text that is compared byte by byte.
        id_: the type of ids, 64 bits.
        vector: the type of vectors.
        unique: the constraint that no two rows of `{column}` are equal.
    """
    both = {f"unique_{column}": unique.format(column=column) for column in ("path", "text")}
    return [each.format(text=text, id=id_, vector=vector, **both) for each in _TABLES]
