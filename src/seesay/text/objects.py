"""Which of a detector's classes an English sentence names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from lemminflect import getLemma  # type: ignore[import-untyped]

from seesay.text.concepts import content_words
from seesay.text.vocabulary import tokenize

# Other names for COCO's classes. Words for people name a person, whatever else they imply.
_OTHER_NAMES = {
    "person": (
        "people human man woman boy girl child kid baby toddler lady guy adult player worker rider skier "
        "surfer skateboarder snowboarder climber biker cyclist crowd"
    ),
    "airplane": "aeroplane plane jet aircraft",
    "backpack": "rucksack",
    "bicycle": "bike",
    "book": "novel",
    "cat": "kitten",
    "cell_phone": "cellphone phone mobile smartphone telephone mobile_phone",
    "couch": "sofa settee",
    "cow": "cattle bull calf",
    "dining_table": "table diningtable",
    "dog": "puppy",
    "donut": "doughnut",
    "frisbee": "flying_disc",
    "hair_drier": "hair_dryer hairdryer",
    "handbag": "purse",
    "horse": "pony foal",
    "keyboard": "computer_keyboard",
    "laptop": "notebook_computer",
    "motorcycle": "motorbike",
    "mouse": "computer_mouse",
    "oven": "stove",
    "potted_plant": "houseplant pottedplant",
    "refrigerator": "fridge",
    "remote": "remote_control",
    "sheep": "lamb",
    "sports_ball": "ball football soccer_ball basketball tennis_ball",
    "suitcase": "luggage",
    "tie": "necktie",
    "toilet": "toilet_bowl",
    "traffic_light": "stoplight",
    "truck": "lorry",
    "tv": "television tvmonitor tv_set",
    "wine_glass": "wineglass",
}


class NamedObjects:
    """Finds names of classes in sentences: singular or plural, the longest first, each word used once.

    Args:
        classes: names, in lower case, of one word or several.

    Example:
        >>> from seesay.text.objects import NamedObjects
        >>> objects = NamedObjects(["dog", "hot dog", "person"])
        >>> objects.named("two puppies and a man with a hot dog")
        [0, 2, 1]
    """

    def __init__(self, classes: Sequence[str]) -> None:
        self._numbers: dict[tuple[str, ...], int] = {}
        own = [name.replace(" ", "_") for name in classes]
        others = [(each, i) for i, name in enumerate(own) for each in _OTHER_NAMES.get(name, "").split()]
        for name, number in (*others, *zip(own, range(len(own)), strict=True)):  # their own names last
            self._numbers[tuple(map(_lemma, tokenize(name.replace("_", " "))))] = number
        self._longest = max(map(len, self._numbers), default=0)

    def named(self, sentence: str) -> list[int]:
        """Return the numbers of the classes that a sentence names, each once, in order."""
        return list(dict.fromkeys(number for number, _ in self._found(sentence)))

    def share(self, sentence: str) -> float:
        """Return the share of a sentence's content words that name classes, from 0 to 1.

        >>> from seesay.text.objects import NamedObjects
        >>> [NamedObjects(["dog"]).share(text) for text in ("two dogs", "a black dog", "a cat")]
        [1.0, 0.5, 0.0]
        """
        named = sum(length for _, length in self._found(sentence))
        words = [word for word in content_words(sentence) if word.part_of_speech != "number"]
        return min(named / max(len(words), 1), 1.0)

    def _found(self, sentence: str) -> Iterator[tuple[int, int]]:
        """Yield each class that is named, and the number of words that name it."""
        words, at = tuple(map(_lemma, tokenize(sentence))), 0
        while at < len(words):
            for length in range(self._longest, 0, -1):
                number = self._numbers.get(words[at : at + length])
                if number is not None:
                    yield number, length
                    at += length
                    break
            else:
                at += 1


@lru_cache(1 << 14)
def _lemma(word: str) -> str:
    lemmas: tuple[str, ...] = getLemma(word, "NOUN")
    return lemmas[0] if lemmas else word
