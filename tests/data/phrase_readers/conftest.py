import pytest
from PIL import Image


@pytest.fixture
def photo(tmp_path):
    """Writes an image of that size below tmp_path."""

    def write(name, width=100, height=50, **options):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (width, height), "white").save(path, **options)
        return path

    return write


@pytest.fixture
def told():
    """A phrase corpus as plain data: (image, split, phrase, boxes)."""

    def tell(corpus):
        return [
            (corpus.images[p.image].name, corpus.images[p.image].split, p.text, p.boxes)
            for p in corpus.phrases
        ]

    return tell
