"""The training objectives of the papers, one family of losses in each file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seesay.lazy import lazy_names

if TYPE_CHECKING:
    from seesay.losses.base import Batch as Batch
    from seesay.losses.base import Loss as Loss
    from seesay.losses.base import Relations as Relations
    from seesay.losses.base import ScoreLoss as ScoreLoss
    from seesay.losses.likelihood import CorrelationLoss as CorrelationLoss
    from seesay.losses.likelihood import LogisticLoss as LogisticLoss
    from seesay.losses.likelihood import MultiLabelLoss as MultiLabelLoss
    from seesay.losses.margin import MarginLoss as MarginLoss
    from seesay.losses.margin import PairMarginLoss as PairMarginLoss
    from seesay.losses.margin import SoftMarginLoss as SoftMarginLoss
    from seesay.losses.settings import LossSettings as LossSettings
    from seesay.losses.settings import register_loss as register_loss
    from seesay.losses.softmax import ContrastiveLoss as ContrastiveLoss
    from seesay.losses.softmax import DistillationLoss as DistillationLoss
    from seesay.losses.triplet import TripletLoss as TripletLoss

# PyTorch is imported with the first name that is used.
__getattr__, __dir__ = lazy_names(__name__)
