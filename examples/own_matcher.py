"""Write a matcher of your own, train it, evaluate it and search with it.

python examples/own_matcher.py flickr8k matcher-out "two dogs play in the snow"
"""

from __future__ import annotations

import sys
from pathlib import Path

from torch import Tensor, nn
from torch.nn.functional import normalize

import seesay
from seesay.matchers import EmbeddingMatcher, register_matcher
from seesay.matchers.layers import mean_words
from seesay.matchers.sentences import SentencesLike, read_words


@register_matcher("bag-of-words")
class BagOfWords(EmbeddingMatcher):
    """A linear layer for images; the mean of learned word vectors for sentences."""

    # The widths come from the data; recipes choose the other arguments.
    def __init__(self, image_dim: int, vocabulary_size: int, dim: int = 256) -> None:
        super().__init__()
        self.image_map = nn.Linear(image_dim, dim)
        self.words = nn.EmbeddingBag(vocabulary_size, dim)

    def embed_images(self, images: Tensor) -> Tensor:
        return normalize(self.image_map(images))  # (n, image_dim) to (n, dim)

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        return normalize(mean_words(self.words, read_words(sentences)))  # (m, dim)


def main(data: Path, out: Path, query: str, epochs: int = 20) -> None:
    corpus = seesay.read_corpus(data)
    # Loss, optimizer, schedule and encoder are the recipe's; the matcher is yours.
    run = seesay.train(
        "irmatch-s",
        corpus,
        out / "run",
        matcher={"kind": "bag-of-words"},
        words=None,  # it has no pretrained word vectors
        encoders=["efficientnet-lite0"],
        epochs=epochs,
    )
    print(seesay.evaluate(run, corpus))

    with seesay.Index.create(out / "index", run) as index:
        index.update_images(data)
        for hit in index.search(query, k=3):
            print(f"{hit.score:.3f}  {hit.path}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
