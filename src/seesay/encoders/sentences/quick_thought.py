"""Quick-Thought vectors (Logeswaran and Lee, ICLR 2018): an LSTM that maps similar sentences close together.

Like Skip-Thought (Kiros et al., NIPS 2015), it is trained on text alone. Skip-Thought generates the
neighbouring sentence word by word; Quick-Thought recognises it among the sentences of the batch. A neighbour
is another sentence of the same image; these have no order, so one encoder reads both sides. Words are fixed
GloVe vectors, so the encoder also reads words that are not in the training sentences. Words without a GloVe
vector are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from seesay.arrays import Ints, Vectors
from seesay.encoders.sentences.base import FittedEncoder, Tensors
from seesay.encoders.sentences.word_vectors import DIM, Bags
from seesay.encoders.settings import register_sentence_encoder
from seesay.errors import SeesayError

if TYPE_CHECKING:
    from torch import nn

_SEED = 1


@register_sentence_encoder("quick-thought")
class QuickThought(FittedEncoder):
    """Quick-Thought: an LSTM on GloVe word vectors, trained to recognise sentences of the same image."""

    lstm: nn.LSTM

    def fit(
        self, texts: Sequence[str], images: Ints, width: int = 512, steps: int = 600, batch_size: int = 128
    ) -> None:
        from seesay.encoders.networks import train_lstm

        bags = Bags.from_texts(texts)
        batches = random_pairs(bags, images, batch_size, steps)
        self.lstm = train_lstm(DIM, width, bags, batches, steps, _SEED).cpu().eval()

    def tensors(self) -> Tensors:
        return {f"lstm.{key}": value.numpy() for key, value in self.lstm.state_dict().items()}

    def restore(self, tensors: Tensors) -> None:
        from seesay.encoders.networks import load_lstm

        weights = {key.removeprefix("lstm."): value for key, value in tensors.items() if "lstm." in key}
        self.lstm = load_lstm(weights).eval()

    def rows(self, texts: Sequence[str]) -> Vectors:
        """Compute unit vectors, the state after the last word, (m, width); zeros if no word is known."""
        from seesay.encoders.networks import last_states

        bags = Bags.from_texts(texts)
        rows = np.zeros((len(texts), self.lstm.hidden_size), np.float32)
        some = np.flatnonzero(bags.lengths)
        rows[some] = last_states(self.lstm, bags, some)
        return rows


def random_pairs(bags: Bags, images: Ints, count: int, steps: int) -> Iterator[tuple[Ints, ...]]:
    """Draw `steps` batches of `count` sentences, each with another one of its image, and the image's number.

    Raises:
        SeesayError: fewer than two images have two sentences with known words.
    """
    known = np.flatnonzero(bags.lengths)
    order = known[np.argsort(images[known], kind="stable")]
    _, starts, counts = np.unique(images[order], return_index=True, return_counts=True)
    each = np.repeat(np.arange(len(counts)), counts)
    if (counts > 1).sum() < 2:
        raise SeesayError(
            "No two images have two training sentences each with known words, which quick-thought learns "
            "from; is the text English? If it is, set sentence_encoder to mean."
        )
    usable, generator = np.flatnonzero(counts[each] > 1), np.random.default_rng(_SEED)
    for _ in range(steps):
        places = generator.choice(usable, count)
        first, among = starts[each[places]], counts[each[places]]
        # Any but itself: a step of 1 to count - 1, modulo count, among the image's sentences.
        others = first + (places - first + generator.integers(1, among)) % among
        yield order[places], order[others], each[places]
