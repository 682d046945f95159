"""What an explanation holds: a sentence's words and windows, and what each contributes to a score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WORDS = "words"
LEGEND = (
    "A bar is what the score falls by with that window left out, all else as it is; "
    "a word is coloured by the mean of the windows that hold it."
)
_DRAWN = 40
_TITLES = {
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
    """Words `start` to `end` (exclusive), and by how much the score falls without them."""

    start: int
    end: int
    contribution: float


@dataclass(frozen=True, slots=True)
class Reading:
    """How one matcher reads the sentence; an ensemble has several.

    Attributes:
        level: `wd`, `phs`, `phl`, `st`, or `words` of a matcher that is no m-CNN.
        score: of the image and the sentence.
        windows: in their order in the sentence; single words for `st` and `words`.
        words: for each word that was read the mean contribution of the windows that hold it.
    """

    level: str
    score: float
    windows: tuple[Window, ...]
    words: tuple[float, ...]

    @property
    def title(self) -> str:
        """What its windows are, in words."""
        return _TITLES[self.level]

    def best(self, count: int) -> list[Window]:
        """The windows that matter most, for or against."""
        return sorted(self.windows, key=lambda window: -abs(window.contribution))[:count]

    def drawn(self) -> list[Window]:
        """The windows that a figure shows: those that matter most, as they stand in the sentence."""
        return sorted(self.best(_DRAWN), key=lambda window: window.start)

    def strengths(self) -> list[float]:
        """The words' contributions as shares of the largest, from -1 (against) over 0 to 1 (for)."""
        most = max(map(abs, self.words), default=0.0)
        return [value / most if most else 0.0 for value in self.words]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A sentence and how it was read; `cut` words behind the thirtieth were not."""

    sentence: str
    words: tuple[Word, ...]
    cut: int
    readings: tuple[Reading, ...]

    @property
    def score(self) -> float:
        """Of the image and the sentence: the readings' sum."""
        return sum(reading.score for reading in self.readings)

    @property
    def unknown(self) -> list[str]:
        """Words that the run does not know."""
        return [word.text for word in self.words if not word.known]

    def notes(self) -> list[str]:
        """What of the sentence could not be read, a line each."""
        notes = []
        if self.unknown:
            notes.append(f"Not known to the run: {', '.join(self.unknown)}.")
        if self.cut:
            notes.append(f"Cut off: {self.cut} behind the thirtieth word, where m-CNN stops reading.")
        return notes

    def text(self, window: Window) -> str:
        """The words of a window."""
        return " ".join(word.text for word in self.words[window.start : window.end])

    def pieces(self, reading: Reading) -> list[tuple[str, float | None]]:
        """The sentence in pieces: words with their strength, None for what stands between or is unread."""
        pieces: list[tuple[str, float | None]] = []
        at = 0
        for word, strength in zip(self.words, reading.strengths(), strict=False):  # none for those cut off
            pieces += [(self.sentence[at : word.start], None), (word.text, strength)]
            at = word.end
        return [(text, strength) for text, strength in [*pieces, (self.sentence[at:], None)] if text]

    def as_json(self) -> dict[str, Any]:
        """Plain values; `start` and `end` are places in the sentence's characters."""
        return {
            "sentence": self.sentence,
            "score": round(self.score, 4),
            "unknown": self.unknown,
            "cut": self.cut,
            "readings": [self._reading(reading) for reading in self.readings],
        }

    def _reading(self, reading: Reading) -> dict[str, Any]:
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
