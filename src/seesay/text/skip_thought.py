"""Skip-Thought vectors (Kiros et al., NIPS 2015): an LSTM reads a sentence so that others can tell what
stands beside it.

Trained on text alone: from the state behind the last word a decoder writes another sentence. In a book that
is the one before or the one behind, each by a decoder of its own; the sentences of an image have no order, so
one decoder writes any other of the same image. Only the encoder is kept. Words are GloVe's vectors, which
stay as they are, so that it reads words that training never saw; those that GloVe does not know are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_sequence

from seesay.errors import SeesayError
from seesay.progress import progress
from seesay.text.bags import Bags, Tensors, bags_of_words
from seesay.text.word_vectors import DIM

WIDTH = 512  # of the encoder's state
_DECODER, _CONDITION = (
    256,
    128,
)  # widths of the decoder's state and of what it is told of the sentence at each word
_WORDS = 2000  # that the decoder can write, the most frequent; the others are one
_STEPS, _BATCH, _RATE, _CLIP = 1000, 128, 1e-3, 1.0
_LONGEST = 50  # words, the paper's
_AT_ONCE = 512  # sentences encoded
_SEED = 1


class SkipThought:
    """The encoder as features of sentences."""

    def __init__(self, lstm: nn.LSTM) -> None:
        self.lstm = lstm.cpu().eval()

    @classmethod
    def fit(cls, texts: Sequence[str], images: NDArray[np.int64]) -> SkipThought:
        """Train on sentences, `images` (m,) saying which image each is of.

        Raises:
            SeesayError: no image has two sentences with known words.
        """
        bags = bags_of_words(texts)
        pairs = _Pairs(bags, images)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_SEED)
            network = _EncoderDecoder(len(bags.vectors))
            _train(network, bags, pairs)
        return cls(network.encoder)

    @classmethod
    def of(cls, tensors: Tensors) -> SkipThought:
        """What `tensors` gave."""
        lstm = nn.LSTM(DIM, tensors["lstm.weight_hh_l0"].shape[1])
        lstm.load_state_dict({key: torch.from_numpy(tensors[f"lstm.{key}"]) for key in lstm.state_dict()})
        return cls(lstm)

    def tensors(self) -> Tensors:
        """The encoder's weights."""
        return {f"lstm.{key}": value.numpy() for key, value in self.lstm.state_dict().items()}

    @torch.inference_mode()
    def rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The state behind the last word, (m, 512); zeros where no word is known."""
        bags = bags_of_words(texts)
        vectors = torch.from_numpy(bags.vectors)
        words = _sentences(bags)
        rows = np.zeros((len(texts), self.lstm.hidden_size), np.float32)
        some = np.flatnonzero(bags.lengths)
        for start in range(0, len(some), _AT_ONCE):
            chosen = some[start : start + _AT_ONCE]
            packed = _packed([words[i] for i in chosen], vectors)
            rows[chosen] = self.lstm(packed)[1][0][0].numpy()
        return rows


class _Pairs:
    """Two sentences of one image, drawn anew each time."""

    def __init__(self, bags: Bags, images: NDArray[np.int64]) -> None:
        known = np.flatnonzero(bags.lengths)
        order = known[np.argsort(images[known], kind="stable")]
        _, starts, counts = np.unique(images[order], return_index=True, return_counts=True)
        each = np.repeat(np.arange(len(counts)), counts)
        several = counts[each] > 1
        if not several.any():
            raise SeesayError(
                "No image has two training sentences with known words, and skip-thought learns to tell one "
                "from another; is the text English? If it is: --set sentence_encoder=mean."
            )
        self._order, self._starts, self._counts, self._each = order, starts, counts, each
        self._places = np.flatnonzero(several)

    def draw(self, generator: np.random.Generator, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sentences read and sentences to be written, (count,) each."""
        places = generator.choice(self._places, count)
        starts, counts = self._starts[self._each[places]], self._counts[self._each[places]]
        # Any but itself: a step of 1 to count - 1 round the image's sentences.
        others = starts + (places - starts + generator.integers(1, counts)) % counts
        return self._order[places], self._order[others]


class _EncoderDecoder(nn.Module):
    """From one sentence to minus the log-likelihood of another, a mean over its words and its end."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.encoder = nn.LSTM(DIM, WIDTH)
        self.condition = nn.Linear(WIDTH, _CONDITION)
        self.decoder = nn.LSTM(DIM + _CONDITION, _DECODER)
        self.output = nn.Linear(_DECODER, min(words, _WORDS) + 2)  # an unknown word, and the end

    def forward(self, read: PackedSequence, before: Tensor, targets: Tensor, lengths: Tensor) -> Tensor:
        """The value, a number.

        Args:
            read: vectors of the words of n sentences.
            before: vectors of what stands before each word and the end of those written, (t, n, 50).
            targets: which these are, (t, n).
            lengths: how many, (n,), on the CPU.
        """
        state = self.encoder(read)[1][0][0]
        told = self.condition(state)[None].expand(len(before), -1, -1)
        inputs = pack_padded_sequence(torch.cat([before, told], dim=2), lengths, enforce_sorted=False)
        written = pack_padded_sequence(targets, lengths, enforce_sorted=False)
        return functional.cross_entropy(self.output(self.decoder(inputs)[0].data), written.data)


def _train(network: _EncoderDecoder, bags: Bags, pairs: _Pairs) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network.to(device).train()
    # One more row, of zeros, stands before the first word; among the classes that row is the end.
    vectors = functional.pad(torch.from_numpy(bags.vectors), (0, 0, 0, 1)).to(device)
    words, classes = _sentences(bags), _classes(bags).to(device)
    mark = torch.tensor([len(bags.vectors)])
    optimiser = torch.optim.Adam(network.parameters(), lr=_RATE)
    generator = np.random.default_rng(_SEED)
    with progress("skip-thought", _STEPS, "batches") as advance:
        for _ in range(_STEPS):
            read, write = pairs.draw(generator, _BATCH)
            before = pad_sequence([torch.cat([mark, words[i]]) for i in write]).to(device)
            behind = pad_sequence([torch.cat([words[i], mark]) for i in write]).to(device)
            lengths = torch.tensor([len(words[i]) + 1 for i in write])
            sentences = _packed([words[i] for i in read], vectors)
            loss = network(sentences, vectors[before], classes[behind], lengths)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), _CLIP)
            optimiser.step()
            advance(1)


def _sentences(bags: Bags) -> list[Tensor]:
    """Each sentence's words as rows of the bags' vectors."""
    flat = torch.from_numpy(bags.numbers)
    return [words[:_LONGEST] for words in torch.split(flat, bags.lengths.tolist())]


def _classes(bags: Bags) -> Tensor:
    """For each distinct word which of the decoder's it is, and behind them the end: (v + 1,)."""
    counts = np.bincount(bags.numbers, minlength=len(bags.vectors))
    kept = min(len(counts), _WORDS)
    classes = np.full(len(counts) + 1, kept)
    classes[np.argsort(-counts, kind="stable")[:kept]] = np.arange(kept)
    classes[-1] = kept + 1
    return torch.from_numpy(classes)


def _packed(sentences: Sequence[Tensor], vectors: Tensor) -> PackedSequence:
    """The vectors of words, rows of `vectors`, as an LSTM reads them."""
    lengths = torch.tensor([len(words) for words in sentences])
    padded = pad_sequence(list(sentences)).to(vectors.device)
    return pack_padded_sequence(vectors[padded], lengths, enforce_sorted=False)
