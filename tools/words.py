"""Write the list of words that searches know: the most frequent ones that GloVe has vectors of.

python tools/words.py
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from seesay.encoders.sentences.word_vectors import frequent_words

COUNT = 200_000  # of GloVe's 400,000: beyond, more and more are misspelt or no words at all
FILE = Path(__file__).parent.parent / "src" / "seesay" / "text" / "words.txt.gz"


def main() -> None:
    """Write the file."""
    words = sorted(word for word in frequent_words(COUNT) if re.fullmatch(r"[a-z][a-z']+", word))
    FILE.write_bytes(gzip.compress("\n".join(words).encode(), 9, mtime=0))
    print(f"{FILE.name}: {len(words):,} words, {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
