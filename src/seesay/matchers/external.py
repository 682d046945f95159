"""Settings of a run whose matcher is a module of somebody's own, which no recipe can build."""

from __future__ import annotations

from typing import Literal

from torch import nn

from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, MatcherInputs, MatcherSettings, register_matcher


class ExternalSettings(MatcherSettings):
    """Settings that name the module's class; `seesay.train(…, module=…)` writes them."""

    kind: Literal["external"] = "external"
    class_name: str

    @classmethod
    def from_module(cls, module: nn.Module) -> ExternalSettings:
        """Name the class of a module."""
        return cls(class_name=f"{type(module).__module__}.{type(module).__qualname__}")

    def build(self, inputs: MatcherInputs) -> nn.Module:
        """Raise an error that says how to load the run."""
        del inputs
        raise SeesayError(
            f"This run was trained with the module {self.class_name}; pass it again: "
            "seesay.load(RUN, module=…). To load it by name, register the class with "
            "seesay.matchers.register_matcher."
        )


register_matcher(ExternalSettings)(EmbeddingMatcher)
