"""Registries: names that are taken, classes that are defined again, settings without a kind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seesay.encoders import IMAGE_ENCODERS, REGION_ENCODERS, SENTENCE_ENCODERS
from seesay.errors import SeesayError
from seesay.losses.settings import LOSSES
from seesay.matchers.settings import MATCHERS
from seesay.protocols.base import PROTOCOLS
from seesay.registry import Registry
from seesay.samplers import SAMPLERS
from seesay.settings import Positive, Settings, SettingsRegistry


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
    with pytest.raises(SeesayError, match="shape 'square' is already registered"):

        @registry.register("square")
        class Other: ...

    for module in ("a_plugin", "slow_shapes_and_more.shapes"):
        with pytest.raises(SeesayError, match="shape 'triangle' is already registered"):
            SHAPES.register("triangle")(type("Triangle", (), {"__module__": module}))
    with pytest.raises(SeesayError, match="sampler 'rounds' is already registered"):
        SAMPLERS.register("rounds")(shape)  # of functions, too, the first one stays


def test_a_thread_waits_for_what_another_one_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_shapes.py").write_text(
        "import time\ntime.sleep(0.2)\nfrom tests.test_registry import SHAPES\n"
        "SHAPES.register('triangle')(type('Slow', (), {}))\nassert 'triangle' in SHAPES\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        assert [found.__name__ for found in pool.map(lambda _: SHAPES["triangle"], range(4))] == ["Slow"] * 4


@pytest.mark.parametrize(
    "registry", [IMAGE_ENCODERS, LOSSES, MATCHERS, PROTOCOLS, REGION_ENCODERS, SENTENCE_ENCODERS]
)
def test_each_included_name_leads_to_a_module(registry: Registry[object]) -> None:
    assert all(registry[name] is not None for name in registry)


SHAPES = Registry[type]("shape", "seesay.shapes", {"slow_shapes": ["triangle"]})


class Counted(Settings):
    count: int = 1


class Triangle:
    def __init__(self, height: int = 1) -> None:
        self.height = height


class Box:
    def __init__(self, width: int, side: Positive = 1.0, *, even: bool = False, **more: int) -> None:
        self.width, self.side, self.even, self.more = width, side, even, more


def test_settings_are_what_a_constructor_takes_but_for_inputs() -> None:
    registry = SettingsRegistry("shape", "seesay.shapes", inputs=("width",))
    box = registry.register_class("box", Counted)(Box)
    settings = registry.parse({"kind": "box", "side": 2, "count": 3})
    assert settings.model_dump() == {"count": 3, "kind": "box", "side": 2.0, "even": False}
    assert settings.arguments_for(box) == {"side": 2.0, "even": False}  # the count is no argument
    with pytest.raises(SeesayError, match="key 'side': input should be greater than 0"):
        registry.parse({"kind": "box", "side": 0})
    made = box(3, even=True, deep=4)
    assert (made.width, made.side, made.even, made.more) == (3, 1.0, True, {"deep": 4})
    with pytest.raises(SeesayError, match="Box: side: input should be greater than 0, got 0"):
        box(3, side=0)
    with pytest.raises(TypeError, match="missing a required argument: 'width'"):
        box()
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'heights'"):
        registry.register_class("triangle")(Triangle)(heights=1)
