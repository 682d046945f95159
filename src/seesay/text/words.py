"""What a query says: its words, without the request for photos, and the English for other languages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from seesay.text.tokens import tokenize

_REQUEST = re.compile(
    r"\s*(?:(?:(?:can|could) you\s+|please\s+)?(?:show me|find(?: me)?|give me|(?:look|search) for)\s+)?"
    r"(?:(?:(?:a|an|the|some|any|all|my|our)\s+)*(?:photo(?:graph)?|picture|pic|image)s?\s+(?:of|showing|with)\s+)?"
    r"(?:my\s+)?",
    re.IGNORECASE,
)
_KINDS = (  # words of how a picture is made; each alternative is one word, so that matching is linear
    "(?:photo(?:graph)?|picture|pic|image|drawing|painting|portrait|panorama|selfie|screenshot|scan|close-?up)s?"
    "|sketch(?:es)?|monochrome|sepia|vintage|blurry|blurred"
)
_STYLE = re.compile(
    rf"(?=.*\b(?:{_KINDS}|black and white)\b)"
    rf"(?:(?:{_KINDS}|an?|the|my|and|in|of|old|black|white|gr[ae]y|colou?r|dark|bright)\b\W*)+",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"(?:an?|the)\s+(?=\S+(?:\s+\S+)?\s*$)", re.IGNORECASE)  # of one or two words


def description_in(sentence: str) -> str:
    """Return what a request describes, without the words that ask for photos of it and the article of a name.

    Captions do not ask for photos, so with such words a photo would match a request less than its own
    caption. The article is left out so that "dog" and "a dog" have the same results.

    >>> [description_in(text) for text in ("a photo of two dogs", "Show me my cat", "a man takes a photo")]
    ['two dogs', 'cat', 'a man takes a photo']
    >>> description_in("a photo of a dog"), description_in("a teddy bear")
    ('dog', 'teddy bear')
    """
    found = _REQUEST.match(sentence)
    described = sentence[found.end() :] if found else sentence
    if article := _ARTICLE.match(described):
        described = described[article.end() :]
    return described if tokenize(described) else sentence


def asks_for_style(text: str) -> bool:
    """Return whether a text only says how a picture is made, which captions seldom do.

    >>> [asks_for_style(text) for text in ("a black and white photo", "a black dog", "white", "")]
    [True, False, False, False]
    """
    return _STYLE.fullmatch(description_in(text).strip()) is not None


def words_or_signs(sentence: str) -> list[str]:
    """Return the words of a sentence, in lower case; its other characters if it has no words.

    >>> words_or_signs("Two dogs!"), words_or_signs(" ?! "), words_or_signs(" ")
    (['two', 'dogs'], ['?!'], [])
    """
    return tokenize(sentence) or sentence.split()


def english_for(text: str) -> str | None:
    """Return the English name of an everyday thing that is named in German, Spanish, French or Chinese.

    >>> english_for("Hund"), english_for("árboles"), english_for("狗"), english_for("dog")
    ('dog', 'tree', 'dog', None)
    """
    return _translations().get(text.strip().casefold())


@cache
def _translations() -> dict[str, str]:
    lines = Path(__file__).with_name("translations.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(": ", 1) for line in lines)
    return {word.casefold(): name for name, words in pairs for word in words.split()}
