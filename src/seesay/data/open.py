"""Whatever a recipe learns from: captioned images, or phrases with boxes."""

from __future__ import annotations

from pathlib import Path

from seesay.data.corpus import Corpus
from seesay.data.phrase_readers import read_phrases
from seesay.data.phrases import PhraseCorpus
from seesay.data.readers import read_corpus


def open_corpus(
    path: Path, *, phrases: bool, images: Path | None = None, format: str | None = None
) -> Corpus | PhraseCorpus:
    """The corpus there, as `read_corpus` reads it, or with `phrases` as `read_phrases` does.

    `images` says where the images of phrases lie, if not beside them.
    """
    return read_phrases(path, images, format) if phrases else read_corpus(path, format)
