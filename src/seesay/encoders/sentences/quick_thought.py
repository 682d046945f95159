"""Quick-Thought vectors (Logeswaran and Lee, ICLR 2018): an LSTM that maps similar sentences nearby.

It is trained on text alone, as Skip-Thought is (Kiros et al., NIPS 2015), which generates the neighbouring
sentence word by word; here the neighbour is recognised among the sentences of the batch. A neighbour is
another sentence of the same image: these have no order, so one encoder reads both sides. Words are GloVe's
vectors, which stay fixed, so it reads words that training never saw; those that GloVe lacks are left out.

Why no decoder: on Flickr8k, with one of 256 units and 2,000 words, the nearest neighbour of 25 % of val
sentences was of the same image after 1,000 batches; trained this way, of 50 % after 150 (GloVe's mean: 41 %).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

from seesay.encoders import register_sentence_encoder
from seesay.encoders.sentences.base import SentenceFeatures, Tensors, Vectors
from seesay.encoders.sentences.word_vectors import DIM, Bags
from seesay.errors import SeesayError
from seesay.progress import progress

_RATE, _CLIP = 1e-3, 1.0
_SCALE = 20.0  # of cosines, before the softmax
_MAX_LENGTH = 50  # words, as in GVSE
_ENCODED_AT_ONCE = 512  # sentences
_SEED = 1


@register_sentence_encoder("quick-thought")
class QuickThought(SentenceFeatures):
    """Quick-Thought: an LSTM on GloVe word vectors, trained to recognise sentences of the same image."""

    uses_images = True

    def __init__(self, lstm: nn.LSTM) -> None:
        self.lstm = lstm.cpu().eval()

    @classmethod
    def fit(
        cls,
        texts: Sequence[str],
        images: NDArray[np.int64],
        width: int = 512,
        steps: int = 600,
        batch_size: int = 128,
    ) -> QuickThought:
        bags = Bags.from_texts(texts)
        pairs = _Pairs(bags, images)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_SEED)
            lstm = nn.LSTM(DIM, width)
            _train(lstm, bags, pairs, steps, batch_size)
        return cls(lstm)

    @classmethod
    def from_tensors(cls, tensors: Tensors) -> QuickThought:
        lstm = nn.LSTM(DIM, tensors["lstm.weight_hh_l0"].shape[1])
        lstm.load_state_dict({key: torch.from_numpy(tensors[f"lstm.{key}"]) for key in lstm.state_dict()})
        return cls(lstm)

    def tensors(self) -> Tensors:
        return {f"lstm.{key}": value.numpy() for key, value in self.lstm.state_dict().items()}

    @torch.inference_mode()
    def rows(self, texts: Sequence[str]) -> Vectors:
        """Compute unit vectors, the state after the last word, (m, width); zeros if no word is known."""
        bags = Bags.from_texts(texts)
        vectors, words = torch.from_numpy(bags.vectors), _sentences(bags)
        rows = np.zeros((len(texts), self.lstm.hidden_size), np.float32)
        some = np.flatnonzero(bags.lengths)
        for start in range(0, len(some), _ENCODED_AT_ONCE):
            chosen = some[start : start + _ENCODED_AT_ONCE]
            states = _states(self.lstm, [words[i] for i in chosen], vectors)
            rows[chosen] = functional.normalize(states, dim=1).numpy()
        return rows


class _Pairs:
    """Random pairs of sentences of one image."""

    def __init__(self, bags: Bags, images: NDArray[np.int64]) -> None:
        known = np.flatnonzero(bags.lengths)
        order = known[np.argsort(images[known], kind="stable")]
        _, starts, counts = np.unique(images[order], return_index=True, return_counts=True)
        each = np.repeat(np.arange(len(counts)), counts)
        if (counts > 1).sum() < 2:
            raise SeesayError(
                "No two images have two training sentences each with known words, which quick-thought learns "
                "from; is the text English? If it is: --set sentence_encoder=mean."
            )
        self._order, self._starts, self._counts, self._each = order, starts, counts, each
        self._places = np.flatnonzero(counts[each] > 1)

    def draw(self, generator: np.random.Generator, count: int) -> tuple[NDArray[np.int64], ...]:
        """Draw sentences, for each another of its image, and the number of that image, (count,) each."""
        places = generator.choice(self._places, count)
        starts, counts = self._starts[self._each[places]], self._counts[self._each[places]]
        # Any but itself: a step of 1 to count - 1 round the image's sentences.
        others = starts + (places - starts + generator.integers(1, counts)) % counts
        return self._order[places], self._order[others], self._each[places]


def _train(lstm: nn.LSTM, bags: Bags, pairs: _Pairs, steps: int, batch_size: int) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lstm.to(device).train()
    vectors, words = torch.from_numpy(bags.vectors).to(device), _sentences(bags)
    optimizer = torch.optim.Adam(lstm.parameters(), lr=_RATE)
    generator = np.random.default_rng(_SEED)
    with progress("quick-thought", steps, "batches") as advance:
        for _ in range(steps):
            one, other, images = pairs.draw(generator, batch_size)
            states = _states(lstm, [words[i] for i in (*one, *other)], vectors)
            loss = contrast(states[: len(one)], states[len(one) :], torch.from_numpy(images).to(device))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(lstm.parameters(), _CLIP)
            optimizer.step()
            advance(1)


def contrast(one: Tensor, other: Tensor, images: Tensor) -> Tensor:
    """Negative log-likelihood of each sentence's neighbour among the batch, averaged over both directions.

    `one` and `other` are states (n, d) of sentences and their neighbours; `images` (n,) says which image each
    pair describes: other sentences of the same image are not candidates.
    """
    logits = _SCALE * functional.normalize(one, dim=1) @ functional.normalize(other, dim=1).T
    same = images[:, None] == images[None, :]
    logits = logits.masked_fill(same.fill_diagonal_(False), -torch.inf)
    target = torch.arange(len(one), device=one.device)
    return (functional.cross_entropy(logits, target) + functional.cross_entropy(logits.T, target)) / 2


def _states(lstm: nn.LSTM, sentences: Sequence[Tensor], vectors: Tensor) -> Tensor:
    """Compute the states after the last words, (n, width), of sentences given as rows of `vectors`."""
    lengths = torch.tensor([len(words) for words in sentences])
    padded = pad_sequence(list(sentences)).to(vectors.device)
    packed = pack_padded_sequence(vectors[padded], lengths, enforce_sorted=False)
    state: Tensor = lstm(packed)[1][0][0]
    return state


def _sentences(bags: Bags) -> list[Tensor]:
    """Each sentence's words as rows of the bags' vectors."""
    flat = torch.from_numpy(bags.numbers)
    return [words[:_MAX_LENGTH] for words in torch.split(flat, bags.lengths.tolist())]
