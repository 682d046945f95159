"""Search results as a self-contained HTML page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from seesay import html
from seesay.errors import ImageError
from seesay.paths import writing
from seesay.search.index import Hit, Index

_BODY = """<h1>{title}</h1>
<p>{count} of {all_} images in {folder}, best first</p>
<ol>
{rows}
</ol>"""

_ROW = """<li><a href="{link}"><img src="data:image/jpeg;base64,{data}" alt="{path}">
<b>{score:.3f}</b>{path}</a></li>"""


def sheet(index: Index, sentence: str, hits: Sequence[Hit]) -> str:
    """Return the page of a sentence's images; those that can no longer be read are left out."""
    rows = [row for hit in hits if (row := _row(index, hit))]
    body = _BODY.format(
        title=escape(sentence),
        count=len(rows),
        all_=index.count("image"),
        folder=escape(str(index.root() or index.folder)),
        rows="\n".join(rows),
    )
    return html.page(sentence, files(__package__).joinpath("sheet.css").read_text(encoding="utf-8"), body)


def write_sheet(index: Index, sentence: str, hits: Sequence[Hit], file: Path) -> None:
    """Write the page.

    Raises:
        SeesayError: the file cannot be written.
    """
    with writing(file) as beside:
        beside.write_text(sheet(index, sentence, hits), encoding="utf-8")


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
