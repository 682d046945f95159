import numpy as np

from seesay.encoders.sentences.class_names import CLASSES, class_names, class_phrases, class_vectors


def number_of(name: str) -> int:
    return [each.lower() for each in class_names()].index(name)


def test_a_thousand_names_in_the_order_of_the_logits() -> None:
    names = class_names()
    assert len(names) == CLASSES
    # Three of ImageNet's classes whose numbers everybody knows.
    assert names[1] == "goldfish"
    assert names[207].lower() == "golden retriever"
    assert names[817].lower() == "sports car"


def test_every_class_has_phrases_with_its_synonyms() -> None:
    phrases = class_phrases()
    assert len(phrases.texts) == len(phrases.classes)
    assert set(phrases.classes) == set(range(CLASSES))
    laptop = {text for text, number in zip(*phrases, strict=True) if number == number_of("laptop computer")}
    assert {"laptop", "laptops", "there is a laptop", "a laptop in a picture", "laptop computer"} <= laptop


def test_articles_and_plurals_are_english() -> None:
    texts = class_phrases().texts
    assert {"there is an umbrella", "foxes", "ladybugs", "strawberries"} & set(texts) >= {
        "there is an umbrella",
        "strawberries",
    }


def test_vectors_are_unit_and_tell_classes_apart() -> None:
    vectors = class_vectors()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    retriever, labrador, car = (
        number_of(name) for name in ("golden retriever", "labrador retriever", "sports car")
    )
    assert vectors[retriever] @ vectors[labrador] > vectors[retriever] @ vectors[car] + 0.3
