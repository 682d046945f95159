"""SCO's image vector against eq. 2 in NumPy, and what its parts are joined to."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.matchers.sco import SCO, GenerationSettings
from seesay.matchers.sentences import Sentences
from seesay.matchers.settings import MATCHERS, MatcherInputs
from tests.matchers.taken import taken

CONTEXT, CONCEPTS, DIM, WORDS = 7, 4, 6, 9
Array = NDArray[np.float64]


def network(fusion: str = "gate", parts: tuple[int, ...] = (CONTEXT, CONCEPTS), **generation: object) -> SCO:
    torch.manual_seed(5)
    settings = MATCHERS["sco"].model_validate(
        {"dim": DIM, "word_dim": 5, "fusion": fusion, "max_length": 6, "generation": generation or None}
    )
    model = settings.build(MatcherInputs(parts, WORDS))
    assert isinstance(model, SCO)
    return model


def pairs(n: int = 5) -> tuple[torch.Tensor, Sentences]:
    generator = torch.Generator().manual_seed(n)
    context = torch.randn(n, CONTEXT, generator=generator)
    images = torch.cat([context, torch.rand(n, CONCEPTS, generator=generator)], dim=1)
    lengths = torch.randint(1, 6, (n,), generator=generator)
    words = torch.randint(1, WORDS, (int(lengths.sum()),), generator=generator)
    return images, Sentences(words, lengths, torch.zeros(n, 0))


def unit(rows: Array) -> Array:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.mark.parametrize("fusion", ["gate", "scaled-gate"])
def test_gate_is_eq_2(fusion: str) -> None:
    model, (images, _) = network(fusion), pairs()
    w = {name: value.detach().double().numpy() for name, value in model.image_map.named_parameters()}
    expected = []
    for row in images.double().numpy():
        x, p = unit(row[:CONTEXT]), unit(row[CONTEXT:])
        p_hat, x_hat = unit(w["concepts.weight"] @ p), unit(w["context.weight"] @ x)
        if fusion == "scaled-gate":  # a reading
            p, x = CONCEPTS**0.5 * p, CONTEXT**0.5 * x
        t = 1 / (1 + np.exp(-(w["concept_gate.weight"] @ p + w["context_gate.weight"] @ x)))
        expected.append(t * p_hat + (1 - t) * x_hat)
    assert set(w) == {f"{name}.weight" for name in ("concepts", "context", "concept_gate", "context_gate")}
    assert np.allclose(model.image_map(images).detach(), expected, atol=1e-6)
    assert np.allclose(model.embed_images(images).detach(), unit(np.array(expected)), atol=1e-6)


@pytest.mark.parametrize("fusion", ["sum", "context", "concepts"])
def test_ablations_of_the_gate(fusion: str) -> None:
    images, _ = pairs()
    parts = {"sum": (CONTEXT, 1, CONCEPTS - 1), "context": (3, 8), "concepts": (11,)}[fusion]
    model = network(fusion, parts)
    w = {name: value.detach().numpy() for name, value in model.image_map.named_parameters()}
    rows = images.numpy()
    halves = {
        "sum": [("context", rows[:, :CONTEXT]), ("concepts", rows[:, CONTEXT:])],
        "context": [("context", rows)],
        "concepts": [("concepts", rows)],
    }[fusion]
    expected = sum(unit(unit(part) @ w[f"{name}.weight"].T) for name, part in halves)
    assert len(w) == len(halves)
    assert np.allclose(model.image_map(images).detach(), expected, atol=1e-6)


@pytest.mark.parametrize("fusion", ["gate", "scaled-gate", "sum"])
def test_a_fusion_of_a_single_array_is_refused(fusion: str) -> None:
    with pytest.raises(SeesayError, match=f"matcher.fusion: '{fusion}' joins context and concepts"):
        network(fusion, (CONTEXT,))


def test_the_sentence_vector_is_the_state_after_the_last_word() -> None:
    model, (_, sentences) = network(), pairs()
    lstm, embedding = model.reader.lstm, model.reader.embedding
    for row in range(len(sentences)):
        words = taken(sentences, [row]).words
        state = unit(lstm(embedding(words)[:, None])[0][-1, 0].detach().numpy())
        assert np.allclose(model.embed_sentences(sentences)[row].detach(), state, atol=1e-6)


def test_sentences_are_cut() -> None:
    words = torch.arange(1, 13)
    short = Sentences(words, torch.tensor([5, 1, 6]), torch.zeros(3, 0)).truncated(3)
    assert short.words.tolist() == [1, 2, 3, 6, 7, 8, 9]
    assert short.lengths.tolist() == [3, 1, 3]


def test_both_losses_are_of_the_same_image_vectors() -> None:
    torch.manual_seed(0)
    model = SCO((CONTEXT, CONCEPTS), WORDS, dim=DIM, generation=GenerationSettings(), image_dropout=0.5)
    (images, sentences), seen = pairs(), []
    model.train()
    model.image_map.register_forward_hook(lambda layer, inputs, vectors: seen.append(vectors))
    model.training_scores(images, sentences)
    model.generation_loss(images, sentences, progress=0.0)
    assert len(seen) == 1
    model.generation_loss(images, sentences, progress=0.0)  # of no scores: with a dropout of its own
    model.training_scores(images.clone(), sentences)
    model.generation_loss(images, sentences, progress=0.0)  # of other images than the scores
    assert len(seen) == 4
    copy.deepcopy(model)  # nothing of a batch is left


def test_the_generation_loss_teaches_the_image_vector_and_is_weighted() -> None:
    model, (images, sentences) = network(weight=2.5), pairs()
    loss = model.generation_loss(images, sentences, progress=0.0)
    decoder, words = model.decoder, model.written_words
    assert decoder is not None
    assert words is not None
    plain = decoder.loss(model.image_map(images), sentences, words.weight)
    assert loss.item() == pytest.approx(2.5 * plain.item())
    loss.backward()  # type: ignore[no-untyped-call]
    for parameter in model.image_map.parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 0
    assert model.reader.embedding.weight.grad is None


def test_both_tasks_teach_a_shared_word_embedding() -> None:
    model, (images, sentences) = network(shared=True), pairs()
    assert model.written_words is None
    model.generation_loss(images, sentences, progress=0.0).backward()  # type: ignore[no-untyped-call]
    table = model.reader.embedding.weight
    assert table.shape == (WORDS + 1, 5)
    assert table.grad is not None
    assert table.grad[-1].abs().max() > 0  # the mark's row


def test_scheduled_sampling_grows_from_zero() -> None:
    sampled, forced = network(sampling=1.0), network(sampling=0.0)
    forced.load_state_dict(sampled.state_dict())
    images, sentences = pairs(20)
    at = [sampled.generation_loss(images, sentences, passed).item() for passed in (0.0, 1.0)]
    assert at[0] == forced.generation_loss(images, sentences, 1.0).item()
    assert at[1] != at[0]


def test_a_generated_sentence_stands_for_the_image() -> None:
    model, (images, _) = network("context", (CONTEXT, CONCEPTS), role="sentence"), pairs()
    decoder, words = model.decoder, model.written_words
    assert decoder is not None
    assert words is not None
    written = decoder.greedy(model.image_map(images), words.weight, 6)
    assert torch.allclose(model.embed_images(images), model.embed_sentences(written))
    model.embed_images(images).sum().backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is None for parameter in model.image_map.parameters())


def test_metrics_are_the_generation_loss_with_the_own_image_and_with_another() -> None:
    model, (images, sentences) = network(role="supervision"), pairs()
    found = model.metrics(images, sentences)
    by_another = torch.cat([images[-1:], images[:-1]])
    for name, shown in (("generation loss", images), ("generation loss, another image", by_another)):
        wanted = model.generation_loss(shown, sentences, 0.0)
        assert found[name] == pytest.approx(wanted.item() / model.generation.weight, rel=1e-6)
    assert network("context", (CONTEXT + CONCEPTS,)).metrics(images, sentences) == {}
