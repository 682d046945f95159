"""Networks for ONNX Runtime: exported once from PyTorch, cached, loaded."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from torch import Tensor, nn

from seesay.paths import cache_dir


def exported(
    name: str,
    build: Callable[[], nn.Module],
    example: tuple[Tensor, ...],
    inputs: list[str],
    outputs: list[str],
    axes: dict[str, dict[int, str]] | None = None,
) -> Path:
    """The cached ONNX file `name`; exported from the module that `build` makes when it is not there.

    The first axis of every input and output is free; `axes` frees others.
    """
    path = cache_dir() / "onnx" / f"{name}.onnx"
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    free = {key: {0: "n"} | (axes or {}).get(key, {}) for key in [*inputs, *outputs]}
    with warnings.catch_warnings():
        # The tracing exporter is the one without further dependencies; it warns of its age.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            build().eval(),
            example,
            str(beside),
            input_names=inputs,
            output_names=outputs,
            dynamic_axes=free,
            opset_version=17,
            dynamo=False,
        )
    beside.replace(path)
    return path


def onnx_session(path: Path, threads: int) -> Any:
    """A session on the CPU; `threads` is the number inside one call, callers may run several at once."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
