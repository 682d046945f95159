"""Explain a score by leaving out words and windows of the sentence.

If the matcher combines the image with windows of words (m-CNN), each window is silenced in turn, by closing
the gate of its eq. 6, and the later layers are computed again. The contribution of a window is how much the
score falls. Other matchers, and m-CNN's sentence level, read the sentence without each of its words in turn.
This is exact, but contributions do not add up to the score: if two windows mean the same, either one makes up
for the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor

from seesay.data.corpus import composed
from seesay.encoders.sentences.base import FittedEncoder
from seesay.encoders.sentences.word_vectors import WordFeatures, word_vectors
from seesay.errors import SeesayError
from seesay.matchers.base import Matcher, as_matcher
from seesay.matchers.composed import Ensemble
from seesay.matchers.mcnn import MatchingCNN
from seesay.runs.predictions import image_features
from seesay.runs.run import Run
from seesay.text.vocabulary import UNKNOWN, tokenize

# Okabe and Ito's bluish green (raises the score) and vermilion (lowers it): distinct for every kind of colour
# vision.
FOR, AGAINST = (0, 158, 115), (213, 94, 0)
FAINT = 0.1  # share of the strongest below which a word is left uncoloured
WORDS = "words"
LEGEND = (
    "Each bar shows how much the score falls when that window is left out. "
    "A word is coloured by the mean of the windows that contain it."
)
_DRAWN = 40
TITLES = {
    "wd": "Windows of three words",
    "phs": "Short phrases: windows of up to eight words",
    "phl": "Long phrases: windows of up to eighteen words",
    "st": "The sentence: each word left out",
    WORDS: "Each word left out",
}


@dataclass(frozen=True, slots=True)
class Word:
    """A word, `sentence[start:end]`, and whether the run knows it."""

    text: str
    start: int
    end: int
    known: bool


@dataclass(frozen=True, slots=True)
class Window:
    """Words `start` to `end` (exclusive), and how much the score falls without them."""

    start: int
    end: int
    contribution: float


@dataclass(frozen=True, slots=True)
class Reading:
    """How one matcher reads the sentence; an ensemble has several.

    Attributes:
        level: `wd`, `phs`, `phl` or `st` of m-CNN, or `words` of another matcher.
        score: of the image and the sentence.
        windows: in their order in the sentence; single words for `st` and `words`.
        words: for each word that was read, the mean contribution of the windows that contain it.
    """

    level: str
    score: float
    windows: tuple[Window, ...]
    words: tuple[float, ...]

    @property
    def title(self) -> str:
        """A heading for its windows."""
        return TITLES[self.level]

    def best(self, count: int) -> list[Window]:
        """Return the windows that contribute most, for or against."""
        return sorted(self.windows, key=lambda window: -abs(window.contribution))[:count]

    def drawn(self) -> list[Window]:
        """Return the windows that a figure shows: the best ones, in the order of the sentence."""
        return sorted(self.best(_DRAWN), key=lambda window: window.start)

    def strengths(self) -> list[float]:
        """Return the words' contributions as shares of the largest, from -1 (against) to 1 (for)."""
        largest = max(map(abs, self.words), default=0.0)
        return [value / largest if largest else 0.0 for value in self.words]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A sentence and how it was read; its last `cut` words were ignored."""

    sentence: str
    words: tuple[Word, ...]
    cut: int
    readings: tuple[Reading, ...]

    @property
    def score(self) -> float:
        """The score of the image and the sentence: the sum of the readings."""
        return sum(reading.score for reading in self.readings)

    @property
    def unknown(self) -> list[str]:
        """The words that the run does not know."""
        return [word.text for word in self.words if not word.known]

    def notes(self) -> list[str]:
        """Return a line for each kind of unread words."""
        notes = []
        if self.unknown:
            notes.append(f"Unknown to the run: {', '.join(self.unknown)}.")
        if self.cut:
            notes.append(
                f"The last {self.cut} words were ignored: the run reads {len(self.words) - self.cut}."
            )
        return notes

    def text(self, window: Window) -> str:
        """Return the words of a window."""
        return " ".join(word.text for word in self.words[window.start : window.end])

    def pieces(self, reading: Reading) -> list[tuple[str, float | None]]:
        """Split the sentence into words with their strengths, or None for unread words and gaps."""
        pieces: list[tuple[str, float | None]] = []
        at = 0
        for word, strength in zip(self.words, reading.strengths(), strict=False):  # none for words cut off
            pieces += [(self.sentence[at : word.start], None), (word.text, strength)]
            at = word.end
        return [(text, strength) for text, strength in [*pieces, (self.sentence[at:], None)] if text]

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON; `start` and `end` count the sentence's characters."""
        return {
            "sentence": self.sentence,
            "score": round(self.score, 4),
            "unknown": self.unknown,
            "cut": self.cut,
            "readings": [self._reading(reading) for reading in self.readings],
        }

    def _reading(self, reading: Reading) -> dict[str, object]:
        spans = [Window(i, i + 1, value) for i, value in enumerate(reading.words)]
        found = {
            name: [
                {
                    "text": self.text(window),
                    "start": self.words[window.start].start,
                    "end": self.words[window.end - 1].end,
                    "contribution": round(window.contribution, 4),
                }
                for window in windows
            ]
            for name, windows in (("words", spans), ("windows", reading.windows))
        }
        return {"level": reading.level, "score": round(reading.score, 4), **found}


def explain(run: Run, image: bytes, name: str, sentence: str) -> Explanation:
    """Explain the score of an image and a sentence.

    Args:
        run: matches whole images; an ensemble is explained member by member.
        image: encoded.
        name: of the image, for messages.
        sentence: if it has more words than the run reads, such as m-CNN's thirty, the others are ignored.

    Raises:
        ImageError: the image cannot be decoded.
        SeesayError: the sentence has no words, or the run grounds phrases or was trained on precomputed
            features.
    """
    matcher = run.matcher
    members = matcher.pair_matchers() if isinstance(matcher, Ensemble) else [as_matcher(matcher)]
    sentence = composed(sentence)
    if len(sentence.lower()) != len(sentence):  # a letter such as İ is two characters in lower case
        sentence = sentence.lower()
    words = _words(run, sentence)
    read = words[: run.config.max_words]
    text = sentence[: read[-1].end] if len(read) < len(words) else sentence
    features = image_features(run, image, name)
    with torch.inference_mode():
        readings = tuple(_read(run, member, features, text, read) for member in members)
    return Explanation(sentence, tuple(words), len(words) - len(read), readings)


def _read(run: Run, matcher: Matcher, features: Tensor, text: str, words: Sequence[Word]) -> Reading:
    """Explain one matcher's score of image features (1, d) and those words of a text."""
    level = matcher.level if isinstance(matcher, MatchingCNN) else WORDS
    if isinstance(matcher, MatchingCNN) and (spans := matcher.windows(len(words))):
        scores = matcher.score_without_windows(features, run.prepare([text]).to_tensors(run.device))
    else:
        spans = [(i, i + 1) for i in range(len(words))]
        texts = [text, *(text[: word.start] + text[word.end :] for word in words)]
        scores = matcher(features, run.prepare(texts).to_tensors(run.device))[0]
    score, *without = scores.double().tolist()
    windows = tuple(Window(*span, score - other) for span, other in zip(spans, without, strict=True))
    holding = ([w.contribution for w in windows if w.start <= i < w.end] for i in range(len(words)))
    return Reading(level, score, windows, tuple(map(fmean, holding)))


def _words(run: Run, sentence: str) -> list[Word]:
    """Return the tokenizer's words with their positions; raise a SeesayError if there are none."""
    tokens = tokenize(sentence)
    if not tokens:
        raise SeesayError(f"'{sentence}': contains no words; describe what the image shows.")
    words, at = [], 0
    written = sentence.lower().replace("’", "'")
    for token, known in zip(tokens, _known(run, tokens), strict=True):
        start = written.index(token, at)
        at = start + len(token)
        words.append(Word(sentence[start:at], start, at, known))
    return words


def _known(run: Run, words: Sequence[str]) -> list[bool]:
    """Return whether each word is in the vocabulary or, if the run has a sentence encoder, has a vector."""
    seen = [run.vocabulary.encode(word)[0] != UNKNOWN for word in words]
    match run.sentence_encoder:
        case None:
            return seen
        case FittedEncoder(features=WordFeatures() as features):
            there = features.look_up(words)[1]
        case _:
            there = word_vectors(words)[1]
    return [either or bool(each) for either, each in zip(seen, there, strict=True)]


def terminal_style(strength: float) -> str:
    """Return a style in the terminal's own red or green: empty, coloured, or bold and coloured."""
    if abs(strength) < FAINT:
        return ""
    return ("bold " if abs(strength) > 0.5 else "") + ("green" if strength > 0 else "red")
