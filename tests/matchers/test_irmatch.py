import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.matchers.irmatch import IRMatch, SentenceCNN
from seesay.matchers.sentences import Sentences


def sentences(numbers: list[list[int]]) -> Sentences:
    words = torch.tensor([n for sentence in numbers for n in sentence])
    return Sentences(words, torch.tensor([len(s) for s in numbers]), torch.zeros(len(numbers), 0))


def plain(cnn: SentenceCNN, words: list[int]) -> Tensor:
    """The sentence CNN of one sentence, window by window."""
    widest = max(cnn.widths)
    vectors = cnn.embedding(torch.tensor(words))
    vectors = torch.cat([vectors, torch.zeros(widest, vectors.shape[1])])
    pooled = []
    for width, kernel in zip(cnn.widths, cnn.kernels, strict=True):
        windows = [vectors[t : t + width].flatten() for t in range(len(words))]
        pooled.append(torch.stack([functional.relu(kernel(w)) for w in windows]).max(dim=0).values)
    return torch.cat(pooled)


NUMBERS = st.lists(st.lists(st.integers(0, 19), min_size=1, max_size=9), min_size=1, max_size=5)


@settings(max_examples=40)
@given(NUMBERS)
def test_the_sentence_cnn_equals_a_plain_convolution(numbers: list[list[int]]) -> None:
    torch.manual_seed(0)
    cnn = SentenceCNN(vocabulary_size=20, word_dim=5, dim=12, widths=(1, 2, 3, 6))
    expected = torch.stack([plain(cnn, words) for words in numbers])
    torch.testing.assert_close(cnn(sentences(numbers)), expected, atol=1e-6, rtol=1e-5)


def test_its_gradients_equal_those_of_a_plain_convolution() -> None:
    torch.manual_seed(0)
    cnn = SentenceCNN(vocabulary_size=20, word_dim=5, dim=12, widths=(1, 2, 3)).double()
    numbers = [[3, 4, 3], [7], [1, 2, 3, 4, 5]]
    weight = torch.randn(3, 12, dtype=torch.float64)
    (cnn(sentences(numbers)) * weight).sum().backward()
    fast = [p.grad.clone() for p in cnn.parameters() if p.grad is not None]
    cnn.zero_grad()
    vectors_then = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        (torch.stack([plain(cnn, words) for words in numbers]) * weight).sum().backward()
    finally:
        torch.set_default_dtype(vectors_then)
    for got, parameter in zip(fast, cnn.parameters(), strict=True):
        torch.testing.assert_close(got, parameter.grad)


def test_scores_are_cosines() -> None:
    torch.manual_seed(0)
    matcher = IRMatch(image_dim=4, vocabulary_size=20, dim=12, word_dim=5, widths=(1, 2, 3), dropout=0.0)
    images, texts = torch.randn(3, 4), sentences([[1, 2], [3]])
    mapped = images @ matcher.image_map.weight.T + matcher.image_map.bias
    expected = functional.cosine_similarity(mapped[:, None], matcher.sentence_cnn(texts)[None], dim=2)
    torch.testing.assert_close(matcher(images, texts), expected)


def test_outputs_that_do_not_divide_are_refused() -> None:
    with pytest.raises(SeesayError, match="dim must be a multiple of the number of widths, 3; it is 10"):
        IRMatch(image_dim=4, vocabulary_size=5, dim=10, widths=(1, 2, 3))
    with pytest.raises(SeesayError, match="dim must be a multiple of the number of widths, 6; it is 10"):
        IRMatch(image_dim=4, vocabulary_size=5, dim=10)
    with pytest.raises(SeesayError, match="widths: tuple should have at least 1 item"):
        IRMatch(image_dim=4, vocabulary_size=5, widths=())
    with pytest.raises(SeesayError, match="dim: input should be greater than 0, got -6"):
        IRMatch(image_dim=4, vocabulary_size=5, dim=-6)
