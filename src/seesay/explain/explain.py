"""Explanations: which words and windows of a sentence its match with an image comes through.

Everything is measured by leaving out. An m-CNN's windows at the level where the image meets them are
silenced one at a time, as by the gate of eq. 6, and all behind is computed again; a window contributes
what the score falls by. Other matchers, and m-CNN's sentence level, where the whole sentence meets the
image, read the sentence without each of its words. All this is exact, but contributions do not add up to
the score: where two windows say the same, either stands for the other when it is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import torch
from torch import Tensor, nn

from seesay.encoders.images.encode import encode_images
from seesay.encoders.sentences.word_vectors import word_vectors
from seesay.errors import SeesayError
from seesay.explain.explanation import WORDS, Explanation, Reading, Window, Word
from seesay.matchers.base import Matcher
from seesay.matchers.composed import Ensemble
from seesay.matchers.mcnn import LEVELS, MAX_LENGTH, MatchingCNN
from seesay.runs.run import Run, join_features
from seesay.runs.sentences import prepare_sentences
from seesay.text.vocabulary import UNKNOWN, tokenize


def explain(run: Run, image: bytes, name: str, sentence: str) -> Explanation:
    """What of a sentence speaks for its match with an image.

    Args:
        run: matches whole images; an ensemble is explained member by member.
        image: encoded.
        name: of the image, for messages.
        sentence: m-CNN reads its first thirty words.

    Raises:
        ImageError: the image cannot be decoded.
        SeesayError: the sentence has no words, or the run grounds phrases.
    """
    members = list(run.matcher.members) if isinstance(run.matcher, Ensemble) else [run.matcher]
    if len(sentence.lower()) != len(sentence):  # one of its letters is two in lower case
        sentence = sentence.lower()
    words = _words(run, sentence)
    cut = len(words) - MAX_LENGTH if any(isinstance(m, MatchingCNN) for m in run.matcher.modules()) else 0
    read = words[:MAX_LENGTH] if cut > 0 else words
    text = sentence[: read[-1].end] if cut > 0 else sentence
    encoded = encode_images(run.encoders, [image], [name])
    if (error := encoded.errors[0]) is not None:
        raise error
    features = torch.from_numpy(join_features(run.recipe, encoded.arrays)).to(run.device)
    with torch.inference_mode():
        readings = tuple(_read(run, member, features, text, read) for member in members)
    return Explanation(sentence, tuple(words), max(cut, 0), readings)


def _read(run: Run, matcher: nn.Module, features: Tensor, text: str, words: Sequence[Word]) -> Reading:
    """How one matcher reads those words of that text, with the image of those features (1, d)."""
    assert isinstance(matcher, Matcher)
    if isinstance(matcher, MatchingCNN):
        level, spans = LEVELS[matcher.meeting], matcher.windows(len(words))
    else:
        level, spans = WORDS, []
    if isinstance(matcher, MatchingCNN) and spans:
        whole = prepare_sentences([text], run.vocabulary, run.sentence_encoder).to(run.device)
        encoded = matcher.encode_without_windows(whole)
        scores = matcher.score_pairs(matcher.encode_images(features).expand(len(encoded), -1), encoded)
    else:
        spans = [(i, i + 1) for i in range(len(words))]
        texts = [text, *(text[: word.start] + text[word.end :] for word in words)]
        sentences = prepare_sentences(texts, run.vocabulary, run.sentence_encoder).to(run.device)
        scores = matcher(features, sentences)[0]
    score, *without = scores.double().tolist()
    windows = tuple(Window(*span, score - other) for span, other in zip(spans, without, strict=True))
    holding = ([w.contribution for w in windows if w.start <= i < w.end] for i in range(len(words)))
    return Reading(level, score, windows, tuple(map(fmean, holding)))


def _words(run: Run, sentence: str) -> list[Word]:
    """The tokenizer's words and where each stands.

    Raises:
        SeesayError: there are none.
    """
    spoken = tokenize(sentence)
    if not spoken:
        raise SeesayError(f"'{sentence}': no words there; write what the image shows.")
    known = _known(run, spoken)
    words, at = [], 0
    written = sentence.lower().replace("’", "'")
    for word, knows in zip(spoken, known, strict=True):
        start = written.index(word, at)
        at = start + len(word)
        words.append(Word(sentence[start:at], start, at, knows))
    return words


def _known(run: Run, words: Sequence[str]) -> list[bool]:
    """Whether training saw each word, or GloVe has it where a sentence encoder reads more than training's."""
    seen = [run.vocabulary.encode(word)[0] != UNKNOWN for word in words]
    if run.sentence_encoder is None:
        return seen
    return [either or bool(there) for either, there in zip(seen, word_vectors(words)[1], strict=True)]
