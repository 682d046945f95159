from functools import lru_cache
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional

from seesay.encoders.sentences.base import load_sentence_encoder
from seesay.errors import SeesayError
from seesay.matchers.projection import CLASSES, ClassEvidence, JointProjection, Projection
from seesay.matchers.sentences import Sentences
from seesay.runs.folder import run_folder
from seesay.training.words import class_names


def matcher(members: int, class_names: float) -> Projection:
    torch.manual_seed(0)
    small = {"dim": 8, "hidden": 6, "word_dim": 4, "members": members}
    built = Projection((5, 1000, 7, 1000), 20, 384, class_names=class_names, **small).eval()
    if built.evidence is not None:
        built.evidence.prepare(functional.normalize(torch.randn(1000, 384), dim=1))
    return built


def inputs() -> tuple[torch.Tensor, Sentences]:
    torch.manual_seed(1)
    images = torch.randn(3, 5 + 1000 + 7 + 1000)
    vectors = functional.normalize(torch.randn(2, 384), dim=1)
    return images, Sentences(torch.tensor([1, 2, 3]), torch.tensor([2, 1]), vectors)


def test_score_is_the_members_mean_and_the_weighted_evidence() -> None:
    images, sentences = inputs()
    model = matcher(members=3, class_names=0.25)
    bare = matcher(members=3, class_names=0.0)
    members = torch.stack(bare.training_scores(images, sentences)).mean(dim=0)
    assert model.evidence is not None
    classes, weights = model.evidence.embed_sentences(sentences.vectors)
    weights = weights * torch.tensor([[1 + 1 / 2**3], [2.0]])  # of two words, and of one
    evidence = model.evidence.embed_images([images[:, 5:1005], images[:, 1012:]]) @ classes.T
    expected = (members + evidence * weights.T) / (2 * (1 + weights.T**2)).sqrt()
    torch.testing.assert_close(model(images, sentences), expected)


def test_members_learn_together_with_class_evidence_except_for_images_without_logits() -> None:
    images, sentences = inputs()
    images[2, 5:1005] = images[2, 1012:] = 0
    given = matcher(members=2, class_names=0.5).training_scores(images, sentences)
    alone = matcher(members=2, class_names=0.0).training_scores(images, sentences)
    for with_evidence, without in zip(given, alone, strict=True):
        assert (with_evidence[:2] > without[:2]).all()
        torch.testing.assert_close(with_evidence[2], without[2])


def test_vectors_have_unit_length() -> None:
    images, sentences = inputs()
    model = matcher(members=2, class_names=0.1)
    for vectors in (model.embed_images(images), model.embed_sentences(sentences)):
        torch.testing.assert_close(vectors.norm(dim=1), torch.ones(len(vectors)))


def test_class_logits_do_not_reach_the_members() -> None:
    images, sentences = inputs()
    model = matcher(members=1, class_names=0.0)
    other = images.clone()
    other[:, 5:1005] += 3.0
    torch.testing.assert_close(model(images, sentences), model(other, sentences))


@lru_cache(maxsize=1)
def evidence() -> ClassEvidence:
    """The shipped run's, whose vectors of all classes take long to compute."""
    weights = load_file(run_folder("seesay-small") / "weights.safetensors")
    built = ClassEvidence(384, weight=2.0)
    built.load_state_dict({name: weights[f"evidence.{name}"].float() for name in ("classes", "class_mean")})
    return built


def sentences(*texts: str) -> tuple[torch.Tensor, torch.Tensor]:
    return evidence().embed_sentences(torch.from_numpy(load_sentence_encoder("minilm").encode(texts)))


def test_an_image_of_a_class_answers_its_name() -> None:
    names = class_names()
    logits = torch.zeros(CLASSES, CLASSES)
    logits.fill_diagonal_(12.0)
    found, _ = sentences("pineapple", "a school bus on the road", "zebra")
    scores = evidence().embed_images([logits, logits]) @ found.T
    assert [names[i] for i in scores.argmax(dim=0)] == ["pineapple", "school bus", "zebra"]


def test_a_general_word_means_all_classes_of_its_kind() -> None:
    names, (found, _) = class_names(), sentences("dog")
    best = {names[i].lower() for i in found[0].topk(40).indices}
    assert (
        sum("terrier" in name or "hound" in name or "retriever" in name or "dog" in name for name in best)
        >= 10
    )
    assert "pineapple" not in best


def test_all_vectors_have_unit_length() -> None:
    images = evidence().embed_images([torch.randn(4, CLASSES), torch.randn(4, CLASSES)])
    found, _ = sentences("a dog", "qwop")
    torch.testing.assert_close(images.norm(dim=1), torch.ones(4))
    torch.testing.assert_close(found.norm(dim=1), torch.ones(2))


def test_class_evidence_weighs_a_name_more_than_a_long_sentence_and_nonsense_least() -> None:
    _, weights = sentences("zebra", "two people in warm clothes are talking in front of a shop", "xyzzy qwop")
    assert 2.0 > weights[0] > 2 * weights[1] > 2 * weights[2] > 0


@pytest.mark.parametrize("kind", [Projection, JointProjection])
@pytest.mark.parametrize(("dims", "said"), [((6,), "add logits"), ((1000,), "add pooled")])
def test_class_evidence_needs_logits_and_features(kind: Any, dims: tuple[int, ...], said: str) -> None:
    with pytest.raises(SeesayError, match=said):
        kind(dims, vocabulary_size=10, sentence_dim=8, class_names=1.0)
