"""Settings of losses in recipes, readable without PyTorch, and their registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pydantic import model_validator

from seesay.settings import Settings, SettingsRegistry

if TYPE_CHECKING:
    from seesay.losses.base import Loss


class LossSettings(Settings):
    """Base of the settings of losses, which `register_loss` generates from a loss's constructor.

    Example:
        >>> from seesay.losses.settings import LOSSES
        >>> LOSSES.parse({"kind": "margin", "margin": 0.1})
        MarginLossSettings(kind='margin', margin=0.1, reduction='mean')
    """

    kind: str

    @model_validator(mode="after")
    def _one_number(self) -> LossSettings:
        if getattr(self, "reduction", None) == "none":
            raise ValueError("reduction: 'none' is no single number to learn from; use 'mean' or 'sum'")
        return self

    @property
    def loss_class(self) -> type[Loss]:
        """The class that `build` instantiates."""
        return cast("type[Loss]", self.implementation)

    def build(self) -> Loss:
        """Return the loss."""
        return self.loss_class(**self.arguments_for(self.loss_class))


LOSSES = SettingsRegistry(
    "loss",
    "seesay.losses",
    base=LossSettings,
    modules={
        "seesay.losses.margin": ["margin", "soft-margin", "pair-margin"],
        "seesay.losses.likelihood": ["logistic", "multi-label", "correlation"],
        "seesay.losses.softmax": ["contrastive", "distillation"],
        "seesay.losses.triplet": ["triplet"],
    },
)
register_loss = LOSSES.register_class
