import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from seesay.errors import SeesayError
from seesay.matchers import TwoBranchEmbedding, VSEPlusPlus
from seesay.matchers.sentences import Sentences, as_sentences
from seesay.runs.prepare import number_words
from seesay.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["a", "b", "c", "d", "e"])
TEXTS = st.lists(
    st.lists(st.sampled_from("abcdex"), min_size=0, max_size=6).map(" ".join), min_size=1, max_size=8
)


@given(TEXTS, st.data())
def test_chosen_sentences_equal_those_numbered_alone(texts: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=6))
    vectors = torch.arange(len(texts) * 2.0).view(-1, 2).numpy()
    taken = number_words(texts, VOCABULARY, vectors).take(np.array(chosen)).to_tensors()
    alone = number_words([texts[i] for i in chosen], VOCABULARY, vectors[chosen]).to_tensors()
    assert torch.equal(taken.words, alone.words)
    assert torch.equal(taken.lengths, alone.lengths)
    assert torch.equal(taken.vectors, alone.vectors)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_packed_sentences_equal_those_of_torch(lengths: list[int]) -> None:
    total = sum(lengths)
    sentences = Sentences(torch.arange(total), torch.tensor(lengths), torch.zeros(len(lengths), 0))
    vectors = torch.randn(total, 3, generator=torch.Generator().manual_seed(total), requires_grad=True)
    ours = sentences.packed(vectors)
    theirs = pack_sequence(list(torch.split(vectors, lengths)), enforce_sorted=False)
    for one, other in zip(pad_packed_sequence(ours), pad_packed_sequence(theirs), strict=True):
        assert torch.equal(one, other)
    (gradient,) = torch.autograd.grad((ours.data**2).sum(), vectors)
    assert torch.allclose(gradient, 2 * vectors)


IDS, LENGTHS = torch.tensor([[5, 2, 9], [7, 1, 0]]), torch.tensor([3, 2])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((IDS,), r"got \(Tensor\)"),
        ((IDS.numpy(), LENGTHS), r"as tensors, got \(ndarray, Tensor\)"),
        (np.zeros((2, 3)), "as tensors, got ndarray"),
        ((IDS, LENGTHS.float()), r"got torch.int64 \(2, 3\) and torch.float32 \(2,\)"),
    ],
)
def test_wrong_sentences_are_named(wrong, message) -> None:
    with pytest.raises(SeesayError, match=f"sentences: expected .*{message}"):
        as_sentences(wrong)


def test_vectors_of_other_sentences_are_refused() -> None:
    with pytest.raises(SeesayError, match=r"expected vectors \(2, d\), got \(3, 4\)"):
        Sentences.from_padded(IDS, LENGTHS, torch.zeros(3, 4))


def test_another_precision_than_the_weights_is_named() -> None:
    words, branches = VSEPlusPlus(6, 10, dim=8), TwoBranchEmbedding(6, 8, dim=4)
    with pytest.raises(SeesayError, match=r"images: expected dtype torch.float32, .* got torch.float64"):
        words.embed_images(torch.rand(2, 6).double())
    with pytest.raises(SeesayError, match=r"sentences: expected dtype torch.float32, .* got torch.float16"):
        branches.embed_sentences(torch.rand(2, 8).half())
    with torch.autocast("cpu", torch.bfloat16):
        assert words.embed_images(torch.rand(2, 6).bfloat16()).shape == (2, 8)


def test_padded_words_are_those_that_the_sentences_were_made_from() -> None:
    ids, lengths = Sentences.from_padded(IDS, LENGTHS).padded()
    rows = zip(IDS.tolist(), LENGTHS.tolist(), strict=True)
    assert ids.tolist() == [row[:n] + [0] * (ids.shape[1] - n) for row, n in rows]
    assert lengths.tolist() == LENGTHS.tolist()
    for empty in (Sentences.from_vectors(torch.rand(3, 4)), Sentences.from_padded(IDS[:0], LENGTHS[:0])):
        assert empty.padded()[0].shape == (len(empty), 0)


def test_sentences_are_compared_by_identity() -> None:
    sentences = Sentences.from_padded(IDS, LENGTHS)
    assert sentences == sentences
    assert len({sentences, Sentences.from_padded(IDS, LENGTHS)}) == 2
