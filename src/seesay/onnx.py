"""ONNX Runtime sessions, and networks that PyTorch has exported or that belong to a run."""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError, install_command, naming_extras
from seesay.paths import cache_dir, file_digest, replacing, unusable, unwritable_cache
from seesay.progress import progress

if TYPE_CHECKING:
    from torch import nn

EXPORTED_AGAIN = "delete it, and it is exported again"

# The networks that runs brought with them, and their digests, by file name.
_brought: dict[str, tuple[Path, str]] = {}
_run: ContextVar[set[Path] | None] = ContextVar("run", default=None)


class Session:
    """A network in ONNX Runtime on the CPU, opened on first use. Thread-safe.

    Args:
        find: returns the ONNX file, exporting it if it is missing.
        threads: threads of one call; 0 for all cores.
        remedy: what to do about a damaged file.
    """

    def __init__(self, find: Callable[[], Path], threads: int, remedy: str = EXPORTED_AGAIN) -> None:
        self._find, self._threads, self._remedy = find, threads, remedy
        self._session: Any = None
        self._path = Path()
        self._lock = threading.Lock()

    def run(
        self, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None
    ) -> list[NDArray[np.float32]]:
        """Compute the outputs with those names, or all.

        Raises:
            SeesayError: the file is damaged, or it must be exported first and PyTorch is missing.
        """
        with self._lock:
            if self._session is None:
                self._path = self._find()
                self._session = onnx_session(self._path, self._threads, self._remedy)
        if (run := _run.get()) is not None:
            run.add(self._path)
        computed: list[NDArray[np.float32]] = self._session.run(outputs, dict(inputs))
        return computed


@contextmanager
def networks_run() -> Iterator[set[Path]]:
    """Collect the files of the networks that this thread runs."""
    run: set[Path] = set()
    token = _run.set(run)
    try:
        yield run
    finally:
        _run.reset(token)


def use_networks_of(folder: Path) -> None:
    """Let `exported` find the networks that a run brings in that folder, if PyTorch is not installed.

    With PyTorch they are ignored: it exports the packaged networks, which are more trustworthy.

    Raises:
        SeesayError: another run has brought a different network of the same name.
    """
    if find_spec("torch") is not None:
        return
    for path in sorted(folder.glob("*.onnx")):
        digest = file_digest(path)
        known, before = _brought.setdefault(path.name, (path, digest))
        if digest != before:
            raise SeesayError(
                f"{path}: differs from {known}, and one process uses only one of them; use these runs one "
                f"after the other, or {install_command('train')}."
            )


def network_cache(name: str) -> Path:
    """Return the folder of that name in the cache, such as "features", for the outputs of networks.

    Networks that runs brought cannot be verified, so their outputs are cached separately.
    """
    folder = cache_dir() / name
    if not _brought:
        return folder
    digests = "".join(sorted(digest for _, digest in _brought.values()))
    return folder / f"of-{hashlib.sha256(digests.encode()).hexdigest()[:16]}"


def exported(
    name: str,
    build: Callable[[], nn.Module],
    example: Sequence[NDArray[Any]],
    inputs: list[str],
    outputs: list[str],
    axes: dict[str, dict[int, str]] | None = None,
) -> Path:
    """Return the cached ONNX file `name`; if it is missing, export the module that `build` returns.

    Without PyTorch, a missing file is replaced by the one of that name that a run has brought. The first
    axis of every input and output is dynamic; `axes` names others.

    Raises:
        SeesayError: it is missing and PyTorch is not installed, or the cache cannot be written.
    """
    path = cache_dir() / "onnx" / f"{name}.onnx"
    if not path.is_file() and path.name in _brought:
        path, _ = _brought[path.name]
    elif not path.is_file():
        free = {key: {0: "n"} | (axes or {}).get(key, {}) for key in [*inputs, *outputs]}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as beside, naming_extras(), progress("Exporting", 1, "networks") as advance:
                trace(build().eval(), example, beside, inputs, outputs, free)
                advance(1)
        except OSError as error:
            raise unwritable_cache(path, error) from error
    return path


def trace(
    module: nn.Module,
    example: Sequence[NDArray[Any]],
    path: Path,
    inputs: Sequence[str],
    outputs: Sequence[str],
    axes: Mapping[str, dict[int, str]],
    fold: bool = True,
) -> None:
    """Export a module in evaluation mode to an ONNX file by tracing it; this needs PyTorch.

    Args:
        module: the module.
        example: one example of its inputs.
        path: the file to write.
        inputs: names of its inputs.
        outputs: names of its outputs.
        axes: the dynamic axes of inputs and outputs, with their names.
        fold: fold constants; without it, weights keep their names and layouts.
    """
    import torch

    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # PyTorch's fused attention has no form in ONNX
    with warnings.catch_warnings(), ExitStack() as restore:
        restore.callback(torch.backends.mha.set_fastpath_enabled, fused)
        # The tracing exporter is the one without further dependencies; it warns that it is deprecated, and of
        # sizes that become constants.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(torch.from_numpy(np.asarray(each)) for each in example),
            str(path),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes=axes,
            opset_version=17,
            do_constant_folding=fold,
            dynamo=False,
        )


def onnx_session(
    path: Path,
    threads: int,
    remedy: str = EXPORTED_AGAIN,
    weights: Mapping[str, NDArray[np.float32]] | None = None,
    quickly: bool = False,
) -> Any:
    """Open a session on the CPU.

    Args:
        path: the ONNX file.
        threads: threads of one call; 0 for all cores.
        remedy: what to do about a damaged file.
        weights: the weights that the graph names but does not contain, by name.
        quickly: leave out optimisations of the graph that take longer than they save in one call.

    Raises:
        SeesayError: the file is missing or damaged.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Threads that spin while they wait for the next operation take the processor from all others. Without
    # spinning, a sentence takes little more than half the processor time, and is as fast on an idle machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    if quickly:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        if weights:
            values = [onnxruntime.OrtValue.ortvalue_from_numpy(weight) for weight in weights.values()]
            options.add_external_initializers(list(weights), values)
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        raise unusable(path, error, f"damaged; {remedy}.") from error
