"""One word for one thing: finds other words for what docs/architecture.md has a word for.

A line that must say such a word (a file format's key, a quoted paper) ends in `words: ok`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Rule:
    """`pattern` is what is not said, matched as a word or as part of an identifier; `use` what is.

    `allowed` is struck from a line before it is searched; files below `apart` are not searched.
    """

    pattern: str
    use: str
    allowed: str = r"(?!)"
    apart: str = r"(?!)"

    def breaches(self, line: str) -> Iterator[str]:
        """Each forbidden word of a line."""
        cleaned = re.sub(self.allowed, " ", line, flags=re.IGNORECASE)
        for found in re.finditer(rf"(?<![a-z])(?:{self.pattern})(?![a-z])", cleaned, re.IGNORECASE):
            yield found[0]


RULES = (
    Rule(
        r"data[ -]?sets?",
        "corpus",
        allowed=r"webdataset|Flicke?r8k_Dataset|dataset[\w*{}]*\.json|[\"'`]dataset[\"'`]|utils\.data\.Dataset|skimage\S*|sklearn\S*",
    ),
    # The field's files say "caption"; readers, and pages that show a format, have to. So does a command.
    Rule(
        r"captions?",
        "sentence",
        allowed=r"figcaption|\"caption\"|seesay caption",
        apart=r"^(src/seesay/data/|docs/|README|CHANGELOG)",
    ),
    Rule(r"similarity[ _-]matri(?:x|ces)", "score matrix"),
    Rule(r"back[ -]?bones?", "encoder"),
    Rule(r"feature[ _-]extractors?", "encoder"),
    Rule(r"feature[ _-](?:cache|bank|database)s?", "feature store"),
    Rule(
        r"(?:image|text)[ -]to[ -](?:image|text) retrieval|(?:i2t|t2i)", "sentence retrieval, image retrieval"
    ),
    Rule(r"loss[ _-]functions?|criterion", "loss"),
    Rule(r"vector[ _-](?:store|database)s?|vectordb", "index"),
    Rule(r"hyper[ -]?parameter files?|experiment configs?", "recipe"),
    Rule(r"check[ -]points? (?:folder|dir(?:ectory)?)s?", "run"),
)
SEARCHED = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/**/*.md",
    "src/**/*.py",
    "src/**/*.yaml",
    "src/**/*.html",
)


def breaches(name: str, text: str) -> Iterator[str]:
    """One message for each place in a file that says it otherwise."""
    for rule in RULES:
        if re.search(rule.apart, name):
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if "words: ok" not in line:
                yield from (f"{name}:{number}: '{word}': say '{rule.use}'" for word in rule.breaches(line))


def main() -> int:
    """Print every breach; 1 when there is one."""
    found: list[str] = []
    for pattern in SEARCHED:
        for path in sorted(ROOT.glob(pattern)):
            found += breaches(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    print("\n".join(found) or "Words: each thing has one.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
