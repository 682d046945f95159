"""Sentences of which a matcher reads the beginning alone."""

from __future__ import annotations

from seesay.matchers.base import MatcherSettings
from seesay.matchers.sentences import Sentences


def count_cut(settings: MatcherSettings, sentences: Sentences) -> dict[str, int]:
    """How many sentences are longer than what is read, and that; nothing where a matcher reads all."""
    max_length = settings.max_words
    if max_length is None:
        return {}
    return {"cut_sentences": int((sentences.lengths > max_length).sum()), "max_length": max_length}
