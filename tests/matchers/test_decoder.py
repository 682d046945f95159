"""The decoder against eq. 3 written out for one sentence and one word at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from seesay.matchers.sco import Decoder
from seesay.matchers.sentences import Sentences
from tests.matchers.taken import taken

Array = NDArray[np.float64]
WORDS, WORD_DIM, DIM = 5, 3, 6  # the unknown word and four others; the mark is number 5


@pytest.fixture
def decoder() -> Decoder:
    torch.manual_seed(3)
    made = Decoder(WORDS, WORD_DIM, DIM).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return made


@pytest.fixture
def table() -> Tensor:
    return torch.randn(WORDS + 1, WORD_DIM, generator=torch.Generator().manual_seed(4)).double()


def images(n: int) -> Tensor:
    return torch.randn(n, DIM, generator=torch.Generator().manual_seed(n)).double()


def sentences(*texts: tuple[int, ...]) -> Sentences:
    words = torch.tensor([word for text in texts for word in text])
    return Sentences(words, torch.tensor([len(text) for text in texts]), torch.zeros(len(texts), 0))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def log_likelihood(decoder: Decoder, table: Tensor, image: Array, words: tuple[int, ...]) -> float:
    """Eq. 3 as printed, with the projection in front of Fᵀ; PyTorch keeps the gates as i, f, c, o."""
    w = {name: value.detach().numpy() for name, value in decoder.named_parameters()}
    h, c, total = DIM**0.5 * image, np.zeros(DIM), 0.0
    for read, next_word in zip((WORDS, *words), (*words, WORDS), strict=True):
        gates = w["lstm.weight_ih_l0"] @ table.numpy()[read] + w["lstm.bias_ih_l0"]
        i, f, new, o = np.split(gates + w["lstm.weight_hh_l0"] @ h + w["lstm.bias_hh_l0"], 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(new)
        h = sigmoid(o) * np.tanh(c)
        logits = table.numpy() @ (w["projection.weight"] @ h) + w["bias"]
        total += logits[next_word] - np.log(np.exp(logits).sum())
    return float(total)


TEXTS = ((1, 2, 3), (4,), (2, 2, 0, 1, 3), (3, 1))


def test_generation_loss_equals_a_loop_over_words(decoder: Decoder, table: Tensor) -> None:
    vectors = images(len(TEXTS))
    one_by_one = [
        log_likelihood(decoder, table, vector, text)
        for vector, text in zip(vectors.numpy(), TEXTS, strict=True)
    ]
    loss = decoder.loss(vectors, sentences(*TEXTS), table)
    assert loss.item() == pytest.approx(-np.mean(one_by_one), rel=1e-6)


def test_packed_and_padded_sentences_have_the_same_loss(decoder: Decoder, table: Tensor) -> None:
    """The same loss and gradients by rows of equal length, what stands behind the end masked out."""
    longest = max(map(len, TEXTS)) + 1
    read, target = torch.full((len(TEXTS), longest), WORDS), torch.full((len(TEXTS), longest), -100)
    for row, text in enumerate(TEXTS):
        read[row, 1 : len(text) + 1] = target[row, : len(text)] = torch.tensor(text)
        target[row, len(text)] = WORDS
    gradients = []
    for packed in (True, False):
        vectors = images(len(TEXTS)).requires_grad_()
        if packed:
            loss = decoder.loss(vectors, sentences(*TEXTS), table)
        else:
            states = decoder.lstm(table[read.T], (DIM**0.5 * vectors[None], torch.zeros_like(vectors[None])))[
                0
            ]
            logits = decoder.logits(states, table).permute(1, 2, 0)
            loss = torch.nn.functional.cross_entropy(logits, target, reduction="sum") / len(TEXTS)
        gradients.append(torch.autograd.grad(loss, [vectors, *decoder.parameters()]))
    for ours, padded in zip(*gradients, strict=True):
        assert torch.allclose(ours, padded, atol=1e-5)
    assert gradients[0][0].abs().sum(dim=1).min() > 1e-3  # every image vector learns


def test_without_sampling_the_true_words_are_read(decoder: Decoder, table: Tensor) -> None:
    framed = sentences(*((WORDS, *text) for text in TEXTS))
    read = framed.packed(framed.words)
    same = decoder.with_own_words(images(len(TEXTS)), read, table, sampling=0.0)
    assert torch.equal(same.data, read.data)
    assert torch.equal(same.batch_sizes, read.batch_sizes)


def test_with_full_sampling_each_word_is_the_likeliest_next_one(decoder: Decoder, table: Tensor) -> None:
    framed = sentences(*((WORDS, *text) for text in TEXTS))
    own = decoder.with_own_words(images(len(TEXTS)), framed.packed(framed.words), table, sampling=1.0)
    rows, lengths = torch.nn.utils.rnn.pad_packed_sequence(own, batch_first=True)
    assert lengths.tolist() == [len(text) + 1 for text in TEXTS]
    for vector, row, length in zip(images(len(TEXTS)), rows, lengths.tolist(), strict=True):
        state = (DIM**0.5 * vector[None, None], torch.zeros(1, 1, DIM).double())
        word = WORDS
        for place in range(length):
            assert row[place] == word
            logits, state = decoder.step(torch.tensor([word]), state, table)
            word = int(logits.argmax())
    assert decoder.loss(images(4), sentences(*TEXTS), table, 1.0) != decoder.loss(
        images(4), sentences(*TEXTS), table
    )


def test_a_batch_is_decoded_like_each_image(decoder: Decoder, table: Tensor) -> None:
    vectors = images(7) * 3
    assert decoder.greedy(vectors[:0], table, max_length=5).lengths.numel() == 0
    together = decoder.greedy(vectors, table, max_length=5)
    assert together.lengths.min() >= 1
    assert together.lengths.max() <= 5
    assert ((together.words > 0) & (together.words < WORDS)).all()
    for row, vector in enumerate(vectors):
        alone = decoder.greedy(vector[None], table, max_length=5)
        assert torch.equal(taken(together, [row]).words, alone.words)
