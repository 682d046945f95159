"""Phrases that name the ImageNet classes."""

from __future__ import annotations

from seesay.matchers.projection import CLASSES
from seesay.training.words import class_names
from seesay_weights.class_phrases import class_phrases


def test_every_class_has_phrases_with_its_synonyms() -> None:
    phrases = class_phrases()
    assert len(phrases.texts) == len(phrases.classes)
    assert set(phrases.classes) == set(range(CLASSES))
    wanted = [each.lower() for each in class_names()].index("laptop computer")
    laptop = {text for text, number in zip(*phrases, strict=True) if number == wanted}
    assert {"laptop", "laptops", "there is a laptop", "a laptop in a picture", "laptop computer"} <= laptop


def test_articles_and_plurals_are_english() -> None:
    assert {"there is an umbrella", "strawberries"} <= set(class_phrases().texts)
