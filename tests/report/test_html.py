"""Nothing that is put into a page as text becomes part of its HTML."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seesay.report.page import Html, joined, tag
from tests.report.made import Elements

TEXT = st.text(st.characters(blacklist_categories=("Cs", "Cc")))


@given(TEXT, TEXT)
def test_text_comes_out_as_it_went_in(text: str, value: str) -> None:
    (paragraph,) = Elements(tag("p", text, title=value)).of("p")
    assert (paragraph["text"], paragraph["title"]) == (text, value)


def test_html_is_not_escaped_twice_and_text_beside_it_is() -> None:
    assert tag("p", tag("b", "a<b"), "c<d") == "<p><b>a&lt;b</b>c&lt;d</p>"
    assert joined(["<", Html("<br>")], " ") == "&lt; <br>"
    assert tag("b", title=None) == "<b></b>"
    assert tag("i", class_="x", aria_label="y") == '<i class="x" aria-label="y"></i>'
