"""Hooks of the documentation site.

For MkDocs, pages outside docs/ are added to the site, and links to files that are not in the site become
text. For Griffe, which reads the docstrings, examples anywhere in a docstring become sections.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
# Files of the repository, and their pages in the site.
ELSEWHERE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "src/seesay/weights/seesay-small/README.md": "weights/seesay-small.md",
    "src/seesay/weights/seesay-ground/README.md": "weights/seesay-ground.md",
}
_SOURCES = {page: source for source, page in ELSEWHERE.items()}
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
IMAGE = re.compile(r"(!\[[^\]]*\]\()(?P<target>[^)\s]+)\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are outside docs/."""
    for source, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: object) -> str:
    """Rewrite relative links to pages of the site, and replace links to other files by their text."""
    here = page.file.src_uri
    source = _SOURCES.get(here, f"docs/{here}")

    def in_site(target: str) -> str | None:
        path, mark, anchor = target.partition("#")
        if not path or ":" in path:
            return target
        of_root = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        there = ELSEWHERE.get(of_root, of_root.removeprefix("docs/"))
        if files.get_file_from_path(there) is None:
            return None if (ROOT / of_root).exists() else target
        return posixpath.relpath(there, posixpath.dirname(here)) + mark + anchor

    def link(found: re.Match[str]) -> str:
        target = in_site(found["target"])
        return found["text"] if target is None else f"[{found['text']}]({target})"

    markdown = IMAGE.sub(lambda found: f"{found[1]}{in_site(found['target'])})", markdown)
    return LINK.sub(link, markdown)


class Examples(griffe.Extension):
    """Renames sections for Griffe, which knows Examples, while this project writes Example or only `>>>`."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = re.sub(r"^>>> (?:.+\n?)+", _section, text, flags=re.MULTILINE)


def _section(found: re.Match[str]) -> str:
    return "Examples:\n" + "".join(f"    {line}\n" for line in found[0].splitlines())
