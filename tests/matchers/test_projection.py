import torch
from torch.nn import functional

from seesay.matchers.projection import Projection
from seesay.matchers.sentences import Sentences


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


def test_score_is_the_members_mean_and_the_evidence_by_the_sentences_weight() -> None:
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


def test_members_learn_beside_the_evidence_but_for_images_that_no_classifier_has_seen() -> None:
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
