import pytest

from seesay.data.readers import READERS, read_corpus
from seesay.errors import SeesayError

BOTH = pytest.mark.parametrize("phrases", [False, True], ids=["sentences", "phrases"])


@BOTH
def test_an_unknown_format_lists_the_known_ones(tmp_path, phrases):
    with pytest.raises(SeesayError, match=r"'tables'; did you mean 'table'\?") as caught:
        read_corpus(tmp_path, format="tables", phrases=phrases)
    assert all(name in str(caught.value) for name in READERS)


@BOTH
def test_a_format_of_the_other_kind_is_refused(tmp_path, phrases):
    for name, reader in READERS.items():
        if reader.has_boxes != phrases:
            with pytest.raises(SeesayError, match=f"Format '{name}' does not contain"):
                read_corpus(tmp_path, format=name, phrases=phrases)


@BOTH
def test_a_missing_path_is_named(tmp_path, phrases):
    with pytest.raises(SeesayError, match="gone: no such folder or file"):
        read_corpus(str(tmp_path / "gone"), phrases=phrases)


def test_the_home_folder_of_nobody_is_a_missing_path():
    with pytest.raises(SeesayError, match="~nosuchuser/x: no such folder or file"):
        read_corpus("~nosuchuser/x")


def test_a_missing_folder_of_images_is_named(tmp_path):
    with pytest.raises(SeesayError, match="gone: no such folder or file"):
        read_corpus(tmp_path, images=tmp_path / "gone", phrases=True)


@BOTH
def test_nothing_recognised_lists_every_format_and_what_it_looks_like(tmp_path, phrases):
    file = tmp_path / "notes.md"
    file.write_text("x")
    for path in (tmp_path, file):
        with pytest.raises(SeesayError, match=r"notes\.md: not in a|: not in a") as caught:
            read_corpus(path, phrases=phrases)
        for name, reader in READERS.items():
            listed = f"{name}: {reader.looks_like}" in str(caught.value)
            assert listed == (reader.has_boxes == phrases)


def test_every_reader_refuses_an_empty_folder_and_a_foreign_file(tmp_path):
    file = tmp_path / "x.bin"
    file.write_bytes(b"\x00\xff" * 50)
    for name, reader in READERS.items():
        for path in (tmp_path, file):
            with pytest.raises(SeesayError):
                read_corpus(path, format=name, phrases=reader.has_boxes)


def test_the_format_can_be_chosen_against_the_looks(tmp_path, photos):
    photos("a.jpg", "b.jpg")
    (tmp_path / "t.csv").write_text("image,caption\na.jpg,A\n")
    assert len(read_corpus(str(tmp_path)).images) == 1
    assert len(read_corpus(tmp_path, "folder").images) == 2


def test_sure_signs_count_before_images(tmp_path, photos):
    photos("a.jpg")
    (tmp_path / "t.csv").write_text("image,caption\na.jpg,of the table\n")
    (tmp_path / "x.token").write_text("a.jpg#0\tof the token file\n")
    assert read_corpus(tmp_path).texts() == ["of the token file"]


def test_the_images_of_a_corpus_may_lie_elsewhere(tmp_path, photos):
    photos("photos/a.jpg")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "t.csv").write_text("image,caption\na.jpg,A\n")
    corpus = read_corpus(tmp_path / "texts", images=tmp_path / "photos")
    assert [image.name for image in corpus.images] == ["a.jpg"]
    assert corpus.reading == {"images": str((tmp_path / "photos").resolve())}
