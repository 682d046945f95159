"""Write the lists of words of searches: those that they know, and those that a misspelt word is taken for.

python tools/words.py
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable
from pathlib import Path

from lemminflect import getAllLemmas  # type: ignore[import-untyped]

from seesay.encoders.sentences.word_vectors import frequent_words

COUNT = 200_000  # of GloVe's 400,000: beyond, more and more are misspelt or no words at all
FOLDER = Path(__file__).parent.parent / "src" / "seesay" / "text"


def main() -> None:
    """Write the files."""
    words = [word for word in frequent_words(COUNT) if re.fullmatch(r"[a-z][a-z']+", word)]
    write(FOLDER / "words.txt.gz", sorted(words))
    # In the order of their frequency; without names and abbreviations, which a dictionary does not have.
    write(FOLDER / "dictionary.txt.gz", (word for word in words if getAllLemmas(word)))


def write(file: Path, words: Iterable[str]) -> None:
    """Write words, one a line, and say how many."""
    text = "\n".join(words)
    file.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{file.name}: {text.count(chr(10)) + 1:,} words, {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
