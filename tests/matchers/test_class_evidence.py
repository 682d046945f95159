from functools import lru_cache

import torch
from safetensors.torch import load_file

from seesay.encoders.sentences.base import load_sentence_encoder
from seesay.encoders.sentences.class_names import class_names
from seesay.matchers.class_evidence import CLASSES, ClassEvidence
from seesay.runs.folders import run_folder


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


def test_a_kind_means_the_classes_of_that_kind() -> None:
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


def test_a_name_counts_more_than_a_long_sentence_and_nonsense_least() -> None:
    _, weights = sentences("zebra", "two people in warm clothes are talking in front of a shop", "xyzzy qwop")
    assert 2.0 > weights[0] > 2 * weights[1] > 2 * weights[2] > 0
