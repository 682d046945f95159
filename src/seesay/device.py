"""The device of PyTorch: the user's choice (--device, SEESAY_DEVICE), or a GPU if there is one."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec

from seesay.errors import SeesayError, naming_extras

VARIABLE = "SEESAY_DEVICE"


def chosen_device() -> str | None:
    """Return the value of SEESAY_DEVICE, such as "cpu" or "cuda:1"; None if it is not set."""
    return os.environ.get(VARIABLE) or None


def choose_device(device: str | None) -> None:
    """Set SEESAY_DEVICE for this process and those it starts; None unsets it."""
    if device is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = device


def default_device() -> str:
    """Return what SEESAY_DEVICE names, else "cuda" if PyTorch is installed and sees a GPU, else "cpu"."""
    if chosen := chosen_device():
        return checked_device(chosen)
    if "torch" not in sys.modules and not (
        find_spec("torch") and (shutil.which("nvidia-smi") or shutil.which("rocminfo"))
    ):
        return "cpu"  # without importing PyTorch, which takes two seconds
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def checked_device(device: str) -> str:
    """Return the name of a device; raise a SeesayError unless PyTorch has it here."""
    if device == "cpu":
        return device  # without importing PyTorch
    with naming_extras():
        import torch
    try:
        torch.empty(1, device=device).tolist()  # some, such as meta, compute nothing
    except (RuntimeError, AssertionError) as failure:  # the latter if PyTorch was built without CUDA
        raise SeesayError(
            f'device: expected one that PyTorch has here, such as "cpu", got "{device}".'
        ) from failure
    return device


def multiplies_bfloat16(device: str) -> bool:
    """Return whether a device multiplies bfloat16 fast; False for any CPU before PyTorch 2.12."""
    import torch

    if device.startswith("cuda"):
        return torch.cuda.get_device_capability(device)[0] >= 8  # of Ampere; older ones emulate it
    capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def fits(device: str, size: int) -> bool:
    """Return whether that many bytes may be kept on a device: at most half of the free memory of a GPU."""
    import torch

    where = torch.device(device)
    return where.type != "cuda" or size <= torch.cuda.mem_get_info(where)[0] // 2
