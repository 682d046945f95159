"""Protocols, which measure a split; see `seesay.protocols.base`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seesay.lazy import lazy_names

if TYPE_CHECKING:
    from seesay.protocols.base import Options as Options
    from seesay.protocols.base import Protocol as Protocol
    from seesay.protocols.base import Result as Result
    from seesay.protocols.base import register_protocol as register_protocol
    from seesay.protocols.subject import Subject as Subject

__getattr__, __dir__ = lazy_names(__name__)
