"""Sentences as inputs of matchers: word numbers without padding, and sentence vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from seesay.errors import SeesayError

UNKNOWN = 0  # the number of every word outside the vocabulary


@dataclass(frozen=True, eq=False)
class Sentences:
    """m sentences.

    Attributes:
        words: all their word numbers, one sentence after the other, (total,) int64.
        lengths: words in each, (m,) int64, at least 1; all 0 if there are only vectors.
        vectors: vectors of a frozen sentence encoder, (m, d) float32; (m, 0) without one.

    Example:
        >>> import torch
        >>> from seesay.matchers import Sentences
        >>> sentences = Sentences.from_padded(torch.tensor([[4, 2, 0], [1, 3, 5]]), torch.tensor([2, 3]))
        >>> len(sentences), sentences.words, sentences.lengths
        (2, tensor([4, 2, 1, 3, 5]), tensor([2, 3]))
    """

    words: Tensor
    lengths: Tensor
    vectors: Tensor

    @classmethod
    def from_padded(cls, ids: Tensor, lengths: Tensor, vectors: Tensor | None = None) -> Sentences:
        """Return sentences from padded word numbers (m, t), their lengths (m,) and, if any, vectors (m, d).

        Example:
            >>> Sentences.from_padded(torch.tensor([[4, 2, 0], [1, 3, 5]]), torch.tensor([2, 3])).words
            tensor([4, 2, 1, 3, 5])

        Raises:
            SeesayError: a shape or dtype is wrong, or a length is outside 1..t.
        """
        if (
            ids.ndim != 2
            or lengths.shape != ids.shape[:1]
            or any(x.is_floating_point() for x in (ids, lengths))
        ):
            raise SeesayError(
                f"sentences: expected integer ids (m, t) and lengths (m,), got {ids.dtype} "
                f"{tuple(ids.shape)} and {lengths.dtype} {tuple(lengths.shape)}."
            )
        if len(ids) and not 1 <= int(lengths.min()) <= int(lengths.max()) <= ids.shape[1]:
            raise SeesayError(
                f"sentences: expected lengths in 1..{ids.shape[1]}, the width of the padded ids, "
                f"got {int(lengths.min())} to {int(lengths.max())}."
            )
        if vectors is not None and (vectors.ndim != 2 or len(vectors) != len(ids)):
            raise SeesayError(f"sentences: expected vectors ({len(ids)}, d), got {tuple(vectors.shape)}.")
        there = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        none = torch.zeros(len(ids), 0, device=ids.device)
        return cls(ids[there].long(), lengths.long(), none if vectors is None else vectors)

    @classmethod
    def from_vectors(cls, vectors: Tensor) -> Sentences:
        """Return sentences with only their vectors (m, d); raise `SeesayError` for other input."""
        if vectors.ndim != 2 or not vectors.is_floating_point():
            raise SeesayError(
                f"sentences: expected float vectors (m, d), got {vectors.dtype} {tuple(vectors.shape)}; "
                "pass word numbers as (padded ids, lengths)."
            )
        # Not len(), which a trace with a dynamic number of sentences would fix.
        lengths = torch.zeros(vectors.shape[0], dtype=torch.int64, device=vectors.device)
        return cls(lengths[:0], lengths, vectors)

    @classmethod
    def of_one_word(cls, dim: int) -> Sentences:
        """Return a sentence of the unknown word with a zero vector, to determine the shapes of a matcher."""
        one = torch.ones(1, dtype=torch.int64)
        return cls(one * UNKNOWN, one, torch.zeros(1, dim))

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.lengths)

    def to(self, device: str) -> Sentences:
        """Return the same sentences on another device."""
        return Sentences(self.words.to(device), self.lengths.to(device), self.vectors.to(device))

    def padded(self) -> tuple[Tensor, Tensor]:
        """Return the word numbers, padded with 0 to (m, t), and the lengths (m,).

        This is what a text tower of your own reads. A frozen one that reads strings is a sentence encoder
        instead (`register_sentence_encoder`).

        Example:
            >>> Sentences.from_padded(torch.tensor([[4, 2, 9], [1, 3, 5]]), torch.tensor([2, 3])).padded()
            (tensor([[4, 2, 0],
                    [1, 3, 5]]), tensor([2, 3]))
        """
        if not self.words.shape[0]:
            return self.words.view(self.lengths.shape[0], 0), self.lengths
        places, there = word_places(self.lengths)
        return self.words[places] * there, self.lengths

    def packed(self, vectors: Tensor) -> PackedSequence:
        """Pack vectors of the words, (total, d), for a recurrent layer; no sentence is padded.

        This is one gather, whose gradient is one scatter; `pack_sequence` takes 25 s for 1,000 sentences.
        """
        order = torch.argsort(self.lengths, descending=True, stable=True)
        starts = (self.lengths.cumsum(0) - self.lengths)[order]
        places = torch.arange(int(self.lengths.max()), device=vectors.device)
        there = self.lengths[order][None, :] > places[:, None]
        words = (starts[None, :] + places[:, None])[there]
        return PackedSequence(vectors[words], there.sum(dim=1).cpu(), order, torch.argsort(order))

    def with_unknown(self, share: float) -> Sentences:
        """Return the sentences with a random share of their words replaced by the unknown word."""
        if not share or not self.words.numel():
            return self
        kept = torch.rand(self.words.shape, device=self.words.device) >= share
        return Sentences(torch.where(kept, self.words, UNKNOWN), self.lengths, self.vectors)

    def truncated(self, max_length: int) -> Sentences:
        """Return the sentences, cut after their first `max_length` words."""
        lengths = self.lengths
        if not torch.onnx.is_in_onnx_export() and not (lengths > max_length).any():
            return self
        places, there = (each[:, :max_length] for each in word_places(lengths))
        return Sentences(self.words[places[there]], lengths.clamp(max=max_length), self.vectors)


def word_places(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return the positions of each sentence's words, and a mask of those that exist, both (m, longest).

    After a sentence's last word, its first position is repeated. Sizes stay tensors in a trace.
    """
    column = torch.arange(lengths.max(), device=lengths.device)  # type: ignore[call-overload]
    starts, there = lengths.cumsum(0) - lengths, column < lengths[:, None]
    return starts[:, None] + torch.where(there, column, 0), there


# What matchers accept: sentences, padded word numbers (m, t) with lengths (m,), or vectors (m, d).
SentencesLike: TypeAlias = Sentences | tuple[Tensor, Tensor] | Tensor


def as_sentences(sentences: SentencesLike) -> Sentences:
    """Return sentences in any accepted form as `Sentences`; raise `SeesayError` for another."""
    if isinstance(sentences, Sentences):
        return sentences
    if isinstance(sentences, Tensor):
        return Sentences.from_vectors(sentences)
    given: tuple[object, ...] = sentences if isinstance(sentences, tuple) else (sentences,)
    if len(given) == 2 and all(isinstance(part, Tensor) for part in given):
        return Sentences.from_padded(*sentences)
    names = ", ".join(type(part).__name__ for part in given)
    raise SeesayError(
        "sentences: expected Sentences, (padded ids, lengths) or float vectors as tensors, "
        f"got {f'({names})' if isinstance(sentences, tuple) else names}."
    )


def check_dtype(name: str, values: Tensor, like: Tensor | None) -> None:
    """Raise `SeesayError` unless values have the dtype of the weights `like`, or autocast converts them."""
    if like is None or values.dtype == like.dtype or torch.is_autocast_enabled(values.device.type):
        return
    raise SeesayError(f"{name}: expected dtype {like.dtype}, that of the weights, got {values.dtype}.")


def read_words(sentences: SentencesLike, vocabulary_size: int | None = None) -> Sentences:
    """Return the sentences; raise `SeesayError` if words are missing or outside a vocabulary of that size.

    Example:
        >>> import torch
        >>> from seesay.matchers import read_words
        >>> read_words((torch.tensor([[4, 2]]), torch.tensor([2])), vocabulary_size=5).lengths
        tensor([2])
    """
    read = as_sentences(sentences)
    # Reading two numbers from a GPU waits for all pending work. In training, these are `Sentences`, whose
    # words were numbered by the vocabulary.
    trusted = read.words.is_cuda and isinstance(sentences, Sentences)
    if vocabulary_size is not None and len(read.words) and not trusted:
        least, most = (int(number) for number in read.words.aminmax())
        if least < 0 or most >= vocabulary_size:
            raise SeesayError(
                f"sentences: expected word numbers in 0..{vocabulary_size - 1}, got {least} to {most}."
            )
    if len(read) and not len(read.words):
        raise SeesayError(
            "sentences: expected word numbers, got only vectors; pass Sentences or (padded ids, lengths)."
        )
    return read


def read_vectors(sentences: SentencesLike, dim: int, like: Tensor | None = None) -> Tensor:
    """Return the sentences' vectors, (m, dim); raise `SeesayError` if they have others, or none."""
    read = as_sentences(sentences)
    vectors = read.vectors
    if vectors.shape[1:] != (dim,):
        raise SeesayError(f"sentences: expected vectors of shape (m, {dim}), got {tuple(vectors.shape)}.")
    if vectors.shape[0] != read.lengths.shape[0]:
        raise SeesayError(f"sentences: expected {len(read)} vectors, one per sentence, got {len(vectors)}.")
    check_dtype("sentences", vectors, like)
    return vectors
