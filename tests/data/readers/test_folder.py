import os

import pytest

from seesay.data.readers import read_corpus
from seesay.data.readers.builder import OTHER_FILE
from seesay.data.readers.finder import NOT_FOLLOWED, UNREAD_KIND
from seesay.errors import SeesayError
from seesay.search.folder_images import images_in


def test_images_at_any_depth_in_a_stable_order(tmp_path, photos):
    photos("b.JPG", "a.jpg", "trip/day 1/c.png", ".hidden/x.jpg", ".x.jpg", "__MACOSX/y.jpg")
    (tmp_path / "notes.txt").write_text("no table")
    corpus = read_corpus(tmp_path)
    assert [image.name for image in corpus.images] == ["a.jpg", "b.JPG", "trip/day 1/c.png"]
    assert {image.split for image in corpus.images} == {"test"}
    assert not corpus.sentences
    assert corpus.issues.counts == {OTHER_FILE: 1}


def test_kinds_that_cannot_be_read_are_counted(tmp_path, photos):
    photos("a.jpg", "b.svg", "c.mp4")
    assert read_corpus(tmp_path).issues.counts == {UNREAD_KIND: 2}


def test_links_are_followed_within_the_folder_as_an_index_follows_them(tmp_path, photos):
    photos("photos/real/a.jpg", "elsewhere/b.jpg")
    (tmp_path / "photos/loop").symlink_to(tmp_path / "photos")
    (tmp_path / "photos/self.jpg").symlink_to("self.jpg")
    (tmp_path / "photos/broken.jpg").symlink_to("gone.jpg")
    (tmp_path / "photos/again.jpg").symlink_to("real/a.jpg")
    (tmp_path / "photos/more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "photos/other.jpg").symlink_to(tmp_path / "elsewhere/b.jpg")
    corpus = read_corpus(tmp_path / "photos")
    found = images_in(tmp_path / "photos").files
    assert [image.name for image in corpus.images] == list(found) == ["again.jpg", "real/a.jpg"]
    assert corpus.issues.counts[NOT_FOLLOWED] == 2
    names = [image.name for image in read_corpus(tmp_path / "photos", allow_outside=True).images]
    assert names == ["again.jpg", "other.jpg", "real/a.jpg", "more/b.jpg"]


def test_a_pipe_named_like_an_image_does_not_block(tmp_path, photos):
    photos("a.jpg")
    os.mkfifo(tmp_path / "b.jpg")
    assert len(read_corpus(tmp_path).images) == 1


def test_file_names_that_are_no_utf8_can_be_printed(tmp_path, photos):
    photos("a.jpg")
    (tmp_path / os.fsdecode(b"caf\xe9.jpg")).write_bytes(b"x")
    names = [image.name for image in read_corpus(tmp_path).images]
    assert names == ["a.jpg", "caf\N{REPLACEMENT CHARACTER}.jpg"]
    assert read_corpus(tmp_path).images[1].source.read() == b"x"


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(SeesayError, match="not in a format that seesay recognises"):
        read_corpus(tmp_path)
    with pytest.raises(SeesayError, match="nothing left"):
        read_corpus(tmp_path, "folder")
