"""The device that a user chose for everything: --device, or the environment variable SEESAY_DEVICE."""

from __future__ import annotations

import os

VARIABLE = "SEESAY_DEVICE"


def chosen_device() -> str | None:
    """Return what SEESAY_DEVICE names, such as "cpu" or "cuda:1"; None if it is not set."""
    return os.environ.get(VARIABLE) or None


def choose_device(device: str | None) -> None:
    """Set SEESAY_DEVICE for this process and those it starts; None unsets it."""
    if device is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = device
