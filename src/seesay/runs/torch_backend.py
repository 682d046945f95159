"""A run's matcher in PyTorch, on a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, PairMatcher
from seesay.matchers.composed import Ensemble, EnsembleSettings
from seesay.matchers.settings import MatcherSettings
from seesay.paths import cache_dir
from seesay.runs.all_pairs import resume_all_pairs, score_all_pairs
from seesay.runs.backend import Rows, Vectors, in_parts, inner_products
from seesay.runs.score_file import matrix_name
from seesay.runs.sentences import PreparedSentences

_BATCH = 512  # images or sentences computed at a time


class TorchBackend:
    """Computes with a matcher; see `Backend`.

    Args:
        matcher: in evaluation mode, on `device`. A classifier of concepts neither embeds nor scores.
        settings: the recipe's of the matcher; they tell cached scores apart.
        device: such as "cpu" or "cuda:1".
    """

    def __init__(self, matcher: nn.Module, settings: MatcherSettings, device: str) -> None:
        self.matcher, self._settings, self._device = matcher, settings, device

    def encode_images(self, features: Vectors, query: bool = False) -> Any:
        """See `Backend`."""
        parts = torch.split(torch.from_numpy(features), _BATCH)
        if isinstance(self.matcher, PairMatcher):
            return self._encoded(self.matcher.encode_images, parts)
        matcher = self._embedding()
        return self._embedded(matcher.query_images if query else matcher.embed_images, parts)

    def encode_sentences(self, sentences: PreparedSentences, query: bool = False) -> Any:
        """See `Backend`."""
        parts = (part.to_tensors() for part in sentences.split(_BATCH))
        if isinstance(self.matcher, PairMatcher):
            return self._encoded(self.matcher.encode_sentences, parts)
        matcher = self._embedding()
        return self._embedded(matcher.query_sentences if query else matcher.embed_sentences, parts)

    @torch.inference_mode()
    def score_pairs(self, images: Any, sentences: Any, rows: Rows, columns: Rows) -> NDArray[np.floating]:
        """See `Backend`."""
        if not isinstance(self.matcher, PairMatcher):
            return inner_products(images, sentences, rows, columns)
        parts = []
        for i, j in in_parts(rows, columns):
            mine, theirs = (torch.from_numpy(some).to(images.device) for some in (i, j))
            parts.append(self.matcher.score_pairs(images[mine], sentences[theirs]).float().cpu().numpy())
        return np.concatenate(parts)

    def score_all(self, features: Vectors, sentences: PreparedSentences, keep: bool = False) -> Vectors:
        """See `Backend`; an ensemble keeps its members' scores, and finds those of members scored alone."""
        matcher = self.matcher
        if not isinstance(matcher, PairMatcher):
            scores: Vectors = self.encode_images(features) @ self.encode_sentences(sentences).T
            return scores
        if not keep:
            return score_all_pairs(
                matcher, self.encode_images(features), self.encode_sentences(sentences)
            ).numpy()
        if isinstance(matcher, Ensemble) and isinstance(self._settings, EnsembleSettings):
            members = [
                TorchBackend(*member, self._device)
                for member in zip(matcher.pair_matchers(), self._settings.matchers, strict=True)
            ]
            return reduce(np.add, (member._kept(features, sentences) for member in members))
        return self._kept(features, sentences)

    def _kept(self, features: Vectors, sentences: PreparedSentences) -> Vectors:
        """Score all pairs, reading the rows that are cached."""
        assert isinstance(self.matcher, PairMatcher)
        name = matrix_name(self._origin(features, sentences))
        images, texts = self.encode_images(features), self.encode_sentences(sentences)
        return resume_all_pairs(self.matcher, images, texts, cache_dir() / "scores" / name)

    def _origin(self, features: Vectors, sentences: PreparedSentences) -> Iterator[str | NDArray[Any]]:
        """Iterate over everything that a score matrix depends on."""
        yield f"{self._device.partition(':')[0]} {self._settings!r}"  # one GPU finds what another computed
        for key, weights in self.matcher.state_dict().items():
            yield from (key, weights.cpu().numpy())
        yield features
        yield from (sentences.words, sentences.lengths, sentences.vectors)

    def _embedding(self) -> EmbeddingMatcher:
        if not isinstance(self.matcher, EmbeddingMatcher):
            raise SeesayError(f"{type(self.matcher).__name__} has no embeddings.")
        return self.matcher

    @torch.inference_mode()
    def _encoded(self, compute: Callable[[Any], Tensor], parts: Iterable[Any]) -> Tensor:
        return torch.cat([compute(part.to(self._device)) for part in parts])

    def _embedded(self, compute: Callable[[Any], Tensor], parts: Iterable[Any]) -> Vectors:
        return self._encoded(lambda part: compute(part).float().cpu(), parts).numpy()
