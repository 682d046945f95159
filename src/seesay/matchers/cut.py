"""Sentences of which a matcher reads the beginning alone."""

from __future__ import annotations

from seesay.matchers.mcnn import LONGEST
from seesay.recipes.matchers import ComposedSettings, DvsaSettings, MatcherSettings, McnnSettings, ScoSettings
from seesay.text.sentences import Sentences


def longest_read(settings: MatcherSettings) -> int | None:
    """How many words of a sentence a matcher reads, or the members of a composed one; None: all."""
    if isinstance(settings, McnnSettings):
        return LONGEST
    if isinstance(settings, ScoSettings | DvsaSettings):
        return settings.longest
    if isinstance(settings, ComposedSettings):
        found = [longest_read(member) for member in getattr(settings, "matchers", ())]
        return min((longest for longest in found if longest is not None), default=None)
    return None


def count_cut(settings: MatcherSettings, sentences: Sentences) -> dict[str, int]:
    """How many sentences are longer than what is read, and that; nothing where a matcher reads all."""
    longest = longest_read(settings)
    if longest is None:
        return {}
    return {"cut_sentences": int((sentences.lengths > longest).sum()), "longest_read": longest}
