import torch
from hypothesis import given
from hypothesis import strategies as st

from seesay.text.sentences import number_words
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
