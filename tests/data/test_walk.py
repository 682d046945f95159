"""The images that a corpus names, among the files of a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from seesay.data.corpus import Issues
from seesay.data.sources import FileSource
from seesay.data.walk import AMBIGUOUS, ImageFinder
from tests.linear import check_linear


def finder_of(root: Path, *names: str) -> tuple[ImageFinder, Issues]:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    issues = Issues()
    return ImageFinder(root, issues, outside=False), issues


@pytest.mark.parametrize("spelled", ["{}/images/Front.jpg", "{}/Images/front.JPG", "{}/images/front"])
def test_catalogue_with_one_name_in_every_folder(tmp_path: Path, spelled: str) -> None:
    finder, issues = finder_of(tmp_path, *(f"p{i}/images/Front.jpg" for i in range(30)))
    for i in range(30):
        found = finder.find(spelled.format(f"p{i}"))
        assert found == FileSource(tmp_path / f"p{i}/images/Front.jpg")
    assert not issues.counts


@pytest.mark.parametrize(
    ("names", "key", "found", "is_ambiguous"),
    [
        (["a/b/x.jpg", "c/a/b/x.jpg"], "a/b/x.jpg", "a/b/x.jpg", False),
        (["a/b/x.jpg", "c/a/b/x.jpg"], "c/a/b/x.jpg", "c/a/b/x.jpg", False),
        (["c/a/b/x.jpg", "d/ba/b/x.jpg"], "a/b/x.jpg", "c/a/b/x.jpg", False),
        (["x.jpg", "b/x.jpg"], "a/b/x.jpg", "x.jpg", True),  # in no such folder: the nearest of the name
        (["c/b/x.jpg", "d/b/x.jpg"], "b/x.jpg", "c/b/x.jpg", True),
        (["c/b/x.jpg", "a/a/b/x.jpg", "d/x.jpg"], "b/x.jpg", "c/b/x.jpg", True),
        (["a/x.png", "a/x.jpg"], "a/x", "a/x.jpg", True),
    ],
)
def test_the_folder_of_a_name_decides(
    tmp_path: Path, names: list[str], key: str, found: str, is_ambiguous: bool
) -> None:
    finder, issues = finder_of(tmp_path, *names)
    assert finder.find(key) == FileSource(tmp_path / found)
    assert (AMBIGUOUS in issues.counts) == is_ambiguous


@pytest.mark.parametrize("spelled", ["p{}/images/front.jpg", "p{}/images/FRONT", "q{}/images/front.jpg"])
def test_names_are_found_in_linear_time(tmp_path: Path, spelled: str) -> None:
    def made(size: int) -> tuple[ImageFinder, list[str]]:
        finder, _ = finder_of(tmp_path / str(size), *(f"p{i}/images/front.jpg" for i in range(size)))
        return finder, [spelled.format(i) for i in range(size)]

    def find(made: tuple[ImageFinder, list[str]]) -> None:
        finder, names = made
        for name in names:
            finder.find(name)

    check_linear(find, made, 3_200)
