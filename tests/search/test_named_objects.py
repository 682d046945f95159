"""Names of objects in sentences."""

from __future__ import annotations

import pytest

from seesay.search.detecting import NamedObjects

CLASSES = ["person", "dog", "hot dog", "bicycle", "wine glass", "bus", "skis", "scissors", "sheep"]


@pytest.mark.parametrize(
    ("sentence", "named"),
    [
        ("dog", ["dog"]),
        ("Two DOGS!", ["dog"]),
        ("hot dogs", ["hot dog"]),
        ("a hot dog beside a dog", ["hot dog", "dog"]),
        ("women on bikes", ["person", "bicycle"]),
        ("a glass of wine", []),
        ("wine glasses and buses", ["wine glass", "bus"]),
        ("skis, scissors, sheep", ["skis", "scissors", "sheep"]),
        ("a doghouse for puppies", ["dog"]),
        ("", []),
    ],
)
def test_names(sentence: str, named: list[str]) -> None:
    assert [CLASSES[number] for number in NamedObjects(CLASSES).named(sentence)] == named


def test_a_class_keeps_its_own_name() -> None:
    objects = NamedObjects(["table", "dining table"])
    assert objects.named("a table") == [0]
    assert objects.named("a dining table") == [1]


def test_the_share_is_of_content_words() -> None:
    objects = NamedObjects(CLASSES)
    assert objects.share("hot dog") == objects.share("three dogs") == objects.share("there is a dog") == 1
    assert objects.share("a dog on the beach") == 0.5
    assert objects.share("the of") == objects.share("a beach") == 0


def test_names_are_read_as_sentences_are() -> None:
    objects = NamedObjects(["t-shirt", "cabinet/shelf", "traffic light"])
    assert [objects.named(f"a {name}") for name in ("t-shirt", "cabinet shelf", "traffic light")] == [
        [0],
        [1],
        [2],
    ]
