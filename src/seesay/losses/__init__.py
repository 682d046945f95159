"""Loss modules, one for each training objective in the papers."""

from seesay.losses.base import Batch, Loss, register_loss
from seesay.losses.correlation import CorrelationLoss, TotalCorrelationLoss
from seesay.losses.multi_label import MultiLabelLoss
from seesay.losses.pairs import LogisticLoss, PairMarginLoss
from seesay.losses.ranking import (
    ContrastiveLoss,
    DistillationLoss,
    HingeRankLoss,
    MarginLoss,
    SoftMarginLoss,
)
from seesay.losses.triplet import Relations, TripletLoss

__all__ = [
    "Batch",
    "ContrastiveLoss",
    "CorrelationLoss",
    "DistillationLoss",
    "HingeRankLoss",
    "LogisticLoss",
    "Loss",
    "MarginLoss",
    "MultiLabelLoss",
    "PairMarginLoss",
    "Relations",
    "SoftMarginLoss",
    "TotalCorrelationLoss",
    "TripletLoss",
    "register_loss",
]
