"""Registries: names that are taken, classes that are defined again, settings without a kind."""

from __future__ import annotations

import pytest

from seesay.errors import SeesayError
from seesay.registry import Registry
from seesay.settings import Settings, SettingsRegistry


def shape(registry: Registry[type]) -> type:
    @registry.register("square")
    class Square: ...

    return Square


def test_a_class_that_is_defined_again_replaces_the_former_one() -> None:
    registry = Registry[type]("shape", "seesay.shapes")
    first, second = shape(registry), shape(registry)
    assert first is not second
    assert registry["square"] is second


def test_another_class_cannot_take_the_name() -> None:
    registry = Registry[type]("shape", "seesay.shapes")
    shape(registry)
    with pytest.raises(SeesayError, match="shape 'square' is registered already"):

        @registry.register("square")
        class Other: ...


def test_settings_need_a_kind() -> None:
    class Nameless(Settings):
        kind: str

    with pytest.raises(SeesayError, match="Nameless: 'kind' needs a default"):
        SettingsRegistry("shape", "seesay.shapes").register_with(Nameless)(type("Square", (), {}))
