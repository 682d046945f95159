"""Text towers of open_clip, sentence-transformers and transformers by name: the `hub` extra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from seesay.encoders import register_sentence_encoder
from seesay.encoders.sentences.base import SentenceEncoder, Vectors


@register_sentence_encoder("open_clip")
@register_sentence_encoder("sentence-transformers")
@register_sentence_encoder("transformers")
class HubSentenceEncoder(SentenceEncoder):
    """A text tower of a library."""

    variants: ClassVar = {":NAME": "any text tower of that library by name; needs seesay[hub]"}

    @classmethod
    def load(cls, name: str) -> SentenceEncoder:
        """Load the text tower that a recipe names."""
        from seesay.encoders.towers.encoders import TowerSentenceEncoder
        from seesay.encoders.towers.names import TowerName
        from seesay.encoders.towers.opened import open_towers

        return TowerSentenceEncoder(name, open_towers(TowerName.parse(name)))

    def encode(self, texts: Sequence[str]) -> Vectors:
        raise NotImplementedError("load the tower by its name")


@register_sentence_encoder("onnx")
class ExportedTextTower(HubSentenceEncoder):
    """A text tower that `seesay export` wrote."""

    variants: ClassVar = {":FOLDER": "the text tower in a folder that `seesay export` wrote"}
