"""The images that a corpus names, among the files of a folder."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from seesay.data.corpus import Issues
from seesay.data.images import FileSource
from seesay.data.readers import read_corpus
from seesay.data.readers.finder import AMBIGUOUS, NOT_FOLLOWED, ImageFinder
from seesay.errors import SeesayError
from seesay.search.folder_images import check_has_images
from tests.linear import check_linear


def finder_of(root: Path, *names: str, outside: bool = False) -> tuple[ImageFinder, Issues]:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    issues = Issues()
    return ImageFinder(root, issues, outside), issues


@pytest.mark.parametrize("spelled", ["{}/images/Front.jpg", "{}/Images/front.JPG", "{}/images/front"])
def test_catalogue_with_one_name_in_every_folder(tmp_path: Path, spelled: str) -> None:
    finder, issues = finder_of(tmp_path, *(f"p{i}/images/Front.jpg" for i in range(30)))
    for i in range(30):
        found = finder.find(spelled.format(f"p{i}"))
        assert found == FileSource(tmp_path / f"p{i}/images/Front.jpg")
    assert not issues.counts


@pytest.mark.parametrize(
    ("names", "key", "found", "ambiguous"),
    [
        (["a/b/x.jpg", "c/a/b/x.jpg"], "a/b/x.jpg", "a/b/x.jpg", None),
        (["a/b/x.jpg", "c/a/b/x.jpg"], "c/a/b/x.jpg", "c/a/b/x.jpg", None),
        (["c/a/b/x.jpg", "d/ba/b/x.jpg"], "a/b/x.jpg", "c/a/b/x.jpg", None),
        (["x.jpg", "b/x.jpg"], "a/b/x.jpg", "b/x.jpg", None),
        (["c/b/x.jpg", "d/b/x.jpg"], "b/x.jpg", "c/b/x.jpg", "b/x.jpg: c/b/x.jpg, d/b/x.jpg"),
        (["c/b/x.jpg", "a/a/b/x.jpg", "d/x.jpg"], "b/x.jpg", "c/b/x.jpg", "b/x.jpg: c/b/x.jpg, a/a/b/x.jpg"),
        (["a/x.png", "a/x.jpg"], "a/x", "a/x.jpg", "a/x: a/x.jpg, a/x.png"),
        (["x.jpg", "y/x.jpg"], "a/x.jpg", "x.jpg", "x.jpg: x.jpg, y/x.jpg"),  # in no such folder
        (["other/front.jpg", "P1/Front.jpg"], "p1/front.jpg", "P1/Front.jpg", None),
        (["images/1/a.jpg", "images/2/a.jpg"], "images/../images/2/a.jpg", "images/2/a.jpg", None),
        (["images/1/a.jpg", "images/2/a.jpg"], "/home/bob/c/images/2/a.jpg", "images/2/a.jpg", None),
    ],
)
def test_the_folder_of_a_name_decides(
    tmp_path: Path, names: list[str], key: str, found: str, ambiguous: str | None
) -> None:
    finder, issues = finder_of(tmp_path, *names)
    source = finder.find(key)
    assert isinstance(source, FileSource)
    assert source.path.resolve() == tmp_path / found
    assert issues.examples.get(AMBIGUOUS) == (None if ambiguous is None else [ambiguous])


@pytest.mark.parametrize("name", ["cats/1.jpg", "/home/me/cats/1.jpg", "Cats/1.jpg"])
def test_an_image_that_its_folder_lacks_is_not_one_of_another_folder(tmp_path: Path, name: str) -> None:
    finder, _ = finder_of(tmp_path, "cats/2.jpg", "dogs/1.jpg")
    assert finder.find(name) is None
    assert finder.find("birds/1.jpg") == FileSource(tmp_path / "dogs/1.jpg")  # a folder that is not here


def test_an_image_may_lie_deeper_in_its_folder(tmp_path: Path) -> None:
    finder, _ = finder_of(tmp_path, "images/cover.jpg", "images/part1/1.jpg")
    assert finder.find("images/1.jpg") == FileSource(tmp_path / "images/part1/1.jpg")


@pytest.mark.parametrize("outside", [False, True])
def test_a_linked_folder_hides_no_other(tmp_path: Path, outside: bool) -> None:
    (tmp_path / "z").mkdir()
    for link, target in {"latest": "data/v3", "z/images": "../data/v2", "loop": "data"}.items():
        (tmp_path / link).symlink_to(target)
    names = ["a/1.png", "data/v2/1.png", "data/v3/1.png"]
    finder, issues = finder_of(tmp_path, *names, outside=outside)
    for name in [*names, "latest/1.png", "z/images/1.png", "loop/v2/1.png"]:
        assert finder.find(name) == FileSource((tmp_path / name).resolve())
    assert finder.find("v3/1.png") == FileSource(tmp_path / "data/v3/1.png")
    assert not issues.counts


def test_a_linked_folder_comes_before_others_that_end_so(tmp_path: Path) -> None:
    (tmp_path / "images").symlink_to("v2/images")
    (tmp_path / "a").symlink_to("z/real")
    names = ["v1/images/1.jpg", "v2/images/1.jpg", "z/real/2.jpg", "b/a/2.jpg"]
    finder, issues = finder_of(tmp_path, *names)
    for name in ("images/1.jpg", "a/2.jpg"):
        assert finder.find(name) == FileSource((tmp_path / name).resolve())
    assert not issues.counts


@pytest.mark.parametrize("outside", [False, True])
def test_what_links_lead_out_to_is_found_only_if_allowed(tmp_path: Path, outside: bool) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/photo.jpg").touch()
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/photo.jpg").symlink_to(tmp_path / "private/photo.jpg")
    (tmp_path / "corpus/photos").symlink_to("../private")
    finder, issues = finder_of(tmp_path / "corpus", outside=outside)
    for name in ("photo.jpg", "photos/photo.jpg", "../private/photo.jpg"):
        assert (finder.find(name) is not None) == outside
    assert issues.counts.get(NOT_FOLLOWED, 0) == (0 if outside else 2)


def locked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the permission to read a folder, which does not hold for an administrator."""
    asked = os.scandir

    def scandir(path: Path) -> object:
        if Path(path) == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return asked(path)

    monkeypatch.setattr(os, "scandir", scandir)


def test_a_folder_without_permission_is_unreadable_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/a.jpg").touch()
    (tmp_path / "x.csv").write_text("image,caption\na.jpg,a dog\nb.jpg,a cat\n")
    locked(tmp_path / "images", monkeypatch)
    with pytest.raises(SeesayError, match=r"that cannot be read; the first: .*images: Permission denied"):
        read_corpus(tmp_path)
    with pytest.raises(SeesayError, match=r"images: cannot be read .Permission denied.; check its perm"):
        check_has_images([tmp_path / "images"])


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
