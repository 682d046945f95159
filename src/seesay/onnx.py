"""ONNX Runtime sessions, and networks that PyTorch has exported or that belong to a run."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError, first_line, naming_extras
from seesay.paths import cache_dir, file_digest, replacing, unusable, unwritable_cache
from seesay.progress import progress

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from torch import nn

NETWORKS = "encoders"  # in the folder of a run that was exported: networks of packages that its encoders read
_DOMAINS = ("", "ai.onnx", "com.microsoft")  # of operators: the standard's, and those of 8-bit networks
MOST_SECONDS = 300.0
"""Time limit of opening a network, and of each call, which takes some seconds at most."""

_MOST_BYTES = 8 << 30  # of memory for what all networks compute
_T = TypeVar("_T")
_opening = threading.Lock()


class Session:
    """A network in ONNX Runtime on the CPU, opened on first use; see `onnx_session`. Thread-safe."""

    brought = ""  # the digest of the file, if a run has brought it
    remedy = "reinstall the package that it is in"  # what to do about a damaged file

    def __init__(self, path: Path, threads: int, arena: bool = True) -> None:
        self._path, self._threads, self._arena = path, threads, arena
        self._session: InferenceSession | None = None

    def file(self) -> Path:
        """Return its ONNX file."""
        return self._path

    def run(
        self, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None
    ) -> list[NDArray[np.float32]]:
        """Compute the outputs with those names, or all.

        Raises:
            SeesayError: the file is damaged, or it must be exported first and PyTorch is missing; see
                `compute`, too.
        """
        if self._session is None:  # otherwise this call would wait for other networks, too
            with _opening:
                self._session = self._session or _opened(self.file(), self._threads, self._arena, self.remedy)
        return compute(self._path, self._session, inputs, outputs)


class Packaged(Session):
    """A network of an installed package, exported to the cache, or else brought by a run as an ONNX file.

    With PyTorch the packaged network is exported, which is more trustworthy than that of a run.

    `build` creates the module, which is traced on one `example` of its inputs; `name` is that of the ONNX
    file. The first axis of each input and output is dynamic, and so are the others in `axes`. `run` is the
    folder of the run whose encoder reads it, if there is one.
    """

    def __init__(
        self,
        name: str,
        build: Callable[[], nn.Module],
        example: Sequence[NDArray[Any]],
        inputs: Sequence[str],
        outputs: Sequence[str],
        axes: Mapping[str, dict[int, str]] | None = None,
        run: Path | None = None,
        threads: int = 1,
    ) -> None:
        super().__init__(cache_dir() / "onnx" / f"{name}.onnx", threads)
        self._build, self._example, self._inputs, self._outputs = build, example, inputs, outputs
        self._axes = {key: {0: "n"} | (axes or {}).get(key, {}) for key in [*inputs, *outputs]}
        if run is not None and not self._path.is_file() and find_spec("torch") is None:
            path = run / NETWORKS / self._path.name
            if path.is_file():
                self._path, self.brought = path, file_digest(path)
        self.remedy = "get the run again" if self.brought else "delete it; with PyTorch it is exported again"

    def file(self) -> Path:
        """Return its ONNX file, exporting it if it is missing.

        Raises:
            SeesayError: it is missing and PyTorch is not installed, or the cache cannot be written.
        """
        path = self._path
        if path.is_file():
            return path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as beside, naming_extras(), progress("Exporting", 1, "networks") as advance:
                module = self._build().eval()
                trace(module, self._example, beside, self._inputs, self._outputs, self._axes)
                advance(1)
        except OSError as error:
            raise unwritable_cache(path, error) from error
        return path


@lru_cache(maxsize=8)
def _opened(path: Path, threads: int, arena: bool, remedy: str) -> InferenceSession:
    """Open a session, or return the one that another encoder has opened of the same file."""
    return onnx_session(path, threads, remedy, arena=arena)


def compute(
    path: Path,
    session: InferenceSession,
    inputs: Mapping[str, NDArray[Any]],
    outputs: Sequence[str] | None = None,
) -> list[NDArray[np.float32]]:
    """Compute the outputs with those names, or all, of the session of a file.

    Raises:
        SeesayError: it takes too long, or fails, as for lack of memory.
    """
    import onnxruntime

    options = onnxruntime.RunOptions()
    stop = partial(setattr, options, "terminate", True)
    try:
        return _within_limit(path, partial(session.run, outputs, dict(inputs), options), stop)
    except SeesayError:
        raise
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        raise SeesayError(f"{path}: cannot be computed ({first_line(error)}); use another run.") from error


def _within_limit(path: Path, work: Callable[[], _T], stop: Callable[[], None]) -> _T:
    """Do native work with a file in another thread, so that Ctrl-C and a limit of time end the wait for it.

    `stop` asks it to end, as it does after its current operation at the earliest.
    """
    done = Future[_T]()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="seesay-network", daemon=True).start()
    try:
        return done.result(MOST_SECONDS)
    except TimeoutError as error:
        raise SeesayError(f"{path}: has computed for {MOST_SECONDS:g} seconds; use another run.") from error
    finally:
        stop()


def trace(
    module: nn.Module,
    example: Sequence[NDArray[Any]],
    path: Path,
    inputs: Sequence[str],
    outputs: Sequence[str],
    axes: Mapping[str, dict[int, str]],
    fold: bool = True,
) -> None:
    """Export a module in evaluation mode to an ONNX file by tracing it on an example; this needs PyTorch.

    `axes` are the dynamic axes of inputs and outputs. Without `fold`, constants are not folded, so that
    weights keep their names and layouts.
    """
    from unittest.mock import patch

    import torch

    # PyTorch 2.13 tests this function instead of calling it, and so prints the graph of a failed export.
    silent = patch.object(torch._C, "_jit_is_onnx_log_enabled", None, create=True)
    with warnings.catch_warnings(), silent:
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
    remedy: str,
    weights: Mapping[str, NDArray[np.float32]] | None = None,
    arena: bool = True,
) -> InferenceSession:
    """Open a session on the CPU whose calls take that many threads, or for 0 all cores.

    `remedy` says what to do about a damaged file. `weights` are those that the graph names but does not
    contain; optimisations of the graph that take longer than they save in one call are then left out. Without
    `arena`, memory is given back after each call: inputs of all sizes would leave that of the largest.

    Raises:
        SeesayError: the file is missing or damaged, or its graph has control flow or unknown operators.
    """
    import onnxruntime

    _check_operators(path, remedy)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Threads that spin while they wait for the next operation take the processor from all others. Without
    # spinning, a sentence takes little more than half the processor time, and is as fast on an idle machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # what fails is raised as well
    options.enable_cpu_mem_arena = arena
    try:
        if weights is not None:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
            values = [onnxruntime.OrtValue.ortvalue_from_numpy(weight) for weight in weights.values()]
            options.add_external_initializers(list(weights), values)
        _limit_memory()
        options.add_session_config_entry("session.use_env_allocators", str(int(arena)))
        opened = partial(onnxruntime.InferenceSession, str(path), options, providers=["CPUExecutionProvider"])
        return _within_limit(path, opened, partial(options.set_load_cancellation_flag, True))
    except SeesayError:
        raise
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        raise unusable(path, error, f"damaged; {remedy}.") from error


@cache
def _limit_memory() -> None:
    """Let all networks share memory of a limited size: a small graph can name arrays of any size."""
    import onnxruntime as ort

    ort.create_and_register_allocator(
        ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT),
        ort.OrtArenaCfg({"max_mem": _MOST_BYTES}),
    )


def _check_operators(path: Path, remedy: str) -> None:
    """Refuse graphs that may compute without end.

    Only operators with graphs inside (Loop, Scan, If) and functions can do so. What seesay exports has none.
    """
    try:
        with path.open("rb") as file:
            model = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
        refused = next(_refused(model), None)
    except (OSError, ValueError, IndexError) as error:  # a ValueError for an empty file
        raise unusable(path, error, f"damaged; {remedy}.") from error
    if refused is not None:
        raise SeesayError(f"{path}: contains {refused}, which seesay does not run; {remedy}.")


def _refused(model: memoryview) -> Iterator[str]:
    """Iterate over what is not run of an ONNX model; the numbers are those of fields in onnx.proto."""
    for kind, part in _messages(model):
        if kind == 25:
            yield "a function"
        for node in (inner for number, inner in _messages(part) if number == 1) if kind == 7 else ():
            fields = [*_messages(node)]  # of one that stands twice, the last counts
            name, domain = (bytes(dict(fields).get(n, b"")).decode(errors="replace") for n in (4, 7))
            if domain not in _DOMAINS:
                yield f"an operator of the domain {domain!r}"
            if any({6, 11} & dict(_messages(inner)).keys() for number, inner in fields if number == 5):
                yield f"the operator {name!r}"


def _messages(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Iterate over the numbers and contents of a protocol buffer's texts, bytes and messages.

    Raises:
        ValueError: a number has another type than onnx.proto has.
        IndexError: the data ends too early.
    """
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        kind, size = key & 7, {1: 8, 5: 4}.get(key & 7, 0)
        if kind in (0, 2):
            size, at = _number(data, at)
        elif not size:
            raise ValueError(f"field {key}")
        if key < 8 or (kind and at + size > len(data)):
            raise IndexError(f"field {key >> 3} of {size} bytes")
        if kind == 2:
            yield key >> 3, data[at : at + size]
        at += size if kind else 0


def _number(data: memoryview, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte, lowest first; return it and the place after it."""
    found = shift = 0
    while data[at] >= 128:
        found, shift, at = found | (data[at] & 127) << shift, shift + 7, at + 1
        if shift > 63:
            raise ValueError("a number is too long")
    return found | data[at] << shift, at + 1
