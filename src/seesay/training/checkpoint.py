"""Checkpoints as safetensors: everything that training needs to resume exactly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from seesay.paths import replacing, unusable

FILE = "checkpoint.safetensors"


def save_checkpoint(
    run: Path,
    matcher: nn.Module,
    optimizer: Optimizer,
    best: dict[str, Tensor],
    state: str,
    average: Mapping[str, Tensor],
) -> None:
    """Write weights, optimizer, best weights so far, random state, `state` and averages to one file.

    `state` is JSON.
    """
    tensors = {f"matcher.{key}": value for key, value in matcher.state_dict().items()}
    tensors |= {f"best.{key}": value for key, value in best.items()}
    tensors |= {f"average.{key}": value for key, value in average.items()}
    for number, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{key}": torch.as_tensor(value) for key, value in moments.items()}
    tensors["random"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    whole = copied(tensors)
    with replacing(run / FILE) as beside:
        save_file(whole, beside, {"state": state})


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies in CPU memory, which later optimizer steps do not change."""
    return {key: value.detach().cpu().clone() for key, value in tensors.items()}


def load_checkpoint(
    run: Path, matcher: nn.Module, optimizer: Optimizer
) -> tuple[dict[str, Tensor], dict[str, Tensor], str]:
    """Restore matcher, optimizer and random state; return the best weights so far, the averages and `state`.

    Raises:
        SeesayError: the file is damaged or of another recipe.
    """
    path = run / FILE
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        matcher.load_state_dict(_under(tensors, "matcher."))
        optimizer.load_state_dict(_optimizer_state(tensors, optimizer))
    except (SafetensorError, OSError, RuntimeError, ValueError, KeyError) as failure:
        reason = str(failure).splitlines()[0]
        raise unusable(path, failure, f"cannot be resumed ({reason}); train without resuming.") from failure
    torch.set_rng_state(tensors["random"])
    if torch.cuda.is_available() and "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"])
    return _under(tensors, "best."), _under(tensors, "average."), metadata["state"]


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def _optimizer_state(tensors: dict[str, Tensor], optimizer: Optimizer) -> dict[str, Any]:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in _under(tensors, "optimizer.").items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    return {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
