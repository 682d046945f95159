"""Baselines of the five systems, one file per paper."""

from __future__ import annotations

from seesay.matchers.baselines.cca import CCA
from seesay.matchers.baselines.vsepp import VSEPlusPlus

__all__ = ["CCA", "VSEPlusPlus"]
