"""The words and windows of a sentence, what each contributes to a score, and the colours that show it.

Orange-red lowers the score, green raises it. They are Okabe and Ito's vermilion and bluish green, which are
distinct for every kind of colour vision.
"""

from __future__ import annotations

from dataclasses import dataclass

FOR, AGAINST = (0, 158, 115), (213, 94, 0)
FAINT = 0.1  # share of the strongest below which a word is left uncoloured
WORDS = "words"
LEGEND = (
    "A bar is what the score falls by when that window is left out; "
    "a word is coloured by the mean of the windows that contain it."
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
    """Words `start` to `end` (exclusive), and what the score falls by without them."""

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
        """What its windows are."""
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
    """A sentence and how it was read; its last `cut` words were not."""

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
        """Return what of the sentence could not be read, a line each."""
        notes = []
        if self.unknown:
            notes.append(f"Unknown to the run: {', '.join(self.unknown)}.")
        if self.cut:
            notes.append(f"The last {self.cut} words were cut off: m-CNN reads {len(self.words) - self.cut}.")
        return notes

    def text(self, window: Window) -> str:
        """Return the words of a window."""
        return " ".join(word.text for word in self.words[window.start : window.end])

    def pieces(self, reading: Reading) -> list[tuple[str, float | None]]:
        """Split the sentence into words with their strengths, and None for what is between or unread."""
        pieces: list[tuple[str, float | None]] = []
        at = 0
        for word, strength in zip(self.words, reading.strengths(), strict=False):  # none for those cut off
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


def tint(strength: float) -> str:
    """Return `#rrggbb` on white for a strength from -1 (against) over 0 (white) to 1 (for)."""
    hue = FOR if strength > 0 else AGAINST
    share = 0.85 * min(abs(strength), 1.0)  # black text stays readable
    return "#" + "".join(f"{round(255 + share * (part - 255)):02x}" for part in hue)


def terminal_style(strength: float) -> str:
    """Return a style in the terminal's own red and green: none, coloured, or bold too."""
    if abs(strength) < FAINT:
        return ""
    return ("bold " if abs(strength) > 0.5 else "") + ("green" if strength > 0 else "red")
