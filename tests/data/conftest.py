import pytest

from seesay.data.readers import read_corpus


@pytest.fixture(scope="session")
def flickr8k_corpus(flickr8k):
    """The real corpus, read once."""
    return read_corpus(flickr8k)
