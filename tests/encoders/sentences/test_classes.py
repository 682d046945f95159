import numpy as np

from seesay.encoders.sentences.minilm import CLASSES, class_names, class_vectors


def test_a_thousand_names_in_the_order_of_the_logits() -> None:
    names = class_names()
    assert len(names) == CLASSES
    # Three of ImageNet's classes whose numbers everybody knows.
    assert names[1] == "goldfish"
    assert names[207].lower() == "golden retriever"
    assert names[817].lower() == "sports car"


def test_vectors_tell_classes_apart() -> None:
    vectors = class_vectors()
    np.testing.assert_allclose(vectors.mean(axis=0), 0, atol=1e-6)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    names = [name.lower() for name in class_names()]
    retriever, labrador, car = (
        names.index(n) for n in ("golden retriever", "labrador retriever", "sports car")
    )
    assert unit[retriever] @ unit[labrador] > unit[retriever] @ unit[car] + 0.3
