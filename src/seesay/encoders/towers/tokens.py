"""From sentences to the ids of a text tower, exactly as in the tower's own library."""

from __future__ import annotations

import html
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from seesay.encoders.towers.preprocessing import check_numbers
from seesay.errors import SeesayError

Ids = NDArray[np.int64]

_LONGEST, _LARGEST_ID = 65_536, (1 << 31) - 1
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class TokenSettings:
    """How ids are made, besides the vocabulary.

    Attributes:
        length: the maximum number of ids; longer sentences are truncated.
        pad_id: the padding id.
        fixed: whether sentences are padded to `length` rather than to the longest of their batch.
        pad_left: whether padding is on the left.
        clean: the cleaning of sentences: a key of CLEANINGS.
        dropped: an id that is replaced by 0, or -1.
    """

    length: int
    pad_id: int
    fixed: bool
    pad_left: bool = False
    clean: str = "none"
    dropped: int = -1

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> TokenSettings:
        """Restore the fields as JSON has them.

        Raises:
            ValueError or TypeError: the value is invalid.
        """
        restored = cls(**fields)
        check_numbers("length", (restored.length,), 1, 1, _LONGEST, int)
        check_numbers("pad_id", (restored.pad_id,), 1, 0, _LARGEST_ID, int)
        check_numbers("dropped", (restored.dropped,), 1, -1, _LARGEST_ID, int)
        check_numbers("fixed and pad_left", (restored.fixed, restored.pad_left), 2, 0, 1, bool)
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

    def ids(self, texts: Sequence[str]) -> tuple[Ids, Ids]:
        """Make ids (m, t) and a mask (m, t), 1 where an id is not padding."""
        clean = CLEANINGS[self.settings.clean]
        codes = [code.ids for code in self.tokenizer.encode_batch([clean(text) for text in texts])]
        width = self.settings.length if self.settings.fixed else max((len(code) for code in codes), default=0)
        ids = np.full((len(codes), width), self.settings.pad_id, np.int64)
        mask = np.zeros_like(ids)
        for row, code in enumerate(codes):
            place = slice(width - len(code), None) if self.settings.pad_left else slice(len(code))
            ids[row, place], mask[row, place] = code, 1
        ids[ids == self.settings.dropped] = 0
        return ids, mask


def _repaired(text: str) -> str:
    """Repair broken encodings and unescape HTML like open_clip; plain ASCII needs no further package."""
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


def _lower(text: str) -> str:
    return _whitespace(text).lower()


def _canonical(text: str) -> str:
    plain = _repaired(text).replace("_", " ").translate(_WITHOUT_PUNCTUATION)
    return " ".join(plain.lower().split())


def _siglip(text: str) -> str:
    """Clean like transformers' SigLIP tokenizer, which marks the start of the sentence first."""
    text = ("▁" + text.replace("▁", " ")).lower().translate(_WITHOUT_PUNCTUATION)
    return re.sub(r"\s+", " ", text).strip()


CLEANINGS: dict[str, Callable[[str], str]] = {
    "none": lambda text: text,
    "whitespace": _whitespace,
    "lower": _lower,
    "canonicalize": _canonical,
    "siglip": _siglip,
}
