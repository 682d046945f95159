import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from seesay.matchers.sentences import Sentences
from seesay.runs.sentences import number_words
from seesay.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["a", "b", "c", "d", "e"])
TEXTS = st.lists(
    st.lists(st.sampled_from("abcdex"), min_size=0, max_size=6).map(" ".join), min_size=1, max_size=8
)


@given(TEXTS, st.data())
def test_taking_sentences_is_numbering_them_alone(texts: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=6))
    vectors = torch.arange(len(texts) * 2.0).view(-1, 2).numpy()
    taken = number_words(texts, VOCABULARY, vectors).take(torch.tensor(chosen))
    alone = number_words([texts[i] for i in chosen], VOCABULARY, vectors[chosen])
    assert torch.equal(taken.words, alone.words)
    assert torch.equal(taken.lengths, alone.lengths)
    assert torch.equal(taken.vectors, alone.vectors)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_packed_is_what_torch_packs(lengths: list[int]) -> None:
    total = sum(lengths)
    sentences = Sentences(torch.arange(total), torch.tensor(lengths), torch.zeros(len(lengths), 0))
    vectors = torch.randn(total, 3, generator=torch.Generator().manual_seed(total), requires_grad=True)
    ours = sentences.packed(vectors)
    theirs = pack_sequence(list(torch.split(vectors, lengths)), enforce_sorted=False)
    for one, other in zip(pad_packed_sequence(ours), pad_packed_sequence(theirs), strict=True):
        assert torch.equal(one, other)
    (gradient,) = torch.autograd.grad((ours.data**2).sum(), vectors)
    assert torch.allclose(gradient, 2 * vectors)
