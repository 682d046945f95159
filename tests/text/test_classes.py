import numpy as np

from seesay.text.classes import CLASSES, class_names, class_vectors


def test_a_thousand_names_in_the_order_of_the_logits() -> None:
    names = class_names()
    assert len(names) == CLASSES
    # Three of ImageNet's classes whose numbers everybody knows.
    assert names[1] == "goldfish"
    assert names[207].lower() == "golden retriever"
    assert names[817].lower() == "sports car"


def test_vectors_have_unit_length() -> None:
    np.testing.assert_allclose(np.linalg.norm(class_vectors(), axis=1), 1, atol=1e-5)
