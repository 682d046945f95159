"""The two-branch networks against their equations."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from seesay.matchers.sentences import Sentences
from seesay.matchers.two_branch import SimilarityNetwork, TwoBranchEmbedding
from seesay.runs.onnx_backend import score_all_pairs
from seesay.runs.torch_backend import TorchBackend
from tests.matchers.taken import taken


def sentences(*lengths: int, dim: int = 7) -> Sentences:
    generator = torch.Generator().manual_seed(len(lengths))
    words = torch.randint(1, 20, (sum(lengths),), generator=generator)
    return Sentences(words, torch.tensor(lengths), torch.randn(len(lengths), dim, generator=generator))


def network(**changes: object) -> TwoBranchEmbedding:
    torch.manual_seed(1)
    small = {"image_hidden": 12, "sentence_hidden": 10, "dim": 8, "word_dim": 5, **changes}
    return TwoBranchEmbedding(9, 7, 20, **small).eval()  # type: ignore[arg-type]


def test_branch_is_two_layers_batch_normalisation_and_unit_length() -> None:
    model = network()
    images = torch.randn(6, 9)
    weights = dict(model.branches.image_map.named_parameters())
    hidden = functional.relu(images @ weights["0.weight"].T + weights["0.bias"])
    out = hidden @ weights["3.weight"].T + weights["3.bias"]  # fresh running statistics: mean 0, variance 1
    assert torch.allclose(model.embed_images(images), functional.normalize(out, dim=1), atol=1e-4)


def test_linear_branch_is_one_layer() -> None:
    model = network(linear=True, image_hidden=12, sentence_hidden=12)
    assert [tuple(p.shape) for p in model.branches.image_map.parameters()] == [(12, 9), (12,)]
    assert model.embed_sentences(sentences(3, 2)).shape == (2, 12)


def test_the_lstm_ignores_the_other_sentences_of_a_batch() -> None:
    model = network(lstm=11)
    both = sentences(4, 6, dim=0)
    first = taken(both, [0])
    assert torch.allclose(model.embed_sentences(both)[:1], model.embed_sentences(first), atol=1e-6)


def test_the_similarity_network_scores_a_batch_like_single_pairs() -> None:
    torch.manual_seed(2)
    model = SimilarityNetwork(9, 7, image_hidden=12, sentence_hidden=10, dim=8, head=(6, 4)).eval()
    images, texts = torch.randn(5, 9), sentences(2, 3, 4)
    with torch.inference_mode():
        x, y = model.encode_images(images), model.encode_sentences(texts)
        one_by_one = torch.stack([torch.stack([model.head(a * b)[0] for b in y]) for a in x])
        assert torch.allclose(model(images, texts), one_by_one, atol=1e-6)
        for block in (1, 4, 100):
            scores = score_all_pairs(TorchBackend(model, "cpu"), x, y, block=block)
            np.testing.assert_allclose(scores, one_by_one, atol=1e-6)
        assert torch.allclose(model.score_pairs(x[:3], y), one_by_one.diagonal(), atol=1e-6)
