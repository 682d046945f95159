"""The vocabulary: words of the train split, and their numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.paths import replace_text
from seesay.text.tokenizer import tokenize

UNKNOWN = 0


class Vocabulary:
    """Word numbers from 1; 0 stands for a word that training never saw, or too seldom."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)
        self._number = {word: i for i, word in enumerate(self.words, start=1)}

    def __len__(self) -> int:
        """Rows an embedding needs, the unknown word included."""
        return len(self.words) + 1

    @classmethod
    def of(cls, sentences: Iterable[str], min_count: int) -> Vocabulary:
        """The words that occur at least `min_count` times, most frequent first, ties by the alphabet."""
        counts = Counter(word for text in sentences for word in tokenize(text))
        kept = [(word, n) for word, n in counts.items() if n >= min_count]
        return cls(word for word, _ in sorted(kept, key=lambda item: (-item[1], item[0])))

    def encode(self, text: str) -> list[int]:
        """The sentence's word numbers; a sentence without words is one unknown word.

        >>> Vocabulary(["dog", "a"]).encode("A dog, a xylophone")
        [2, 1, 2, 0]
        """
        return [self._number.get(word, UNKNOWN) for word in tokenize(text)] or [UNKNOWN]

    def save(self, path: Path) -> None:
        """Write the words as JSON, beside and then in place."""
        replace_text(path, json.dumps(self.words, ensure_ascii=False))

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read what `save` wrote; SeesayError when the file is missing or something else."""
        try:
            words = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as failure:
            raise SeesayError(f"{path}: no vocabulary ({failure}); train again.") from failure
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise SeesayError(f"{path}: not a list of words; train again.")
        return cls(words)


def vocabulary_summary(corpus: Corpus) -> dict[str, float]:
    """Words of the train split, how many stand there once, and the share of test words not among them.

    Empty where there is no train split.
    """
    splits = {image.split for image in corpus.images}
    if "train" not in splits:
        return {}
    counts = Counter(word for text in corpus.split("train").texts() for word in tokenize(text))
    test = corpus.split("test").texts() if "test" in splits else []
    words = [word for text in test for word in tokenize(text)]
    unseen = sum(word not in counts for word in words)
    return {
        "words": len(counts),
        "once": sum(n == 1 for n in counts.values()),
        "unseen_test": 100 * unseen / max(len(words), 1),
    }
