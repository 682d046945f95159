"""One HTML page of results that needs nothing beside it: the images are in it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from seesay import html
from seesay.errors import ImageError, SeesayError
from seesay.paths import replace_text
from seesay.search.index import Hit, Index

_STYLE = """:root { --accent: light-dark(#0b6e63, #5fd0c0); }
body { max-width: 88rem; padding: 2.5rem clamp(1rem, 4vw, 3rem); }
h1 { margin: 0; font-size: 1.6rem; font-weight: 600; letter-spacing: -0.01em; }
p { margin: .25rem 0 2rem; color: var(--soft); }
ol { display: flex; flex-wrap: wrap; gap: 1.25rem .75rem; margin: 0; padding: 0; list-style: none; }
li { width: min-content; }
img { display: block; height: 13.75rem; max-width: 90vw; object-fit: cover; border-radius: 6px; }
a { color: inherit; text-decoration: none; overflow-wrap: anywhere; font-size: .8rem; }
b { color: var(--accent); font-variant-numeric: tabular-nums; font-weight: 600; margin-right: .35rem; }
"""

_BODY = """<h1>{title}</h1>
<p>{count} of {all_} images in {folder}, best first</p>
<ol>
{rows}
</ol>"""

_ROW = """<li><a href="{link}"><img src="data:image/jpeg;base64,{data}" alt="{path}">
<b>{score:.3f}</b>{path}</a></li>"""


def sheet(index: Index, sentence: str, hits: Sequence[Hit]) -> str:
    """The page of a sentence's images; those that can no longer be read are left out."""
    rows = [row for hit in hits if (row := _row(index, hit))]
    body = _BODY.format(
        title=escape(sentence),
        count=len(rows),
        all_=index.count("image"),
        folder=escape(str(index.root() or index.folder)),
        rows="\n".join(rows),
    )
    return html.page(sentence, _STYLE, body)


def write_sheet(index: Index, sentence: str, hits: Sequence[Hit], file: Path) -> None:
    """Writes the page under another name first, then renames it.

    Raises:
        SeesayError: the file cannot be written.
    """
    try:
        replace_text(file, sheet(index, sentence, hits))
    except OSError as error:
        raise SeesayError(f"{file}: cannot be written ({error.strerror}); choose another place.") from error


def _row(index: Index, hit: Hit) -> str | None:
    item = index.item(hit.id)
    file = index.file_of(item) if item else None
    if item is None or file is None:
        return None
    try:
        data = index.thumbnails.get(item.key, file)
    except (ImageError, OSError):
        return None
    encoded = base64.b64encode(data).decode()
    return _ROW.format(link=escape(file.as_uri()), data=encoded, path=escape(hit.path or ""), score=hit.score)
