"""Baselines of the five systems, one file per paper; VSE++ and order embeddings share one."""

from __future__ import annotations

from seesay.matchers.baselines.cca import CCA
from seesay.matchers.baselines.dcca import DCCA
from seesay.matchers.baselines.devise import DeViSE
from seesay.matchers.baselines.dvsa import DVSA
from seesay.matchers.baselines.vsepp import OrderEmbeddings, VSEPlusPlus

__all__ = ["CCA", "DCCA", "DVSA", "DeViSE", "OrderEmbeddings", "VSEPlusPlus"]
