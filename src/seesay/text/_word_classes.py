"""Classes that an English word may have: from closed lists, then a dictionary, then its ending."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from lemminflect import getAllLemmas  # type: ignore[import-untyped]


def listed(text: str) -> frozenset[str]:
    """Split a list of words."""
    return frozenset(text.split())


DETERMINERS = listed("""
    a an the this these those his her its their my your our some several many few both each every any all no
    another other one two three four five six seven eight nine ten eleven twelve dozen
""")
# Determiners that stand alone: "the other", "one in red".
HEADS = listed("one another other two three four five six")
QUANTIFIERS = listed("both all each one")
SINGULAR = listed("one another each")
PREPOSITIONS = listed("""
    in on at by with without from into onto over under through across along around near behind beside between
    among against toward towards above below beneath underneath inside outside within off for about upon atop
    of like
""")
AUXILIARIES = listed("is are was were has have")
# No part of a noun phrase: prepositions, particles, conjunctions, relatives, auxiliaries, pronouns, and
# adverbs that the dictionary has as nouns or adjectives too.
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
# Verbs whose noun image descriptions seldom use: taken for verbs where either would do.
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
_SINGULARS = listed("sports clothes woods")  # plurals in form that stand before nouns: "sports car"


@dataclass(frozen=True, slots=True)
class WordClass:
    """The classes that a word may have.

    `classes`: of determiner, possessive, mark, closed, noun, adj, verb, adv; `form`: base, s, ing or past
    where it may be a verb, else empty; `common`: a form of a verb that is rarely a noun.
    """

    classes: frozenset[str]
    form: str = ""
    common: bool = False
    plural: bool = False


@lru_cache(1 << 16)
def word_class(word: str) -> WordClass:
    """Look up the classes that a lower-case word, or a mark, may have."""
    closed = _closed_class(word)
    if closed:
        return WordClass(frozenset({closed}))
    if word in _NOUNS:
        return WordClass(frozenset({"noun"}), plural=word.endswith("s"))
    lemmas: dict[str, tuple[str, ...]] = getAllLemmas(word)
    classes = {name.lower() for name in lemmas if name in ("NOUN", "ADJ", "VERB", "ADV")} or {_guess(word)}
    verbs = lemmas.get("VERB", ())
    form = _form(word, verbs) if "verb" in classes else ""
    return WordClass(frozenset(classes), form, any(verb in _COMMON for verb in verbs), _plural(word, lemmas))


def _closed_class(word: str) -> str:
    if word == "'s":
        return "possessive"
    if not word[0].isalnum():
        return "mark"
    if word in DETERMINERS or word.isdigit():
        return "determiner"
    return "closed" if word in CLOSED else ""


def _guess(word: str) -> str:
    """The class of a word that the dictionary lacks, from its ending."""
    if word.endswith("ing"):
        return "verb"
    return "adj" if word.endswith(("ed", "less")) else "noun"


def _form(word: str, verbs: tuple[str, ...]) -> str:
    if word in verbs:
        return "base"
    return "ing" if word.endswith("ing") else "s" if word.endswith("s") else "past"


def _plural(word: str, lemmas: dict[str, tuple[str, ...]]) -> bool:
    if word in _PLURALS or word in _SINGULARS:
        return word in _PLURALS
    return word.endswith("s") and not word.endswith("ss") and word not in lemmas.get("NOUN", ())
