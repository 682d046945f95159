"""The generative LSTM of SCO (Huang, Wu, Song, Wang, CVPR 2018), eq. 3: a sentence from an image vector.

The image vector v determines the initial hidden state; the memory starts at zero, which the paper does not
specify. Eq. 2 combines unit vectors, so each of the H components of v is about 1/√H and outweighed by the
words of the sentence: an LSTM that starts from v itself hardly learns what the image shows. Here it starts
from √H·v, whose components are as large as those of later states. The printed output layer, softmax(Fᵀh + b),
needs word vectors as wide as the hidden state (the paper has D = 300 and H = 1024): here a matrix first maps
h to R^D, so that F is both word embedding and output layer, as printed.

Word ids are those of the vocabulary, and one more for a mark that precedes the first word of a sentence and
follows the last. `table` is Fᵀ, (G, D), whose last row is that of the mark: the decoder's own embedding, or
the one shared with the sentence encoder.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from seesay.matchers.layers import run_packed
from seesay.matchers.sentences import UNKNOWN, Sentences

State = tuple[Tensor, Tensor]


class Decoder(nn.Module):
    """The decoder's LSTM and output layer; `word_dim` is D, and `dim` H, the width of the image vectors."""

    def __init__(self, vocabulary_size: int, word_dim: int, dim: int) -> None:
        super().__init__()
        self.mark = vocabulary_size
        self.lstm = nn.LSTM(word_dim, dim)
        self.projection = nn.Linear(dim, word_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size + 1))

    def loss(self, images: Tensor, sentences: Sentences, table: Tensor, sampling: float = 0.0) -> Tensor:
        """Return L_gen: minus the log-likelihood of a sentence's words and end, averaged over sentences.

        `images` are the image vectors of the sentences, (m, H). With the probability `sampling`, the decoder
        reads its own word instead of the true one.
        """
        framed, targets = self._framed(sentences)
        read = framed.packed(framed.words)
        if sampling:
            read = self.with_own_words(images, read, table, sampling)
        vectors = PackedSequence(functional.embedding(read.data, table), *read[1:])
        states, _ = run_packed(self.lstm, vectors, _start(images))
        total = functional.cross_entropy(
            self.logits(states, table).float(), framed.packed(targets).data, reduction="sum"
        )
        return total / len(sentences)

    @torch.no_grad()
    def with_own_words(
        self, images: Tensor, read: PackedSequence, table: Tensor, sampling: float
    ) -> PackedSequence:
        """Replace a share `sampling` of words by the decoder's most likely next words (scheduled sampling).

        No gradient passes through this choice, so all words are chosen first and then read like true ones.
        """
        words, start = read.data.clone(), 0
        order = read.sorted_indices
        state = _start(images if order is None else images[order])
        own = words[:0]
        for count in read.batch_sizes.tolist():
            here = words[start : start + count]
            if start:
                chosen = torch.rand(count, device=words.device) < sampling
                here.copy_(torch.where(chosen, own[:count], here))
            logits, state = self.step(here, (state[0][:, :count], state[1][:, :count]), table)
            own = logits.argmax(dim=1)
            start += count
        return PackedSequence(words, *read[1:])

    @torch.no_grad()
    def greedy(self, images: Tensor, table: Tensor, max_length: int) -> Sentences:
        """Generate n sentences of 1 to `max_length` words by always taking the most likely next word."""
        last = torch.full((images.shape[0],), self.mark, dtype=torch.int64, device=images.device)
        state, written = _start(images), list[Tensor]()
        ended = torch.zeros_like(last, dtype=torch.bool)
        for place in range(max_length):
            logits, state = self.step(last, state, table)
            logits[:, [UNKNOWN] if place else [UNKNOWN, self.mark]] = -torch.inf
            last = logits.argmax(dim=1)
            ended = ended | (last == self.mark)
            if written and not torch.onnx.is_in_onnx_export() and ended.all():
                break
            written.append(last.masked_fill(ended, self.mark))
        words = torch.stack(written, dim=1)
        there = words != self.mark
        return Sentences(words[there], there.sum(dim=1), images.new_zeros(len(images), 0))

    def step(self, words: Tensor, state: State, table: Tensor) -> tuple[Tensor, State]:
        """Read a word of each of n sentences; return logits of the next, (n, G), and the state (1, n, H)."""
        # Under autocast, states are in half precision after the first step, and inputs must match.
        vectors = functional.embedding(words, table)[None].to(state[0].dtype)
        output, state = self.lstm(vectors, state)
        return self.logits(output[0], table), state

    def logits(self, states: Tensor, table: Tensor) -> Tensor:
        """Return the logits of eq. 3, (n, G), from hidden states (n, H)."""
        return functional.linear(self.projection(states), table, self.bias)

    def _framed(self, sentences: Sentences) -> tuple[Sentences, Tensor]:
        """Return sentences with a leading mark, and the target of each word: the next word, or the mark."""
        lengths = sentences.lengths
        number = torch.arange(len(lengths), device=lengths.device)
        places = torch.arange(len(sentences.words), device=lengths.device)
        words = sentences.words.new_full((len(sentences.words) + len(lengths),), self.mark)
        words[places + torch.repeat_interleave(number, lengths) + 1] = sentences.words
        return Sentences(words, lengths + 1, sentences.vectors), words.roll(-1)


def _start(images: Tensor) -> State:
    """Return √H times the image vectors (n, H) as hidden state, and a memory of zeros."""
    hidden = (images * images.shape[1] ** 0.5)[None].contiguous()
    return hidden, torch.zeros_like(hidden)
