"""Plots take their colours from the page, say in words what they show, and can stand beside each other."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from seesay.report.page import Html
from seesay.report.write import training_curves

CURVE = np.linspace(10, 90, 100)
NAME = "a <b> & $c$"
PANELS = {"loss": {"train": CURVE[:2]}, "val": {"a": CURVE[:2], NAME: CURVE[:2]}}


def plot(alt: str) -> Html:
    return training_curves([1, 2], PANELS, 2, alt)


@pytest.fixture
def svg() -> Html:
    drawn = plot(f"training of {NAME}")
    assert isinstance(drawn, Html)
    return drawn


def test_it_is_whole_scales_and_is_named(svg: Html) -> None:
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"].endswith(NAME)
    assert "viewBox" in root.attrib
    assert not {"width", "height"} & set(root.attrib)


def test_every_colour_is_the_pages(svg: Html) -> None:
    assert set(re.findall(r"(?:fill|stroke): ([^;\"]+)", svg)) <= {
        "none",
        "var(--ink)",
        "var(--line)",
        *(f"var(--series-{i})" for i in range(6)),
    }


def test_names_are_text_as_they_are_written() -> None:
    drawn = plot("x")
    texts = [text.text for text in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert NAME in texts


def test_two_in_one_page_share_no_name_and_the_same_is_drawn_the_same() -> None:
    names = [set(re.findall(r'\bid="([^"]+)"', plot(alt))) for alt in ("one", "two")]
    assert names[0]
    assert not names[0] & names[1]
    assert plot("one") == plot("one")
