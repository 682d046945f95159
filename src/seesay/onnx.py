"""Export networks from PyTorch for ONNX Runtime, once, and load them from the cache."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from torch import Tensor, nn

from seesay.errors import SeesayError
from seesay.paths import cache_dir, replacing


def exported(
    name: str,
    build: Callable[[], nn.Module],
    example: tuple[Tensor, ...],
    inputs: list[str],
    outputs: list[str],
    axes: dict[str, dict[int, str]] | None = None,
) -> Path:
    """Return the cached ONNX file `name`, exported from the module that `build` returns if it is missing.

    The first axis of every input and output is dynamic; `axes` names others.

    Raises:
        SeesayError: the cache cannot be written.
    """
    path = cache_dir() / "onnx" / f"{name}.onnx"
    if path.is_file():
        return path
    free = {key: {0: "n"} | (axes or {}).get(key, {}) for key in [*inputs, *outputs]}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as beside, warnings.catch_warnings():
            # The tracing exporter is the one without further dependencies; it warns that it is deprecated.
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
    except OSError as error:
        raise SeesayError(
            f"{path}: cannot be written ({error.strerror}); set SEESAY_CACHE to a folder that can."
        ) from error
    return path


def onnx_session(path: Path, threads: int) -> Any:
    """Open a session on the CPU with that many threads a call; raise SeesayError if the file is damaged."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        raise SeesayError(f"{path}: damaged; delete it, and it is exported again.") from error
