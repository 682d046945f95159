"""Words of a sentence, the same in training and in search, and numbers for those of the train split."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from seesay.errors import SeesayError
from seesay.paths import replace_text

UNKNOWN = 0
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")


def tokenize(text: str) -> list[str]:
    """Split a text into lower-cased words and numbers, without punctuation.

    >>> tokenize("A man's dog, jumping!")
    ['a', "man's", 'dog', 'jumping']
    """
    return _WORD.findall(text.lower().replace("’", "'"))


class Vocabulary:
    """Word numbers from 1; 0 stands for a word that is not in the vocabulary."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)
        self._number = {word: i for i, word in enumerate(self.words, start=1)}

    def __len__(self) -> int:
        """Return the number of words, the unknown word included: rows that an embedding needs."""
        return len(self.words) + 1

    @classmethod
    def from_texts(cls, texts: Iterable[str], min_count: int) -> Vocabulary:
        """Take the words that occur at least `min_count` times, most frequent first, ties alphabetically."""
        counts = Counter(word for text in texts for word in tokenize(text))
        kept = [(-n, word) for word, n in counts.items() if n >= min_count]
        return cls(word for _, word in sorted(kept))

    def encode(self, text: str) -> list[int]:
        """Return the sentence's word numbers; a sentence without words is one unknown word.

        >>> Vocabulary(["dog", "a"]).encode("A dog, a xylophone")
        [2, 1, 2, 0]
        """
        return [self._number.get(word, UNKNOWN) for word in tokenize(text)] or [UNKNOWN]

    def save(self, path: Path) -> None:
        """Write the words as JSON."""
        replace_text(path, json.dumps(self.words, ensure_ascii=False))

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read what `save` wrote.

        Raises:
            SeesayError: the file is missing or something else.
        """
        try:
            words = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as failure:
            raise SeesayError(f"{path}: no vocabulary ({failure}); train again.") from failure
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise SeesayError(f"{path}: not a list of words; train again.")
        return cls(words)
