import torch
from torch.nn import functional

from seesay.matchers.projection import Projection
from seesay.matchers.sentences import Sentences
from seesay.text.vocabulary import Vocabulary
from seesay.training.words import PretrainedVectors


def matcher(members: int, class_names: float) -> Projection:
    torch.manual_seed(0)
    small = {"dim": 8, "hidden": 6, "word_dim": 4, "members": members}
    built = Projection((5, 1000, 7, 1000), 20, 384, class_names=class_names, **small).eval()
    built.prepare(PretrainedVectors(Vocabulary([])))
    return built


def inputs() -> tuple[torch.Tensor, Sentences]:
    torch.manual_seed(1)
    images = torch.randn(3, 5 + 1000 + 7 + 1000)
    vectors = functional.normalize(torch.randn(2, 384), dim=1)
    return images, Sentences(torch.tensor([1, 2, 3]), torch.tensor([2, 1]), vectors)


def test_score_is_the_weighted_mean_of_the_parts_cosines() -> None:
    images, sentences = inputs()
    model = matcher(members=3, class_names=0.25)
    members = torch.stack(model.training_scores(images, sentences)).mean(dim=0)
    chances = (images[:, 5:1005].softmax(1) + images[:, 1012:].softmax(1)) / 2
    classes = functional.normalize(chances @ model.get_buffer("classes"), dim=1) @ sentences.vectors.T
    torch.testing.assert_close(model(images, sentences), 0.75 * members + 0.25 * classes)


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
