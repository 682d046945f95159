"""Baselines of the five systems, one file per paper."""

from __future__ import annotations

from seesay.matchers.baselines.cca import CCA
from seesay.matchers.baselines.dcca import DCCA
from seesay.matchers.baselines.devise import DeViSE
from seesay.matchers.baselines.dvsa import DVSA
from seesay.matchers.baselines.order_embeddings import OrderEmbeddings
from seesay.matchers.baselines.vsepp import VSEPlusPlus

__all__ = ["CCA", "DCCA", "DVSA", "DeViSE", "OrderEmbeddings", "VSEPlusPlus"]
