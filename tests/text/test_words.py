"""What a request describes."""

from __future__ import annotations

import pytest

from seesay.text.words import description_in
from tests.linear import check_linear


@pytest.mark.parametrize(
    ("asked", "described"),
    [
        ("A photo of two dogs", "two dogs"),
        ("show me all the pictures with a red car", "red car"),
        ("a photo of a dog", "dog"),
        ("The  teddy bear ", "teddy bear "),
        ("a dog runs fast", "a dog runs fast"),
        ("a", "a"),
        ("please find photographs showing my house", "house"),
        ("can you show me two dogs", "two dogs"),
        ("please keep off the grass", "please keep off the grass"),
        ("our lady of lourdes", "our lady of lourdes"),
        ("show jumping", "show jumping"),
        ("a photo of", "photo of"),
        ("my", "my"),
        ("a man with a photo of his dog", "a man with a photo of his dog"),
    ],
)
def test_what_a_request_describes(asked: str, described: str) -> None:
    assert description_in(asked) == described


def test_the_time_of_reading_a_request_is_linear() -> None:
    check_linear(description_in, lambda size: "a " * (size // 2), 1_000_000)
