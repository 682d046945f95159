import pytest

from seesay.data.readers import READERS, read_corpus
from seesay.errors import SeesayError


def test_an_unknown_format_lists_the_known_ones(tmp_path):
    with pytest.raises(SeesayError, match=r"'json' is not known; use one of karpathy, coco,.* folder"):
        read_corpus(tmp_path, "json")


def test_a_missing_path_is_named(tmp_path):
    with pytest.raises(SeesayError, match="gone: no such folder or file"):
        read_corpus(tmp_path / "gone")


def test_nothing_recognised_tells_every_format(tmp_path):
    file = tmp_path / "notes.md"
    file.write_text("x")
    for path in (tmp_path, file):
        with pytest.raises(SeesayError) as caught:
            read_corpus(path)
        assert all(reader.NAME in str(caught.value) for reader in READERS)


def test_the_format_can_be_named_against_the_looks(tmp_path, photos):
    photos("a.jpg", "b.jpg")
    (tmp_path / "t.csv").write_text("image,caption\na.jpg,A\n")
    assert len(read_corpus(tmp_path).images) == 1
    assert len(read_corpus(tmp_path, "folder").images) == 2


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.NAME)
def test_every_reader_refuses_an_empty_folder_and_a_foreign_file_with_a_message(tmp_path, reader):
    file = tmp_path / "x.bin"
    file.write_bytes(b"\x00\xff" * 50)
    assert not reader.recognises(tmp_path)
    assert not reader.recognises(file)
    for path in (tmp_path, file):
        with pytest.raises(SeesayError):
            reader.read(path)
