"""Nothing of a corpus or a run becomes part of the page's HTML; figures and tables are numbered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seesay.report.html import Html, Page, definitions, joined, tag, void
from tests.report.made import Elements

BAD = "<script>alert('x')</script> & \"y\""


@given(
    st.text(st.characters(blacklist_categories=("Cs", "Cc"))),
    st.text(st.characters(blacklist_categories=("Cs", "Cc"))),
)
def test_what_goes_in_as_text_comes_out_as_text(text: str, value: str) -> None:
    (paragraph,) = Elements(tag("p", text, title=value)).of("p")
    assert (paragraph["text"], paragraph["title"]) == (text, value)


def test_html_is_not_escaped_twice_and_text_beside_it_is() -> None:
    assert tag("p", tag("b", "a<b"), "c<d") == "<p><b>a&lt;b</b>c&lt;d</p>"
    assert joined(["<", Html("<br>")], " ") == "&lt; <br>"
    assert void("img", src="a.jpg", alt=None) == '<img src="a.jpg">'
    assert tag("i", class_="x", aria_label="y") == '<i class="x" aria-label="y"></i>'


@pytest.fixture
def page() -> Elements:
    made = Page(BAD, [BAD])
    made.section(BAD)
    made.heading(BAD)
    made.text(BAD)
    made.figure("first", tag("i", "a"))
    made.table("only", ["", BAD, "n"], [[BAD, BAD, "1"], ["b", "c", "2"]], words=2)
    made.figure("second", tag("i", "b"), class_="cards")
    made.section("Second")
    made.add(definitions([(BAD, BAD)]))
    return Elements(made.html())


def test_a_page_is_whole_and_escaped(page: Elements) -> None:
    assert not page.of("script")
    assert page.of("title")[0]["text"] == f"{BAD} · seesay"
    for name in ("h1", "h2", "h3", "dt", "dd"):
        assert page.of(name)[0]["text"] == BAD
    assert page.of("html", lang="en")


def test_figures_and_tables_are_numbered_by_themselves(page: Elements) -> None:
    assert [e["text"] for e in page.of("figcaption")] == ["Figure 1. first", "Figure 2. second"]
    assert [e["text"] for e in page.of("caption")] == ["Table 1. only"]


def test_the_contents_lead_to_the_sections(page: Elements) -> None:
    links = {e["href"]: e["text"] for e in page.of("a")}
    assert links == {f"#{e['id']}": e["text"] for e in page.of("h2")}
    assert len(links) == 2


def test_a_table_names_rows_and_columns(page: Elements) -> None:
    assert [e["text"] for e in page.of("th", scope="col")] == ["", BAD, "n"]
    assert [e["text"] for e in page.of("th", scope="row")] == [BAD, "b"]
    assert [(e["text"], e.get("class")) for e in page.of("td")] == [
        (BAD, "words"),
        ("1", None),
        ("c", "words"),
        ("2", None),
    ]
