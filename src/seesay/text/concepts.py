"""Semantic concepts: the content words that describe the train split most often (SCO, section 3.2).

Nouns, adjectives, verbs and numbers as lemmas, the rare ones dropped. A concept is a lemma whatever it is in
a sentence: "a skateboard" and "skateboarding" are one, named by what it is most often.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.paths import replace_text
from seesay.text.content_words import PARTS, Part, content_words
from seesay.text.vocabulary import Vocabulary

FILE = "concepts.json"  # in a run's folder
MAX_CONCEPTS = 256  # the paper's K
MIN_COUNT = 5  # sentences; a rarer word is no concept


@dataclass(frozen=True, slots=True)
class Concept:
    """A lemma, what it most often is, and in how many sentences of the train split it stands."""

    word: str
    part: Part
    count: int


@dataclass(frozen=True)
class ConceptVocabulary:
    """The concepts of a train split, most frequent first.

    Attributes:
        concepts: at most `wanted`.
        wanted: how many there were to be; a small corpus has fewer.
        sentences: of the train split.
        without: how many of these have no content word.
    """

    concepts: tuple[Concept, ...]
    wanted: int
    sentences: int
    without: int

    @classmethod
    def of(
        cls, sentences: Iterable[str], max_size: int = MAX_CONCEPTS, min_count: int = MIN_COUNT
    ) -> ConceptVocabulary:
        """Take the `max_size` most frequent content words of at least `min_count` sentences.

        Equally frequent words are in alphabetical order.

        Raises:
            SeesayError: there are none.
        """
        counts: Counter[str] = Counter()
        parts: defaultdict[str, Counter[Part]] = defaultdict(Counter)
        total = without = 0
        for text in sentences:
            found = set(content_words(text))
            total += 1
            without += not found
            counts.update({word.lemma for word in found})
            for word in found:
                parts[word.lemma][word.part] += 1
        frequent = sorted((-n, word) for word, n in counts.items() if n >= min_count)[:max_size]
        if not frequent:
            raise SeesayError(
                f"No content word stands in {min_count} of the {total} training sentences: no concepts. "
                "Are they in English? If they are few, set `min_count` to 1."
            )
        concepts = tuple(Concept(word, _most_often(parts[word]), -n) for n, word in frequent)
        return cls(concepts, max_size, total, without)

    def vocabulary(self) -> Vocabulary:
        """The concepts as a run's vocabulary: concept c, from zero, has number c + 1."""
        return Vocabulary(concept.word for concept in self.concepts)

    def as_json(self) -> dict[str, Any]:
        """Plain values, as `save` writes them."""
        return {
            "wanted": self.wanted,
            "sentences": self.sentences,
            "without": self.without,
            "concepts": [asdict(concept) for concept in self.concepts],
        }

    def save(self, path: Path) -> None:
        """Write it as JSON, beside and then in place."""
        replace_text(path, json.dumps(self.as_json(), ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> ConceptVocabulary:
        """Read what `save` wrote; SeesayError when the file is missing or something else."""
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            concepts = tuple(Concept(str(c["word"]), c["part"], int(c["count"])) for c in told["concepts"])
            return cls(concepts, int(told["wanted"]), int(told["sentences"]), int(told["without"]))
        except (OSError, ValueError, TypeError, KeyError) as failure:
            raise SeesayError(f"{path}: no concept vocabulary ({failure}); train again.") from failure


def concept_targets(words: Sequence[str], corpus: Corpus) -> NDArray[np.bool_]:
    """For each image which concepts its sentences name, (n_images, K): a row may be empty."""
    number = {word: c for c, word in enumerate(words)}
    targets = np.zeros((len(corpus.images), len(words)), bool)
    for sentence in corpus.sentences:
        named = [number[word.lemma] for word in content_words(sentence.text) if word.lemma in number]
        targets[sentence.image, named] = True
    return targets


def _most_often(parts: Counter[Part]) -> Part:
    return max(PARTS, key=lambda part: parts[part])
