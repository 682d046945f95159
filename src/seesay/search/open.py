"""An index together with the run that embeds for it."""

from __future__ import annotations

from pathlib import Path

from seesay.errors import SeesayError
from seesay.runs.run import Run
from seesay.search.index import Index

SHIPPED = "seesay-small"


def open_index(folder: Path) -> tuple[Index, Run]:
    """An index to search, and the run that its vectors are of."""
    index = Index.open(folder)
    run = Run.load(index.embedder_name)
    index.check(run)
    return index, run


def open_or_create_index(folder: Path, run_name: str | None) -> tuple[Index, Run]:
    """An index to bring up to date, made where there is none; an index keeps the run it was made with.

    Raises:
        SeesayError: the index there is of another run.
    """
    if not Index.exists(folder):
        run = Run.load(run_name or SHIPPED)
        return Index.create(folder, run), run
    index = Index.open(folder)
    run = Run.load(run_name or index.embedder_name)
    index.check(run)
    return index, run


def read_sentences(path: Path) -> list[str]:
    """Sentences of a text file, one a line, or of a corpus."""
    from seesay.data.readers import read_corpus

    if path.suffix.lower() != ".txt":
        return list(read_corpus(path).texts())
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as failure:
        raise SeesayError(f"{path}: no UTF-8 text file of sentences ({failure}).") from failure
