import torch
from torch.nn import functional

from seesay.matchers.sentences import Sentences
from seesay.matchers.vsepp import VSEPlusPlus


def test_the_sentence_vector_is_the_state_after_the_last_word() -> None:
    torch.manual_seed(0)
    matcher = VSEPlusPlus(image_dim=4, vocabulary_size=20, dim=6, word_dim=5)
    numbers = [[3], [4, 5, 6], [7, 8]]
    together = Sentences(torch.tensor([3, 4, 5, 6, 7, 8]), torch.tensor([1, 3, 2]), torch.zeros(3, 0))
    got = matcher.embed_sentences(together)
    for row, words in zip(got, numbers, strict=True):
        states, _ = matcher.gru(matcher.embedding(torch.tensor(words))[:, None])
        torch.testing.assert_close(row, functional.normalize(states[-1, 0], dim=0))
