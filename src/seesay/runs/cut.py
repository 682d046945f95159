"""Sentences of which a matcher reads the beginning alone."""

from __future__ import annotations

from seesay.matchers.mcnn import MAX_LENGTH
from seesay.matchers.sentences import Sentences
from seesay.recipes.matchers import ComposedSettings, DvsaSettings, MatcherSettings, McnnSettings, ScoSettings


def max_length_of(settings: MatcherSettings) -> int | None:
    """How many words of a sentence a matcher reads, or the members of a composed one; None: all."""
    if isinstance(settings, McnnSettings):
        return MAX_LENGTH
    if isinstance(settings, ScoSettings | DvsaSettings):
        return settings.max_length
    if isinstance(settings, ComposedSettings):
        found = [max_length_of(member) for member in getattr(settings, "matchers", ())]
        return min((max_length for max_length in found if max_length is not None), default=None)
    return None


def count_cut(settings: MatcherSettings, sentences: Sentences) -> dict[str, int]:
    """How many sentences are longer than what is read, and that; nothing where a matcher reads all."""
    max_length = max_length_of(settings)
    if max_length is None:
        return {}
    return {"cut_sentences": int((sentences.lengths > max_length).sum()), "max_length": max_length}
