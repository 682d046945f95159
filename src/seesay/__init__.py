"""seesay matches images with sentences.

    import seesay

    run = seesay.load("seesay-small")
    vectors = run.embed_images(["beach.jpg", "dog.jpg"])
    scores = run.score(vectors, run.embed_sentences(["two dogs play in the snow"]))

Losses, metrics, matchers, encoders and the index are in `seesay.losses`, `seesay.metrics`,
`seesay.matchers`, `seesay.encoders` and `seesay.search`. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seesay.lazy import lazy_names

if TYPE_CHECKING:
    from seesay import encoders, losses, matchers, metrics, search  # noqa: F401
    from seesay._api import evaluate, load, train
    from seesay.data.corpus import Corpus
    from seesay.data.readers import corpus_of, read_corpus
    from seesay.errors import ImageError, SeesayError
    from seesay.progress import show_progress
    from seesay.runs.run import Run
    from seesay.search.hits import Hit
    from seesay.search.index import Index
    from seesay.training.loop import Callback

__version__ = "0.1.0"
__all__ = [
    "Callback",
    "Corpus",
    "Hit",
    "ImageError",
    "Index",
    "Run",
    "SeesayError",
    "__version__",
    "corpus_of",
    "evaluate",
    "load",
    "read_corpus",
    "show_progress",
    "train",
]

__getattr__, __dir__ = lazy_names(__name__)
