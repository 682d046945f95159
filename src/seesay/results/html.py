"""HTML elements whose text is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


class Html(str):
    """Text that is already HTML; other strings are escaped in elements."""

    __slots__ = ()


def tag(name: str, *inside: str, **attributes: object) -> Html:
    """Return an element. Attributes that are None are left out; write `class_` for `class`.

    >>> tag("b", "1 < 2", class_="loud")
    '<b class="loud">1 &lt; 2</b>'
    """
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    written = "".join(f' {key}="{escape(str(value))}"' for key, value in named.items() if value is not None)
    return Html(f"<{name}{written}>{joined(inside)}</{name}>")


def joined(parts: Iterable[str], between: str = "") -> Html:
    """Join parts, escaping those that are not HTML."""
    return Html(between.join(part if isinstance(part, Html) else escape(part) for part in parts))
