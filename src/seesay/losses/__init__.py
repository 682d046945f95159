"""Loss modules, one for each training objective in the papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seesay.lazy import lazy_names

if TYPE_CHECKING:
    from seesay.losses.base import Batch, LabelledPairs, Loss, Relations, ScoreLoss
    from seesay.losses.correlation import CorrelationLoss, TotalCorrelationLoss
    from seesay.losses.pairs import LogisticLoss, MultiLabelLoss, PairMarginLoss
    from seesay.losses.ranking import (
        ContrastiveLoss,
        DistillationLoss,
        HingeRankLoss,
        MarginLoss,
        SoftMarginLoss,
    )
    from seesay.losses.settings import LossSettings, register_loss
    from seesay.losses.triplet import TripletLoss

__all__ = [
    "Batch",
    "ContrastiveLoss",
    "CorrelationLoss",
    "DistillationLoss",
    "HingeRankLoss",
    "LabelledPairs",
    "LogisticLoss",
    "Loss",
    "LossSettings",
    "MarginLoss",
    "MultiLabelLoss",
    "PairMarginLoss",
    "Relations",
    "ScoreLoss",
    "SoftMarginLoss",
    "TotalCorrelationLoss",
    "TripletLoss",
    "register_loss",
]

# PyTorch comes with the first name that is used.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "base": ("Batch", "LabelledPairs", "Loss", "Relations", "ScoreLoss"),
        "correlation": ("CorrelationLoss", "TotalCorrelationLoss"),
        "pairs": ("LogisticLoss", "MultiLabelLoss", "PairMarginLoss"),
        "ranking": ("ContrastiveLoss", "DistillationLoss", "HingeRankLoss", "MarginLoss", "SoftMarginLoss"),
        "settings": ("LossSettings", "register_loss"),
        "triplet": ("TripletLoss",),
    },
)
