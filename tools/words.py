"""Write the word lists of search: known words, and the words that can be corrections of misspelt ones.

python tools/words.py
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable
from pathlib import Path

from lemminflect import getAllLemmas  # type: ignore[import-untyped]

from seesay.encoders.sentences.word_vectors import glove

COUNT = 200_000  # of GloVe's 400,000: more and more of the others are misspelt or not words
FOLDER = Path(__file__).parent.parent / "src" / "seesay" / "text"


def main() -> None:
    """Write the files."""
    words = [word for word in list(glove()[0])[:COUNT] if re.fullmatch(r"[a-z][a-z']+", word)]
    write(FOLDER / "words.txt.gz", sorted(words))
    # By frequency, without names and abbreviations, which the dictionary does not have.
    write(FOLDER / "dictionary.txt.gz", (word for word in words if getAllLemmas(word)))


def write(file: Path, words: Iterable[str]) -> None:
    """Write words, one per line, and print their number."""
    text = "\n".join(words)
    file.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{file.name}: {text.count(chr(10)) + 1:,} words, {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
