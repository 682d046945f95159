import pytest

from seesay.data.phrase_readers import read_phrases
from seesay.errors import SeesayError


def test_nothing_there(tmp_path):
    with pytest.raises(SeesayError, match="none: no such folder or file"):
        read_phrases(tmp_path / "none")
    with pytest.raises(SeesayError, match="none: no such folder or file"):
        read_phrases(tmp_path, images=tmp_path / "none")


def test_nothing_recognised(tmp_path):
    with pytest.raises(SeesayError, match=r"It reads flickr30k-entities: .*; refcoco: .*; table: "):
        read_phrases(tmp_path)


def test_an_unknown_format(tmp_path):
    with pytest.raises(SeesayError, match="use one of flickr30k-entities, refcoco, table"):
        read_phrases(tmp_path, format="coco")


@pytest.mark.parametrize("name", ["flickr30k-entities", "refcoco", "table"])
def test_a_named_format_that_is_not_there(tmp_path, name):
    with pytest.raises(SeesayError):
        read_phrases(tmp_path, format=name)
