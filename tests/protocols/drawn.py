"""What the tests of protocols share: drawn splits with scores, and matchers small enough to follow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.matchers.base import EmbeddingMatcher, PairMatcher
from seesay.matchers.sentences import Sentences
from seesay.protocols.base import Options, Result
from seesay.protocols.evaluate import measure
from seesay.protocols.subject import Embeddings, RunSubject, Scores, Subject
from seesay.recipes.load import load_recipe
from seesay.runs.inputs import Inputs
from seesay.runs.prepare import number_words
from seesay.runs.run import Run
from seesay.text.vocabulary import Vocabulary

WORDS = [f"w{i}" for i in range(24)]


def corpus_of(
    owners: Sequence[int], n: int, texts: Sequence[str] | None = None, split: str = "test", names: str = ""
) -> Corpus:
    """A split of n images; sentence i is of image owners[i]."""
    images = tuple(CorpusImage(f"{names}{i}.jpg", split) for i in range(n))
    said = texts or [f"number {i}" for i in range(len(owners))]
    sentences = tuple(Sentence(text, int(owner)) for text, owner in zip(said, owners, strict=True))
    return Corpus("drawn", Path("there"), images, sentences)


def subject_of(
    scores: Any,
    owners: Sequence[int],
    texts: Sequence[str] | None = None,
    split: str = "test",
    name: str = "drawn",
    other: Any = None,
) -> Subject:
    """A split with a score matrix, another one for sentence queries maybe, or a tuple of embeddings."""
    found: Scores = (
        Scores(Embeddings(*scores)) if isinstance(scores, tuple) else Scores(np.asarray(scores), other)
    )
    n = len(scores[0] if isinstance(scores, tuple) else scores)
    return Subject(name, split, corpus_of(owners, n, texts, split), found)


def measured(
    scores: Any,
    owners: Sequence[int],
    protocol: str = "standard",
    resamples: int = 0,
    **said: Any,
) -> dict[str, Any]:
    """What a protocol measures of a split with scores, see `flat`."""
    return flat(measure(subject_of(scores, owners, **said), protocol, Options(resamples=resamples)))


def flat(result: Result) -> dict[str, Any]:
    """A result as JSON values, with what it is about and its metrics beside the others; its content aside."""
    values = result.to_dict()
    values.pop("content")
    about, metrics = values.pop("about", {}), values.pop("metrics")
    return values | about | metrics


class Embedding(EmbeddingMatcher):
    """A sentence is the mean of its words' vectors; images may be embedded differently as queries."""

    def __init__(self, asymmetric: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.asymmetric = asymmetric
        self.table = torch.nn.Parameter(torch.randn(len(WORDS) + 1, 8))

    def embed_images(self, images: torch.Tensor) -> torch.Tensor:
        return images

    def query_images(self, images: torch.Tensor) -> torch.Tensor:
        return images * torch.arange(1.0, 9.0) if self.asymmetric else images

    def embed_sentences(self, sentences: Sentences) -> torch.Tensor:
        parts = torch.split(self.table[sentences.words], sentences.lengths.tolist())
        return torch.stack([part.mean(dim=0) for part in parts])


class Pairs(PairMatcher):
    """Scores as `Embedding` of queries, and counts the pairs."""

    def __init__(self, asymmetric: bool = False) -> None:
        super().__init__()
        self.embedding = Embedding(asymmetric)
        self.pairs = 0

    def encode_images(self, images: torch.Tensor) -> torch.Tensor:
        return self.embedding.query_images(images)

    def encode_sentences(self, sentences: Sentences) -> torch.Tensor:
        return self.embedding.embed_sentences(sentences)

    def score_pairs(self, images: torch.Tensor, sentences: torch.Tensor) -> torch.Tensor:
        self.pairs += len(images)
        return (images * sentences).sum(dim=1)


def run_subject(
    matcher: EmbeddingMatcher | PairMatcher,
    texts: Sequence[str],
    owners: Sequence[int],
    n: int,
    folder: Path,
    train: Sequence[str] = (),
    vocabulary: Vocabulary | None = None,
    split: str = "test",
) -> RunSubject:
    """A run of a matcher on a drawn split, whose corpus has those training sentences."""
    words = vocabulary or Vocabulary(WORDS)
    part = corpus_of(owners, n, texts, split)
    image = CorpusImage("train.jpg", "train")
    whole = Corpus("drawn", Path("there"), (image,), tuple(Sentence(text, 0) for text in train))
    features = torch.randn(n, 8, generator=torch.Generator().manual_seed(1)).numpy()
    inputs = Inputs(part, features, number_words(list(texts), words), np.asarray(owners), [], (8,))
    run = Run.from_matcher(folder, load_recipe("vse++"), words, None, matcher)
    return RunSubject(run, inputs, split, whole if train else None)
