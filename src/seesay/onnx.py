"""ONNX Runtime sessions, and networks that PyTorch exports for them once."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError, naming_extras
from seesay.paths import cache_dir, replacing

if TYPE_CHECKING:
    from torch import nn


class Session:
    """A network in ONNX Runtime, on the CPU, opened when it is first run. Thread-safe.

    Args:
        find: returns the ONNX file, exporting it if it is missing.
        threads: threads of one call; 0 for all cores.
    """

    def __init__(self, find: Callable[[], Path], threads: int) -> None:
        self._find, self._threads = find, threads
        self._session: Any = None
        self._lock = threading.Lock()

    def run(
        self, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None
    ) -> list[NDArray[np.float32]]:
        """Compute the outputs of those names, or all.

        Raises:
            SeesayError: the file is damaged, or it must be exported first and PyTorch is missing.
        """
        with self._lock:
            if self._session is None:
                self._session = onnx_session(self._find(), self._threads)
        computed: list[NDArray[np.float32]] = self._session.run(outputs, dict(inputs))
        return computed


def exported(
    name: str,
    build: Callable[[], nn.Module],
    example: Sequence[NDArray[Any]],
    inputs: list[str],
    outputs: list[str],
    axes: dict[str, dict[int, str]] | None = None,
) -> Path:
    """Return the cached ONNX file `name`, exported from the module that `build` returns if it is missing.

    The first axis of every input and output is dynamic; `axes` names others.

    Raises:
        SeesayError: it is missing and PyTorch is not installed, or the cache cannot be written.
    """
    path = cache_dir() / "onnx" / f"{name}.onnx"
    if path.is_file():
        return path
    free = {key: {0: "n"} | (axes or {}).get(key, {}) for key in [*inputs, *outputs]}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as beside, warnings.catch_warnings(), naming_extras():
            # The tracing exporter is the one without further dependencies; it warns that it is deprecated.
            warnings.simplefilter("ignore")
            import torch

            torch.onnx.export(
                build().eval(),
                tuple(torch.from_numpy(np.asarray(each)) for each in example),
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
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        raise SeesayError(f"{path}: damaged; delete it, and it is exported again.") from error
