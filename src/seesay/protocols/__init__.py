"""Protocols: ways to measure a split, one a file; see `seesay.protocols.base`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seesay.lazy import lazy_names

if TYPE_CHECKING:
    from seesay.protocols.base import Options, Protocol, Result, register_protocol
    from seesay.protocols.subject import Subject

__all__ = ["Options", "Protocol", "Result", "Subject", "register_protocol"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "base": ("Options", "Protocol", "Result", "register_protocol"),
        "subject": ("Subject",),
    },
)
