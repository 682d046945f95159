import pytest

from seesay.data.readers import PHRASE_READERS, READERS, read_corpus, read_phrases
from seesay.errors import SeesayError

BOTH = pytest.mark.parametrize(
    ("read", "readers"), [(read_corpus, READERS), (read_phrases, PHRASE_READERS)], ids=["corpus", "phrases"]
)


@BOTH
def test_an_unknown_format_lists_the_known_ones(tmp_path, read, readers):
    with pytest.raises(SeesayError, match=r"'tables'; did you mean 'table'\?") as caught:
        read(tmp_path, format="tables")
    assert all(name in str(caught.value) for name in readers)


@BOTH
def test_a_missing_path_is_named(tmp_path, read, readers):
    with pytest.raises(SeesayError, match="gone: no such folder or file"):
        read(str(tmp_path / "gone"))


def test_a_missing_folder_of_images_is_named(tmp_path):
    with pytest.raises(SeesayError, match="gone: no such folder or file"):
        read_phrases(tmp_path, images=tmp_path / "gone")


@BOTH
def test_nothing_recognised_lists_every_format_and_what_it_looks_like(tmp_path, read, readers):
    file = tmp_path / "notes.md"
    file.write_text("x")
    for path in (tmp_path, file):
        with pytest.raises(SeesayError, match=r"notes\.md: not in a|: not in a") as caught:
            read(path)
        assert all(f"{name}: {reader.looks_like}" in str(caught.value) for name, reader in readers.items())


@BOTH
def test_every_reader_refuses_an_empty_folder_and_a_foreign_file(tmp_path, read, readers):
    file = tmp_path / "x.bin"
    file.write_bytes(b"\x00\xff" * 50)
    for name in readers:
        for path in (tmp_path, file):
            with pytest.raises(SeesayError):
                read(path, format=name)


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
