import io
import zlib

import pytest
from PIL import Image


def jpeg(name):
    """The bytes of a tiny JPEG, different for each name."""
    colour = zlib.crc32(name.encode())
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (colour & 255, colour >> 8 & 255, colour >> 16 & 255)).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.fixture
def photos(tmp_path):
    """Writes tiny JPEGs of those names below tmp_path."""

    def write(*names):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg(name.rpartition("/")[2]))

    return write


@pytest.fixture
def content():
    """A corpus as plain data: image -> (split, sentences), or rows of image, split, phrase and boxes."""

    def plain(corpus):
        if corpus.has_boxes:
            owners = [corpus.images[phrase.image] for phrase in corpus.sentences]
            return [(i.name, i.split, p.text, p.boxes) for i, p in zip(owners, corpus.sentences, strict=True)]
        images = {image.name: (image.split, []) for image in corpus.images}
        for sentence in corpus.sentences:
            images[corpus.images[sentence.image].name][1].append(sentence.text)
        return images

    return plain


@pytest.fixture
def photo(tmp_path):
    """Writes a white image of that size below tmp_path."""

    def write(name, width=100, height=50, **options):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (width, height), "white").save(path, **options)
        return path

    return write
