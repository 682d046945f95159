"""Tables as files: Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from seesay.errors import SeesayError
from seesay.paths import replace_text
from seesay.results.tables import PaperTable


def _markdown(table: PaperTable) -> str:
    below = table.differences()
    more = f"\n## {below.title}\n\n{below.markdown()}" if below is not None else ""
    return f"## {table.title}\n\n{table.table(names=True).markdown()}{more}"


def _latex(table: PaperTable) -> str:
    both = table.table(), table.differences()
    return "\n".join(each.latex() for each in both if each is not None)


FORMATS: dict[str, Callable[[PaperTable], str]] = {
    ".md": _markdown,
    ".tex": _latex,
    ".csv": lambda table: table.data().csv(),
    ".json": lambda table: json.dumps(table.to_dict(), ensure_ascii=False, indent=1) + "\n",
}


def check_format(path: Path) -> None:
    """Check that a table can be written there, before anything is trained for it.

    Raises:
        SeesayError: the suffix is not that of a format.
    """
    if path.suffix.lower() not in FORMATS:
        raise SeesayError(f"{path}: tables are written as {', '.join(FORMATS)}; choose one of these.")


def write_table(table: PaperTable, path: Path) -> None:
    """Write the table in the format of the path's suffix.

    Raises:
        SeesayError: the format is unknown, or the file cannot be written.
    """
    check_format(path)
    text = FORMATS[path.suffix.lower()](table)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, text)
    except OSError as error:
        raise SeesayError(f"{path}: cannot be written ({error.strerror}).") from error
