"""Explain a score by leaving out words and windows of the sentence.

If the matcher has windows of words that meet the image (m-CNN), they are silenced one at a time, as by the
gate of its eq. 6, and all layers behind are computed again; a window contributes what the score falls by.
Other matchers, and m-CNN's sentence level, where the whole sentence meets the image, read the sentence
without each of its words. This is exact, but contributions do not add up to the score: of two windows that
say the same, either stands in for the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from seesay.encoders.images.encode import encode_images
from seesay.encoders.sentences.word_vectors import word_vectors
from seesay.errors import SeesayError
from seesay.explain.explanation import WORDS, Explanation, Reading, Window, Word
from seesay.matchers.base import Matcher, PairMatcher, as_matcher
from seesay.matchers.sentences import Sentences
from seesay.runs.run import Run, join_features
from seesay.text.vocabulary import UNKNOWN, tokenize


@runtime_checkable
class WindowMatcher(Protocol):
    """A matcher that can leave out windows of a sentence."""

    @property
    def level(self) -> str:
        """A key of `seesay.explain.explanation.TITLES`."""
        ...

    @property
    def max_words(self) -> int:
        """Number of words of a sentence that are read."""
        ...

    def windows(self, words: int) -> list[tuple[int, int]]:
        """Return (first word, one past the last) of each window; none if words are to be left out."""
        ...

    def score_without_windows(self, image: Tensor, sentence: Sentences) -> Tensor:
        """Score an image (1, d) with one sentence whole, and without each window, (1 + windows,)."""
        ...


@runtime_checkable
class SumOfMatchers(Protocol):
    """A matcher whose score is the sum of its members' scores (an ensemble)."""

    def pair_matchers(self) -> list[PairMatcher]:
        """Return the members."""
        ...


def explain(run: Run, image: bytes, name: str, sentence: str) -> Explanation:
    """Explain the score of an image and a sentence.

    Args:
        run: matches whole images; an ensemble is explained member by member.
        image: encoded.
        name: of the image, for messages.
        sentence: m-CNN reads its first thirty words.

    Raises:
        ImageError: the image cannot be decoded.
        SeesayError: the sentence has no words, or the run grounds phrases.
    """
    matcher = run.matcher
    members = matcher.pair_matchers() if isinstance(matcher, SumOfMatchers) else [as_matcher(matcher)]
    if len(sentence.lower()) != len(sentence):  # one of its letters is two in lower case
        sentence = sentence.lower()
    words = _words(run, sentence)
    limits = [member.max_words for member in members if isinstance(member, WindowMatcher)]
    read = words[: min(limits, default=None)]
    text = sentence[: read[-1].end] if len(read) < len(words) else sentence
    encoded = encode_images(run.encoders, [image], [name])
    if (error := encoded.errors[0]) is not None:
        raise error
    features = torch.from_numpy(join_features(run.recipe, encoded.arrays)).to(run.device)
    with torch.inference_mode():
        readings = tuple(_read(run, member, features, text, read) for member in members)
    return Explanation(sentence, tuple(words), len(words) - len(read), readings)


def _read(run: Run, matcher: Matcher, features: Tensor, text: str, words: Sequence[Word]) -> Reading:
    """How one matcher reads those words of a text, with the image of those features (1, d)."""
    level, spans = WORDS, []
    if isinstance(matcher, WindowMatcher):
        level, spans = matcher.level, matcher.windows(len(words))
    if isinstance(matcher, WindowMatcher) and spans:
        scores = matcher.score_without_windows(features, run.prepare([text]).to(run.device))
    else:
        spans = [(i, i + 1) for i in range(len(words))]
        texts = [text, *(text[: word.start] + text[word.end :] for word in words)]
        scores = matcher(features, run.prepare(texts).to(run.device))[0]
    score, *without = scores.double().tolist()
    windows = tuple(Window(*span, score - other) for span, other in zip(spans, without, strict=True))
    holding = ([w.contribution for w in windows if w.start <= i < w.end] for i in range(len(words)))
    return Reading(level, score, windows, tuple(map(fmean, holding)))


def _words(run: Run, sentence: str) -> list[Word]:
    """The tokenizer's words and where each stands.

    Raises:
        SeesayError: there are none.
    """
    tokens = tokenize(sentence)
    if not tokens:
        raise SeesayError(f"'{sentence}': there are no words; describe what the image shows.")
    words, at = [], 0
    written = sentence.lower().replace("’", "'")
    for token, known in zip(tokens, _known(run, tokens), strict=True):
        start = written.index(token, at)
        at = start + len(token)
        words.append(Word(sentence[start:at], start, at, known))
    return words


def _known(run: Run, words: Sequence[str]) -> list[bool]:
    """Whether each word is in the vocabulary, or in GloVe if a sentence encoder reads further words."""
    seen = [run.vocabulary.encode(word)[0] != UNKNOWN for word in words]
    if run.sentence_encoder is None:
        return seen
    return [either or bool(there) for either, there in zip(seen, word_vectors(words)[1], strict=True)]
