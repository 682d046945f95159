"""A run combined with an object detector: detected objects count if a query names them.

The vectors of both are concatenated, so that an index searches them as one. An image's vector ends with the
highest confidence of each class, a sentence's with the weights of the classes that it names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b

import numpy as np
from lemminflect import getLemma  # type: ignore[import-untyped]

from seesay.data.images import Photo
from seesay.encoders.detector import Detection, Detector
from seesay.runs.embedder import Embedder, Vectors
from seesay.text.concepts import content_words
from seesay.text.vocabulary import tokenize

# Chosen on photographs of everyday things, so that names of objects gain and captions lose nothing: a caption
# says more than the names of objects in it.
_WEIGHT = 0.5  # of a confidence, added to the cosine, if a sentence names a class and nothing else
_OF_IMAGES = 0.5  # of a confidence in an image's vector; low, so that shared objects add little similarity
_POWER = 3  # of the share of a sentence that names classes

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


class Detecting(Embedder):
    """A run and a detector as one embedder.

    Args:
        run: that embeds.
        detector: of objects.
    """

    def __init__(self, run: Embedder, detector: Detector) -> None:
        self.run, self.name = run, run.name
        self._detector, self.detector = detector, detector.path.resolve()
        self._named = NamedObjects(detector.names)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the run and the detector."""
        both = f"{self.run.fingerprint} {self._detector.fingerprint}"
        return blake2b(both.encode(), digest_size=16).hexdigest()

    @property
    def dim(self) -> int:
        """The length of the run's vectors plus the number of classes."""
        return self.run.dim + len(self._detector.names)

    @property
    def side(self) -> int:
        """The run's side; the detector gets the same decoded photos."""
        return self.run.side

    def unknown_words(self, sentences: Sequence[str]) -> list[str]:
        """Return the words that the run does not know."""
        return self.run.unknown_words(sentences)

    def corrections(self, sentences: Sequence[str]) -> dict[str, str]:
        """Return corrections of misspelt words."""
        return self.run.corrections(sentences)

    def named(self, sentences: Sequence[str]) -> list[str]:
        """Return the names of the detector's classes that sentences name."""
        numbers = dict.fromkeys(number for text in sentences for number in self._named.named(text))
        return [self._detector.names[number] for number in numbers]

    def embed_photos(self, photos: Sequence[Photo], query: bool = False) -> Vectors:
        """Embed n decoded photos as rows (n, dim)."""
        return self._embedded(photos, query)[0]

    def embed_and_detect(self, photos: Sequence[Photo]) -> tuple[Vectors, list[list[Detection]]]:
        """Embed photos, and return the detections in each, in pixels of the whole photo."""
        return self._embedded(photos, query=False)

    def _embedded(self, photos: Sequence[Photo], query: bool) -> tuple[Vectors, list[list[Detection]]]:
        rows = self.run.embed_photos(photos, query)
        confidences = np.zeros((len(photos), len(self._detector.names)), np.float32)
        objects: list[list[Detection]] = []
        for row, photo in zip(confidences, photos, strict=True):
            row[:], found = self._detector.detect(photo.pixels)
            scale = photo.size[0] / photo.pixels.shape[1]  # a large JPEG is decoded at a fraction
            objects.append([each.scaled(scale) for each in found])
        return np.concatenate([rows, np.float32(_OF_IMAGES) * confidences], axis=1), objects

    def embed_sentences(self, sentences: Sequence[str], query: bool = False) -> Vectors:
        """Embed m sentences as rows (m, dim)."""
        rows = self.run.embed_sentences(sentences, query)
        weights = np.zeros((len(sentences), len(self._detector.names)), np.float32)
        for row, text in zip(weights, sentences, strict=True):
            if numbers := self._named.named(text):
                row[numbers] = _WEIGHT / _OF_IMAGES * self._named.share(text) ** _POWER / len(numbers)
        return np.concatenate([rows, weights], axis=1)


class NamedObjects:
    """Finds class names in sentences: singular or plural, the longest first, using each word once.

    Args:
        classes: names, in lower case, of one word or several.

    Example:
        >>> from seesay.search.detecting import NamedObjects
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
        """Return the distinct numbers of the classes that a sentence names, in order."""
        return list(dict.fromkeys(number for number, _ in self._found(sentence)))

    def share(self, sentence: str) -> float:
        """Return the share of a sentence's content words that name classes, from 0 to 1.

        >>> from seesay.search.detecting import NamedObjects
        >>> [NamedObjects(["dog"]).share(text) for text in ("two dogs", "a black dog", "a cat")]
        [1.0, 0.5, 0.0]
        """
        named = sum(length for _, length in self._found(sentence))
        words = [word for word in content_words(sentence) if word.part_of_speech != "number"]
        return min(named / max(len(words), 1), 1.0)

    def _found(self, sentence: str) -> Iterator[tuple[int, int]]:
        """Yield each named class, and the number of words that name it."""
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
