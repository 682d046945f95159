"""Devices by name."""

from __future__ import annotations

import pytest

from seesay.device import checked_device
from seesay.errors import SeesayError


def test_a_device_that_is_here() -> None:
    assert checked_device("cpu") == "cpu"
    assert checked_device("cpu:0") == "cpu:0"


@pytest.mark.parametrize("device", ["nonsense", "cuda:99", "meta"])
def test_what_cannot_compute_here_is_refused(device: str) -> None:
    with pytest.raises(SeesayError, match=f'PyTorch has here, such as "cpu", got "{device}"'):
        checked_device(device)
