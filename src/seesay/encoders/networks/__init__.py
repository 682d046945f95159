"""Networks in PyTorch, which encoders run where their exported graphs are not used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


def in_pytorch(
    module: nn.Module, device: str, call: Callable[..., Any] | None = None
) -> Callable[..., list[NDArray[np.float32]]]:
    """Run a module on arrays in PyTorch, in half precision on a GPU, and return its outputs as arrays.

    `call` is a method of the module to run instead of itself.
    """
    module = module.eval().to(device)
    kind = torch.device(device).type  # autocast takes "cuda", not "cuda:0"

    @torch.inference_mode()
    def run(*arrays: NDArray[Any]) -> list[NDArray[np.float32]]:
        tensors = [torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in arrays]
        with torch.autocast(kind, torch.float16, enabled=kind == "cuda"):
            outputs = (call or module)(*tensors)
        outputs = [outputs] if isinstance(outputs, Tensor) else outputs
        return [each.float().cpu().numpy() for each in outputs]

    return run
