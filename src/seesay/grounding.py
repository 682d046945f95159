"""Find the regions of an image that the phrases of a sentence describe, and draw them."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from seesay.data.boxes import iou, vote
from seesay.data.corpus import Box
from seesay.data.images import DecodedImage, EncodedImage
from seesay.encoders.regions import SIDE, load_region_encoder, region_features
from seesay.errors import SeesayError
from seesay.paths import check_file, writing
from seesay.runs.calibration import Calibration, known_share
from seesay.runs.config import RunConfig
from seesay.runs.folder import run_folder
from seesay.runs.load import load_run
from seesay.runs.prepare import PreparedSentences
from seesay.runs.run import Run
from seesay.text.chunker import Chunk, noun_phrases
from seesay.text.spelling import is_word
from seesay.text.tokens import tokenize
from seesay.text.vocabulary import UNKNOWN

GROUND_RUN = "seesay-ground"
_JUDGE_RUN = "seesay-small"
# Okabe and Ito's colours without black, distinct for every kind of colour vision; the darkest is last.
COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#d55e00", "#cc79a7", "#0072b2")
TEXT_COLOURS = dict.fromkeys(COLOURS, "black") | {COLOURS[-1]: "white"}
"""Of text on each of them, with the most contrast."""


FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
_SAME = 0.5  # IoU above which two boxes of a phrase show the same thing
_SHOWN = 0.01  # probability; lower than that of a search, because most phrases name what is visible
_KEPT = 16  # newest images whose regions are kept in memory, about 3 MB each


_Rounded = Annotated[float, PlainSerializer(lambda value: round(value, 4), float)]


class _Serialised(BaseModel):
    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)


class GroundedBox(_Serialised):
    """A box in an image and how well it matches."""

    box: Annotated[Box, PlainSerializer(lambda box: tuple(round(value, 1) for value in box), Box)] = Field(
        description="x1, y1, x2, y2 in pixels, upright"
    )
    score: _Rounded = Field(description="higher is a better match")
    probability: _Rounded | None = Field(
        None,
        description="the probability that the box is right; null if the run has no fitted probabilities",
    )


class GroundedPhrase(_Serialised):
    """A phrase of a sentence, `sentence[start:end]`, and where it is."""

    text: str = Field(serialization_alias="phrase")
    start: int = Field(description="offset of its first character in the sentence, in Unicode code points")
    end: int = Field(description="one past its last character")
    known: bool = Field(description="true if any of its words is known; otherwise it has no boxes")
    fits: bool = Field(True, description="false if the image probably does not show it")
    boxes: tuple[GroundedBox, ...] = Field(description="best first")


class Grounding(_Serialised):
    """The phrases of a sentence, in order, and where each is in an image."""

    width: int = Field(description="in pixels, upright")
    height: int
    phrases: tuple[GroundedPhrase, ...]

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return self.model_dump(mode="json", by_alias=True)


class _Regions(NamedTuple):
    """An upright image's size, its proposals (r, 4) in pixels, their features (r, d), and its vector.

    The vector is that of the judge; empty without one.
    """

    size: tuple[int, int]
    boxes: NDArray[np.float32]
    features: NDArray[np.float32]
    vector: NDArray[np.float32]


def can_ground(name: str) -> bool:
    """Return whether a grounding run of that name exists, without loading its weights."""
    try:
        return RunConfig.load(run_folder(name)).regions is not None
    except SeesayError:
        return False


def load_grounder(run: str) -> Grounder:
    """Load a grounding run by name or folder; the included run has `seesay-small` as its judge.

    Phrases of your own runs are not judged, because these may know words that `seesay-small` does not.

    Raises:
        SeesayError: there is no such run, or it matches whole images.
    """
    return Grounder(load_run(run), Run.load(_JUDGE_RUN) if run == GROUND_RUN else None)


class Grounder:
    """Finds the regions of an image that phrases describe, with a run of a grounding recipe. Thread-safe.

    Args:
        run: the run that scores regions.
        judge: a run with calibrated scores that decides whether an image shows a phrase; without one, every
            phrase fits.

    Raises:
        SeesayError: the run matches whole images.
    """

    def __init__(self, run: Run, judge: Run | None = None) -> None:
        settings = run.config.region_settings
        if settings is None:
            raise SeesayError(
                f"{run.name}: matches whole images, not their regions; use a run of a grounding recipe "
                f"(ground-…), such as {GROUND_RUN}."
            )
        self.run, self._settings, self._judge = run, settings, judge
        calibration = run.config.calibration
        self._calibration = calibration if isinstance(calibration, Calibration) else None
        self._encoder = load_region_encoder(run.config.encoders[0], run.device, run.folder)
        self._seen: dict[str, _Regions] = {}
        self._lock = threading.Lock()

    def ground(self, image: bytes | DecodedImage, name: str, text: str, best: int = 1) -> Grounding:
        """Find the phrases of a sentence in an image.

        Args:
            image: encoded, or decoded with a shorter side of at least `SIDE` pixels.
            name: the name of the image, for messages.
            text: a phrase, or a sentence whose noun phrases are used; the whole text if it has none.
            best: maximum number of boxes of a phrase; they overlap by an IoU of at most 0.5.

        Raises:
            ImageError: the image cannot be decoded.
            SeesayError: the text is empty.
        """
        if not (whole := text.strip()):
            raise SeesayError("The sentence is empty; describe what to find in the image.")
        start = text.index(whole)
        chunks = noun_phrases(text) or [Chunk(whole, start, start + len(whole))]
        texts = [chunk.text for chunk in chunks]
        sentences = self.run.prepare(texts)
        size, boxes, features, vector = self._regions(image, name)
        if len(boxes):
            rows = region_features(features, boxes, size, self._settings.geometry)
            scores = self.run.score_prepared(rows, sentences)
        else:
            scores = np.zeros((0, len(chunks)), np.float32)
        phrases = list[GroundedPhrase]()
        each = zip(chunks, _known(texts, sentences), scores.T, self._fitting(vector, texts), strict=True)
        for chunk, known, column, fits in each:
            chosen = self._best_boxes(boxes, column, best, chunk.text) if known else ()
            about = asdict(chunk) | {"known": known, "fits": fits}
            phrases.append(GroundedPhrase(**about, boxes=chosen))
        return Grounding(width=size[0], height=size[1], phrases=tuple(phrases))

    def _fitting(self, image: NDArray[np.float32], texts: Sequence[str]) -> list[bool]:
        """Return for each phrase whether the judge finds it probable enough in an image with that vector."""
        if self._judge is None or (calibration := self._judge.calibration) is None:
            return [True] * len(texts)
        scores = self._judge.embed_sentences(texts, query=True) @ image
        each = zip(texts, scores, strict=True)
        return [float(calibration.of(text).probabilities(score)) >= _SHOWN for text, score in each]

    def _best_boxes(
        self, boxes: NDArray[np.float32], scores: NDArray[np.float32], best: int, text: str
    ) -> tuple[GroundedBox, ...]:
        """Return the best boxes of a phrase; its unknown words lower their probability."""
        chosen = best_boxes(boxes, scores, best, self._settings.box_voting)
        if self._calibration is None or not chosen:
            return chosen
        centred = np.array([each.score for each in chosen]) - scores.mean(dtype=np.float64)
        known = known_share([text], self.run.unknown_words([text]))
        chances = known * self._calibration.probabilities(centred)
        return tuple(
            box.model_copy(update={"probability": chance})
            for box, chance in zip(chosen, chances.tolist(), strict=True)
        )

    def _regions(self, given: bytes | DecodedImage, name: str) -> _Regions:
        image = given if isinstance(given, DecodedImage) else EncodedImage(given, name)
        if (seen := self._seen.get(image.key)) is not None:
            return seen
        photo = image if isinstance(image, DecodedImage) else image.decoded(SIDE)
        pixels, (width, height) = photo.pixels, photo.size
        boxes = self._encoder.propose(pixels, self._settings.proposals)
        features = self._encoder.encode(pixels, boxes)
        # A large JPEG is decoded at a fraction of its size.
        scale = np.array([width / pixels.shape[1], height / pixels.shape[0]] * 2, np.float32)
        whole = np.zeros(0, np.float32) if self._judge is None else self._judge.embed_photos([photo])[0]
        found = _Regions(photo.size, boxes * scale, features, whole)
        with self._lock:
            self._seen[photo.key] = found
            if len(self._seen) > _KEPT:
                del self._seen[next(iter(self._seen))]
        return found


def best_boxes(
    boxes: NDArray[np.float32], scores: NDArray[np.float32], count: int, box_voting: float | None = None
) -> tuple[GroundedBox, ...]:
    """Return at most `count` of boxes (r, 4) after non-maximum suppression by scores (r,), best first.

    Ties are broken by order. With `box_voting`, an IoU, each result is the weighted mean of a box and of
    those that overlap it by at least that much, see `seesay.data.boxes.vote`.
    """
    left = np.argsort(-scores, kind="stable")
    chosen: list[GroundedBox] = []
    while len(left) and len(chosen) < count:
        best = int(left[0])
        box = boxes[best] if box_voting is None else vote(boxes, scores, best, box_voting)
        left = left[iou(boxes[left], boxes[[best]])[:, 0] <= _SAME]
        left = left[left != best]  # a box without area does not overlap itself
        if not chosen or iou([each.box for each in chosen], box[None]).max() <= _SAME:
            x1, y1, x2, y2 = box.tolist()
            chosen.append(GroundedBox(box=(x1, y1, x2, y2), score=float(scores[best])))
    return tuple(chosen)


def _known(texts: Sequence[str], sentences: PreparedSentences) -> list[bool]:
    """Return for each phrase whether the run knows any of its words."""
    parts = np.split(sentences.words, np.cumsum(sentences.lengths)[:-1])
    trained = [bool((words != UNKNOWN).any()) for words in parts]
    if not sentences.vectors.shape[1]:
        return trained
    # A sentence encoder accepts any letters, so a list of words decides whether it can know their meaning.
    words = [known or any(map(is_word, tokenize(t))) for t, known in zip(texts, trained, strict=True)]
    return [known and bool(vector.any()) for known, vector in zip(words, sentences.vectors, strict=True)]


def colour(number: int) -> str:
    """Return the colour `#rrggbb` of the phrase with that number; colours repeat."""
    return COLOURS[number % len(COLOURS)]


def write_groundings(image: bytes, name: str, groundings: Mapping[str, Grounding], out: Path) -> None:
    """Draw groundings of an image by one run or several, by name, as PNG or JPEG, depending on the suffix.

    Those of several runs stand side by side, each above the name of its run.

    Raises:
        ImageError: the image cannot be decoded.
        SeesayError: the file has another suffix, or cannot be written.
    """
    check_file(out, FORMATS)
    plain = Image.fromarray(EncodedImage(image, name).pixels())
    drawn = {run: draw_grounding(plain, found) for run, found in groundings.items()}
    picture = next(iter(drawn.values())) if len(drawn) == 1 else _side_by_side(drawn)
    with writing(out) as beside:
        picture.save(beside, FORMATS[out.suffix.lower()], quality=92)


def _side_by_side(pictures: Mapping[str, Image.Image]) -> Image.Image:
    width, height = next(iter(pictures.values())).size
    font = ImageFont.load_default(size := max(11, width // 20))
    sheet = Image.new("RGB", ((width + size) * len(pictures) - size, height + 2 * size), "white")
    for number, (name, picture) in enumerate(pictures.items()):
        left = number * (width + size)
        sheet.paste(picture, (left, 0))
        middle = (left + width // 2, height + size // 2)
        ImageDraw.Draw(sheet).text(middle, Path(name).name, fill="black", font=font, anchor="ma")
    return sheet


def draw_grounding(image: Image.Image, grounding: Grounding) -> Image.Image:
    """Draw boxes on a copy of an upright RGB image, and label the best one of each phrase.

    A label shows the phrase and the probability of the box, or its score if it has no probability.
    """
    picture = image.copy()
    draw = ImageDraw.Draw(picture)
    line = max(2, round((image.width * image.height) ** 0.5 / 160))
    for i, phrase in enumerate(grounding.phrases):
        for each in phrase.boxes:
            _draw_box(draw, each.box, colour(i), line)
    labels = _Labels(draw, picture.size, line)
    for i, phrase in enumerate(grounding.phrases):
        if phrase.boxes:
            best = phrase.boxes[0]
            shown = best.score if best.probability is None else best.probability
            labels.draw(f"{phrase.text} {shown:.2f}", best.box, colour(i))
    return picture


def _draw_box(draw: ImageDraw.ImageDraw, box: Box, fill: str, line: int) -> None:
    """Draw a frame inside the box, between thin black lines that keep it visible on any background."""
    edge = max(1, line // 3)
    for inset, outline, width in ((0, "black", line + 2 * edge), (edge, fill, line)):
        x1, y1 = box[0] + inset, box[1] + inset
        x2, y2 = box[2] - 1 - inset, box[3] - 1 - inset
        if x1 <= x2 and y1 <= y2:
            draw.rectangle((x1, y1, x2, y2), outline=outline, width=width)


class _Labels:
    """Draws labels on coloured backgrounds, without overlap if there is room."""

    def __init__(self, draw: ImageDraw.ImageDraw, size: tuple[int, int], line: int) -> None:
        self._draw, self._size, self._pad = draw, size, line
        self._font = ImageFont.load_default(size=max(11, 9 * line // 2))
        self._taken: list[Box] = []

    def draw(self, text: str, box: Box, background: str) -> None:
        text = self._fitting(" ".join(text.split()))
        left, top, right, bottom = self._draw.textbbox((0, 0), text, font=self._font)
        width, height = right - left + 2 * self._pad, bottom - top + 2 * self._pad
        max_x, max_y = max(self._size[0] - width, 0), max(self._size[1] - height, 0)
        x1 = min(max(box[0], 0), max_x)
        # Above the box, at its top, at its bottom or below it, within the image.
        rows = [y for y in (box[1] - height, box[1], box[3] - height, box[3]) if 0 <= y <= max_y]
        rooms = [(x1, y, x1 + width, y + height) for y in rows or [min(max(box[1], 0), max_y)]]
        free = [room for room in rooms if not iou(self._taken, [room]).any()]
        x1, y1, x2, y2 = (free or rooms)[0]
        self._taken.append((x1, y1, x2, y2))
        self._draw.rectangle((x1, y1, x2 - 1, y2 - 1), fill=background)
        at = x1 + self._pad - left, y1 + self._pad - top
        self._draw.text(at, text, fill=TEXT_COLOURS[background], font=self._font)

    def _fitting(self, text: str) -> str:
        """Return a line of text, cut to the width of the image."""

        def is_too_long(shown: str) -> bool:
            return self._draw.textlength(shown, font=self._font) > self._size[0] - 2 * self._pad

        if not is_too_long(text):
            return text
        too_many = bisect_left(range(len(text)), True, key=lambda kept: is_too_long(text[:kept] + "…"))
        return text[: max(too_many - 1, 0)] + "…"
