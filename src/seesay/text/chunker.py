"""Noun phrases of a sentence, by rules over word classes.

Made for sentences that describe images: present tense, concrete nouns, few clauses. A phrase is a run of
determiners, modifiers and nouns, including what "of" joins to it ("a group of people", "the side of a
mountain"). Prepositions, pronouns, conjunctions and verbs end it. Most English nouns can also be verbs, so
the neighbours decide: in "two dogs chase a red ball", "chase" follows a plural and precedes a determiner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from lemminflect import getAllLemmas  # type: ignore[import-untyped]

from seesay.data.texts import composed
from seesay.text.tokens import LETTERS


def listed(text: str) -> frozenset[str]:
    """Return the set of the words in a text, which are separated by white space."""
    return frozenset(text.split())


DETERMINERS = listed("""
    a an the this these those his her its their my your our some several many few both each every any all no
    another other one two three four five six seven eight nine ten eleven twelve dozen
""")
# Determiners that can be a phrase by themselves: "the other", "one in red".
HEADS = listed("one another other two three four five six")
QUANTIFIERS = listed("both all each one")
SINGULAR = listed("one another each")
PREPOSITIONS = listed("""
    in on at by with without from into onto over under through across along around near behind beside between
    among against toward towards above below beneath underneath inside outside within off for about upon atop
    of like
""")
AUXILIARIES = listed("is are was were has have")
# Not part of a noun phrase: prepositions, particles, conjunctions, relatives, auxiliaries, pronouns, and
# adverbs that the dictionary also has as nouns or adjectives.
CLOSED = (
    PREPOSITIONS
    | AUXILIARIES
    | listed("""
    to besides up down out past during before after amongst amid via per as than next
    and or but nor so while whilst when where whereas because if although though until since whether
    that which who whom whose what how why
    be been being am had having do does did can could will would shall should may might must
    he she it they him them we us i me you himself herself itself themselves it's there's
    not there here too also just only even still together away forth apart alone ahead nearby outdoors indoors
    upside midair aloft
""")
)
# Nouns or modifiers behind a determiner ("its back", "a downhill skier"), adverbs elsewhere ("runs back").
ADVERBIAL = listed("back front forward first close open downhill uphill")
# Nouns that nothing follows in their phrase.
UNMODIFIED = listed("something someone somebody anything everyone")
COLOURS = listed("""
    red blue green yellow black white brown grey gray orange pink purple tan gold silver beige maroon teal
    navy turquoise fuchsia
""")
# Verbs that image descriptions seldom use as nouns: read as verbs where both are possible.
_COMMON = listed("""
    walk run jump ride stand sit hold look play swim catch climb wear watch chase throw leap lie lay hang kick
    hit wait talk smile perform lean pull push carry cross eat sleep make take get go come leave reach prepare
    try begin start stop show stare point pose rest race skate ski surf dance sing read ring bite fight shake
    roll slide fall fly dive float crawl kneel squat drink splash wade wrestle hike follow face grab give put
    bring set wave fetch laugh enjoy compete attempt work cook paint drive paddle pass gather share speak turn
    move skateboard snowboard bicycle lick sniff lead approach emerge appear travel huddle stroll trot
""")
_NOUNS = listed("""
    top tops bar bars log logs
    building buildings clothing railing painting wedding ceiling crossing drawing landing awning lightning
    evening morning siding flooring bedding paving writing lighting
""")
_PLURALS = listed("people men women children kids police")
_SINGULARS = listed("sports clothes woods")  # plural forms that precede nouns: "sports car"


@dataclass(frozen=True, slots=True)
class WordClass:
    """The classes that a word may have.

    `classes`: of determiner, possessive, mark, closed, noun, adj, verb, adv; `form`: base, s, ing or past if
    it may be a verb, else empty; `common`: a form of a verb that is rarely a noun;
    `plural`: a noun of several.
    """

    classes: frozenset[str]
    form: str = ""
    common: bool = False
    plural: bool = False


@lru_cache(1 << 16)
def word_class(word: str) -> WordClass:
    """Look up the classes that a lower-case word or a punctuation mark may have."""
    if word == "'s":
        return WordClass(frozenset({"possessive"}))
    if not word[0].isalnum():
        return WordClass(frozenset({"mark"}))
    if word in DETERMINERS or word.isdigit():
        return WordClass(frozenset({"determiner"}))
    if word in CLOSED:
        return WordClass(frozenset({"closed"}))
    if word in _NOUNS:
        return WordClass(frozenset({"noun"}), plural=word.endswith("s"))
    lemmas: dict[str, tuple[str, ...]] = getAllLemmas(word)
    classes = {name.lower() for name in lemmas if name in ("NOUN", "ADJ", "VERB", "ADV")}
    if not classes:  # guessed from the ending
        guess = "verb" if word.endswith("ing") else "adj" if word.endswith(("ed", "less")) else "noun"
        classes = {guess}
    verbs, form = lemmas.get("VERB", ()), ""
    if "verb" in classes:
        ending = "ing" if word.endswith("ing") else "s" if word.endswith("s") else "past"
        form = "base" if word in verbs else ending
    ends_as_plural = word.endswith("s") and not word.endswith("ss") and word not in lemmas.get("NOUN", ())
    plural = word in _PLURALS or (ends_as_plural and word not in _SINGULARS)
    return WordClass(frozenset(classes), form, any(verb in _COMMON for verb in verbs), plural)


_TOKEN = re.compile(rf"['’]s\b|{LETTERS}(?:[-'’]{LETTERS})*|[^\w\s]")
_MAX_LENGTH = 30  # words of one phrase

_Role = Literal["determiner", "modifier", "noun"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A noun phrase; it is `sentence[start:end]`."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Word:
    """A word, in lower case, or a punctuation mark."""

    text: str
    start: int
    end: int
    known: WordClass

    def may_be(self, *classes: str) -> bool:
        return not self.known.classes.isdisjoint(classes)


# Stands after the last word, and ends every phrase.
_END = _Word(".", 0, 0, word_class("."))


def noun_phrases(sentence: str) -> list[Chunk]:
    """Find the noun phrases of an English sentence, in order, without overlap.

    >>> [chunk.text for chunk in noun_phrases("two dogs chase a red ball")]
    ['two dogs', 'a red ball']
    """
    words = list[_Word]()
    for match in _TOKEN.finditer(sentence):
        text = composed(match[0]).lower().replace("’", "'")
        words.append(_Word(text, match.start(), match.end(), word_class(text)))
    chunks: list[Chunk] = []
    at = 0
    while at < len(words):
        end = _Phrase(words, at).end()
        if end > at:
            start, stop = words[at].start, words[end - 1].end
            chunks.append(Chunk(sentence[start:stop], start, stop))
        at = max(end, at + 1)
    return chunks


class _Phrase:
    """A noun phrase, read word by word from `start`; `_roles` holds the roles of the words read so far."""

    def __init__(self, words: list[_Word], start: int) -> None:
        self._words = words
        self._start = start
        self._roles: list[_Role] = []

    def end(self) -> int:
        """Return the position after the phrase's last word; `start` if no phrase begins there."""
        end = self._start
        while len(self._roles) < _MAX_LENGTH:
            i = self._start + len(self._roles)
            role = self._role(i) or self._bridge(i)
            if role is None:
                break
            self._roles.append(role)
            word = self._at(i)
            if role == "noun" or (role == "modifier" and word.may_be("noun")) or word.text in HEADS:
                end = i + 1
        return end

    def _at(self, i: int) -> _Word:
        return self._words[i] if 0 <= i < len(self._words) else _END

    def _bridge(self, i: int) -> _Role | None:
        """Words between the parts of one phrase: "group of people", "black and white dog"."""
        if not self._roles:
            return None
        before, word, after = self._at(i - 1), self._at(i), self._at(i + 1)
        if word.text == "of":  # but "in front of", "on top of"
            return None if len(self._roles) == 1 and before.text in ("front", "top") else "determiner"
        if word.text not in ("and", ",") or self._roles[-1] != "modifier":
            return None
        colours = {before.text, after.text} <= COLOURS
        adjectives = before.may_be("adj") and after.may_be("adj") and self._nominal(i + 2)
        return "modifier" if colours or adjectives else None

    def _role(self, i: int) -> _Role | None:
        """Return the word's role in the phrase so far; None if it is not part of it."""
        word, before, last = self._at(i), self._at(i - 1), self._roles[-1] if self._roles else None
        if word.may_be("determiner"):
            return "determiner" if last in (None, "determiner") else None
        if word.may_be("possessive"):
            return "determiner" if last and before.may_be("noun") else None
        if word.may_be("closed", "mark"):
            return None
        if last is None:
            return self._opening(i)
        if last == "noun":
            return self._after_noun(i)
        if last == "modifier" and before.may_be("noun") and self._acts_as_verb(i):
            # "a white racing dog", but "girl in white riding bikes"
            held = word.known.form == "ing" and "determiner" in self._roles and self._nominal(i + 1)
            return "modifier" if held else None
        if before.text in QUANTIFIERS and word.known.form == "ing":  # "both wearing hats"
            return None
        if before.text in SINGULAR and word.known.form == "s":  # "one holds"
            return None
        return self._modifier_or_noun(i)

    def _opening(self, i: int) -> _Role | None:
        """Without a determiner: "tall grass", "people", "striped shirts", but no verb."""
        word, before = self._at(i), self._at(i - 1)
        known, after_preposition = word.known, before.text in PREPOSITIONS
        if word.text in ADVERBIAL:
            return None
        if known.form == "ing" or (known.form == "past" and not word.may_be("noun", "adj", "adv")):
            modifies = self._nominal(i + 1) and (after_preposition or known.form == "past")
            return "modifier" if modifies else None
        if known.classes == {"adv"} and not (self._nominal(i + 1) and self._nominal(i + 2)):
            return None
        if before.text == "to" and known.form == "base":
            return None if known.common or self._object_follows(i) else self._modifier_or_noun(i)
        verb = known.form in ("base", "s") and not after_preposition
        common = known.common and before.known.form != "ing"
        is_verb = verb and (common or self._at(i + 1).may_be("determiner"))
        return None if is_verb else self._modifier_or_noun(i)

    def _after_noun(self, i: int) -> _Role | None:
        """The role after a noun: a compound continues ("dirt bike"), or a verb or an adverb ends it."""
        word = self._at(i)
        if self._at(i - 1).text in UNMODIFIED or word.text in ADVERBIAL or self._acts_as_verb(i):
            return None
        if word.known.form == "past":
            return "modifier" if word.text.endswith("ed") else None  # "snow covered hills"
        return "noun" if word.may_be("noun") else None

    def _acts_as_verb(self, i: int) -> bool:
        """True if a word after a noun is its verb."""
        known, after = self._at(i).known, self._at(i + 1)
        determiner_follows = after.may_be("determiner")
        if known.form == "s" and after.text not in AUXILIARIES:
            settled = self._roles[-1] == "noun" or after.may_be("closed")  # but "yellow paddles."
            return determiner_follows or (known.common and settled)
        if known.form == "base":
            plural = self._at(i - 1).known.plural
            if not known.common:
                return plural and self._object_follows(i)
            joined = self._roles[-1] == "noun" and self._at(self._start - 1).text == "and"
            # "dogs play", "a boy and a girl pose in"
            return plural or determiner_follows or (joined and self._object_follows(i))
        return known.form == "ing" or (known.form == "past" and not self._nominal(i + 1))

    def _modifier_or_noun(self, i: int) -> _Role | None:
        word, after = self._at(i), self._at(i + 1)
        if word.may_be("adj") and word.text not in ADVERBIAL:
            return "modifier"
        if word.may_be("noun") or word.text in ADVERBIAL:
            return "noun"
        if word.may_be("verb"):  # "a knit hat"
            return "modifier" if word.known.form in ("ing", "past") or self._nominal(i + 1) else None
        return None if after.may_be("closed", "mark") else "modifier"  # "a brightly coloured"

    def _nominal(self, i: int) -> bool:
        """True if a noun, or what precedes one, is there."""
        for word in (self._at(i), self._at(i + 1), self._at(i + 2)):
            if word.known.form == "ing" or word.text in ADVERBIAL:
                return False
            if word.known.form != "past" or word.may_be("noun", "adj"):
                return word.may_be("noun", "adj")
        return False

    def _object_follows(self, i: int) -> bool:
        return self._at(i + 1).may_be("determiner", "closed", "mark")
