"""Search results as a self-contained HTML page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from seesay.errors import ImageError, SeesayError
from seesay.paths import replace_text
from seesay.search.index import Hit, Index

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · seesay</title>
<style>
:root {{ color-scheme: light dark; --ink: light-dark(#1c1b19, #eceae6); --soft: light-dark(#6b6862, #a09c94);
  --ground: light-dark(#faf9f7, #161514); --accent: light-dark(#0b6e63, #5fd0c0); }}
body {{ margin: 0 auto; max-width: 88rem; padding: 2.5rem clamp(1rem, 4vw, 3rem); background: var(--ground);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }}
h1 {{ margin: 0; font-size: 1.6rem; font-weight: 600; letter-spacing: -0.01em; }}
p {{ margin: .25rem 0 2rem; color: var(--soft); }}
ol {{ display: flex; flex-wrap: wrap; gap: 1.25rem .75rem; margin: 0; padding: 0; list-style: none; }}
li {{ width: min-content; }}
img {{ display: block; height: 13.75rem; max-width: 90vw; object-fit: cover; border-radius: 6px; }}
a {{ color: inherit; text-decoration: none; overflow-wrap: anywhere; font-size: .8rem; }}
b {{ color: var(--accent); font-variant-numeric: tabular-nums; font-weight: 600; margin-right: .35rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{count} of {all_} images in {folder}, best first</p>
<ol>
{rows}
</ol>
</body>
</html>
"""

_ROW = """<li><a href="{link}"><img src="data:image/jpeg;base64,{data}" alt="{path}">
<b>{score:.3f}</b>{path}</a></li>"""


def sheet(index: Index, sentence: str, hits: Sequence[Hit]) -> str:
    """Return the page of a sentence's images; those that can no longer be read are left out."""
    rows = [row for hit in hits if (row := _row(index, hit))]
    return _PAGE.format(
        title=escape(sentence),
        count=len(rows),
        all_=index.count("image"),
        folder=escape(str(index.root() or index.folder)),
        rows="\n".join(rows),
    )


def write_sheet(index: Index, sentence: str, hits: Sequence[Hit], file: Path) -> None:
    """Write the page.

    Raises:
        SeesayError: the file cannot be written.
    """
    try:
        replace_text(file, sheet(index, sentence, hits))
    except OSError as error:
        raise SeesayError(f"{file}: cannot be written ({error.strerror}); choose another file.") from error


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
