"""Words of a sentence, the same way when training and when somebody searches."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")


def tokenize(text: str) -> list[str]:
    """Lower-cased words and numbers; punctuation falls away.

    >>> tokenize("A man's dog, jumping!")
    ['a', "man's", 'dog', 'jumping']
    """
    return _WORD.findall(text.lower().replace("’", "'"))
