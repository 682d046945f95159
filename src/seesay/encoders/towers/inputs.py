"""How a tower's inputs are made, as data: images with Pillow, sentences with tokenizers, without its library.

Sizes and offsets are computed as in open_clip and timm, so that pixels and ids are exactly the same.
Mean and deviation are part of the exported network, which takes 8-bit pixels.
"""

from __future__ import annotations

import html
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from PIL import Image
from tokenizers import Tokenizer

from seesay.arrays import Ints, Pixels
from seesay.data.pixels import middle
from seesay.errors import SeesayError

_MOST, _MOST_OF_TEN = 8192, 1024  # pixels of a side
_LONGEST, _LARGEST_ID = 65_536, (1 << 31) - 1
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)

Resize = Literal["shortest", "cover", "contain", "squash"]
INTERPOLATIONS = {each.name.lower(): each for each in Image.Resampling}


@dataclass(frozen=True)
class Preprocessing:
    """The preprocessing of a tower's images.

    Attributes:
        resize: "shortest" scales the shorter side to that of `size` and truncates fractions; "cover" and
            "contain" also keep the aspect ratio, so that the image fills `size` or fits into it, and round;
            "squash" ignores the aspect ratio.
        size: height and width in pixels that the image is scaled to.
        crop: height and width of the centre crop, which is padded if the image is smaller.
        interpolation: "bicubic", "bilinear", "lanczos", "nearest", "box" or "hamming".
        mean: subtracted from each channel, whose range is 0 to 1.
        std: divides the difference.
        fill: the level of the padding, or one level per channel.
        ten: whether the image encoder takes ten square crops (`ten_crops`) instead of the one of `apply`.

    Example:
        >>> squash = Preprocessing("squash", (2, 2), (2, 2), "bilinear", (0.5,) * 3, (0.5,) * 3)
        >>> squash.apply(np.full((30, 40, 3), 7, np.uint8)).shape
        (2, 2, 3)
    """

    resize: Resize
    size: tuple[int, int]
    crop: tuple[int, int]
    interpolation: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fill: int | tuple[int, ...] = 0
    ten: bool = False

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Preprocessing:
        """Restore the settings from the fields of a JSON object.

        Raises:
            ValueError or TypeError: a field is invalid.
        """
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in dict(fields).items()
        }
        restored = cls(**given)
        restored._check()
        return restored

    def _check(self) -> None:
        one_of = {"resize": get_args(Resize), "interpolation": INTERPOLATIONS}
        for field, known in one_of.items():
            if (value := getattr(self, field)) not in known:
                raise ValueError(f"{field} is {value!r}")
        fill = (self.fill,) * 3 if isinstance(self.fill, int) else self.fill
        check_numbers("size", self.size, 2, 1, _MOST, int)
        check_numbers("crop", self.crop, 2, 1, _MOST, int)
        check_numbers("fill", fill, 3, 0, 255, int)
        check_numbers("mean", self.mean, 3, -_MOST, _MOST, int, float)
        check_numbers("std", self.std, 3, 1e-9, _MOST, int, float)
        square = self.crop[0] == self.crop[1] <= _MOST_OF_TEN
        if not (self.ten is False or (self.ten is True and square)):
            raise ValueError(f"ten is {self.ten!r}, with crops of {self.crop[0]} by {self.crop[1]}")

    def apply(self, pixels: Pixels) -> Pixels:
        """Scale and crop an image (h, w, 3) to the tower's (height, width, 3)."""
        if self.resize in ("shortest", "cover"):
            pixels = middle(pixels)
        height, width = self._scaled(*pixels.shape[:2])
        if pixels.shape[:2] != (height, width):
            image = Image.fromarray(np.ascontiguousarray(pixels))
            pixels = np.asarray(image.resize((width, height), INTERPOLATIONS[self.interpolation]))
        return self._cropped(pixels)

    def _scaled(self, height: int, width: int) -> tuple[int, int]:
        if self.resize == "squash":
            return self.size
        if self.resize == "shortest":
            side, short, long = min(self.size), min(height, width), max(height, width)
            longer = int(side * long / short)
            return (side, longer) if height <= width else (longer, side)
        choose = min if self.resize == "cover" else max
        ratio = choose(height / self.size[0], width / self.size[1])
        return max(1, round(height / ratio)), max(1, round(width / ratio))

    def _cropped(self, pixels: Pixels) -> Pixels:
        """Take the centre `crop`, or pad the image to it."""
        (height, width), (tall, wide) = pixels.shape[:2], self.crop
        if height < tall or width < wide:
            canvas = np.full((max(height, tall), max(width, wide), 3), self.fill, np.uint8)
            y, x = (len(canvas) - height) // 2, (canvas.shape[1] - width) // 2
            canvas[y : y + height, x : x + width] = pixels
            pixels = canvas
        # Half a pixel is rounded to an even number, as in torchvision.
        y, x = (round((side - crop) / 2) for side, crop in zip(pixels.shape[:2], self.crop, strict=True))
        return np.ascontiguousarray(pixels[y : y + tall, x : x + wide])


def check_numbers(name: str, given: object, count: int, low: float, high: float, *kinds: type) -> None:
    """Raise a ValueError unless a tuple has `count` numbers of these types within bounds, and no NaN."""
    numbers = given if isinstance(given, tuple) and len(given) == count else ()
    if not numbers or not all(type(each) in kinds and low <= each <= high for each in numbers):
        raise ValueError(f"{name} is {given!r}")


@dataclass(frozen=True)
class TokenSettings:
    """How ids are made, besides the vocabulary.

    Attributes:
        length: the number of ids; longer sentences are truncated, shorter ones padded.
        pad_id: the padding id.
        pad_left: whether padding is on the left.
        clean: the cleaning of sentences: a key of CLEANINGS.
        dropped: an id that is replaced by 0, or -1.
    """

    length: int
    pad_id: int
    pad_left: bool = False
    clean: str = "whitespace"
    dropped: int = -1

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> TokenSettings:
        """Restore the settings from the fields of a JSON object.

        Raises:
            ValueError or TypeError: a field is invalid.
        """
        restored = cls(**fields)
        check_numbers("length", (restored.length,), 1, 1, _LONGEST, int)
        check_numbers("pad_id", (restored.pad_id,), 1, 0, _LARGEST_ID, int)
        check_numbers("dropped", (restored.dropped,), 1, -1, _LARGEST_ID, int)
        check_numbers("pad_left", (restored.pad_left,), 1, 0, 1, bool)
        if restored.clean not in CLEANINGS:
            raise ValueError(f"clean is {restored.clean!r}")
        return restored


class Tokens:
    """A tokenizer with its settings.

    Args:
        tokenizer: adds the special tokens; its truncation and padding are replaced.
        settings: the length, the padding and the cleaning.
    """

    def __init__(self, tokenizer: Tokenizer, settings: TokenSettings) -> None:
        self.tokenizer, self.settings = tokenizer, settings
        tokenizer.no_padding()
        tokenizer.enable_truncation(settings.length)

    def ids(self, texts: Sequence[str]) -> Ints:
        """Make ids (m, length)."""
        clean, length = CLEANINGS[self.settings.clean], self.settings.length
        try:
            codes = [code.ids for code in self.tokenizer.encode_batch([clean(text) for text in texts])]
        except Exception as failure:  # tokenizers raises nothing more specific
            raise SeesayError(f"The model's tokenizer cannot read these texts ({failure}).") from failure
        ids = np.full((len(codes), length), self.settings.pad_id, np.int64)
        for row, code in zip(ids, codes, strict=True):
            row[slice(length - len(code), None) if self.settings.pad_left else slice(len(code))] = code
        ids[ids == self.settings.dropped] = 0
        return ids


def _repaired(text: str) -> str:
    """Repair broken encodings and unescape HTML like open_clip; printable ASCII without & needs no ftfy."""
    if not (text.isascii() and text.isprintable()) or "&" in text:
        try:
            from ftfy import fix_text
        except ImportError as missing:
            raise SeesayError(
                "This text tower cleans text that is not plain ASCII with ftfy; pip install ftfy."
            ) from missing
        text = html.unescape(html.unescape(fix_text(text)))
    return text.strip()


def _whitespace(text: str) -> str:
    return " ".join(_repaired(text).split())


def _canonical(text: str) -> str:
    plain = _repaired(text).replace("_", " ").translate(_WITHOUT_PUNCTUATION)
    return " ".join(plain.lower().split())


CLEANINGS: dict[str, Callable[[str], str]] = {
    "whitespace": _whitespace,
    "lower": lambda text: _whitespace(text).lower(),
    "canonicalize": _canonical,
}
